// Lets a transaction go first that others were faster than again and again: none of them is open beside it.

import { PipkinError } from "./errors.js";

/** So long it waits for those that are open, and others wait for its end. */
const PATIENCE_MS = 500;

export class Turns {
  readonly #open = new Set<number>();
  /** Those that have been asked for and not given up meanwhile. */
  readonly #waiting = new Set<number>();
  #first: { readonly number: number; until: number } | undefined;

  /** Waits until the transaction of that number may begin. */
  async begin(number: number, goesFirst: boolean): Promise<void> {
    this.#waiting.add(number);
    await late(() => !this.#first || performance.now() > this.#first.until);
    if (goesFirst && this.#waiting.has(number)) {
      const first = { number, until: Infinity };
      this.#first = first;
      await late(() => this.#open.size === 0);
      first.until = performance.now() + PATIENCE_MS;
    }
    if (!this.#waiting.delete(number)) throw new PipkinError("closed", "the transaction was given up before it began");
    this.#open.add(number);
  }

  end(number: number): void {
    this.#open.delete(number);
    this.#waiting.delete(number);
    if (this.#first?.number === number) this.#first = undefined;
  }
}

/** Waits until something is so, or for too long. */
async function late(isSo: () => boolean): Promise<void> {
  for (const until = performance.now() + PATIENCE_MS; !isSo() && performance.now() < until; ) await new Promise((resolve) => setTimeout(resolve, 1));
}
