// How keys and values of a view become bytes, and bytes become them.

import { Unread, decodeClone, encodeClone } from "./clone.js";
import { PipkinError } from "./errors.js";
import type { Write } from "./request.js";
import { type Bytes, type Key, type SetOptions, type Value, checkedTtl, valueBytes } from "./types.js";

/** The bytes that come in are part of a message, or all of it: what is kept is copied out of the part. */
export interface Codec<K, In, Out> {
  readonly key: (bytes: Uint8Array) => K;
  /** Throws {@link Unread} for what has to be read first, where `mayWait` says that it may. */
  readonly encode: (value: In) => Uint8Array;
  readonly mayWait?: true;
  readonly decode: (bytes: Uint8Array) => Out;
}

/** A mark of the byte order is a character as any other. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const text = (bytes: Uint8Array): string => decoder.decode(bytes);
const own = (bytes: Uint8Array): Bytes => (bytes.byteLength === bytes.buffer.byteLength ? bytes as Bytes : bytes.slice());

export const BYTES: Codec<Bytes, Value, Bytes> = { key: own, encode: valueBytes, decode: own };
export const TEXT: Codec<string, string, string> = { key: text, encode: valueBytes, decode: text };

export function jsonCodec<T>(): Codec<string, T, T> {
  const encode = (value: T): Uint8Array => {
    if (value instanceof Promise) throw new PipkinError("usage", "a promise has no JSON: wait for it first");
    const json = JSON.stringify(value) as string | undefined;
    // These are what such values leave: `{}`, or an object with numbers as names.
    if (json?.includes("{}") || json?.includes('{"0":')) JSON.stringify(value, refuseWhatJsonLoses);
    if (json === undefined) throw new PipkinError("usage", "this value has no JSON; to remove a key call `delete`");
    return valueBytes(json);
  };
  return { key: text, encode, decode: (bytes) => JSON.parse(text(bytes)) as T };
}

/** What would become an object without its content. */
const LOST = /^(Map|Set|Weak\w+|Blob|File\w*|Promise|RegExp|Error|DOMException|(Shared)?ArrayBuffer|\w+Array|DataView|FormData|Headers|URLSearchParams|Image\w+|CryptoKey|Request|Response|\w+Stream)$/;

function refuseWhatJsonLoses(_key: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  const kind = Object.prototype.toString.call(value).slice(8, -1);
  if (LOST.test(kind)) throw new PipkinError("usage", `JSON would lose what is in a ${kind}: store it in a view that keeps it, \`db.structured()\``);
  return value;
}

/** What `structuredClone` takes. */
export function structuredCodec<T>(): Codec<string, T, T> {
  return { key: text, encode: encodeClone, decode: (bytes) => decodeClone(bytes) as T, mayWait: true };
}

export const KEYS = "keys come as a list, or something else to iterate over";
export const RECORDS = "records come as a list of pairs, `[[key, value]]`, a `Map`, or something else to iterate over";

/** A list that is none would be taken for an empty one. */
export function listed<T>(list: Iterable<T>, what: string): Iterable<T> {
  if (typeof list === "object" && list !== null && Symbol.iterator in list) return list;
  throw new PipkinError("usage", `${what} ${Symbol.asyncIterator in Object(list) ? "that is not async: collect them first" : ""}`.trim());
}

/** What to do with the bytes of each item of a list: an array holds its items, anything else may fill one buffer for all of them. */
export function keeper(list: Iterable<unknown>): (bytes: Uint8Array) => Uint8Array {
  return Array.isArray(list) ? (bytes) => bytes : (bytes) => bytes.slice();
}

/** The bytes of a value; a promise when some of them have to be read first. */
export function encoded<In>(codec: Codec<any, In, any>, value: In): Uint8Array | Promise<Uint8Array> {
  try {
    return codec.encode(value);
  } catch (thrown) {
    if (!(thrown instanceof Unread)) throw thrown;
    return thrown.read.then(() => encoded(codec, value));
  }
}

/** Writes and removals that become one commit. */
export interface Batch<In> {
  /** How long a record lives may be said for each. */
  set(key: Key, value: In, options?: Pick<SetOptions, "ttl">): void;
  delete(key: Key): void;
  /** The same batch for the records of another view of this store. */
  in<Other>(view: Batched<Other>): Batch<Other>;
}

/** A view as a batch sees it. */
export interface Batched<In> {
  /** @internal */
  readonly [target]: Target<In>;
}

/** @internal */
export const target: unique symbol = Symbol("target");

/** @internal */
export interface Target<In> {
  /** The open store. */
  readonly store: object;
  readonly full: (key: Key) => Uint8Array;
  readonly encode: (value: In) => Uint8Array;
}

/** What `fill` asks for, with keys and values as bytes; a promise when some have to be read first. What it asks for later would be lost: that throws. */
export function filled<In>(fill: (batch: Batch<In>) => void, view: Target<In>): Write[] | Promise<Write[]> {
  const writes: Write[] = [];
  const reading: Promise<void>[] = [];
  let isOpen = true;
  const put = (key: Uint8Array, value?: () => Uint8Array, ttl?: number): void => {
    if (!isOpen) throw new PipkinError("usage", "the batch has ended");
    // The caller may fill the same buffer again for the next one.
    const full = key.slice();
    let bytes: Uint8Array | undefined;
    try {
      bytes = value?.().slice();
    } catch (thrown) {
      if (!(thrown instanceof Unread) || !value) throw thrown;
      const at = writes.length;
      reading.push(thrown.read.then(() => void (writes[at] = [full, value(), ttl])));
    }
    writes.push([full, bytes, ttl]);
  };
  const of = <Other>({ store, full, encode }: Target<Other>): Batch<Other> => ({
    set: (key, value, options) => put(full(key), () => encode(value), checkedTtl(options?.ttl)),
    delete: (key) => put(full(key)),
    in: <More>(other: Batched<More>) => {
      const there = (other as Batched<More> | undefined)?.[target];
      if (there?.store !== store) throw new PipkinError("usage", "a batch writes to views of its own store");
      return of(there);
    },
  });
  const result: unknown = fill(of(view));
  isOpen = false;
  if (result instanceof Promise) {
    result.catch(() => undefined);
    throw new PipkinError("usage", "what fills a batch cannot be async");
  }
  return reading.length > 0 ? Promise.all(reading).then(() => writes) : writes;
}
