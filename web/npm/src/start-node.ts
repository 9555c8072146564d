// Stands for `start.ts` in Node, where tests of an app run: a store in memory, in the thread of its caller. There are no others.

import { readFileSync } from "node:fs";
import { PipkinError } from "./errors.js";
import { hint } from "./place.js";
import type { ToWorker } from "./protocol.js";
import { servePage } from "./serve-page.js";
import type { Working } from "./start.js";
import type { OpenOptions } from "./types.js";

let bytes: ArrayBuffer | undefined;

export function startWorker({ memory = false }: Pick<OpenOptions, "worker" | "memory"> = {}): Working {
  if (!memory) throw new PipkinError("unavailable", hint() ?? "there is no browser here");
  let isOpen = true;
  const tell = (message: unknown, transfer: Transferable[] = []): void => {
    const data: unknown = structuredClone(message, { transfer });
    queueMicrotask(() => isOpen && worker.onmessage?.call(worker as Worker, { data } as MessageEvent));
  };
  const hear = servePage(tell, () => undefined);
  const worker: Working = {
    onmessage: null,
    onerror: null,
    postMessage: (message: ToWorker, transfer: Transferable[] = []) => {
      const data = structuredClone(message, { transfer });
      queueMicrotask(() => isOpen && hear(data));
    },
    terminate: () => {
      if (isOpen) hear({ kind: "leave" });
      isOpen = false;
    },
  } as Working;
  return worker;
}

/** There are no other tabs. */
export function startBroker(_: Pick<OpenOptions, "worker">): SharedWorker | undefined {
  return undefined;
}

export function wasm(): ArrayBuffer {
  bytes ??= Uint8Array.from(readFileSync(new URL("./pipkin_sealed_bg.wasm", import.meta.url))).buffer;
  return bytes;
}
