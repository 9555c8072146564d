// What a worker does for its page, message by message.

import { PipkinError, pack } from "./errors.js";
import { type SyncHandle, checkSyncHandles, createFile, folder } from "./files.js";
import type { ToPage, ToWorker } from "./protocol.js";
import { Tab } from "./tab.js";

/** Returns what hears the messages of a page. `tell` answers it, and `end` is called when there is nothing more to do. */
export function servePage(tell: (message: ToPage, transfer?: Transferable[]) => void, end: () => void): (message: ToWorker) => void {
  let tab: Tab | undefined;
  /** Copies that come in, by the names of their files. */
  const copies = new Map<string, SyncHandle>();

  async function answer(number: number, work: () => unknown): Promise<void> {
    try {
      tell({ kind: "answer", answer: { number, value: await work() } });
    } catch (thrown) {
      tell({ kind: "answer", answer: { number, error: pack(thrown) } });
    }
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

  return (message) => {
    if (typeof message === "string" || message instanceof Uint8Array) {
      tab?.operate(message);
      return;
    }
    switch (message.kind) {
      case "open":
        tab = new Tab(message.name, message.options, message.visible, message.page, tell);
        tab.open().catch((thrown: unknown) => tell({ kind: "failed", error: pack(thrown) }));
        break;
      case "call":
        tab?.call(message.number, message.call);
        break;
      case "key":
        tab?.setKey(message.key, message.disableEncryption);
        break;
      case "visible":
        tab?.setVisible(message.on);
        break;
      case "listen":
        tab?.setListening(message.on);
        tab?.setFollowing(message.follows);
        break;
      case "broker":
        tab?.useBroker(message.port);
        break;
      case "meet":
        tab?.meet();
        break;
      case "support":
        void answer(0, support);
        break;
      case "copy":
        void answer(message.number, () => writeCopy(message.file, message.bytes));
        break;
      case "leaving":
        tab?.setLeaving();
        break;
      case "leave":
        try {
          tab?.setLeaving();
          tab?.close();
        } finally {
          end();
        }
        break;
      case "close":
        void answer(message.number, () => tab?.closeAsked()).then(end);
        break;
    }
  };
}

async function support(): Promise<void> {
  checkSyncHandles();
  await folder();
}
