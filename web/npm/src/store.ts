/// <reference lib="esnext.disposable" preserve="true" />
// An open store, as a page holds it.

import { BYTES, TEXT, jsonCodec, structuredCodec } from "./codec.js";
import type { Connection } from "./connection.js";
import { PipkinError } from "./errors.js";
import type { Events } from "./events.js";
import { copyFile, folder, removeFile } from "./files.js";
import { randomHex } from "./names.js";
import { type Bytes, type CallOptions, type CompactReport, type CopyOptions, type Durability, type Key, type Report, type Role, type Segment, type Stats, type Value, valueBytes } from "./types.js";
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

  /** The store as it is at this moment: a file that pipkin opens on every other host. Takes its size again while it is read. */
  export(options: CopyOptions = {}): ReadableStream<Bytes> {
    const name = this.#copyName();
    const { signal, progress } = options;
    let reader: ReadableStreamDefaultReader<Bytes> | undefined;
    let [done, total] = [0, 0];
    const end = async (): Promise<void> => removeFile(await folder(), name);
    return new ReadableStream<Bytes>({
      pull: async (controller) => {
        try {
          signal?.throwIfAborted();
          if (!reader) {
            const file = await this.#exported(name, signal);
            total = file.size;
            reader = file.stream().getReader();
          }
          const piece = await reader.read();
          done += piece.value?.length ?? 0;
          if (!piece.done) {
            progress?.(done, total);
            return controller.enqueue(piece.value);
          }
          await end();
          controller.close();
        } catch (thrown) {
          await reader?.cancel().catch(() => undefined);
          await end().catch(() => undefined);
          controller.error(thrown);
        }
      },
      cancel: async (reason) => {
        // One that is still being made goes when it is there: what is cancelled takes no piece of it.
        if (!reader) return;
        await reader.cancel(reason);
        await end();
      },
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
  persisted(): Promise<boolean> {
    return navigator.storage.persisted();
  }

  /** How many bytes this origin takes, and how many it may. */
  estimate(): Promise<StorageEstimate> {
    return navigator.storage.estimate();
  }

  /** Asks the browser not to delete the storage of this origin when it runs out of space; true if it agrees. */
  persist(): Promise<boolean> {
    return navigator.storage.persist();
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

  async #exported(file: string, signal: AbortSignal | undefined): Promise<File> {
    const made = this.connection.call<void>({ method: "export", file });
    try {
      await unlessAborted(made, signal);
    } catch (thrown) {
      // Nobody stops making it: it goes when it is there.
      made.then(async () => removeFile(await folder(), file)).catch(() => undefined);
      throw thrown;
    }
    const handle = await (await folder()).getFileHandle(file);
    return handle.getFile();
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
