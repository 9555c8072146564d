// The files of the stores: one folder of the origin, one file a store, and files that only exist while a store is copied.

import { PipkinError, toError } from "./errors.js";
import { hint } from "./place.js";

const FOLDER = "pipkin";

export const storeFile = (name: string): string => `${name}.pipkin`;

/** A copy on its way in or out, made for one tab. */
export const copyFile = (name: string, tab: string): string => `${name}.pipkin~${tab}`;

/** The tab that a copy was made for, if the file is a copy of this store. */
export function tabOfCopy(name: string, file: string): string | undefined {
  const start = `${storeFile(name)}~`;
  return file.startsWith(start) ? file.slice(start.length) : undefined;
}

/** The folder of all stores of this origin. */
export async function folder(): Promise<FileSystemDirectoryHandle> {
  // Every browser has one, in every kind of thread.
  const here = typeof globalThis.isSecureContext === "boolean" ? undefined : hint();
  if (here) throw new PipkinError("unavailable", here);
  if (!globalThis.isSecureContext) {
    throw new PipkinError("unavailable", "a browser gives files only to secure pages: serve this one over https or from localhost");
  }
  if (typeof navigator.storage?.getDirectory !== "function") {
    throw new PipkinError("unavailable", "this browser has no origin private file system; it takes Chrome 102, Firefox 111 or Safari 15.2");
  }
  try {
    const root = await navigator.storage.getDirectory();
    return await root.getDirectoryHandle(FOLDER, { create: true });
  } catch (thrown) {
    const { name } = thrown as Error;
    if (name === "SecurityError" || name === "UnknownError") {
      throw new PipkinError("unavailable", "the browser refuses its storage to this page, as it does in private windows", { cause: thrown });
    }
    throw toError(thrown);
  }
}

/** Whether the file of a store has gone, as it does when a person clears the data of the site. Does not make the folder again. */
export async function isGone(file: string): Promise<boolean> {
  try {
    const root = await navigator.storage.getDirectory();
    await (await root.getDirectoryHandle(FOLDER)).getFileHandle(file);
    return false;
  } catch (thrown) {
    return (thrown as Error).name === "NotFoundError";
  }
}

/** Says whether synchronous file handles, of which only dedicated workers have any, are there. */
export function checkSyncHandles(): void {
  const prototype = (globalThis as { FileSystemFileHandle?: { prototype: object } }).FileSystemFileHandle?.prototype;
  if (!prototype || !("createSyncAccessHandle" in prototype)) {
    throw new PipkinError("unavailable", hint() ?? "this browser, or this kind of thread, has no synchronous file handles; it takes a dedicated worker of Chrome 108, Firefox 111 or Safari 16.4");
  }
}

/** Removes a file; no matter if it is not there. */
export async function removeFile(folder: FileSystemDirectoryHandle, file: string): Promise<void> {
  try {
    await folder.removeEntry(file);
  } catch (thrown) {
    if ((thrown as Error).name !== "NotFoundError") throw toError(thrown);
  }
}

/** Removes the copies whose tabs have gone. */
export async function removeOldCopies(folder: FileSystemDirectoryHandle, name: string, living?: ReadonlySet<string>): Promise<void> {
  const old: string[] = [];
  for await (const file of folder.keys()) {
    const tab = tabOfCopy(name, file);
    if (tab !== undefined && !living?.has(tab.slice(0, 32))) old.push(file);
  }
  // One that its worker still holds goes the next time.
  await Promise.allSettled(old.map((file) => removeFile(folder, file)));
}

/** Puts a finished copy in the place of a store's file. */
export async function moveCopy(folder: FileSystemDirectoryHandle, copy: string, file: string): Promise<void> {
  const handle = (await folder.getFileHandle(copy)) as FileSystemFileHandle & { move?: (name: string) => Promise<void> };
  if (typeof handle.move !== "function") {
    throw new PipkinError("unavailable", "this browser cannot move files, so it cannot import a store");
  }
  await handle.move(file);
}

/** What is used of a synchronous file handle, which the types of a page's world do not know. */
export interface SyncHandle {
  write(bytes: Uint8Array, options: { at: number }): number;
  truncate(size: number): void;
  getSize(): number;
  flush(): void;
  close(): void;
}

/** A new, empty file. Only in a dedicated worker. */
export async function createFile(file: string): Promise<SyncHandle> {
  const handle = (await (await folder()).getFileHandle(file, { create: true })) as FileSystemFileHandle & {
    createSyncAccessHandle(): Promise<SyncHandle>;
  };
  const opened = await handle.createSyncAccessHandle();
  opened.truncate(0);
  return opened;
}
