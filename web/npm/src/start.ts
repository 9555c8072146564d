// Where the worker and the module come from: two files beside this one. The entry `inline` has its own.

import { PipkinError, toError } from "./errors.js";
import type { EngineOptions } from "./types.js";

export function startWorker(): Worker {
  if (typeof Worker !== "function") throw new PipkinError("unavailable", "there are no workers here; in a worker use the entry `pipkin/sync`");
  try {
    return new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "pipkin" });
  } catch (thrown) {
    throw toError(thrown);
  }
}

/** The module, if the worker does not find it by itself. */
export function wasm(): EngineOptions["wasm"] {
  return undefined;
}
