// Where the worker and the module come from: two files beside this one. The entries `inline` and `node` have their own.

import { PipkinError } from "./errors.js";
import { hint, notStarted } from "./place.js";
import type { EngineOptions, OpenOptions } from "./types.js";

/** What is used of a worker. */
export type Working = Pick<Worker, "postMessage" | "terminate" | "onmessage" | "onerror">;

/** Starts the worker from where the caller says, or from beside this script. */
export function startWorker(options: Pick<OpenOptions, "worker" | "memory"> = {}): Working {
  const { worker } = options;
  if (typeof worker === "function") return worker();
  if (typeof Worker !== "function") throw new PipkinError("unavailable", hint() ?? "there are no workers here; in a worker use the entry `pipkin/sync`");
  try {
    if (worker !== undefined) return new Worker(worker, { type: "module", name: "pipkin" });
    return new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "pipkin" });
  } catch (thrown) {
    throw notStarted(thrown);
  }
}

/** The shared worker that introduces the workers of several tabs to each other. Without one they go on to talk by broadcasts. */
export function startBroker({ worker }: Pick<OpenOptions, "worker">): SharedWorker | undefined {
  if (typeof SharedWorker !== "function" || typeof worker === "function") return undefined;
  try {
    const broker = worker !== undefined
      ? new SharedWorker(worker, { type: "module", name: "pipkin" })
      : new SharedWorker(new URL("./worker.js", import.meta.url), { type: "module", name: "pipkin" });
    broker.onerror = (event) => event.preventDefault();
    return broker;
  } catch {
    return undefined;
  }
}

/** The module, if the worker does not find it by itself. */
export function wasm(): EngineOptions["wasm"] {
  return undefined;
}
