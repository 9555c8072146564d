// Records as a caller wants to read them, as they are or as a snapshot shows them: all of them or those of a prefix, as bytes, text or JSON.

import type { AnswerReader, Record } from "./answer.js";
import { type Codec, KEYS, keeper, listed } from "./codec.js";
import type { Connection } from "./connection.js";
import { Damaged } from "./damage.js";
import { PipkinError } from "./errors.js";
import type { RequestWriter } from "./request.js";
import { type CallOptions, type Damage, type DamageOptions, type IterateOptions, type Key, keyBytes } from "./types.js";
import { Walk, joined } from "./walk.js";

/** A snapshot that this page holds. */
export interface Held {
  readonly number: number;
  isClosed: boolean;
}

/** The records whose keys begin with a prefix, which is taken away and put in front again. */
export class Reads<K, Out> {
  constructor(
    protected readonly connection: Connection,
    protected readonly codec: Codec<K, any, Out>,
    protected readonly start: Uint8Array,
    /** Shown instead of what is there now. */
    protected readonly held?: Held,
  ) {}

  /** The value of a key. */
  get(key: Key, options?: CallOptions): Promise<Out | undefined> {
    return this.operateToRead((request) => request.get(this.full(key), key), (answer) => this.decoded(answer.value()), options?.signal);
  }

  /** Copies the bytes of a value to the front of a buffer, and says how many there are; rejects as `usage` if they do not fit. */
  getInto(key: Key, into: Uint8Array, options?: CallOptions): Promise<number | undefined> {
    const take = (value: Uint8Array | undefined): number | undefined => {
      if (value && value.length > into.length) throw tooLong(value.length, into);
      if (value) into.set(value);
      return value?.length;
    };
    return this.operateToRead((request) => request.get(this.full(key), key), (answer) => take(answer.value()), options?.signal);
  }

  /** Whether a key has a value. */
  has(key: Key, options?: CallOptions): Promise<boolean> {
    return this.operateToRead((request) => request.has(this.full(key)), (answer) => answer.written(), options?.signal);
  }

  /** When a record expires, in milliseconds as `Date.now()` counts them; `undefined` if it never does, or if there is none. */
  expiresAt(key: Key, options?: CallOptions): Promise<number | undefined> {
    return this.operateToRead((request) => request.expiresAt(this.full(key)), (answer) => answer.time(), options?.signal);
  }

  /** The values of many keys, in the order of the keys. Damaged records do not keep the others from being read: see {@link DamageOptions}. */
  async getMany(keys: Iterable<Key> & object, options?: CallOptions & DamageOptions<K>): Promise<(Out | undefined)[]> {
    const kept = keeper(keys);
    const put = Array.from(listed(keys, KEYS), (key) => kept(this.full(key)));
    const damaged = new Damaged(options?.damaged);
    const take = (answer: AnswerReader): (Out | undefined)[] => {
      const values = answer.values(this.codec.decode, (damage) => damaged.meet(this.#named(damage)));
      damaged.end(values);
      return values;
    };
    return await this.operateToRead((request) => request.getMany(put), take, options?.signal);
  }

  /** How many records there are, or how many in a range. Walks over their keys. */
  async count(options?: IterateOptions & DamageOptions<K>): Promise<number> {
    let count = 0;
    for await (const _ of this.fullKeys(options)) count++;
    return count;
  }

  /**
   * All keys, or those of a range. A key that is there all the while comes exactly once; fetched a page at a time. A walk goes on after
   * damaged records and reports them: see {@link DamageOptions}.
   */
  async *keys(options?: IterateOptions & DamageOptions<K>): AsyncIterableIterator<K> {
    for await (const key of this.fullKeys(options)) yield this.codec.key(key.subarray(this.start.length));
  }

  /** All records, or those of a range; see {@link keys}. */
  async *entries(options?: IterateOptions & DamageOptions<K>): AsyncIterableIterator<[K, Out]> {
    for await (const [key, value] of this.#records(true, options)) yield [this.codec.key(key.subarray(this.start.length)), this.codec.decode(value)];
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<[K, Out]> {
    return this.entries();
  }

  /** The records whose keys begin with `prefix`. */
  prefix(prefix: Key): Reads<K, Out> {
    return this.as(this.codec, prefix);
  }

  protected as<K2, In2, Out2>(codec: Codec<K2, In2, Out2>, prefix: Key): Reads<K2, Out2> {
    return new Reads(this.connection, codec, this.full(prefix).slice(), this.held);
  }

  protected full(key: Key): Uint8Array {
    return joined(this.start, keyBytes(key));
  }

  protected decoded(bytes: Uint8Array | undefined): Out | undefined {
    return bytes && this.codec.decode(bytes);
  }

  protected async *fullKeys(options: (IterateOptions & DamageOptions<K>) | undefined): AsyncIterableIterator<Uint8Array> {
    for await (const [key] of this.#records(false, options)) yield key;
  }

  async *#records(values: boolean, options: (IterateOptions & DamageOptions<K>) | undefined): AsyncIterableIterator<Record> {
    const walk = new Walk(this.start, values, options);
    const damaged = new Damaged(options?.damaged);
    while (!walk.isDone) {
      const met: Damage<K>[] = [];
      const take = (answer: AnswerReader): readonly Record[] => walk.take(answer, (damage) => void met.push(this.#named(damage)));
      const records = await this.operateToRead((request) => walk.put(request), take, options?.signal);
      for (const record of records) {
        options?.signal?.throwIfAborted();
        yield record;
      }
      for (const one of met) damaged.meet(one);
    }
    damaged.end();
  }

  /** The same with the key as this view has it. */
  #named({ key, ...damage }: Damage<Uint8Array>): Damage<K> {
    return key ? { ...damage, key: this.codec.key(key.slice(this.start.length)) } : damage;
  }

  protected checkOpen(): void {
    if (this.held?.isClosed) throw new PipkinError("closed", "the snapshot has been closed; take another one");
  }

  protected operateToRead<T>(put: (request: RequestWriter) => void, take: (answer: AnswerReader) => T, signal?: AbortSignal): Promise<T> {
    const { held } = this;
    if (!held) return this.connection.operate(undefined, put, take, signal);
    const then = (request: RequestWriter): void => {
      this.checkOpen();
      request.at(held.number);
      put(request);
    };
    return this.connection.operate(undefined, then, take, signal);
  }
}

export function tooLong(length: number, into: Uint8Array): PipkinError {
  return new PipkinError("usage", `the value has ${length} bytes and the buffer ${into.length}: give a larger one, or call \`get\``);
}
