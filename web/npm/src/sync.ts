/// <reference lib="esnext.disposable" preserve="true" />
// pipkin for code that runs in a dedicated worker already: the same records, without promises.

import "./dispose.js";
import { BYTES, TEXT, jsonCodec, structuredCodec } from "./codec.js";
import { type WasmStore, openEngine } from "./engine.js";
import { PipkinError, toError } from "./errors.js";
import { withLock } from "./lock.js";
import { checkName, syncLock } from "./names.js";
import { hint } from "./place.js";
import { SyncEventLog } from "./sync-events.js";
import { SyncView } from "./sync-view.js";
import { type Bytes, type CompactReport, type Compression, type Durability, type EngineOptions, type Key, type Level, type PositionState, type Report, type Segment, type Stats, type SyncOpenOptions, type Value, checkedCompression, checkedTtl, engineOptions } from "./types.js";

export { PipkinError, type ErrorCode, type FailedCheck } from "./errors.js";
export { SyncEventLog } from "./sync-events.js";
export { SyncView } from "./sync-view.js";
export type { Batch, Batched } from "./codec.js";
export type { Appended, Conditions, CursorState, EventRetention, Expected, NewEvent, QueryItem, Selected, StoredEvent, Walked } from "./events-wire.js";
export type {
  Bytes, CompactReport, Compression, Damage, DamageOptions, Durability, IterateOptions, Key, PositionState, Report, Segment, Stats, StoreKey, SyncOpenOptions, SyncSetOptions, SyncWriteOptions, Value,
} from "./types.js";

/** Open stores of this worker: another module cannot take the place of theirs meanwhile. */
let stores = 0;
let loaded: Level = 0;

/** Counts a store that is to be opened, until the function that comes back is called. */
function counted(level: Level): () => void {
  if (level > loaded && stores > 0) throw new PipkinError("usage", "open every store of this worker with { events: true } or { compression }, or with a key if one has it, or close the others first");
  stores++;
  let done = (): void => {
    stores--;
    done = () => undefined;
  };
  return () => done();
}

/** Opens the store of that name for this worker alone; rejects as locked while a page or another worker has it open. */
export async function open(name: string, options: SyncOpenOptions = {}): Promise<SyncStore> {
  checkName(name);
  const engine = engineOptions(options);
  const ended = counted(engine.level);
  try {
    const store = await opened(name, options, engine, ended);
    if (engine.level > loaded) loaded = engine.level;
    if (options.compression) store.setCompression(options.compression);
    return store;
  } catch (thrown) {
    ended();
    throw thrown;
  }
}

async function opened(name: string, options: SyncOpenOptions, engine: EngineOptions, ended: () => void): Promise<SyncStore> {
  if (engine.memory) return new SyncStore(await openEngine(name, engine), options.durability ?? "relaxed", ended);
  const here = hint();
  if (here) throw new PipkinError("unavailable", here);
  return new Promise((resolve, reject) => {
    const work = async (lock: Lock | null): Promise<void> => {
      if (!lock) throw new PipkinError("locked", `"${name}" is open in another tab or worker; close it there`);
      const wasm = await openEngine(name, engine, () => stores === 1);
      // Tells others who it is that answers nobody.
      let close = (): void => undefined;
      void navigator.locks.request(syncLock(name), () => new Promise<void>((end) => (close = end)));
      await new Promise<void>((release) => {
        const close = (): void => {
          ended();
          release();
        };
        resolve(new SyncStore(wasm, options.durability ?? "relaxed", close));
      });
      close();
    };
    withLock(name, work).catch((thrown: unknown) => reject(toError(thrown)));
  });
}

/** An open store. Every call blocks this worker until it is done. */
export class SyncStore extends SyncView<Bytes, Value, Bytes> {
  readonly #release: () => void;

  /** Use {@link open}. */
  constructor(wasm: WasmStore, durability: Durability, release: () => void) {
    super(wasm, BYTES, new Uint8Array(), durability);
    this.#release = release;
  }

  /** The records of a prefix with text as values. */
  text(prefix: Key = ""): SyncView<string, string, string> {
    return this.as(TEXT, prefix);
  }

  /** The records of a prefix with JSON as values. What they are is for the caller to say, as of `JSON.parse`. */
  json<T = any>(prefix: Key = ""): SyncView<string, T, T> {
    return this.as(jsonCodec<T>(), prefix);
  }

  /** The records of a prefix with all values that `structuredClone` takes: maps, sets, dates, bytes, blobs and files, and what refers to itself. */
  structured<T = any>(prefix: Key = ""): SyncView<string, T, T> {
    return this.as(structuredCodec<T>(), prefix);
  }

  /** The log of events of this name. The store was opened with `events`. */
  events(name: string): SyncEventLog {
    return new SyncEventLog(this.wasm, name, this.durability);
  }

  flush(): void {
    this.attempt(() => this.wasm.flush());
  }

  /** The place of the last commit: 16 bytes that stay valid in this file, here and on every other host. The first one of a session may write. */
  position(): Bytes {
    return this.attempt(() => this.wasm.position());
  }

  /** What the store knows about a position. */
  stateOf(position: Uint8Array): PositionState {
    return this.attempt(() => this.wasm.stateOf(position));
  }

  /** As `flush`, for everything up to a position. Throws `unknown-position` if the store does not contain it. */
  flushTo(position: Uint8Array): void {
    this.attempt(() => this.wasm.flushTo(position));
  }

  /** Sets how long records live whose write does not say, in milliseconds; `Infinity`: for ever. It is kept in the file. */
  setDefaultTtl(ttl: number): void {
    this.attempt(() => this.wasm.setDefaultTtl(checkedTtl(ttl) ?? Infinity));
  }

  /** How long that is. */
  defaultTtl(): number {
    return this.attempt(() => this.wasm.defaultTtl());
  }

  /** Sets when values are compressed. It is kept in the file, and counts for what is written or compacted from now on. */
  setCompression(when: Compression): void {
    this.attempt(() => this.wasm.setCompression(checkedCompression(when) ?? "off"));
  }

  /** When they are compressed. */
  compression(): Compression {
    return this.attempt(() => this.wasm.compression());
  }

  /** Sets the time of the store back to the clock of this machine, after that was wrong; says how many records live again. */
  resetClock(): number {
    return this.attempt(() => this.wasm.resetClock());
  }

  compact(): CompactReport {
    return this.attempt(() => this.wasm.compact()) as CompactReport;
  }

  stats(): Stats {
    return this.attempt(() => this.wasm.stats()) as Stats;
  }

  /** What the file is used for, front to back. */
  segments(): readonly Segment[] {
    return this.attempt(() => this.wasm.segments()) as Segment[];
  }

  verify(): Report {
    return this.attempt(() => this.wasm.verify()) as Report;
  }

  /** Flushes and closes. */
  close(): void {
    try {
      this.attempt(() => this.wasm.close());
    } finally {
      this.#release();
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
