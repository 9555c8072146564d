// Records as a caller wants to see them: all of them or those of a prefix, as bytes, text or JSON.

import type { Connection, Effect } from "./connection.js";
import { PipkinError } from "./errors.js";
import { type Durability, type Key, type Value, type WriteOptions, keyBytes, valueBytes } from "./types.js";
import type { Write } from "./wire.js";

/** How keys and values of a view become bytes, and bytes become them. */
export interface Codec<K, In, Out> {
  readonly key: (bytes: Uint8Array) => K;
  readonly encode: (value: In) => Uint8Array;
  readonly decode: (bytes: Uint8Array) => Out;
}

const decoder = new TextDecoder();
const text = (bytes: Uint8Array): string => decoder.decode(bytes);

export const BYTES: Codec<Uint8Array, Value, Uint8Array> = { key: (bytes) => bytes, encode: valueBytes, decode: (bytes) => bytes };
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

/** The records whose keys begin with a prefix, which the view takes away and puts in front again. */
export class View<K, In, Out> {
  constructor(
    protected readonly connection: Connection,
    private readonly codec: Codec<K, In, Out>,
    private readonly start: Uint8Array,
    private readonly durability: Durability,
  ) {}

  /** The value of a key. */
  get(key: Key): Promise<Out | undefined> {
    const full = this.#full(key);
    return this.connection.operate("read", (request) => request.get(full), (answer) => this.#value(answer.value()));
  }

  /** Whether a key has a value. */
  has(key: Key): Promise<boolean> {
    const full = this.#full(key);
    return this.connection.operate("read", (request) => request.has(full), (answer) => answer.written());
  }

  /** Stores a value. */
  set(key: Key, value: In, options?: WriteOptions): Promise<void> {
    const write = [this.#full(key), this.codec.encode(value)] as const;
    return this.connection.operate(this.#effect(options), (request) => request.write(write), (answer) => void answer.written());
  }

  /** Removes a key; true if it was there. Goes through at a full quota, too. */
  delete(key: Key, options?: WriteOptions): Promise<boolean> {
    const full = this.#full(key);
    return this.connection.operate(this.#effect(options), (request) => request.delete(full), (answer) => answer.written());
  }

  /** The values of many keys, in the order of the keys. */
  getMany(keys: Iterable<Key>): Promise<(Out | undefined)[]> {
    const full = Array.from(keys, (key) => this.#full(key));
    const take = (bytes: Uint8Array | undefined): Out | undefined => this.#value(bytes);
    return this.connection.operate("read", (request) => request.getMany(full), (answer) => answer.values().map(take));
  }

  /** Stores many records as one commit: after a crash all of them are there or none. */
  setMany(records: Iterable<readonly [Key, In]>, options?: WriteOptions): Promise<void> {
    return this.#commit(Array.from(records, ([key, value]) => [this.#full(key), this.codec.encode(value)]), options);
  }

  /** Stores and removes as one commit what `fill` asks for; nothing if it throws. */
  async batch(fill: (batch: Batch<In>) => void, options?: WriteOptions): Promise<void> {
    const writes: Write[] = [];
    fill({
      set: (key, value) => void writes.push([this.#full(key), this.codec.encode(value)]),
      delete: (key) => void writes.push([this.#full(key), undefined]),
    });
    await this.#commit(writes, options);
  }

  /**
   * Replaces the value of a key by what `next` makes of it; `undefined` removes the key. No other writer, in no tab, comes in
   * between: `next` runs again when one did.
   */
  async update(key: Key, next: (old: Out | undefined) => In | undefined, options?: WriteOptions): Promise<void> {
    const full = this.#full(key);
    for (;;) {
      const old = await this.connection.operate("read", (request) => request.get(full), (answer) => answer.value());
      const value = next(this.#value(old));
      const bytes = value === undefined ? undefined : this.codec.encode(value);
      const swapped = await this.connection.operate(this.#effect(options), (request) => request.swap(full, old, bytes), (answer) => answer.written());
      if (swapped) return;
    }
  }

  /** All keys, in no order. A key that is there all the while comes exactly once; fetched a page at a time. */
  async *keys(): AsyncIterableIterator<K> {
    for await (const [key] of this.#records(false)) yield key;
  }

  /** All records, in no order; see {@link keys}. */
  async *entries(): AsyncIterableIterator<[K, Out]> {
    for await (const [key, value] of this.#records(true)) yield [key, this.codec.decode(value ?? new Uint8Array())];
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<[K, Out]> {
    return this.entries();
  }

  /** The records whose keys begin with `prefix`. */
  prefix(prefix: Key): View<K, In, Out> {
    return new View(this.connection, this.codec, this.#full(prefix), this.durability);
  }

  protected as<K2, In2, Out2>(codec: Codec<K2, In2, Out2>, prefix: Key): View<K2, In2, Out2> {
    return new View(this.connection, codec, this.#full(prefix), this.durability);
  }

  async *#records(values: boolean): AsyncIterableIterator<readonly [K, Uint8Array | undefined]> {
    for (let next = 0; next >= 0; ) {
      const from = next;
      const page = await this.connection.operate("read", (request) => request.page(from, values, this.start), (answer) => answer.page(values));
      for (const [key, value] of page.records) yield [this.codec.key(key.subarray(this.start.length)), value];
      next = page.next;
    }
  }

  #commit(writes: readonly Write[], options: WriteOptions | undefined): Promise<void> {
    return this.connection.operate(this.#effect(options), (request) => request.writeMany(writes), (answer) => void answer.written());
  }

  #effect(options: WriteOptions | undefined): Effect {
    return options?.durability ?? this.durability;
  }

  #value(bytes: Uint8Array | undefined): Out | undefined {
    return bytes && this.codec.decode(bytes);
  }

  #full(key: Key): Uint8Array {
    const bytes = keyBytes(key);
    if (this.start.length === 0) return bytes;
    const full = new Uint8Array(this.start.length + bytes.length);
    full.set(this.start);
    full.set(bytes, this.start.length);
    return full;
  }
}
