// Stands for `start.ts` in the entry `inline`: worker and module are strings of the script itself, so nothing has to be found.

import { module, worker as script } from "pipkin:assets";
import { PipkinError } from "./errors.js";
import { hint, notStarted } from "./place.js";
import type { Working } from "./start.js";
import type { OpenOptions } from "./types.js";

let url: string | undefined;
let bytes: ArrayBuffer | undefined;

export function startWorker({ worker }: Pick<OpenOptions, "worker" | "memory"> = {}): Working {
  if (typeof worker === "function") return worker();
  if (typeof Worker !== "function") throw new PipkinError("unavailable", hint() ?? "there are no workers here");
  url ??= URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  try {
    return new Worker(worker ?? url, { type: "module", name: "pipkin" });
  } catch (thrown) {
    throw notStarted(thrown);
  }
}

/** A string of one page is no script that others could share: tabs talk by broadcasts. */
export function startBroker(_: Pick<OpenOptions, "worker">): SharedWorker | undefined {
  return undefined;
}

/** The worker compiles it: pages may not compile that much at once. */
export function wasm(): ArrayBuffer {
  bytes ??= Uint8Array.from(atob(module), (unit) => unit.charCodeAt(0)).buffer;
  return bytes;
}
