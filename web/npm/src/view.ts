// Records as a caller wants to see them: all of them or those of a prefix, as bytes, text or JSON.

import { type Batch, type Codec, filled, keeper } from "./codec.js";
import type { Connection } from "./connection.js";
import { PipkinError } from "./errors.js";
import type { Effect, Write } from "./request.js";
import { type CallOptions, type Durability, type IterateOptions, type Key, type WriteOptions, keyBytes } from "./types.js";
import { Walk, joined } from "./walk.js";

/** The records whose keys begin with a prefix, which the view takes away and puts in front again. */
export class View<K, In, Out> {
  constructor(
    protected readonly connection: Connection,
    private readonly codec: Codec<K, In, Out>,
    private readonly start: Uint8Array,
    private readonly durability: Durability,
  ) {}

  /** The value of a key. */
  get(key: Key, options?: CallOptions): Promise<Out | undefined> {
    return this.connection.operate(undefined, (request) => request.get(this.#full(key), key), (answer) => this.#value(answer.value()), options?.signal);
  }

  /** Copies the bytes of a value to the front of a buffer, and says how many there are; rejects as `usage` if they do not fit. */
  getInto(key: Key, into: Uint8Array, options?: CallOptions): Promise<number | undefined> {
    const take = (value: Uint8Array | undefined): number | undefined => {
      if (value && value.length > into.length) throw tooLong(value.length, into);
      if (value) into.set(value);
      return value?.length;
    };
    return this.connection.operate(undefined, (request) => request.get(this.#full(key), key), (answer) => take(answer.value()), options?.signal);
  }

  /** Whether a key has a value. */
  has(key: Key, options?: CallOptions): Promise<boolean> {
    return this.connection.operate(undefined, (request) => request.has(this.#full(key)), (answer) => answer.written(), options?.signal);
  }

  /** Stores a value. */
  set(key: Key, value: In, options?: WriteOptions): Promise<void> {
    const write = (): Write => [this.#full(key), this.codec.encode(value)];
    return this.connection.operate(this.#effect(options), (request) => request.write(write()), (answer) => void answer.written(), options?.signal);
  }

  /** Removes a key; true if it was there. Goes through at a full quota, too. */
  delete(key: Key, options?: WriteOptions): Promise<boolean> {
    return this.connection.operate(this.#effect(options), (request) => request.delete(this.#full(key)), (answer) => answer.written(), options?.signal);
  }

  /** The values of many keys, in the order of the keys. */
  async getMany(keys: Iterable<Key>, options?: CallOptions): Promise<(Out | undefined)[]> {
    const kept = keeper(keys);
    const put = Array.from(keys, (key) => kept(this.#full(key)));
    return await this.connection.operate(undefined, (request) => request.getMany(put), (answer) => answer.values(this.codec.decode), options?.signal);
  }

  /** Stores many records as one commit: after a crash all of them are there or none. */
  async setMany(records: Iterable<readonly [Key, In]>, options?: WriteOptions): Promise<void> {
    const kept = keeper(records);
    await this.#commit(Array.from(records, ([key, value]) => [kept(this.#full(key)), kept(this.codec.encode(value))]), options);
  }

  /** Stores and removes as one commit what `fill` asks for; nothing if it throws. */
  async batch(fill: (batch: Batch<In>) => void, options?: WriteOptions): Promise<void> {
    await this.#commit(filled(fill, (key) => this.#full(key), this.codec.encode), options);
  }

  /**
   * Replaces the value of a key by what `next` makes of it; `undefined` removes the key. No other writer, in no tab, comes in
   * between: `next` runs again when one did.
   */
  async update(key: Key, next: (old: Out | undefined) => In | undefined, options?: WriteOptions): Promise<void> {
    // The caller may fill the buffer again while this waits.
    const full = this.#full(key).slice();
    const signal = options?.signal;
    for (;;) {
      const old = await this.connection.operate(undefined, (request) => request.get(full), (answer) => answer.value()?.slice(), signal);
      const value = next(this.#value(old));
      const bytes = value === undefined ? undefined : this.codec.encode(value);
      const swap = this.connection.operate(this.#effect(options), (request) => request.swap(full, old, bytes), (answer) => answer.written(), signal);
      if (await swap) return;
    }
  }

  /** All keys, or those of a range. A key that is there all the while comes exactly once; fetched a page at a time. */
  async *keys(options?: IterateOptions): AsyncIterableIterator<K> {
    for await (const [key] of this.#records(false, options)) yield key;
  }

  /** All records, or those of a range; see {@link keys}. */
  async *entries(options?: IterateOptions): AsyncIterableIterator<[K, Out]> {
    for await (const [key, value] of this.#records(true, options)) yield [key, this.codec.decode(value)];
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<[K, Out]> {
    return this.entries();
  }

  /** The records whose keys begin with `prefix`. */
  prefix(prefix: Key): View<K, In, Out> {
    return this.as(this.codec, prefix);
  }

  protected as<K2, In2, Out2>(codec: Codec<K2, In2, Out2>, prefix: Key): View<K2, In2, Out2> {
    return new View(this.connection, codec, this.#full(prefix).slice(), this.durability);
  }

  async *#records(values: boolean, options: IterateOptions | undefined): AsyncIterableIterator<readonly [K, Uint8Array]> {
    const walk = new Walk(this.start, values, options);
    while (!walk.isDone) {
      const records = await this.connection.operate(undefined, (request) => walk.put(request), (answer) => walk.take(answer), options?.signal);
      for (const [key, value] of records) {
        options?.signal?.throwIfAborted();
        yield [this.codec.key(key.subarray(this.start.length)), value];
      }
    }
  }

  #commit(writes: readonly Write[], options: WriteOptions | undefined): Promise<void> {
    return this.connection.operate(this.#effect(options), (request) => request.writeMany(writes), (answer) => void answer.written(), options?.signal);
  }

  #effect(options: WriteOptions | undefined): Effect {
    return options?.durability ?? this.durability;
  }

  #value(bytes: Uint8Array | undefined): Out | undefined {
    return bytes && this.codec.decode(bytes);
  }

  #full(key: Key): Uint8Array {
    return joined(this.start, keyBytes(key));
  }
}

export function tooLong(length: number, into: Uint8Array): PipkinError {
  return new PipkinError("usage", `the value has ${length} bytes and the buffer ${into.length}: give a larger one, or call \`get\``);
}
