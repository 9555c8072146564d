// What callers hand in and get back.

/** A key: bytes, or text that is taken as UTF-8. At most 64 KiB. */
export type Key = string | Uint8Array;

/** A value: bytes, or text that is taken as UTF-8. */
export type Value = string | Uint8Array | ArrayBuffer;

/** What an acknowledged write has gone through. Under both it survives the end of the tab and of the browser. */
export type Durability =
  /** The browser has taken it. A crash of the system may lose what was written in the last moments. What IndexedDB gives by default. */
  | "relaxed"
  /** The browser has handed it to the system and asked for it to be written out, too. */
  | "strict";

export interface WriteOptions {
  readonly durability?: Durability;
}

export interface OpenOptions {
  /** Of all writes that do not say otherwise. Default: `"relaxed"`. */
  readonly durability?: Durability;
  /** Whether a store that is not there is made. Default: true. */
  readonly create?: boolean;
  /** Memory for blocks of the file, in bytes. Default: 16 MiB. */
  readonly cacheBytes?: number;
  /**
   * Bytes of a segment of a new store: a power of two from 4 KiB to 256 MiB; an existing store keeps its own. The file grows by
   * whole segments, at first by two. Default: 1 MiB.
   */
  readonly segmentSize?: number;
  /** A store that lives in memory and ends with the tab; never chosen unasked. Default: false. */
  readonly memory?: boolean;
  /** Where the WebAssembly module is, if a bundler has moved it. */
  readonly wasm?: string | URL;
}

/** The part of the options that the engine needs, complete. */
export interface EngineOptions {
  readonly create: boolean;
  readonly cacheBytes: number;
  readonly segmentSize: number;
  readonly memory: boolean;
  readonly wasm: string | undefined;
}

const MIB = 1024 * 1024;

export function engineOptions(options: OpenOptions): EngineOptions {
  return {
    create: options.create ?? true,
    cacheBytes: options.cacheBytes ?? 16 * MIB,
    segmentSize: options.segmentSize ?? MIB,
    memory: options.memory ?? false,
    wasm: options.wasm === undefined ? undefined : String(options.wasm),
  };
}

/** Figures about a store; sizes in bytes. */
export interface Stats {
  readonly records: number;
  readonly fileBytes: number;
  readonly liveBytes: number;
  /** What compaction could free. */
  readonly deadBytes: number;
  readonly segments: number;
  readonly freeSegments: number;
  readonly segmentSize: number;
  readonly indexBytes: number;
}

/** What one stretch of the file is used for: records, nothing, or the snapshot of the index. */
export interface Segment {
  readonly use: "log" | "free" | "other";
  readonly bytes: number;
  readonly usedBytes: number;
  readonly liveBytes: number;
}

/** What a check of every byte has found. */
export interface Report {
  readonly records: number;
  readonly bytesChecked: number;
  readonly damage: readonly { readonly offset: number; readonly what: string }[];
}

export interface CompactReport {
  readonly segmentsRetired: number;
  readonly bytesFreed: number;
}

/** Records that were written, in this tab or in another. */
export interface Change {
  /** Their keys; none when there were too many to name: read again what matters to you. */
  readonly keys: readonly Uint8Array[] | undefined;
  /** Whether this tab wrote them. */
  readonly local: boolean;
}

/** Who has the file open: this tab, or another one that this one asks. */
export type Role = "leader" | "follower";

const encoder = new TextEncoder();

export function keyBytes(key: Key): Uint8Array {
  return typeof key === "string" ? encoder.encode(key) : key;
}

export function valueBytes(value: Value): Uint8Array {
  if (typeof value === "string") return encoder.encode(value);
  return value instanceof ArrayBuffer ? new Uint8Array(value) : value;
}
