// What callers hand in and get back.

import { type Damage, PipkinError } from "./errors.js";
import { type StoreKey, checkedKey } from "./secret.js";

export type { Damage } from "./errors.js";
export type { StoreKey } from "./secret.js";

/** A key: bytes, or text that is taken as UTF-8. At most 64 KiB. */
export type Key = string | Uint8Array;

/** Bytes that belong to the caller: `Uint8Array<ArrayBuffer>` where TypeScript knows the difference, from 5.7 on. */
export type Bytes = ReturnType<Uint8Array["slice"]>;

/** A value: bytes, or text that is taken as UTF-8. */
export type Value = string | Uint8Array | ArrayBuffer;

/** What an acknowledged write has gone through. Under both it survives the end of the tab and of the browser. */
export type Durability =
  /** The browser has taken it. A crash of the system may lose what was written in the last moments. What IndexedDB gives by default. */
  | "relaxed"
  /** The browser has handed it to the system and asked for it to be written out, too. */
  | "strict";

export interface CallOptions {
  /**
   * Gives a call up. One that has not left the page is withdrawn, and one that only reads is no longer waited for: both reject with
   * the reason of the signal, and nothing was done. A write that has left cannot be called back: it rejects as `outcome-unknown`.
   */
  readonly signal?: AbortSignal | undefined;
}

export interface WriteOptions extends CallOptions {
  readonly durability?: Durability | undefined;
}

/** Of writes that store. */
export interface SetOptions extends WriteOptions {
  /**
   * How long the records live, in milliseconds; `Infinity`: for ever. From then on no read returns them and no walk counts them; no event tells of it.
   * Default: as long as `setDefaultTtl` has said, or for ever.
   */
  readonly ttl?: number | undefined;
}

export interface TransactionOptions extends WriteOptions {
  /** So often its function runs again when others have written what it had read. Default: 100. */
  readonly retries?: number | undefined;
}

/** What a call that reads several records does when some of them cannot be read. */
export interface DamageOptions<K> {
  /**
   * Is called for each record that cannot be read; the call then succeeds with the others. Without it, the call reads all other records and
   * then fails as `corrupt`, and the error lists the damaged ones in `damage`.
   */
  readonly damaged?: ((damage: Damage<K>) => void) | undefined;
}

/** Which records, and in what order. */
export interface IterateOptions extends CallOptions {
  /**
   * In the order of the keys, byte by byte; implied by a bound. The first time, the store reads all its keys and keeps them in the
   * memory of the worker from then on. Default: false.
   */
  readonly ordered?: boolean | undefined;
  /** The last key first; implies `ordered`. Default: false. */
  readonly reverse?: boolean | undefined;
  /** From this key on, or behind it. */
  readonly gte?: Key | undefined;
  readonly gt?: Key | undefined;
  /** Up to this key, or in front of it. */
  readonly lte?: Key | undefined;
  readonly lt?: Key | undefined;
  /** So many records at most. */
  readonly limit?: number | undefined;
}

/** A copy of the file on its way in or out. */
export interface CopyOptions extends CallOptions {
  /** Hears how many bytes have gone through, and of how many if that is known. */
  readonly progress?: ((done: number, total: number | undefined) => void) | undefined;
}

/** A way in. */
export interface KeySlot {
  /** Its number, by which it is removed. */
  readonly slot: number;
  readonly kind: "key" | "passphrase";
}

/** What a new key has come to, or the end of all keys. */
export interface Rotation {
  /** Nothing in the file is under the key before any more, or plain, or, of a store that is to be plain, sealed. Otherwise `finishKeyRotation` goes on, and so does `rotateKey` before it begins anew. */
  readonly finished: boolean;
  readonly segmentsLeft: number;
}

/** When values are compressed: never, by compaction, which trains a dictionary for them, or by writes, too. */
export type Compression = "off" | "on-compaction" | "on-write";

/** In the order of `web/src/compression.rs`. */
export const WHENS: readonly Compression[] = ["off", "on-compaction", "on-write"];

export interface OpenOptions extends CallOptions {
  /** Of all writes that do not say otherwise. Default: `"relaxed"`. */
  readonly durability?: Durability | undefined;
  /** Whether a store that is not there is made. Default: true. */
  readonly create?: boolean | undefined;
  /** Memory for blocks of the file, in bytes. Default: 16 MiB. */
  readonly cacheBytes?: number | undefined;
  /**
   * Bytes of a segment of a new store: a power of two from 4 KiB to 256 MiB; an existing store keeps its own. The file grows by
   * whole segments, at first by two. Default: 1 MiB.
   */
  readonly segmentSize?: number | undefined;
  /**
   * Loads the module that knows event streams at once, where this tab has the file open. Without it, the first call of an event log opens the file again with that
   * one: transactions run again, and snapshots end. A store in memory needs it. Default: false.
   */
  readonly events?: boolean | undefined;
  /** Sets when values are compressed, as `setCompression` does, and loads the module that can. */
  readonly compression?: Compression | undefined;
  /**
   * Seals a new store, and opens a sealed one: without it nobody reads a key or a value in the file, or changes one unnoticed. A passphrase takes 64 MiB of
   * memory, and some tenths of a second. Loads the module that knows sealed stores. Every tab needs it; one without is refused, as `key-needed`.
   */
  readonly key?: StoreKey | undefined;
  /**
   * Lets a sealed store compress values, which it refuses otherwise: their lengths, which are rounded up, then tell something of what is in them. That of the tab
   * that has the file open counts. Default: false.
   */
  readonly compressSealed?: boolean | undefined;
  /**
   * Makes a sealed store plain as `key` opens it; also one in which `disableEncryption` was cut short, which opens in no other way. What was written meanwhile is not
   * authenticated. A plain store opens as it is. Default: false.
   */
  readonly disableEncryption?: boolean | undefined;
  /** A store that lives in memory and ends with the tab; never chosen unasked. Default: false. */
  readonly memory?: boolean | undefined;
  /** Where the WebAssembly module is, if a bundler has moved it, or the module itself. */
  readonly wasm?: string | URL | ArrayBuffer | WebAssembly.Module | undefined;
  /** Where the script of the worker is, `pipkin/worker.js`, if a bundler or a policy has moved it, or what starts it. */
  readonly worker?: string | URL | (() => Worker) | undefined;
  /** Hears that opening waits for another tab, which has the store open and does not answer. */
  readonly blocked?: (() => void) | undefined;
}

/** Options of the entry `pipkin/sync`: a write that blocks cannot be given up, and opening waits for no other tab. */
export type SyncWriteOptions = Omit<WriteOptions, keyof CallOptions>;
export type SyncSetOptions = Omit<SetOptions, keyof CallOptions>;
export type SyncOpenOptions = Omit<OpenOptions, keyof CallOptions | "blocked" | "worker">;

/** Which module: one that knows records; event streams, too; sealed stores and compressed values, too. */
export type Level = 0 | 1 | 2;

/** The part of the options that the engine needs, complete. */
export interface EngineOptions {
  readonly create: boolean;
  readonly cacheBytes: number;
  readonly segmentSize: number;
  readonly memory: boolean;
  readonly wasm: string | ArrayBuffer | WebAssembly.Module | undefined;
  readonly level: Level;
  readonly key?: StoreKey | undefined;
  readonly compressSealed: boolean;
  readonly disableEncryption: boolean;
}

const MIB = 1024 * 1024;

export function checkDurability(durability: Durability): void {
  if (durability !== "relaxed" && durability !== "strict") throw new PipkinError("usage", '`durability` is "relaxed" or "strict"');
}

/** The time that records live. */
export function checkedTtl(ttl: number | undefined): number | undefined {
  if (ttl === undefined || (typeof ttl === "number" && ttl > 0)) return ttl;
  throw new PipkinError("usage", "`ttl` is a number of milliseconds, more than 0, or Infinity");
}

export function checkedCompression(when: Compression | undefined): Compression | undefined {
  if (when === undefined || WHENS.includes(when)) return when;
  throw new PipkinError("usage", '`compression` is "off", "on-compaction" or "on-write"');
}

/** The engine counts in 32 bits, and would take what of another number fits. */
function size(bytes: number): number {
  if (bytes >>> 0 !== bytes) throw new PipkinError("usage", "sizes are whole numbers of bytes, less than 4 GiB");
  return bytes;
}

/** `wasm` is where the module is if the caller says nothing. */
export function engineOptions(options: OpenOptions, wasm?: EngineOptions["wasm"], isWhole = wasm !== undefined): EngineOptions {
  checkDurability(options.durability ?? "relaxed");
  const key = checkedKey(options.key);
  if (options.disableEncryption && !key) throw new PipkinError("usage", "`disableEncryption` needs the `key` that opens the store");
  if (key && options.memory) throw new PipkinError("usage", "a store in memory has no file that a key could seal");
  return {
    create: options.create ?? true,
    cacheBytes: size(options.cacheBytes ?? 16 * MIB),
    segmentSize: size(options.segmentSize ?? MIB),
    memory: options.memory ?? false,
    level: key || isWhole || checkedCompression(options.compression) ? 2 : options.events ? 1 : 0,
    key,
    compressSealed: options.compressSealed ?? false,
    disableEncryption: options.disableEncryption ?? false,
    wasm: (options.wasm instanceof URL ? options.wasm.href : options.wasm) ?? wasm,
  };
}

/** What a store knows about the position of a commit: whether it has it, and has flushed it; or compaction has freed that part of the log, and it cannot tell. */
export type PositionState = "durable" | "appended" | "compacted" | "unknown";

/** Figures about a store; sizes in bytes. */
export interface Stats {
  /** Those of namespaces that a native program has made, too. */
  readonly records: number;
  readonly fileBytes: number;
  readonly liveBytes: number;
  /** What compaction could free. */
  readonly deadBytes: number;
  readonly segments: number;
  readonly freeSegments: number;
  readonly segmentSize: number;
  readonly indexBytes: number;
  /** Records that expire and have not yet. */
  readonly expiring: number;
  /** Milliseconds by which the clock is behind the latest expiry that was acted on: more than a few mean that it is wrong, or was. See `resetClock`. */
  readonly clockBehindMs: number;
}

/** What one stretch of the file is used for: records, nothing, or the snapshot of the index. */
export interface Segment {
  readonly use: "log" | "free" | "other";
  readonly bytes: number;
  readonly usedBytes: number;
  readonly liveBytes: number;
}

/** What a check of every byte has found. */
export interface Report {
  readonly records: number;
  readonly bytesChecked: number;
  readonly damage: readonly Damage<never>[];
}

export interface CompactReport {
  readonly segmentsRetired: number;
  readonly bytesFreed: number;
}

/** Records that were written, in this tab or in another; of a view only its own, by their names there. */
export interface Change<K = Bytes> {
  /** Their keys; none when there were too many to name: read again what matters to you. */
  readonly keys: readonly K[] | undefined;
  /** Whether this tab wrote them. */
  readonly local: boolean;
  /** Of the store after it; none as long as nobody has asked the tab that leads for a position, a snapshot apart, or for `changes`. */
  readonly position: Bytes | undefined;
}

export interface ChangesOptions extends CallOptions {
  /** After this position: that of a commit, or any other one of this store; 16 zeros are in front of everything. Default: from this call on. */
  readonly from?: Uint8Array | undefined;
  /** Hears of commits before they are flushed, too. A crash of the system may take them; then it goes on with `unknown-position`. Default: false. */
  readonly appended?: boolean | undefined;
}

/** What a commit has done to one record; or that all records are gone, which a native program does. */
export type RecordChange<K = Bytes, Out = Bytes> =
  | { readonly key: K; readonly value: Out; /** As the method of that name says it. */ readonly expiresAt?: number; readonly removed?: undefined; readonly cleared?: undefined }
  | { readonly key: K; readonly value?: undefined; readonly expiresAt?: undefined; readonly removed: true; readonly cleared?: undefined }
  | { readonly key?: undefined; readonly value?: undefined; readonly expiresAt?: undefined; readonly removed?: undefined; readonly cleared: true };

/** One commit, whole: everything that one call or transaction has changed in a view. */
export interface Commit<K = Bytes, Out = Bytes> {
  /** To go on from. A commit that was written before anybody asked its leader for a position comes again from there, perhaps with others. */
  readonly position: Bytes;
  readonly changes: readonly RecordChange<K, Out>[];
}

/** The value of a key as it changes, for whoever shows it: what `useSyncExternalStore` of React takes. */
export interface Live<T> {
  /** Has `changed` called whenever there is another value, until the function that comes back is called. */
  readonly subscribe: (changed: () => void) => () => void;
  /** The value that was last read, the same object as long as it does not change; `undefined` before that, and when there is none. */
  readonly getSnapshot: () => T | undefined;
}

/** Who has the file open: this tab, or another one that this one asks. */
export type Role = "leader" | "follower";

const encoder = new TextEncoder();
/** Up to here a loop is several times faster than the encoder. */
const SHORT = 64;

/** The encoder would turn half a surrogate pair into another character: two keys into one. */
function encoded(text: string): Uint8Array {
  if (text.isWellFormed?.() === false) throw new PipkinError("usage", "text with half a character in it (a lone surrogate): use bytes");
  return encoder.encode(text);
}

function utf8(text: string): Uint8Array {
  if (text.length > SHORT) return encoded(text);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit > 0x7f) return encoded(text);
    bytes[i] = unit;
  }
  return bytes;
}

export function keyBytes(key: Key): Uint8Array {
  if (typeof key === "string") return utf8(key);
  if (key instanceof Uint8Array) return key;
  throw new PipkinError("usage", "a key is a string or a Uint8Array");
}

export function valueBytes(value: Value): Uint8Array {
  if (typeof value === "string") return utf8(value);
  if (value instanceof Uint8Array) return value;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  throw new PipkinError("usage", "a value is a string, a Uint8Array or an ArrayBuffer; for anything else there are views: `db.json()`");
}
