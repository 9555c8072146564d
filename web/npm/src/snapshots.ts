// The snapshots that tabs hold in the leader. One whose tab has gone is given up.

import type { WasmStore } from "./engine.js";
import { tabLock } from "./names.js";
import type { Bytes } from "./types.js";

export class Snapshots {
  /** By the tabs that hold them. */
  readonly #held = new Map<string, Set<number>>();
  readonly #ended = new AbortController();

  /** `gone` is called when a tab has ended that holds snapshots. Without a name the store is in memory, and no other tab has it. */
  constructor(private readonly name: string | undefined, private readonly gone: (tab: string) => void) {}

  take(store: WasmStore, snapshot: number, tab: string): Bytes | undefined {
    const position = store.takeSnapshot(snapshot);
    const held = this.#held.get(tab);
    if (held) held.add(snapshot);
    else {
      this.#held.set(tab, new Set([snapshot]));
      void this.#watch(tab);
    }
    return position;
  }

  giveUp(store: WasmStore, snapshot: number, tab: string): void {
    this.#held.get(tab)?.delete(snapshot);
    store.giveUpSnapshot(snapshot);
  }

  giveUpAll(store: WasmStore, tab: string): void {
    for (const snapshot of this.#held.get(tab) ?? []) store.giveUpSnapshot(snapshot);
    this.#held.delete(tab);
  }

  end(): void {
    this.#ended.abort();
  }

  /** A tab holds a lock as long as it lives. Its worker and this one see the locks of each other: a request has gone by them. */
  async #watch(tab: string): Promise<void> {
    if (this.name === undefined) return;
    const { signal } = this.#ended;
    try {
      await navigator.locks.request(tabLock(this.name, tab), { signal, mode: "shared" }, () => this.gone(tab));
    } catch {
      // This one does not lead any more.
    }
  }
}
