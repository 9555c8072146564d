// Calls that are no packed operations, by their numbers. Those of a frozen page wait until it goes on.

import { PipkinError } from "./errors.js";
import type { Told } from "./protocol.js";

interface Calling {
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
  readonly writes: boolean;
  /** What is to be sent when the page goes on; nothing once it has been. */
  held?: Told | undefined;
  done?: Promise<unknown>;
}

export class Calls {
  readonly #calls = new Map<number, Calling>();
  #number = 0;

  /** `send` says whether the message could be sent. Given up by the signal, a call that `writes` is of unknown outcome. */
  make<T>(message: (number: number) => Told, send: (message: Told) => boolean, writes: boolean, signal?: AbortSignal): Promise<T> {
    const number = ++this.#number;
    const done = new Promise<T>((resolve, reject) => {
      const giveUp = (): void => {
        const reason: unknown = signal?.reason;
        const given = this.#calls.get(number)?.held;
        reject(writes && !given ? new PipkinError("outcome-unknown", "the call was given up after it had left", { cause: reason }) : reason);
        this.#calls.delete(number);
      };
      const settled = (): void => signal?.removeEventListener("abort", giveUp);
      const call: Calling = {
        resolve: (value) => (settled(), resolve(value as T)),
        reject: (reason) => (settled(), reject(reason)),
        writes,
      };
      signal?.addEventListener("abort", giveUp);
      this.#calls.set(number, call);
      const made = message(number);
      if (!send(made)) call.held = made;
    });
    const call = this.#calls.get(number);
    if (call) call.done = done;
    return done;
  }

  get areUnderWay(): boolean {
    return this.#calls.size > 0;
  }

  /** When all that were made have been answered. */
  settled(): Promise<unknown> {
    return Promise.allSettled([...this.#calls.values()].map(({ done }) => done));
  }

  /** The call of that number, which is over. */
  take(number: number): Calling | undefined {
    const call = this.#calls.get(number);
    this.#calls.delete(number);
    return call;
  }

  /** What has been sent will not be answered. */
  failSent(error: PipkinError, ofWrites: PipkinError): void {
    for (const [number, { held, reject, writes }] of this.#calls) {
      if (held) continue;
      this.#calls.delete(number);
      reject(writes ? ofWrites : error);
    }
  }

  sendHeld(send: (message: Told) => boolean): void {
    for (const call of this.#calls.values()) if (call.held && send(call.held)) call.held = undefined;
  }

  /** Nothing will be answered any more. */
  fail(error: PipkinError, ofWrites: PipkinError): void {
    for (const { held, reject, writes } of this.#calls.values()) reject(writes && !held ? ofWrites : error);
    this.#calls.clear();
  }
}
