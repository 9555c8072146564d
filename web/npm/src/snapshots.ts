// The snapshots, transactions and readers of changes that tabs hold in the leader. One whose tab has gone is given up.

import type { WasmStore } from "./engine.js";
import { tabLock } from "./names.js";
import { Turns } from "./turns.js";

export class Snapshots {
  readonly turns = new Turns();
  /** By the tabs that hold them. */
  readonly #held = new Map<string, Set<number>>();
  readonly #ended = new AbortController();

  /** `gone` is called when a tab has ended that holds snapshots. Without a name the store is in memory, and no other tab has it. */
  constructor(private readonly name: string | undefined, private readonly gone: (tab: string) => void) {}

  /** Holds what is about to be taken. */
  hold(snapshot: number, tab: string): void {
    const held = this.#held.get(tab);
    if (held) held.add(snapshot);
    else {
      this.#held.set(tab, new Set([snapshot]));
      void this.#watch(tab);
    }
  }

  giveUp(store: WasmStore, snapshot: number, tab: string): void {
    this.#held.get(tab)?.delete(snapshot);
    this.turns.end(snapshot);
    store.giveUp(snapshot);
  }

  giveUpAll(store: WasmStore, tab: string): void {
    for (const snapshot of this.#held.get(tab) ?? []) this.giveUp(store, snapshot, tab);
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
