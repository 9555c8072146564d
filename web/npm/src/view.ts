// Records as a caller wants to see them: all of them or those of a prefix, as bytes, text or JSON.

import type { AnswerReader, Record } from "./answer.js";
import { Unread } from "./clone.js";
import { type Batch, type Codec, KEYS, RECORDS, type Target, filled, keeper, listed, target } from "./codec.js";
import type { Connection } from "./connection.js";
import { Damaged } from "./damage.js";
import { PipkinError } from "./errors.js";
import { LiveValue } from "./live.js";
import type { Effect, Write } from "./request.js";
import { type CallOptions, type Change, type Damage, type DamageOptions, type Durability, type IterateOptions, type Key, type Live, type WriteOptions, keyBytes } from "./types.js";
import { Walk, joined } from "./walk.js";

/** The records whose keys begin with a prefix, which the view takes away and puts in front again. */
export class View<K, In, Out> {
  constructor(
    protected readonly connection: Connection,
    private readonly codec: Codec<K, In, Out>,
    private readonly start: Uint8Array,
    private readonly durability: Durability,
  ) {
    this[target] = { store: connection, full: (key) => this.#full(key), encode: codec.encode };
  }

  /** @internal */
  readonly [target]: Target<In>;

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
    if (this.codec.mayWait) return this.batch((batch) => batch.set(key, value), options);
    const write = (): Write => [this.#full(key), this.codec.encode(value)];
    return this.connection.operate(this.#effect(options), (request) => request.write(write()), (answer) => void answer.written(), options?.signal);
  }

  /** Removes a key; true if it was there. Goes through at a full quota, too. */
  delete(key: Key, options?: WriteOptions): Promise<boolean> {
    return this.connection.operate(this.#effect(options), (request) => request.delete(this.#full(key)), (answer) => answer.written(), options?.signal);
  }

  /** The values of many keys, in the order of the keys. Damaged records do not keep the others from being read: see {@link DamageOptions}. */
  async getMany(keys: Iterable<Key> & object, options?: CallOptions & DamageOptions<K>): Promise<(Out | undefined)[]> {
    const kept = keeper(keys);
    const put = Array.from(listed(keys, KEYS), (key) => kept(this.#full(key)));
    const damaged = new Damaged(options?.damaged);
    const take = (answer: AnswerReader): (Out | undefined)[] => {
      const values = answer.values(this.codec.decode, (damage) => damaged.meet(this.#named(damage)));
      damaged.end(values);
      return values;
    };
    return await this.connection.operate(undefined, (request) => request.getMany(put), take, options?.signal);
  }

  /** Stores many records as one commit: after a crash all of them are there or none. */
  async setMany(records: Iterable<readonly [Key, In]>, options?: WriteOptions): Promise<void> {
    const kept = keeper(records);
    const list = listed(records, RECORDS);
    if (this.codec.mayWait) return this.batch((batch) => { for (const [key, value] of list) batch.set(key, value); }, options);
    await this.#commit(Array.from(list, ([key, value]) => [kept(this.#full(key)), kept(this.codec.encode(value))]), options);
  }

  /** Removes many keys as one commit. */
  async deleteMany(keys: Iterable<Key> & object, options?: WriteOptions): Promise<void> {
    const kept = keeper(keys);
    await this.#commit(Array.from(listed(keys, KEYS), (key) => [kept(this.#full(key)), undefined]), options);
  }

  /** Removes the records that are in this view now, as one commit. */
  async clear(options?: WriteOptions): Promise<void> {
    const keys: Uint8Array[] = [];
    for await (const key of this.#fullKeys({ signal: options?.signal })) keys.push(key.slice());
    await this.#commit(keys.map((key) => [key, undefined]), options);
  }

  /** How many records there are, or how many in a range. Walks over their keys. */
  async count(options?: IterateOptions & DamageOptions<K>): Promise<number> {
    let count = 0;
    for await (const _ of this.#fullKeys(options)) count++;
    return count;
  }

  /** Stores and removes as one commit what `fill` asks for; nothing if it throws. With `batch.in(view)` it takes records of other views, too. */
  async batch(fill: (batch: Batch<In>) => void, options?: WriteOptions): Promise<void> {
    const writes = filled(fill, this[target]);
    await this.#commit(writes instanceof Promise ? await writes : writes, options);
  }

  /**
   * Replaces the value of a key by what `next` makes of it; `undefined` removes the key. No other writer, in no tab, comes in
   * between: `next` runs again when one of another tab, or a write that is no update, did.
   */
  async update(key: Key, next: (old: Out | undefined) => In | undefined, options?: WriteOptions): Promise<void> {
    const made = (old: Uint8Array | undefined): Uint8Array | undefined | Promise<Uint8Array> => {
      const value = next(this.#value(old));
      return value === undefined ? undefined : this.#encoded(value);
    };
    // The caller may fill the buffer again while this waits.
    return this.connection.updates.add(this.#full(key).slice(), made, this.#effect(options), options?.signal);
  }

  /**
   * All keys, or those of a range. A key that is there all the while comes exactly once; fetched a page at a time. A walk goes on after
   * damaged records and reports them: see {@link DamageOptions}.
   */
  async *keys(options?: IterateOptions & DamageOptions<K>): AsyncIterableIterator<K> {
    for await (const key of this.#fullKeys(options)) yield this.codec.key(key.subarray(this.start.length));
  }

  /** All records, or those of a range; see {@link keys}. */
  async *entries(options?: IterateOptions & DamageOptions<K>): AsyncIterableIterator<[K, Out]> {
    for await (const [key, value] of this.#records(true, options)) yield [this.codec.key(key.subarray(this.start.length)), this.codec.decode(value)];
  }

  /** Hears of changes of these records, until the function that comes back is called. */
  on(event: "change", listener: (change: Change<K>) => void): () => void {
    return this.connection.on(event, ({ keys, local }) => {
      const own = keys?.filter((key) => this.start.every((byte, i) => key[i] === byte)).map((key) => this.codec.key(key.slice(this.start.length)));
      if (own?.length !== 0) listener({ keys: own, local });
    });
  }

  /** The value of a key as it changes: `useSyncExternalStore(subscribe, getSnapshot)` shows it in React. Make it once for a key, as by `useMemo`. */
  live(key: Key): Live<Out> {
    return new LiveValue(this.connection, this.#full(key).slice(), this.codec.decode);
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

  async *#fullKeys(options: (IterateOptions & DamageOptions<K>) | undefined): AsyncIterableIterator<Uint8Array> {
    for await (const [key] of this.#records(false, options)) yield key;
  }

  async *#records(values: boolean, options: (IterateOptions & DamageOptions<K>) | undefined): AsyncIterableIterator<Record> {
    const walk = new Walk(this.start, values, options);
    const damaged = new Damaged(options?.damaged);
    while (!walk.isDone) {
      const met: Damage<K>[] = [];
      const take = (answer: AnswerReader): readonly Record[] => walk.take(answer, (damage) => void met.push(this.#named(damage)));
      const records = await this.connection.operate(undefined, (request) => walk.put(request), take, options?.signal);
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

  /** The bytes of a value; a promise when some of them have to be read first. */
  #encoded(value: In): Uint8Array | Promise<Uint8Array> {
    try {
      return this.codec.encode(value);
    } catch (thrown) {
      if (!(thrown instanceof Unread)) throw thrown;
      return thrown.read.then(() => this.#encoded(value));
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
