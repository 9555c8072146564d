// The script of the dedicated worker that every page starts.

import { PipkinError, pack } from "./errors.js";
import { type SyncHandle, checkSyncHandles, createFile, folder } from "./files.js";
import type { ToPage, ToWorker } from "./protocol.js";
import { Tab } from "./tab.js";

interface Scope {
  postMessage(message: ToPage, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  close(): void;
}

const scope = globalThis as unknown as Scope;
const tell = (message: ToPage, transfer: Transferable[] = []): void => scope.postMessage(message, transfer);

let tab: Tab | undefined;
/** Copies that come in, by the names of their files. */
const copies = new Map<string, SyncHandle>();

scope.onmessage = ({ data }) => {
  if (typeof data === "string" || data instanceof Uint8Array) {
    tab?.operate(data);
    return;
  }
  switch (data.kind) {
    case "open":
      tab = new Tab(data.name, data.options, data.visible, tell);
      tab.open().catch((thrown: unknown) => tell({ kind: "failed", error: pack(thrown) }));
      break;
    case "call":
      tab?.call(data.number, data.call);
      break;
    case "visible":
      tab?.setVisible(data.on);
      break;
    case "listen":
      tab?.setListening(data.on);
      break;
    case "support":
      void answer(0, support);
      break;
    case "copy":
      void answer(data.number, () => writeCopy(data.file, data.bytes));
      break;
    case "leave":
      try {
        tab?.close();
      } finally {
        scope.close();
      }
      break;
    case "close":
      void answer(data.number, () => tab?.close()).then(() => scope.close());
      break;
  }
};

async function answer(number: number, work: () => unknown): Promise<void> {
  try {
    tell({ kind: "answer", answer: { number, value: await work() } });
  } catch (thrown) {
    tell({ kind: "answer", answer: { number, error: pack(thrown) } });
  }
}

async function support(): Promise<void> {
  checkSyncHandles();
  await folder();
}

/** Appends to a copy; without bytes it is finished. */
async function writeCopy(file: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
  let handle = copies.get(file);
  if (!handle) {
    handle = await createFile(file);
    copies.set(file, handle);
  }
  let rest = bytes;
  while (rest.length > 0) {
    // At a full quota browsers throw, or write a part, or nothing.
    const count = handle.write(rest, { at: handle.getSize() });
    if (count === 0) throw new PipkinError("quota", "there is no space for the imported file; the store is as it was");
    rest = rest.subarray(count);
  }
  if (bytes.length === 0) {
    handle.flush();
    handle.close();
    copies.delete(file);
  }
}
