// Records as a caller wants to see them: all of them or those of a prefix, as bytes, text or JSON.

import { type Batch, type Codec, KEYS, RECORDS, type Target, encoded, filled, keeper, listed, target } from "./codec.js";
import type { Connection } from "./connection.js";
import { Follow } from "./follow.js";
import { LiveValue } from "./live.js";
import { Reads } from "./reads.js";
import { type Effect, type Write, lasting } from "./request.js";
import { type Change, type ChangesOptions, type Commit, type Durability, type Key, type Live, type SetOptions, type WriteOptions, checkedTtl } from "./types.js";

/** The records whose keys begin with a prefix, which the view takes away and puts in front again. */
export class View<K, In, Out> extends Reads<K, Out> {
  constructor(
    connection: Connection,
    protected override readonly codec: Codec<K, In, Out>,
    start: Uint8Array,
    protected readonly durability: Durability,
  ) {
    super(connection, codec, start);
    this[target] = { store: connection, full: (key) => this.full(key), encode: codec.encode };
  }

  /** @internal */
  readonly [target]: Target<In>;

  /** Stores a value. */
  set(key: Key, value: In, options?: SetOptions): Promise<void> {
    if (this.codec.mayWait) return this.batch((batch) => batch.set(key, value), options);
    const write = (): Write => [this.full(key), this.codec.encode(value), checkedTtl(options?.ttl)];
    return this.connection.operate(this.#effect(options), (request) => request.write(write()), (answer) => void answer.written(), options?.signal);
  }

  /** Removes a key; true if it was there. Goes through at a full quota, too. */
  delete(key: Key, options?: WriteOptions): Promise<boolean> {
    return this.connection.operate(this.#effect(options), (request) => request.delete(this.full(key)), (answer) => answer.written(), options?.signal);
  }

  /** Lets a record live for ever that would expire; true if there was such a one. */
  keep(key: Key, options?: WriteOptions): Promise<boolean> {
    return this.connection.operate(this.#effect(options), (request) => request.keep(this.full(key)), (answer) => answer.written(), options?.signal);
  }

  /** Stores many records as one commit: after a crash all of them are there or none. */
  async setMany(records: Iterable<readonly [Key, In]>, options?: SetOptions): Promise<void> {
    const kept = keeper(records);
    const list = listed(records, RECORDS);
    if (this.codec.mayWait) return this.batch((batch) => { for (const [key, value] of list) batch.set(key, value); }, options);
    await this.#commit(Array.from(list, ([key, value]) => [kept(this.full(key)), kept(this.codec.encode(value))]), options);
  }

  /** Removes many keys as one commit. */
  async deleteMany(keys: Iterable<Key> & object, options?: WriteOptions): Promise<void> {
    const kept = keeper(keys);
    await this.#commit(Array.from(listed(keys, KEYS), (key) => [kept(this.full(key)), undefined]), options);
  }

  /** Removes the records that are in this view now, as one commit. */
  async clear(options?: WriteOptions): Promise<void> {
    const keys: Uint8Array[] = [];
    for await (const key of this.fullKeys({ signal: options?.signal })) keys.push(key.slice());
    await this.#commit(keys.map((key) => [key, undefined]), options);
  }

  /** Stores and removes as one commit what `fill` asks for; nothing if it throws. With `batch.in(view)` it takes records of other views, too. */
  async batch(fill: (batch: Batch<In>) => void, options?: SetOptions): Promise<void> {
    const writes = filled(fill, this[target]);
    await this.#commit(writes instanceof Promise ? await writes : writes, options);
  }

  /**
   * Replaces the value of a key by what `next` makes of it; `undefined` removes the key. No other writer, in no tab, comes in
   * between: `next` runs again when one of another tab, or a write that is no update, did.
   */
  async update(key: Key, next: (old: Out | undefined) => In | undefined, options?: SetOptions): Promise<void> {
    const made = (old: Uint8Array | undefined): Uint8Array | undefined | Promise<Uint8Array> => {
      const value = next(this.decoded(old));
      return value === undefined ? undefined : encoded(this.codec, value);
    };
    // The caller may fill the buffer again while this waits.
    return this.connection.updates.add(this.full(key).slice(), made, this.#effect(options), checkedTtl(options?.ttl), options?.signal);
  }

  /** Hears of changes of these records, until the function that comes back is called. */
  on(event: "change", listener: (change: Change<K>) => void): () => void {
    return this.connection.on(event, ({ keys, ...rest }) => {
      const own = keys?.filter((key) => this.start.every((byte, i) => key[i] === byte)).map((key) => this.codec.key(key.slice(this.start.length)));
      if (own?.length !== 0) listener({ keys: own, ...rest });
    });
  }

  /**
   * Every commit that changes these records, in order and whole, of all tabs, once it is flushed: from now on, or after a position. None is left out and none
   * comes twice, also when the tab that leads goes. "Now" is the place of this call among those of this tab: what another tab writes comes from the moment
   * on at which any later call of this tab has answered. Waits for the next one until the loop is left, the signal is given, or the store is closed. Rejects as
   * `compacted` when what follows is not kept any more, and as `unknown-position`.
   */
  changes(options?: ChangesOptions): AsyncIterableIterator<Commit<K, Out>> {
    return new Follow(this.connection, this.codec, this.start, options);
  }

  /** The value of a key as it changes: `useSyncExternalStore(subscribe, getSnapshot)` shows it in React. Make it once for a key, as by `useMemo`. */
  live(key: Key): Live<Out> {
    return new LiveValue(this.connection, this.full(key).slice(), this.codec.decode);
  }

  /** The records whose keys begin with `prefix`. */
  override prefix(prefix: Key): View<K, In, Out> {
    return this.as(this.codec, prefix);
  }

  protected override as<K2, In2, Out2>(codec: Codec<K2, In2, Out2>, prefix: Key): View<K2, In2, Out2> {
    return new View(this.connection, codec, this.full(prefix).slice(), this.durability);
  }

  #commit(writes: readonly Write[], options: SetOptions | undefined): Promise<void> {
    const living = lasting(writes, options?.ttl);
    return this.connection.operate(this.#effect(options), (request) => request.writeMany(living), (answer) => void answer.written(), options?.signal);
  }

  #effect(options: WriteOptions | undefined): Effect {
    return options?.durability ?? this.durability;
  }

}
