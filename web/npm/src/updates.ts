// Updates of one key by many callers of a page: one after the other, each on what the one before has made, and together one message.

import type { AnswerReader } from "./answer.js";
import type { Effect, RequestWriter } from "./request.js";

type Bytes = Uint8Array | undefined;

/** Who sends an operation and takes its answer. */
interface Operating {
  operate<T>(effect: Effect, put: (request: RequestWriter) => void, take: (answer: AnswerReader) => T, signal?: AbortSignal): Promise<T>;
}

interface Update {
  /** What becomes of the value. */
  readonly next: (old: Bytes) => Bytes | Promise<Bytes>;
  readonly effect: Effect;
  readonly ttl: number | undefined;
  readonly signal: AbortSignal | undefined;
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
  isBegun: boolean;
}

/** So many bytes of values at most wait together for their answer, with one more value. */
const ROUND_BYTES = 1024 * 1024;

export class Updates {
  /** By the key, with a character for each byte. */
  readonly #waiting = new Map<string, Update[]>();

  constructor(private readonly connection: Operating) {}

  add(key: Uint8Array, next: Update["next"], effect: Effect, ttl: number | undefined, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const name = Array.from(key, (byte) => String.fromCharCode(byte)).join("");
      // Once it has begun the swap itself hears of it.
      const giveUp = (): void => void (update.isBegun || reject(signal?.reason));
      const settled = (): void => signal?.removeEventListener("abort", giveUp);
      const update: Update = { next, effect, ttl, signal, resolve: () => (settled(), resolve()), reject: (reason) => (settled(), reject(reason)), isBegun: false };
      signal?.addEventListener("abort", giveUp);
      const waiting = this.#waiting.get(name);
      if (waiting) return void waiting.push(update);
      this.#waiting.set(name, [update]);
      void this.#run(name, key);
    });
  }

  async #run(name: string, key: Uint8Array): Promise<void> {
    const waiting = this.#waiting.get(name) ?? [];
    try {
      while (waiting.length > 0) await this.#round(key, waiting);
    } catch (thrown) {
      for (const { reject } of waiting) reject(thrown);
    } finally {
      this.#waiting.delete(name);
    }
  }

  /** One read, and a swap for each. When somebody else has come in between, they are tried again. */
  async #round(key: Uint8Array, waiting: Update[]): Promise<void> {
    let old: Bytes = await this.connection.operate(undefined, (request) => request.get(key), (answer) => answer.value()?.slice());
    const swaps: Promise<unknown>[] = [];
    const again: Update[] = [];
    for (let bytes = 0; bytes < ROUND_BYTES; ) {
      const update = waiting.shift();
      if (!update) break;
      const { next, effect, ttl, signal, resolve, reject } = update;
      if (signal?.aborted && !update.isBegun) continue;
      update.isBegun = true;
      try {
        signal?.throwIfAborted();
        const made = next(old);
        const value = made instanceof Promise ? await made : made;
        const expected = old;
        const swap = this.connection.operate(effect, (request) => request.swap(key, expected, value, value && ttl), (answer) => answer.written(), signal);
        swaps.push(swap.then((fits) => (fits ? resolve() : void again.push(update)), reject));
        // The caller may fill the buffer again.
        old = value?.slice();
        bytes += old?.length ?? 0;
      } catch (thrown) {
        reject(thrown);
      }
    }
    await Promise.all(swaps);
    waiting.unshift(...again);
  }
}
