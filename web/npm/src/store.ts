/// <reference lib="esnext.disposable" preserve="true" />
// An open store, as a page holds it.

import { BYTES, TEXT, jsonCodec, structuredCodec } from "./codec.js";
import type { Connection } from "./connection.js";
import { partsOf } from "./cut.js";
import { PipkinError } from "./errors.js";
import type { EventLog } from "./event-log.js";
import type { Events } from "./events.js";
import { copyFile, folder, removeFile } from "./files.js";
import { positionBytes } from "./follow.js";
import { randomHex } from "./names.js";
import { checkedKey } from "./secret.js";
import { type Bytes, type CallOptions, type CompactReport, type Compression, type CopyOptions, type Durability, type Key, type KeySlot, type PositionState, type Report, type Role, type Rotation, type Segment, type Stats, type StoreKey, type TransactionOptions, type Value, checkedCompression, checkedTtl, valueBytes } from "./types.js";
import { Snapshot } from "./snapshot.js";
import { type Transaction, transact } from "./transaction.js";
import { View } from "./view.js";

/** A copy comes in in pieces of at most this size. */
const PIECE = 1024 * 1024;

export class Store extends View<Bytes, Value, Bytes> {
  constructor(
    connection: Connection,
    durability: Durability,
    /** Where the records live. */
    readonly mode: "opfs" | "memory",
  ) {
    super(connection, BYTES, new Uint8Array(), durability);
  }

  get name(): string {
    return this.connection.name;
  }

  /** Whether this tab has the file open, or asks the one that has. */
  get role(): Role {
    return this.connection.role;
  }

  /** The records of a prefix with text as values. */
  text(prefix: Key = ""): View<string, string, string> {
    return this.as(TEXT, prefix);
  }

  /** The records of a prefix with JSON as values. What they are is for the caller to say, as of `JSON.parse`. */
  json<T = any>(prefix: Key = ""): View<string, T, T> {
    return this.as(jsonCodec<T>(), prefix);
  }

  /** The records of a prefix with all values that `structuredClone` takes: maps, sets, dates, bytes, blobs and files, and what refers to itself. */
  structured<T = any>(prefix: Key = ""): View<string, T, T> {
    return this.as(structuredCodec<T>(), prefix);
  }

  /** Hears of an event until the function that comes back is called. */
  override on<E extends keyof Events>(event: E, listener: (told: Events[E]) => void): () => void {
    return this.connection.on(event, listener);
  }

  /** Has the browser hand everything that was acknowledged to the system, and ask for it to be written out. */
  flush(options?: CallOptions): Promise<void> {
    return this.connection.operate(undefined, (request) => request.flush(), (answer) => answer.flushed(), options?.signal);
  }

  /** Takes a snapshot of the store: it shows what every call has written that has been answered, and of each commit all or nothing. Close it when it has been read. */
  snapshot(options?: CallOptions): Promise<Snapshot> {
    return Snapshot.take(this.connection, options);
  }

  /**
   * Runs `work`, commits what it has written by `tx`, all or nothing, and resolves to what it returned. Nobody, in no tab, comes in between: `work`
   * runs again when others have written what it had read, or the tab that leads has gone; each run begins anew. If it throws, nothing is written,
   * and that is what this rejects with. Nobody waits for a transaction.
   */
  transaction<T>(work: (tx: Transaction) => T | Promise<T>, options?: TransactionOptions): Promise<T> {
    return transact(this.connection, work, options?.durability ?? this.durability, options);
  }

  /** The log of events of this name. What knows event streams is loaded when this is first called: see the option `events` of `open`. */
  async events(name: string): Promise<EventLog> {
    const { EventLog } = await import("./event-log.js");
    return new EventLog(this.connection, name, this.durability, PipkinError);
  }

  /** The place of the last commit: 16 bytes that stay valid in this file, here and on every other host. The first one of a session may write. */
  position(options?: CallOptions): Promise<Bytes> {
    return this.connection.call({ method: "position" }, options?.signal);
  }

  /** What the store knows about a position. */
  async stateOf(position: Uint8Array, options?: CallOptions): Promise<PositionState> {
    return this.connection.call({ method: "stateOf", position: positionBytes(position) }, options?.signal);
  }

  /** As `flush`, for everything up to a position; nothing is done if that was flushed. Rejects as `unknown-position` if the store does not contain it. */
  async flushTo(position: Uint8Array, options?: CallOptions): Promise<void> {
    return this.connection.call({ method: "flushTo", position: positionBytes(position) }, options?.signal);
  }

  /**
   * Sets how long the records of this store live whose write does not say, in milliseconds; `Infinity`: for ever. It is kept in the file, and counts
   * for what is written from now on, in all tabs.
   */
  async setDefaultTtl(ttl: number, options?: CallOptions): Promise<void> {
    return this.connection.call({ method: "setDefaultTtl", ttl: checkedTtl(ttl) ?? Infinity }, options?.signal);
  }

  /** How long that is. */
  defaultTtl(options?: CallOptions): Promise<number> {
    return this.connection.call({ method: "defaultTtl" }, options?.signal);
  }

  /**
   * Sets when the values of this store are compressed. It is kept in the file, and counts for what is written or compacted from now on, in all tabs. Every
   * read returns the plain value. Fails as `usage` for a sealed store that was opened without `compressSealed`.
   */
  async setCompression(when: Compression, options?: CallOptions): Promise<void> {
    return this.connection.call({ method: "setCompression", when: checkedCompression(when) ?? "off" }, options?.signal);
  }

  /** When they are compressed. */
  compression(options?: CallOptions): Promise<Compression> {
    return this.connection.call({ method: "compression" }, options?.signal);
  }

  /**
   * Sets the time of the store back to the clock of this machine, after that was wrong; says how many records live again. Otherwise what has expired
   * stays so when the clock is set back. All snapshots end.
   */
  resetClock(options?: CallOptions): Promise<number> {
    return this.connection.call({ method: "resetClock" }, options?.signal);
  }

  /** What opens this store, which is sealed. */
  keySlots(options?: CallOptions): Promise<readonly KeySlot[]> {
    return this.connection.call({ method: "keys" }, options?.signal);
  }

  /** Lets one more key open this store; says which slot it has. At most eight do. */
  async addKey(key: StoreKey, options?: CallOptions): Promise<number> {
    return this.connection.call({ method: "addKey", key: checkedKey(key) ?? key }, options?.signal);
  }

  /**
   * The key of this slot opens the store no more; tabs that were opened with it have to be opened again. Whoever has had it may have kept what it leads to: only `rotateKey`
   * keeps them out of what is written from then on.
   */
  removeKey(slot: number, options?: CallOptions): Promise<void> {
    return this.connection.call({ method: "removeKey", slot }, options?.signal);
  }

  /** Seals everything under a new key, which alone opens the store from then on: this tab goes on with it, others have to be opened again. Copies every record. */
  async rotateKey(key: StoreKey, options?: CallOptions): Promise<Rotation> {
    const next = checkedKey(key) ?? key;
    const rotated = await this.connection.call<Rotation>({ method: "rotateKey", key: next }, options?.signal);
    this.connection.setKey(next);
    return rotated;
  }

  /**
   * Seals this plain store, which holds what it holds and from then on is opened with `key` alone: this tab goes on with it, others have to be opened again. Copies every
   * record, and overwrites what is left of the plain ones. What the browser or a backup keeps of those is beyond that. Where the module that knows sealed stores
   * has to be loaded first, snapshots end.
   */
  async enableEncryption(key: StoreKey, options?: CallOptions): Promise<Rotation> {
    const next = checkedKey(key) ?? key;
    const enabled = await this.connection.call<Rotation>({ method: "enableEncryption", key: next }, options?.signal);
    this.connection.setKey(next);
    return enabled;
  }

  /**
   * Makes this sealed store a plain one, which opens without a key: this tab goes on so, others have to be opened again. Copies every record, and overwrites what is left of the
   * sealed ones and of the keys. If the tab that has the file open ends before that has finished, `open(name, { key, disableEncryption: true })` goes on, and nothing else opens the store.
   */
  async disableEncryption(options?: CallOptions): Promise<Rotation> {
    const disabled = await this.connection.call<Rotation>({ method: "disableEncryption" }, options?.signal);
    this.connection.setKey(undefined, true);
    return disabled;
  }

  /** Goes on with what `rotateKey`, `enableEncryption` or `disableEncryption` could not finish, because a snapshot was held or a tab has ended. Finished, if there is nothing to do. */
  finishKeyRotation(options?: CallOptions): Promise<Rotation> {
    return this.connection.call({ method: "finishKeyRotation" }, options?.signal);
  }

  /** Copies what lives together and gives the rest of the file back. It happens by itself, too, when half of a segment is dead. */
  compact(options?: CallOptions): Promise<CompactReport> {
    return this.connection.call({ method: "compact" }, options?.signal);
  }

  stats(options?: CallOptions): Promise<Stats> {
    return this.connection.call({ method: "stats" }, options?.signal);
  }

  /** What the file is used for, front to back. */
  segments(): Promise<readonly Segment[]> {
    return this.connection.call({ method: "segments" });
  }

  /** Holds every byte that counts against its checksum. */
  verify(options?: CallOptions): Promise<Report> {
    return this.connection.call({ method: "verify" }, options?.signal);
  }

  /**
   * The store as it is when this is called: a file that pipkin opens on every other host. Streamed from the file of the store, without a copy.
   * Removed records give no space back until the stream ends, is cancelled, or is not read for ten seconds; one that is read later goes on, or
   * fails if its bytes have been overwritten meanwhile.
   */
  export(options: CopyOptions = {}): ReadableStream<Bytes> {
    const pieces = this.#pieces(options);
    return new ReadableStream<Bytes>({
      pull: async (controller) => {
        try {
          const { done, value } = await pieces.next();
          if (done) controller.close();
          else controller.enqueue(value);
        } catch (thrown) {
          controller.error(thrown);
        }
      },
      cancel: async () => void (await pieces.return()),
    });
  }

  /** The same as a blob, which is in memory: for a download, or an upload. Rejects with what goes wrong, which `Response` hides. */
  async exportBlob(options: CopyOptions = {}): Promise<Blob> {
    const pieces: Bytes[] = [];
    const reader = this.export(options).getReader();
    for (let next = await reader.read(); !next.done; next = await reader.read()) pieces.push(next.value);
    return new Blob(pieces as Uint8Array<ArrayBuffer>[], { type: "application/octet-stream" });
  }

  /**
   * Takes in a store that was exported, here or natively, in the place of this one: all records or, on an error, none. Every
   * checksum in it is looked at first. A store that holds records is only replaced when that is said.
   */
  async import(source: ReadableStream<Uint8Array> | Blob, options: CopyOptions & { readonly replace?: boolean } = {}): Promise<void> {
    if (this.mode === "memory") throw new PipkinError("unavailable", "a store in memory has no file to import");
    const { signal, progress, replace = false } = options;
    const name = this.#copyName();
    const total = source instanceof Blob ? source.size : undefined;
    const reader = (source instanceof Blob ? source.stream() : source).getReader();
    let done = 0;
    const { tab } = this.connection;
    const put = async (piece: Uint8Array<ArrayBuffer>): Promise<void> => {
      await this.connection.copy(name, piece);
      // The worker that has taken the pieces before went when the page was frozen, and another one would begin anew.
      if (this.connection.tab !== tab) throw new PipkinError("failed", "the page was frozen while it imported; call again");
    };
    try {
      for (;;) {
        signal?.throwIfAborted();
        const { done: ended, value } = await unlessAborted(reader.read(), signal);
        if (ended) break;
        const bytes = valueBytes(value);
        for (let at = 0; at < bytes.length; at += PIECE) {
          const piece = bytes.slice(at, at + PIECE);
          done += piece.length;
          await put(piece);
          progress?.(done, total);
        }
      }
      await put(new Uint8Array());
      await this.connection.call({ method: "install", file: name, replace }, signal);
    } catch (thrown) {
      // A source that has stalled may never be done with it.
      void reader.cancel(thrown).catch(() => undefined);
      // It may be put in place at this moment: the leader has it now, and removes it if nothing comes of it.
      if (thrown instanceof PipkinError && thrown.code === "outcome-unknown") throw thrown;
      // Closes the copy, if it is still open; the store itself was not touched.
      await this.connection.copy(name, new Uint8Array()).catch(() => undefined);
      await folder().then((directory) => removeFile(directory, name)).catch(() => undefined);
      throw thrown;
    }
  }

  /** Whether the browser has agreed to keep the storage of this origin. */
  async persisted(): Promise<boolean> {
    return this.mode === "opfs" && navigator.storage.persisted();
  }

  /** How many bytes this origin takes, and how many it may; of a store in memory nothing is said. */
  async estimate(): Promise<StorageEstimate> {
    return this.mode === "opfs" ? navigator.storage.estimate() : {};
  }

  /** Asks the browser not to delete the storage of this origin when it runs out of space; true if it agrees. */
  async persist(): Promise<boolean> {
    return this.mode === "opfs" && navigator.storage.persist();
  }

  /**
   * Waits for what has left the page and for all operations so far, flushes and closes. What takes several steps and has some left, an
   * `update`, a walk, an import, rejects as `closed`. Another tab that has the store open takes over.
   */
  close(): Promise<void> {
    return this.connection.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async *#pieces({ signal, progress }: CopyOptions): AsyncGenerator<Bytes, void> {
    const copy = `${this.connection.tab}-${randomHex().slice(0, 8)}`;
    try {
      const { length, parts } = partsOf(await this.connection.call<Bytes>({ method: "export", copy }, signal));
      let done = 0;
      for (const part of parts) {
        signal?.throwIfAborted();
        const bytes = part instanceof Uint8Array ? part : await this.connection.call<Bytes>({ method: "piece", copy, place: part }, signal);
        done += bytes.length;
        progress?.(done, length);
        yield bytes;
      }
    } finally {
      // If this does not arrive, the leader ends the export when it has been idle for long.
      await this.connection.call({ method: "export", copy, end: true }).catch(() => undefined);
    }
  }

  #copyName(): string {
    return copyFile(this.name, `${this.connection.tab}-${randomHex().slice(0, 8)}`);
  }
}

/** Waits for `work`, which goes on by itself when the signal says that nobody waits for it any more. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(signal?.reason);
    signal?.addEventListener("abort", giveUp);
    work.finally(() => signal?.removeEventListener("abort", giveUp)).then(resolve, reject);
  });
}
