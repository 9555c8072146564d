// The script of the dedicated worker that every page starts, and of the shared one that introduces their workers to each other.

import { broker } from "./broker.js";
import type { ToPage, ToWorker } from "./protocol.js";
import { servePage } from "./serve-page.js";

interface Scope {
  postMessage(message: ToPage, transfer: Transferable[]): void;
  onmessage: ((event: MessageEvent<ToWorker>) => void) | null;
  onconnect?: ((event: MessageEvent) => void) | null;
  close(): void;
}

const scope = globalThis as unknown as Scope;

if ("onconnect" in scope) {
  scope.onconnect = broker();
} else {
  const hear = servePage((message, transfer = []) => scope.postMessage(message, transfer), () => scope.close());
  scope.onmessage = ({ data }) => hear(data);
}
