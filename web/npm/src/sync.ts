// pipkin for code that runs in a dedicated worker already: the same store, without promises.

import { WasmStore, openEngine } from "./engine.js";
import { PipkinError, toError } from "./errors.js";
import { withLock } from "./lock.js";
import { checkName } from "./names.js";
import {
  type CompactReport, type Durability, type Key, type OpenOptions, type Report, type Stats, type Value, type WriteOptions,
  engineOptions, keyBytes, valueBytes,
} from "./types.js";
import { AnswerReader, RequestWriter, type Write } from "./wire.js";

export { PipkinError, type ErrorCode } from "./errors.js";
export type { CompactReport, Durability, Key, OpenOptions, Report, Stats, Value, WriteOptions } from "./types.js";

/** Opens the store of that name for this worker alone; rejects as locked while a page or another worker has it open. */
export async function open(name: string, options: OpenOptions = {}): Promise<SyncStore> {
  checkName(name);
  const engine = engineOptions(options);
  if (engine.memory) return new SyncStore(await openEngine(name, engine), options.durability ?? "relaxed", () => undefined);
  return new Promise((resolve, reject) => {
    const work = async (lock: Lock | null): Promise<void> => {
      if (!lock) throw new PipkinError("locked", `"${name}" is open in another tab or worker; close it there`);
      const wasm = await openEngine(name, engine);
      await new Promise<void>((release) => {
        resolve(new SyncStore(wasm, options.durability ?? "relaxed", release));
      });
    };
    withLock(name, work).catch((thrown: unknown) => reject(toError(thrown)));
  });
}

/** An open store. Every call blocks this worker until it is done. */
export class SyncStore {
  readonly #wasm: WasmStore;
  readonly #durability: Durability;
  readonly #release: () => void;

  /** Use {@link open}. */
  constructor(wasm: WasmStore, durability: Durability, release: () => void) {
    this.#wasm = wasm;
    this.#durability = durability;
    this.#release = release;
  }

  get(key: Key): Uint8Array | undefined {
    return this.#try(() => this.#wasm.get(keyBytes(key)));
  }

  has(key: Key): boolean {
    return this.#try(() => this.#wasm.has(keyBytes(key)));
  }

  set(key: Key, value: Value, options?: WriteOptions): void {
    this.#try(() => this.#wasm.set(keyBytes(key), valueBytes(value)));
    this.#settle(options);
  }

  /** Removes a key; true if it was there. */
  delete(key: Key, options?: WriteOptions): boolean {
    const there = this.#try(() => this.#wasm.delete(keyBytes(key)));
    this.#settle(options);
    return there;
  }

  getMany(keys: Iterable<Key>): (Uint8Array | undefined)[] {
    return this.#run((request) => request.getMany(Array.from(keys, keyBytes))).values();
  }

  /** Stores many records as one commit. */
  setMany(records: Iterable<readonly [Key, Value]>, options?: WriteOptions): void {
    this.#commit(Array.from(records, ([key, value]) => [keyBytes(key), valueBytes(value)]), options);
  }

  /** Stores and removes as one commit what `fill` asks for; nothing if it throws. */
  batch(fill: (batch: { set(key: Key, value: Value): void; delete(key: Key): void }) => void, options?: WriteOptions): void {
    const writes: Write[] = [];
    fill({
      set: (key, value) => void writes.push([keyBytes(key), valueBytes(value)]),
      delete: (key) => void writes.push([keyBytes(key), undefined]),
    });
    this.#commit(writes, options);
  }

  /** Replaces the value of a key by what `next` makes of it; `undefined` removes the key. */
  update(key: Key, next: (old: Uint8Array | undefined) => Value | undefined, options?: WriteOptions): void {
    const value = next(this.get(key));
    if (value === undefined) this.delete(key, options);
    else this.set(key, value, options);
  }

  /** All keys with a prefix, in no order, a page at a time. */
  *keys(prefix: Key = ""): IterableIterator<Uint8Array> {
    for (const [key] of this.#records(false, prefix)) yield key;
  }

  /** All records with a prefix, in no order, a page at a time. */
  *entries(prefix: Key = ""): IterableIterator<[Uint8Array, Uint8Array]> {
    for (const [key, value] of this.#records(true, prefix)) yield [key, value ?? new Uint8Array()];
  }

  flush(): void {
    this.#try(() => this.#wasm.flush());
  }

  compact(): CompactReport {
    return JSON.parse(this.#try(() => this.#wasm.compact())) as CompactReport;
  }

  stats(): Stats {
    return JSON.parse(this.#try(() => this.#wasm.stats())) as Stats;
  }

  verify(): Report {
    return JSON.parse(this.#try(() => this.#wasm.verify())) as Report;
  }

  /** Flushes and closes. */
  close(): void {
    try {
      this.#try(() => this.#wasm.close());
    } finally {
      this.#release();
    }
  }

  *#records(values: boolean, prefix: Key): IterableIterator<readonly [Uint8Array, Uint8Array | undefined]> {
    const start = keyBytes(prefix);
    for (let next = 0; next >= 0; ) {
      const page = this.#run((request) => request.page(next, values, start)).page(values);
      yield* page.records;
      next = page.next;
    }
  }

  #commit(writes: readonly Write[], options: WriteOptions | undefined): void {
    this.#run((request) => request.writeMany(writes)).written();
    this.#settle(options);
  }

  #run(put: (request: RequestWriter) => void): AnswerReader {
    const request = new RequestWriter();
    put(request);
    return new AnswerReader(this.#try(() => this.#wasm.run(request.take())));
  }

  #settle(options: WriteOptions | undefined): void {
    if ((options?.durability ?? this.#durability) === "strict") this.flush();
  }

  #try<T>(work: () => T): T {
    try {
      return work();
    } catch (thrown) {
      throw toError(thrown);
    }
  }
}
