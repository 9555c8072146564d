// pipkin for a web page.

import "./dispose.js";
import { Connection } from "./connection.js";
import { PipkinError, toError, unpack } from "./errors.js";
import { folder, removeFile, removeOldCopies, storeFile } from "./files.js";
import { withLock } from "./lock.js";
import { checkName } from "./names.js";
import type { ToPage, ToWorker } from "./protocol.js";
import { startWorker, wasm } from "./start.js";
import { Store } from "./store.js";
import { type OpenOptions, engineOptions } from "./types.js";

export { PipkinError, type ErrorCode, type FailedCheck } from "./errors.js";
export { Reads } from "./reads.js";
export type { Savepoint } from "./running.js";
export { Snapshot } from "./snapshot.js";
export { Store } from "./store.js";
export { Transaction, TransactionView } from "./transaction.js";
export { View } from "./view.js";
export type { Batch, Batched } from "./codec.js";
export type { EventCursor, EventFollow, EventLog, InTransaction } from "./event-log.js";
export type { Appended, Conditions, CursorState, EventRetention, Expected, NewEvent, QueryItem, Selected, StoredEvent, Walked } from "./events-wire.js";
export type { Events } from "./events.js";
export type {
  Bytes, CallOptions, Change, ChangesOptions, Commit, CompactReport, Compression, CopyOptions, Damage, DamageOptions, Durability, IterateOptions, Key, KeySlot, Live, OpenOptions, PositionState, RecordChange, Report, Role, Rotation, Segment, SetOptions, Stats, StoreKey, TransactionOptions, Value, WriteOptions,
} from "./types.js";

/**
 * Opens the store of that name, in any number of tabs at once; makes it if there is none.
 *
 * Rejects with a {@link PipkinError} and leaves everything as it was: it never deletes, and never opens an empty store because the
 * one that is there could not be opened.
 */
export async function open(name: string, options: OpenOptions = {}): Promise<Store> {
  checkName(name);
  const connection = await Connection.open(name, engineOptions(options, wasm()), options.worker, options.blocked, options.signal);
  const store = new Store(connection, options.durability ?? "relaxed", options.memory ? "memory" : "opfs");
  if (options.compression) await store.setCompression(options.compression);
  return store;
}

/** Deletes the store of that name for good, and what exports and imports have left of it; rejects as locked while any tab has it open. */
export async function destroy(name: string): Promise<void> {
  checkName(name);
  const directory = await folder();
  if (!navigator.locks) throw new PipkinError("unavailable", "this browser has no Web Locks");
  await withLock(name, async (lock) => {
    if (!lock) throw new PipkinError("locked", `"${name}" is open; close it in every tab first`);
    try {
      await removeFile(directory, storeFile(name));
      await removeOldCopies(directory, name);
    } catch (thrown) {
      throw toError(thrown);
    }
  });
}

/** The names of the stores of this origin. */
export async function list(): Promise<string[]> {
  const names: string[] = [];
  for await (const file of (await folder()).keys()) if (file.endsWith(storeFile(""))) names.push(file.slice(0, -storeFile("").length));
  return names.sort();
}

/** Whether stores can be opened here, and if not, why. */
export async function support(): Promise<{ readonly supported: boolean; readonly reason?: string }> {
  try {
    const worker = startWorker();
    try {
      await new Promise<void>((resolve, reject) => {
        worker.onmessage = ({ data }: MessageEvent<ToPage>) => {
          if (data === null || data instanceof Uint8Array || data.kind !== "answer") return;
          if ("error" in data.answer) reject(unpack(data.answer.error));
          else resolve();
        };
        worker.onerror = () => reject(new PipkinError("unavailable", "the script of the worker could not be loaded"));
        worker.postMessage({ kind: "support" } satisfies ToWorker);
      });
    } finally {
      worker.terminate();
    }
    if (!navigator.locks) throw new PipkinError("unavailable", "this browser has no Web Locks");
    return { supported: true };
  } catch (thrown) {
    return { supported: false, reason: toError(thrown).message };
  }
}
