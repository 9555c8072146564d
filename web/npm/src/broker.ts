// A shared worker that introduces followers to their leader. Only such a worker can hand a port from one page to another.

import type { ToBroker } from "./protocol.js";

interface Waiting {
  readonly message: ToBroker;
  readonly port: MessagePort;
}

/** Returns what hears of each page that connects. */
export function broker(): (event: MessageEvent) => void {
  /** The latest of each store. */
  const leaders = new Map<string, { readonly epoch: string; readonly port: MessagePort }>();
  /** Those whose leader has not said a word yet, by their stores and tabs. */
  const waiting = new Map<string, Map<string, Waiting>>();

  function meet(message: ToBroker & { kind: "meet" }, port: MessagePort): void {
    const { name, epoch, tab } = message;
    const leader = leaders.get(name);
    if (leader?.epoch === epoch) return leader.port.postMessage(message, [port]);
    const others = waiting.get(name) ?? new Map<string, Waiting>();
    waiting.set(name, others.set(tab, { message, port }));
  }

  return ({ ports: [tab] }) => {
    if (!tab) return;
    tab.onmessage = ({ data, ports: [port] }: MessageEvent<ToBroker>) => {
      if (data.kind === "lead") {
        leaders.set(data.name, { epoch: data.epoch, port: tab });
        const others = waiting.get(data.name);
        waiting.delete(data.name);
        for (const { message, port } of others?.values() ?? []) if (message.kind === "meet" && message.epoch === data.epoch) meet(message, port);
      } else if (port) {
        meet(data, port);
      }
    };
  };
}
