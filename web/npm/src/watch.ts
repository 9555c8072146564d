// Notices that the worker of a page has ended, as it does when there is no memory left for it: nothing else tells the page.

import { pageLock, randomHex, tabLock } from "./names.js";

/**
 * The worker holds a lock as long as it lives, and the page waits for that. After the data of the site was cleared, Chromium keeps the locks of a
 * page apart from those of its new workers: so the page holds a lock, too, while the store is opened, and a worker that does not see it is not watched.
 */
export class Watch {
  readonly page = randomHex();
  readonly #ended = new AbortController();
  #letGo: () => void = () => undefined;

  constructor(private readonly name: string) {
    const shown = new Promise<void>((resolve) => (this.#letGo = resolve));
    this.#request(pageLock(name, this.page), "exclusive", () => shown);
  }

  /** The worker of this tab holds its lock, and has looked for that of the page. */
  begin(tab: string, seesPage: boolean, ended: () => void): void {
    this.#letGo();
    if (seesPage) this.#request(tabLock(this.name, tab), "shared", () => void (this.#ended.signal.aborted || ended()));
  }

  end(): void {
    this.#letGo();
    this.#ended.abort();
  }

  #request(lock: string, mode: LockMode, held: () => void | Promise<void>): void {
    // Rejects when nobody waits any more. Where there are no locks, the worker opens no store.
    globalThis.navigator?.locks?.request(lock, { signal: this.#ended.signal, mode }, held).catch(() => undefined);
  }
}
