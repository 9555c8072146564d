// The engine, a module of WebAssembly: `web/src/exports.rs` is the other end, and wasm-bindgen makes what is between them.
//
// Reads and writes of one key, and packed messages, are calls of numbers: bytes go in through a room in the memory of the module, one behind the other, and come
// out as what stands at `answer`.

import { Store, answer, checkKey as checkFront, failure, initSync, room, verifyFile as verifyOpen } from "../engine/pipkin.js";
import type { SyncHandle } from "./files.js";
import type { Secret } from "./secret.js";
import { type Bytes, type Compression, type Level, type PositionState, WHENS } from "./types.js";

/** Stands for "nothing"; what is less is a failure. */
const NONE = -1;
/** A longer answer is given back when it has been copied. */
const KEPT_MAX = 64 * 1024;
const NO_BYTES = new Uint8Array();
/** In the order of `exports.rs`. */
const STATES: readonly PositionState[] = ["durable", "appended", "compacted", "unknown"];
/** So long are values at most that a message copies anyway. */
const SENT_MAX = 1024;

let whole: WebAssembly.Memory;
/** Values on their way into a message, by their lengths. */
const sent: Bytes[] = [];
/** All of the memory. It moves when it grows. */
let memory = NO_BYTES;

/** Where a module is. A script that is a string has none beside it. */
export function beside(level: Level): URL {
  // Bundlers look for these words.
  if (level === 2) return new URL("pipkin_sealed_bg.wasm", import.meta.url);
  return level === 1 ? new URL("pipkin_full_bg.wasm", import.meta.url) : new URL("pipkin_bg.wasm", import.meta.url);
}

/** Loads the module, in the place of one that was loaded before. */
export async function load(source: string | URL | ArrayBuffer | WebAssembly.Module): Promise<void> {
  ({ memory: whole } = initSync({ module: await compiled(source) }));
  memory = NO_BYTES;
}

export async function compiled(source: string | URL | ArrayBuffer | WebAssembly.Module): Promise<WebAssembly.Module> {
  if (source instanceof WebAssembly.Module) return source;
  if (source instanceof ArrayBuffer) return WebAssembly.compile(source);
  const response = await fetch(source);
  if (!response.ok) throw new Error(`${response.url} answers ${response.status}`);
  // Servers that do not know the type of a module are many.
  const streams = response.headers.get("Content-Type")?.startsWith("application/wasm");
  return streams ? WebAssembly.compileStreaming(response) : WebAssembly.compile(await response.arrayBuffer());
}

/** A part of the memory, until that grows. */
function part(at: number, length: number): Uint8Array {
  if (memory.length === 0) memory = new Uint8Array(whole.buffer);
  return memory.subarray(at, at + length);
}

/** Where so many bytes go that the next call takes. */
function madeRoom(length: number): number {
  const at = room(length);
  if (memory.length === 0) memory = new Uint8Array(whole.buffer);
  return at;
}

/** Puts bytes into the room, and returns how many. */
function put(bytes: Uint8Array): number {
  return putBoth(bytes, NO_BYTES);
}

function putBoth(first: Uint8Array, second: Uint8Array): number {
  const { length } = first;
  const at = madeRoom(length + second.length);
  memory.set(first, at);
  if (second.length > 0) memory.set(second, at + length);
  return length;
}

/** What a call came to, unless it failed. */
function checked(result: number): number {
  if (result >= NONE) return result;
  throw failure();
}

/** The answer of so many bytes that a call has left. */
function taken(result: number): Bytes {
  const length = checked(result);
  const at = answer();
  if (memory.length === 0) memory = new Uint8Array(whole.buffer);
  const bytes = memory.slice(at, at + length);
  if (length > KEPT_MAX) room(0);
  return bytes as Bytes;
}

/** The same of a call that may have found nothing. */
const found = (result: number): Bytes | undefined => (result === NONE ? undefined : taken(result));

const unlessEmpty = (bytes: Uint8Array): Bytes | undefined => (bytes.length > 0 ? (bytes as Bytes) : undefined);

/** Opens a file of a folder. */
async function opened(directory: FileSystemDirectoryHandle, name: string, create: boolean): Promise<SyncHandle> {
  const file = (await directory.getFileHandle(name, { create })) as FileSystemFileHandle & { createSyncAccessHandle(): Promise<SyncHandle> };
  return file.createSyncAccessHandle();
}

/** Verifies the store in a file that is not open, and that this opens it. */
export async function verifyFile(directory: FileSystemDirectoryHandle, name: string, secret: Secret): Promise<unknown> {
  return JSON.parse(verifyOpen(await opened(directory, name, false), ...secret));
}

/** Throws if this does not open the sealed store with this front. */
export function checkKey(front: Uint8Array, secret: Secret): void {
  checkFront(front, ...secret);
}

/** Never collected: what frees one would do so in the memory of the module that was loaded last. */
const all: Store[] = [];

/** One open store. */
export class WasmStore {
  private constructor(private readonly store: Store) {
    all.push(store);
  }

  /** Opens the store in a file, with at most `cache` bytes of it in memory. A new store gets segments of `segment` bytes. */
  static async open(directory: FileSystemDirectoryHandle, name: string, create: boolean, cache: number, segment: number, secret: Secret): Promise<WasmStore> {
    return new WasmStore(Store.open(await opened(directory, name, create), create, cache, segment, ...secret));
  }

  /** A store that ends with this worker. */
  static inMemory(segment: number): WasmStore {
    return new WasmStore(Store.inMemory(segment));
  }

  /** Carries a message out and answers it. One that may come twice has a `client`, of 16 bytes, and its `number` there. */
  run(request: Uint8Array, client: Uint8Array, number: number): Bytes {
    return taken(this.store.run(putBoth(request, client), client.length, number));
  }

  get(key: Uint8Array): Bytes | undefined {
    return found(this.store.get(put(key)));
  }

  /** The same for a key with a character for each byte. The next call may overwrite the answer: it is to be sent at once. */
  getLone(key: string): Bytes | undefined {
    const { length } = key;
    const at = madeRoom(length);
    for (let i = 0; i < length; i++) memory[at + i] = key.charCodeAt(i);
    const result = this.store.get(length);
    if (result < 0 || result > SENT_MAX) return found(result);
    // To make another array takes Chromium half a microsecond.
    const bytes = (sent[result] ??= new Uint8Array(result));
    bytes.set(part(answer(), result));
    return bytes;
  }

  /** Copies the value of a key into the front of `into`, and answers with its length: -1 when there is none. A value that does not fit is not copied. */
  getInto(key: Uint8Array, into: Uint8Array): number {
    const length = checked(this.store.get(put(key)));
    if (length > 0 && length <= into.length) into.set(part(answer(), length));
    if (length > KEPT_MAX) room(0);
    return length;
  }

  set(key: Uint8Array, value: Uint8Array): void {
    checked(this.store.set(putBoth(key, value), value.length));
  }

  /** True if it was there. */
  delete(key: Uint8Array): boolean {
    return checked(this.store.delete(put(key))) === 1;
  }

  has(key: Uint8Array): boolean {
    return checked(this.store.has(put(key))) === 1;
  }

  flush(): void {
    this.store.flush();
  }

  /** Lists or changes what opens a sealed store; see `web/src/secret.rs`. */
  changeKeys(what: number, slot: number, secret: Secret): unknown {
    return JSON.parse(this.store.changeKeys(what, slot, ...secret));
  }

  /** Whether a write or a flush has failed: no more of them are taken until the file is opened again. */
  isPoisoned(): boolean {
    return this.store.isPoisoned();
  }

  compact(): unknown {
    return JSON.parse(this.store.compact());
  }

  stats(): unknown {
    return JSON.parse(this.store.stats());
  }

  segments(): unknown {
    return JSON.parse(this.store.segments());
  }

  verify(): unknown {
    return JSON.parse(this.store.verify());
  }

  /** Describes a copy of the store as it is at this moment: see `cut.ts`. */
  cut(): Bytes {
    return this.store.cut() as Bytes;
  }

  /** Reads bytes of a copy from the file; throws if they have been overwritten. */
  piece(offset: number, length: number, crc: number): Bytes {
    return this.store.piece(offset, length, crc) as Bytes;
  }

  /** Keeps every record in its place while exports are read, or stops doing so. */
  hold(on: boolean): void {
    this.store.hold(on);
  }

  /** Takes the snapshot of that number, unless there is one. Returns its position, if it has one. */
  takeSnapshot(snapshot: number): Bytes | undefined {
    return unlessEmpty(this.store.takeSnapshot(snapshot));
  }

  /** How many records a snapshot has. */
  sizeOfSnapshot(snapshot: number): number {
    return this.store.sizeOfSnapshot(snapshot);
  }

  /** Begins the transaction of that number, unless there is one. */
  begin(transaction: number): void {
    this.store.begin(transaction);
  }

  /** Keeps all changes that are in the file, until that number is given up. */
  keepChanges(number: number): void {
    this.store.keepChanges(number);
  }

  /** Gives a snapshot, a transaction or a reader of changes up. */
  giveUp(number: number): void {
    this.store.giveUp(number);
  }

  position(): Bytes {
    return this.store.position() as Bytes;
  }

  /** The same where it was asked for before; else nothing is written. */
  knownPosition(): Bytes | undefined {
    return unlessEmpty(this.store.knownPosition());
  }

  stateOf(position: Uint8Array): PositionState {
    return STATES[this.store.stateOf(position)] ?? "unknown";
  }

  flushTo(position: Uint8Array): void {
    this.store.flushTo(position);
  }

  setDefaultTtl(ttl: number): void {
    this.store.setDefaultTtl(ttl);
  }

  defaultTtl(): number {
    return this.store.defaultTtl();
  }

  setCompression(when: Compression): void {
    this.store.setCompression(WHENS.indexOf(when));
  }

  compression(): Compression {
    return WHENS[this.store.compression()] ?? "off";
  }

  resetClock(): number {
    return this.store.resetClock();
  }

  /** Forgets the requests of all tabs but the living ones, whose names of 16 bytes stand one behind the other. */
  forgetRequestsOfAllBut(living: Uint8Array): void {
    this.store.forgetRequestsOfAllBut(living);
  }

  /** Flushes, closes the file and gives up its lock. */
  close(): void {
    this.store.close();
  }
}
