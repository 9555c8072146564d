// Stands for `start.ts` in the entry `inline`: worker and module are strings of the script itself, so nothing has to be found.

import { module, worker } from "pipkin:assets";
import { PipkinError } from "./errors.js";

let url: string | undefined;
let bytes: ArrayBuffer | undefined;

export function startWorker(): Worker {
  if (typeof Worker !== "function") throw new PipkinError("unavailable", "there are no workers here");
  url ??= URL.createObjectURL(new Blob([worker], { type: "text/javascript" }));
  return new Worker(url, { type: "module", name: "pipkin" });
}

/** The worker compiles it: pages may not compile that much at once. */
export function wasm(): ArrayBuffer {
  bytes ??= Uint8Array.from(atob(module), (unit) => unit.charCodeAt(0)).buffer;
  return bytes;
}
