// The engine in this worker: WebAssembly, and a file that is held alone.

import { PipkinError, toError } from "./errors.js";
import { checkSyncHandles, folder, storeFile } from "./files.js";
import type { EngineOptions, Report } from "./types.js";
import { WasmStore, compiled, full as beside, load as initialise, verifyFile } from "./wasm.js";

export { WasmStore, beside, compiled };

/** Another worker that has just ended may hold the file for a while. */
const LOCK_PATIENCE_MS = 10_000;

let loading: Promise<unknown> | undefined;
let isFull = false;

/** Loads the module once. A failed attempt may be made again. */
async function load({ wasm, full }: EngineOptions): Promise<void> {
  if (full && !isFull) loading = undefined;
  isFull ||= full;
  loading ??= initialise(wasm ?? (full ? beside() : undefined));
  try {
    await loading;
  } catch (thrown) {
    loading = undefined;
    isFull = false;
    const policy = /content.security/i.test(String(thrown)) ? "; the policy of the page, and of the script of the worker, has to allow it: `script-src 'wasm-unsafe-eval'`" : "";
    throw new PipkinError("unavailable", `the WebAssembly module could not be loaded: ${String(thrown)}${policy}`, { cause: thrown });
  }
}

/** Opens a store of this origin, or one in memory when that is what was asked for. */
export async function openEngine(name: string, options: EngineOptions): Promise<WasmStore> {
  if (options.memory) {
    await load(options);
    return WasmStore.inMemory(options.segmentSize);
  }
  checkSyncHandles();
  const [directory] = await Promise.all([folder(), load(options)]);
  const until = performance.now() + LOCK_PATIENCE_MS;
  for (let pause = 10; ; pause = Math.min(pause * 2, 200)) {
    try {
      return await WasmStore.open(directory, storeFile(name), options.create, options.cacheBytes, options.segmentSize);
    } catch (thrown) {
      const error = toError(thrown);
      if (error.code !== "locked" || performance.now() > until) throw explained(name, error);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
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

/** Checks a store in a file that nobody has open. */
export async function verifyCopy(file: string): Promise<Report> {
  return (await verifyFile(await folder(), file)) as Report;
}
