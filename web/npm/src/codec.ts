// How keys and values of a view become bytes, and bytes become them.

import { PipkinError } from "./errors.js";
import { type Key, type Value, valueBytes } from "./types.js";

/** The bytes that come in are part of a message, or all of it: what is kept is copied out of the part. */
export interface Codec<K, In, Out> {
  readonly key: (bytes: Uint8Array) => K;
  readonly encode: (value: In) => Uint8Array;
  readonly decode: (bytes: Uint8Array) => Out;
}

const decoder = new TextDecoder();
const text = (bytes: Uint8Array): string => decoder.decode(bytes);
const own = (bytes: Uint8Array): Uint8Array => (bytes.byteLength === bytes.buffer.byteLength ? bytes : bytes.slice());

export const BYTES: Codec<Uint8Array, Value, Uint8Array> = { key: own, encode: valueBytes, decode: own };
export const TEXT: Codec<string, string, string> = { key: text, encode: valueBytes, decode: text };

export function jsonCodec<T>(): Codec<string, T, T> {
  const encode = (value: T): Uint8Array => {
    const json = JSON.stringify(value) as string | undefined;
    if (json === undefined) throw new PipkinError("usage", "this value has no JSON; to remove a key call `delete`");
    return valueBytes(json);
  };
  return { key: text, encode, decode: (bytes) => JSON.parse(text(bytes)) as T };
}

/** Writes and removals that become one commit. */
export interface Batch<In> {
  set(key: Key, value: In): void;
  delete(key: Key): void;
}
