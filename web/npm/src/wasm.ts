// The engine, a module of WebAssembly: `web/src/exports.rs` is the other end. Numbers go in and come out. Bytes go in through a room in the
// memory of the module, one behind the other, and come out as what stands at `answer`.

import { PipkinError, codeOf } from "./errors.js";
import * as host from "./host.js";
import type { Bytes } from "./types.js";

type Numbers = (...numbers: number[]) => number;

interface Exports {
  readonly memory: WebAssembly.Memory;
  readonly room: Numbers;
  readonly answer: Numbers;
  readonly store_open: Numbers;
  readonly store_run: Numbers;
  readonly store_get: Numbers;
  readonly store_set: Numbers;
  readonly store_delete: Numbers;
  readonly store_has: Numbers;
  readonly store_flush: Numbers;
  readonly store_poisoned: Numbers;
  readonly store_compact: Numbers;
  readonly store_stats: Numbers;
  readonly store_segments: Numbers;
  readonly store_verify: Numbers;
  readonly store_cut: Numbers;
  readonly store_piece: Numbers;
  readonly store_hold: Numbers;
  readonly store_forget: Numbers;
  readonly store_close: Numbers;
  readonly verify_file: Numbers;
}

/** Stands for "nothing"; what is less is a failure. */
const NONE = -1;
/** A longer answer is given back when it has been copied. */
const KEPT_MAX = 64 * 1024;
const NO_BYTES = new Uint8Array();
/** So long are values at most that a message copies anyway. */
const SENT_MAX = 1024;

const decoder = new TextDecoder();
let engine: Exports;
/** Values on their way into a message, by their lengths. */
const sent: Bytes[] = [];
/** All of the memory. It moves when it grows. */
let memory = NO_BYTES;

/** Loads the module. */
export async function load(source: string | URL | ArrayBuffer | WebAssembly.Module = new URL("pipkin_bg.wasm", import.meta.url)): Promise<void> {
  const imports = {
    host: {
      file_read: (file: number, at: number, length: number, offset: number) => host.read(file, part(at, length), offset),
      file_write: (file: number, at: number, length: number, offset: number) => host.write(file, part(at, length), offset),
      file_size: host.size,
      file_truncate: host.truncate,
      file_flush: host.flush,
      file_close: host.close,
      thrown_reason: (at: number, length: number) => host.reason(part(at, length)),
    },
  };
  let instance: WebAssembly.Instance;
  if (source instanceof WebAssembly.Module) instance = await WebAssembly.instantiate(source, imports);
  else if (source instanceof ArrayBuffer) ({ instance } = await WebAssembly.instantiate(source, imports));
  else {
    const response = await fetch(source);
    if (!response.ok) throw new Error(`${response.url} answers ${response.status}`);
    // Servers that do not know the type of a module are many.
    const streams = response.headers.get("Content-Type")?.startsWith("application/wasm");
    ({ instance } = await (streams ? WebAssembly.instantiateStreaming(response, imports) : WebAssembly.instantiate(await response.arrayBuffer(), imports)));
  }
  engine = instance.exports as unknown as Exports;
}

/** A part of the memory, until that grows. */
function part(at: number, length: number): Uint8Array {
  if (memory.length === 0) memory = new Uint8Array(engine.memory.buffer);
  return memory.subarray(at >>> 0, (at >>> 0) + length);
}

/** Where so many bytes go that the next call takes. */
function madeRoom(length: number): number {
  const at = engine.room(length) >>> 0;
  if (memory.length === 0) memory = new Uint8Array(engine.memory.buffer);
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
  const [code = 0, ...message] = part(engine.answer(), NONE - result);
  throw new PipkinError(codeOf(code), decoder.decode(Uint8Array.from(message)));
}

/** The answer of so many bytes that a call has left. */
function taken(result: number): Bytes {
  const at = engine.answer() >>> 0;
  if (memory.length === 0) memory = new Uint8Array(engine.memory.buffer);
  const bytes = memory.slice(at, at + checked(result));
  if (bytes.length > KEPT_MAX) engine.room(0);
  return bytes as Bytes;
}

const json = (result: number): unknown => JSON.parse(decoder.decode(taken(result)));

/** Takes in a file of a folder: its number. */
async function opened(directory: FileSystemDirectoryHandle, name: string, create: boolean): Promise<number> {
  const file = (await directory.getFileHandle(name, { create })) as FileSystemFileHandle & { createSyncAccessHandle(): Promise<object> };
  return host.insert(await file.createSyncAccessHandle());
}

/** Verifies the store in a file that is not open. */
export async function verifyFile(directory: FileSystemDirectoryHandle, name: string): Promise<unknown> {
  return json(engine.verify_file(await opened(directory, name, false)));
}

/** One open store. */
export class WasmStore {
  private constructor(private readonly number: number) {}

  /** Opens the store in a file, with at most `cache` bytes of it in memory. A new store gets segments of `segment` bytes. */
  static async open(directory: FileSystemDirectoryHandle, name: string, create: boolean, cache: number, segment: number): Promise<WasmStore> {
    return WasmStore.#of(await opened(directory, name, create), create, cache, segment);
  }

  /** A store that ends with this worker. */
  static inMemory(segment: number): WasmStore {
    return WasmStore.#of(0, true, 0, segment);
  }

  static #of(file: number, create: boolean, cache: number, segment: number): WasmStore {
    put(crypto.getRandomValues(new Uint8Array(32)));
    return new WasmStore(checked(engine.store_open(file, Number(create), cache, segment)));
  }

  /** Carries a message out and answers it. One that may come twice has a `client`, of 16 bytes, and its `number` there. */
  run(request: Uint8Array, client: Uint8Array, number: number): Bytes {
    return taken(engine.store_run(this.number, putBoth(request, client), client.length, number));
  }

  get(key: Uint8Array): Bytes | undefined {
    return this.#taken(engine.store_get(this.number, put(key)));
  }

  /** The same for a key with a character for each byte. The next call may overwrite the answer: it is to be sent at once. */
  getLone(key: string): Bytes | undefined {
    const { length } = key;
    const at = madeRoom(length);
    for (let i = 0; i < length; i++) memory[at + i] = key.charCodeAt(i);
    const found = engine.store_get(this.number, length);
    if (found < 0 || found > SENT_MAX) return this.#taken(found);
    // To make another array takes Chromium half a microsecond.
    const bytes = (sent[found] ??= new Uint8Array(found));
    bytes.set(part(engine.answer(), found));
    return bytes;
  }

  #taken(found: number): Bytes | undefined {
    return found === NONE ? undefined : taken(found);
  }

  /** Copies the value of a key into the front of `into`, and answers with its length: -1 when there is none. A value that does not fit is not copied. */
  getInto(key: Uint8Array, into: Uint8Array): number {
    const length = checked(engine.store_get(this.number, put(key)));
    if (length > 0 && length <= into.length) into.set(part(engine.answer(), length));
    if (length > KEPT_MAX) engine.room(0);
    return length;
  }

  set(key: Uint8Array, value: Uint8Array): void {
    checked(engine.store_set(this.number, putBoth(key, value), value.length));
  }

  /** True if it was there. */
  delete(key: Uint8Array): boolean {
    return checked(engine.store_delete(this.number, put(key))) === 1;
  }

  has(key: Uint8Array): boolean {
    return checked(engine.store_has(this.number, put(key))) === 1;
  }

  flush(): void {
    checked(engine.store_flush(this.number));
  }

  /** Whether a write or a flush has failed: no more of them are taken until the file is opened again. */
  isPoisoned(): boolean {
    return engine.store_poisoned(this.number) === 1;
  }

  compact(): unknown {
    return json(engine.store_compact(this.number));
  }

  stats(): unknown {
    return json(engine.store_stats(this.number));
  }

  segments(): unknown {
    return json(engine.store_segments(this.number));
  }

  verify(): unknown {
    return json(engine.store_verify(this.number));
  }

  /** Describes a copy of the store as it is at this moment: see `cut.ts`. */
  cut(): Bytes {
    return taken(engine.store_cut(this.number));
  }

  /** Reads bytes of a copy from the file; throws if they have been overwritten. */
  piece(offset: number, length: number, crc: number): Bytes {
    return taken(engine.store_piece(this.number, offset, length, crc));
  }

  /** Keeps every record in its place while exports are read, or stops doing so. */
  hold(on: boolean): void {
    checked(engine.store_hold(this.number, Number(on)));
  }

  /** Forgets the requests of all tabs but the living ones, whose names of 16 bytes stand one behind the other. */
  forgetRequestsOfAllBut(living: Uint8Array): void {
    checked(engine.store_forget(this.number, put(living)));
  }

  /** Flushes, closes the file and gives up its lock. */
  close(): void {
    checked(engine.store_close(this.number));
  }
}
