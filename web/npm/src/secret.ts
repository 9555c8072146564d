// What opens a sealed store, as the engine takes it: `web/src/secret.rs` is the other end.

import { PipkinError } from "./errors.js";

/**
 * What opens a sealed store: 32 random bytes, a passphrase, or a key that WebCrypto keeps, `importKey("raw", bytes, "HKDF", false, ["deriveBits"])`: the same
 * bytes open the store then, and nobody can read them out of the page.
 */
export type StoreKey = Uint8Array | CryptoKey | { readonly passphrase: string };

/** The kind of a secret, and its bytes. */
export type Secret = readonly [kind: number, bytes: Uint8Array];

/** Of the kind: the store may compress values. */
export const COMPRESSES = 0x80;
/** Of the kind: the store is to be plain. */
export const DISABLES = 0x40;
export const NO_SECRET: Secret = [0, new Uint8Array()];
/** The bytes of a file that say what opens it: superblocks and pages of keys, none of which is secret. */
export const FRONT = 16_384;

const KEY = 32;
const SALT = 16;
const ID = 16;
/** Where a superblock has the id of the store, and its version of the page of keys. */
const ID_AT = 32;
/** The copies of the page of keys, their first bytes, and the slots in one. */
const PAGES = [1024, 5120, 12_288];
const MAGIC = "PIPKEYS\x1a";
const [COUNT_AT, SLOTS_AT, SLOT, SALT_AT] = [17, 32, 128, 16];
const WRAP = "pipkin 1 wrap";

const isKey = (key: StoreKey): key is CryptoKey => typeof CryptoKey === "function" && key instanceof CryptoKey;

/** What a caller hands in, checked. */
export function checkedKey(key: StoreKey | undefined): StoreKey | undefined {
  if (key === undefined) return undefined;
  if (isKey(key)) {
    if (key.algorithm.name === "HKDF" && key.usages.includes("deriveBits")) return key;
    throw new PipkinError("usage", 'a `CryptoKey` that opens a store is imported as `crypto.subtle.importKey("raw", bytes, "HKDF", false, ["deriveBits"])`');
  }
  if (key instanceof Uint8Array && key.length === KEY) return key.slice();
  const { passphrase } = Object(key) as { passphrase?: unknown };
  if (typeof passphrase === "string" && passphrase !== "") return { passphrase };
  throw new PipkinError("usage", "`key` is a `Uint8Array` of 32 bytes, a `CryptoKey` or `{ passphrase }`");
}

/** `front` is that of the file of the store, shorter if there is no store yet. */
export async function secretOf(key: StoreKey | undefined, front: () => Promise<Uint8Array>): Promise<Secret> {
  if (key === undefined) return NO_SECRET;
  if (isKey(key)) return [3, await derived(key, await front())];
  if (key instanceof Uint8Array) return [1, key];
  return [2, new TextEncoder().encode(key.passphrase.normalize("NFC"))];
}

/** What the key derives from the salts of all slots, and from one for a slot that is yet to be made. */
async function derived(key: CryptoKey, front: Uint8Array): Promise<Uint8Array> {
  const random = crypto.getRandomValues(new Uint8Array(ID + SALT));
  const slots = [...saltsOf(front), random.slice(ID)];
  const id = front.length < ID_AT + ID ? random.slice(0, ID) : front.slice(ID_AT, ID_AT + ID);
  const info = new Uint8Array([...new TextEncoder().encode(WRAP), ...id]);
  const bits = slots.map((salt) => crypto.subtle.deriveBits({ name: "HKDF", hash: "SHA-256", salt, info }, key, 8 * KEY));
  const keys = await Promise.all(bits);
  const table = new Uint8Array(ID + slots.length * (SALT + KEY));
  table.set(id);
  slots.forEach((salt, number) => {
    const at = ID + number * (SALT + KEY);
    table.set(salt, at);
    table.set(new Uint8Array(keys[number] as ArrayBuffer), at + SALT);
  });
  return table;
}

/** The salts of all slots of keys, in every copy of the page: each counts while the others change. */
function saltsOf(front: Uint8Array): Uint8Array<ArrayBuffer>[] {
  const salts = new Map<string, Uint8Array<ArrayBuffer>>();
  for (const page of PAGES) {
    if (String.fromCharCode(...front.subarray(page, page + MAGIC.length)) !== MAGIC) continue;
    for (let slot = 0; slot < (front[page + COUNT_AT] ?? 0); slot++) {
      const at = page + SLOTS_AT + slot * SLOT;
      const salt = new Uint8Array(front.slice(at + SALT_AT, at + SALT_AT + SALT));
      if (front[at] === 1 && salt.length === SALT) salts.set(salt.join(), salt);
    }
  }
  return [...salts.values()];
}
