// The engine in this worker: WebAssembly, and a file that is held alone.

import { PipkinError, toError } from "./errors.js";
import { checkSyncHandles, folder, storeFile } from "./files.js";
import { COMPRESSES, DISABLES, FRONT, type Secret, secretOf } from "./secret.js";
import type { EngineOptions, Level, Report, StoreKey } from "./types.js";
import { WasmStore, beside, checkKey, compiled, load as initialise, verifyFile } from "./wasm.js";

export { WasmStore, beside, compiled };

/** Another worker that has just ended may hold the file for a while. */
const LOCK_PATIENCE_MS = 10_000;

let loading: Promise<unknown> | undefined;
let loaded: Level = 0;

/** Loads the module once. A failed attempt may be made again. */
async function load({ wasm, level }: EngineOptions): Promise<void> {
  if (level > loaded) {
    loading = undefined;
    loaded = level;
  }
  loading ??= initialise(wasm ?? beside(level));
  try {
    await loading;
  } catch (thrown) {
    loading = undefined;
    loaded = 0;
    const policy = /content.security/i.test(String(thrown)) ? "; the policy of the page, and of the script of the worker, has to allow it: `script-src 'wasm-unsafe-eval'`" : "";
    throw new PipkinError("unavailable", `the WebAssembly module could not be loaded: ${String(thrown)}${policy}`, { cause: thrown });
  }
}

/** Opens a store of this origin, or one in memory when that is what was asked for. `isAlone`: another module may take the place of the one that is loaded. */
export async function openEngine(name: string, options: EngineOptions, isAlone = () => true): Promise<WasmStore> {
  if (options.memory) {
    await load(options);
    return WasmStore.inMemory(options.segmentSize);
  }
  checkSyncHandles();
  const [directory] = await Promise.all([folder(), load(options)]);
  const secret = await secretOfStore(options, () => frontOf(storeFile(name)));
  const until = performance.now() + LOCK_PATIENCE_MS;
  for (let pause = 10; ; pause = Math.min(pause * 2, 200)) {
    try {
      return await WasmStore.open(directory, storeFile(name), options.create, options.cacheBytes, options.segmentSize, secret);
    } catch (thrown) {
      const error = toError(thrown);
      // It may be sealed, or its values compressed, which only one module knows.
      if (error.code === "version" && options.level < 2 && !options.wasm && isAlone()) return openEngine(name, { ...options, level: 2 }, isAlone);
      if (error.code === "not-sealed" && options.disableEncryption) return openEngine(name, { ...options, key: undefined, disableEncryption: false }, isAlone);
      if (error.code !== "locked" || performance.now() > until) throw explained(name, error);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

/** What opens the store, with what is asked for beside. */
async function secretOfStore(options: EngineOptions, front: () => Promise<Uint8Array>): Promise<Secret> {
  const [kind, bytes] = await secretOf(options.key, front);
  const asked = (options.compressSealed ? COMPRESSES : 0) | (options.disableEncryption ? DISABLES : 0);
  return [options.key ? kind | asked : kind, bytes];
}

function explained(name: string, error: PipkinError): PipkinError {
  switch (error.code) {
    case "locked":
      return new PipkinError("locked", `the file of "${name}" is held by another worker, or site data was cleared while it was open: close other tabs of this site, or restart the browser`);
    case "missing":
      return new PipkinError("missing", `there is no store "${name}" here; leave out { create: false } to make one`);
    default:
      return error;
  }
}

/** The front of a file; shorter if it is not there. */
export async function frontOf(file: string): Promise<Uint8Array> {
  try {
    const handle = await (await folder()).getFileHandle(file);
    return new Uint8Array(await (await handle.getFile()).slice(0, FRONT).arrayBuffer());
  } catch (thrown) {
    if (toError(thrown).code === "missing") return new Uint8Array();
    throw toError(thrown);
  }
}

/** Checks a store in a file that nobody has open, and that this opens it if it is sealed. */
export async function verifyCopy(file: string, key: StoreKey | undefined): Promise<Report> {
  const secret: Secret = await secretOf(key, () => frontOf(file));
  return (await verifyFile(await folder(), file, secret)) as Report;
}

/** Fails if the key of these options does not open the store that a leader has open, or there is none for one that is sealed. */
export async function checkOptions(options: EngineOptions, front: Uint8Array | undefined): Promise<void> {
  if (!front && options.key && !options.disableEncryption) throw new PipkinError("not-sealed", "a key was given, and the store, which another tab has open, is not sealed: open it without one");
  if (!front) return;
  if (!options.key) throw new PipkinError("key-needed", "the store is sealed: open it with its key, `open(name, { key })`");
  await load(options);
  checkKey(front, await secretOfStore(options, async () => front));
}
