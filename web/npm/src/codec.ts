// How keys and values of a view become bytes, and bytes become them.

import { PipkinError } from "./errors.js";
import type { Write } from "./request.js";
import { type Key, type Value, valueBytes } from "./types.js";

/** The bytes that come in are part of a message, or all of it: what is kept is copied out of the part. */
export interface Codec<K, In, Out> {
  readonly key: (bytes: Uint8Array) => K;
  readonly encode: (value: In) => Uint8Array;
  readonly decode: (bytes: Uint8Array) => Out;
}

/** A mark of the byte order is a character as any other. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
const text = (bytes: Uint8Array): string => decoder.decode(bytes);
const own = (bytes: Uint8Array): Uint8Array => (bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice());

export const BYTES: Codec<Uint8Array, Value, Uint8Array> = { key: own, encode: valueBytes, decode: own };
export const TEXT: Codec<string, string, string> = { key: text, encode: valueBytes, decode: text };

export function jsonCodec<T>(): Codec<string, T, T> {
  const encode = (value: T): Uint8Array => {
    if (value instanceof Promise) throw new PipkinError("usage", "a promise has no JSON: wait for it first");
    const json = JSON.stringify(value) as string | undefined;
    if (json === undefined) throw new PipkinError("usage", "this value has no JSON; to remove a key call `delete`");
    return valueBytes(json);
  };
  return { key: text, encode, decode: (bytes) => JSON.parse(text(bytes)) as T };
}

/** What to do with the bytes of each item of a list: an array holds its items, anything else may fill one buffer for all of them. */
export function keeper(list: Iterable<unknown>): (bytes: Uint8Array) => Uint8Array {
  return Array.isArray(list) ? (bytes) => bytes : (bytes) => bytes.slice();
}

/** Writes and removals that become one commit. */
export interface Batch<In> {
  set(key: Key, value: In): void;
  delete(key: Key): void;
}

/** What `fill` asks for, with keys and values as bytes. What it asks for later would be lost: that throws. */
export function filled<In>(fill: (batch: Batch<In>) => void, key: (key: Key) => Uint8Array, encode: (value: In) => Uint8Array): Write[] {
  const writes: Write[] = [];
  let isOpen = true;
  const put = ([key, value]: Write): void => {
    if (!isOpen) throw new PipkinError("usage", "the batch has ended");
    // The caller may fill the same buffer again for the next one.
    writes.push([key.slice(), value?.slice()]);
  };
  const result: unknown = fill({ set: (name, value) => put([key(name), encode(value)]), delete: (name) => put([key(name), undefined]) });
  isOpen = false;
  if (result instanceof Promise) {
    result.catch(() => undefined);
    throw new PipkinError("usage", "what fills a batch cannot be async");
  }
  return writes;
}
