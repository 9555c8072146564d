// Records as code in a worker sees them: what `view.ts` is to a page, without promises.

import { AnswerReader, type Record } from "./answer.js";
import { type Batch, type Codec, KEYS, RECORDS, type Target, filled, keeper, listed, target } from "./codec.js";
import { Damaged } from "./damage.js";
import { toError } from "./errors.js";
import type { WasmStore } from "./engine.js";
import { tooLong } from "./reads.js";
import { RequestWriter, type Write, lasting } from "./request.js";
import { type Damage, type DamageOptions, type Durability, type IterateOptions, type Key, type SyncSetOptions, type SyncWriteOptions, checkDurability, keyBytes } from "./types.js";
import { Walk, joined } from "./walk.js";

/** Requests of this thread come once, and nobody else's are answered. */
const NOBODY = new Uint8Array();
/** Always empty between two calls: what is put in was checked before. */
const writer = new RequestWriter();

/** The records whose keys begin with a prefix, which the view takes away and puts in front again. */
export class SyncView<K, In, Out> {
  constructor(
    protected readonly wasm: WasmStore,
    private readonly codec: Codec<K, In, Out>,
    private readonly start: Uint8Array,
    protected readonly durability: Durability,
  ) {
    this[target] = { store: wasm, full: (key) => this.#full(key), encode: codec.encode };
  }

  /** @internal */
  readonly [target]: Target<In>;

  get(key: Key): Out | undefined {
    const value = this.attempt(() => this.wasm.get(this.#full(key)));
    return value && this.codec.decode(value);
  }

  /** Copies the bytes of a value to the front of a buffer, and says how many there are; throws `usage` if they do not fit. */
  getInto(key: Key, into: Uint8Array): number | undefined {
    const length = this.attempt(() => this.wasm.getInto(this.#full(key), into));
    if (length > into.length) throw tooLong(length, into);
    return length < 0 ? undefined : length;
  }

  has(key: Key): boolean {
    return this.attempt(() => this.wasm.has(this.#full(key)));
  }

  set(key: Key, value: In, options?: SyncSetOptions): void {
    const [full, bytes] = [this.#full(key), this.codec.encode(value)];
    if (options?.ttl !== undefined) this.#commit([[full, bytes]], options);
    else this.#write(options, () => this.wasm.set(full, bytes));
  }

  /** Removes a key; true if it was there. */
  delete(key: Key, options?: SyncWriteOptions): boolean {
    return this.#write(options, () => this.wasm.delete(this.#full(key)));
  }

  /** When a record expires, in milliseconds as `Date.now()` counts them; `undefined` if it never does, or if there is none. */
  expiresAt(key: Key): number | undefined {
    return this.#run((request) => request.expiresAt(this.#full(key))).time();
  }

  /** Lets a record live for ever that would expire; true if there was such a one. */
  keep(key: Key, options?: SyncWriteOptions): boolean {
    return this.#write(options, () => this.#run((request) => request.keep(this.#full(key))).written());
  }

  /** The values of many keys, in the order of the keys. Damaged records do not keep the others from being read: see {@link DamageOptions}. */
  getMany(keys: Iterable<Key> & object, options?: DamageOptions<K>): (Out | undefined)[] {
    const kept = keeper(keys);
    const all = Array.from(listed(keys, KEYS), (key) => kept(this.#full(key)));
    const damaged = new Damaged(options?.damaged);
    const values = this.#run((request) => request.getMany(all)).values(this.codec.decode, (damage) => damaged.meet(this.#named(damage)));
    damaged.end(values);
    return values;
  }

  /** Stores many records as one commit. */
  setMany(records: Iterable<readonly [Key, In]>, options?: SyncSetOptions): void {
    const kept = keeper(records);
    this.#commit(Array.from(listed(records, RECORDS), ([key, value]) => [kept(this.#full(key)), kept(this.codec.encode(value))]), options);
  }

  /** Removes many keys as one commit. */
  deleteMany(keys: Iterable<Key> & object, options?: SyncWriteOptions): void {
    const kept = keeper(keys);
    this.#commit(Array.from(listed(keys, KEYS), (key) => [kept(this.#full(key)), undefined]), options);
  }

  /** Removes the records of this view as one commit. */
  clear(options?: SyncWriteOptions): void {
    this.#commit(Array.from(this.#records(false, undefined), ([key]) => [key.slice(), undefined]), options);
  }

  /** How many records there are, or how many in a range. Walks over their keys. */
  count(options?: IterateOptions & DamageOptions<K>): number {
    let count = 0;
    for (const _ of this.#records(false, options)) count++;
    return count;
  }

  /** Stores and removes as one commit what `fill` asks for; nothing if it throws. With `batch.in(view)` it takes records of other views, too. */
  batch(fill: (batch: Batch<In>) => void, options?: SyncSetOptions): void {
    const writes = filled(fill, this[target]);
    // In a worker everything is read at once.
    if (!(writes instanceof Promise)) this.#commit(writes, options);
  }

  /** Replaces the value of a key by what `next` makes of it; `undefined` removes the key. */
  update(key: Key, next: (old: Out | undefined) => In | undefined, options?: SyncSetOptions): void {
    const value = next(this.get(key));
    if (value === undefined) this.delete(key, options);
    else this.set(key, value, options);
  }

  /** All keys, or those of a range, a page at a time. Goes on after damaged records and reports them: see {@link DamageOptions}. */
  *keys(options?: IterateOptions & DamageOptions<K>): IterableIterator<K> {
    for (const [key] of this.#records(false, options)) yield this.codec.key(key.subarray(this.start.length));
  }

  /** All records, or those of a range, a page at a time. */
  *entries(options?: IterateOptions & DamageOptions<K>): IterableIterator<[K, Out]> {
    for (const [key, value] of this.#records(true, options)) yield [this.codec.key(key.subarray(this.start.length)), this.codec.decode(value)];
  }

  [Symbol.iterator](): IterableIterator<[K, Out]> {
    return this.entries();
  }

  /** The records whose keys begin with `prefix`. */
  prefix(prefix: Key): SyncView<K, In, Out> {
    return this.as(this.codec, prefix);
  }

  protected as<K2, In2, Out2>(codec: Codec<K2, In2, Out2>, prefix: Key): SyncView<K2, In2, Out2> {
    return new SyncView(this.wasm, codec, this.#full(prefix).slice(), this.durability);
  }

  protected attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (thrown) {
      throw toError(thrown);
    }
  }

  *#records(values: boolean, options: (IterateOptions & DamageOptions<K>) | undefined): IterableIterator<Record> {
    const walk = new Walk(this.start, values, options);
    const damaged = new Damaged(options?.damaged);
    while (!walk.isDone) {
      const met: Damage<K>[] = [];
      const records = walk.take(this.#run((request) => walk.put(request)), (damage) => void met.push(this.#named(damage)));
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

  #commit(writes: readonly Write[], options: SyncSetOptions | undefined): void {
    const living = lasting(writes, options?.ttl);
    this.#write(options, () => this.#run((request) => request.writeMany(living)).written());
  }

  #run(put: (request: RequestWriter) => void): AnswerReader {
    let request;
    try {
      put(writer);
    } finally {
      request = writer.takeBytes();
    }
    return new AnswerReader(this.attempt(() => this.wasm.run(request, NOBODY, 0)));
  }

  #write<T>(options: SyncWriteOptions | undefined, write: () => T): T {
    const durability = options?.durability ?? this.durability;
    checkDurability(durability);
    const result = this.attempt(write);
    if (durability === "strict") this.attempt(() => this.wasm.flush());
    return result;
  }

  #full(key: Key): Uint8Array {
    return joined(this.start, keyBytes(key));
  }
}
