// What a store tells besides answers.

import { PipkinError, report } from "./errors.js";
import type { Change, Role } from "./types.js";

export interface Events {
  /** Records were written, in this tab or in another. */
  readonly change: Change;
  /** This tab leads now, or follows another one. Changes of the moments before may not have been told. */
  readonly leaderchange: { readonly role: Role };
  /** A call waits, and the tab that has the store open has not answered for seconds: it hangs. */
  readonly blocked: undefined;
  /** A write of this tab was refused, for the storage of the origin is full. */
  readonly quota: { readonly error: PipkinError };
  /** Something failed that no call waits for: writing out relaxed writes, or the worker of the store, which is closed then. */
  readonly error: { readonly error: PipkinError };
}

const EVENTS: Readonly<Record<keyof Events, true>> = { change: true, leaderchange: true, blocked: true, quota: true, error: true };

type Listener<E extends keyof Events> = (event: Events[E]) => void;

export class Emitter {
  readonly #listeners = new Map<keyof Events, Set<Listener<never>>>();

  has(event: keyof Events): boolean {
    return (this.#listeners.get(event)?.size ?? 0) > 0;
  }

  /** The function that comes back takes the listener out again. */
  add<E extends keyof Events>(event: E, listener: Listener<E>): () => void {
    if (!Object.hasOwn(EVENTS, event)) throw new PipkinError("usage", `there is no event "${String(event)}"; there are ${Object.keys(EVENTS).join(", ")}`);
    if (typeof listener !== "function") throw new PipkinError("usage", "a listener is a function");
    const own: Listener<E> = (told) => listener(told);
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(own as Listener<never>));
    return () => void listeners.delete(own as Listener<never>);
  }

  /** A listener that throws is reported, and keeps nobody from hearing. */
  tell<E extends keyof Events>(event: E, told: Events[E]): void {
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      try {
        (listener as Listener<E>)(told);
      } catch (thrown) {
        report(thrown);
      }
    }
  }
}
