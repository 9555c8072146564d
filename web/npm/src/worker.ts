// The script of the dedicated worker that every page starts.

import type { ToPage, ToWorker } from "./protocol.js";
import { servePage } from "./serve-page.js";

interface Scope {
  postMessage(message: ToPage, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  close(): void;
}

const scope = globalThis as unknown as Scope;
const hear = servePage((message, transfer = []) => scope.postMessage(message, transfer), () => scope.close());

scope.onmessage = ({ data }) => hear(data);
