// One run of a transaction, as its page knows it. What it reads and writes is in the leader.

import type { AnswerReader } from "./answer.js";
import type { Connection } from "./connection.js";
import { PipkinError } from "./errors.js";
import { randomNumber } from "./names.js";
import type { Effect, RequestWriter } from "./request.js";

/** One more than a leader names in a change. */
const NAMED_KEYS = 257;

/** A place in a transaction to go back to. */
export interface Savepoint {
  /** @internal */
  readonly number: number;
  /** @internal */
  readonly keys: number;
  /** @internal */
  readonly isWritten: boolean;
}

export class Running {
  /** Why nothing of it is written, and it can be run again. */
  conflict: PipkinError | undefined;
  readonly #number = randomNumber();
  /** What it has written, for those who hear of changes. */
  readonly #keys: Uint8Array[] = [];
  /** Writes that have not been answered, whether their caller waits or not. */
  readonly #writes = new Set<Promise<unknown>>();
  #failed: { readonly thrown: unknown } | undefined;
  #isEnded = false;
  /** It has written something that is no record of the store. */
  isWritten = false;

  constructor(private readonly connection: Connection) {}

  begin(goesFirst: boolean, signal: AbortSignal | undefined): Promise<void> {
    return this.connection.call({ method: "begin", snapshot: this.#number, goesFirst }, signal);
  }

  /** Carries an operation out in the transaction. */
  async operate<T>(effect: Effect, put: (request: RequestWriter) => void, take: (answer: AnswerReader) => T, signal?: AbortSignal): Promise<T> {
    const there = (request: RequestWriter): void => {
      if (this.#isEnded) throw new PipkinError("closed", "the transaction has ended: wait in its function for all that it does");
      request.in(this.#number);
      put(request);
    };
    try {
      return await this.connection.operate(effect, there, take, signal);
    } catch (thrown) {
      throw this.#met(thrown);
    }
  }

  /** Does what writes. A failed write fails the transaction, also if nobody waits for it. */
  write<T>(work: () => Promise<T>): Promise<T> {
    const written = work();
    this.#writes.add(written);
    written.catch((thrown: unknown) => void (this.#failed ??= { thrown })).then(() => this.#writes.delete(written));
    return written;
  }

  async savepoint(): Promise<Savepoint> {
    const number = randomNumber();
    await this.#place(number, false);
    return { number, keys: this.#keys.length, isWritten: this.isWritten };
  }

  async rollbackTo({ number, keys, isWritten }: Savepoint): Promise<void> {
    await this.#place(number, true);
    this.#keys.length = keys;
    this.isWritten = isWritten;
  }

  /** Behind what was written before. */
  async #place(number: number, goesBack: boolean): Promise<void> {
    await this.#written();
    await this.operate("relaxed", (request) => request.place(number, goesBack), (answer) => answer.written());
  }

  async #written(): Promise<void> {
    while (this.#writes.size > 0) await Promise.allSettled(this.#writes);
  }

  note(key: Uint8Array): void {
    if (this.#keys.length < NAMED_KEYS) this.#keys.push(key);
  }

  async commit(effect: Effect, signal: AbortSignal | undefined): Promise<void> {
    await this.#written();
    this.#isEnded = true;
    if (this.#failed) throw this.#failed.thrown;
    if (this.conflict) throw this.conflict;
    if (this.#keys.length === 0 && !this.isWritten) return;
    try {
      await this.connection.operate(effect, (request) => request.commit(this.#number, this.#keys), (answer) => void answer.written(), signal);
    } catch (thrown) {
      if (thrown instanceof PipkinError && thrown.code === "conflict") this.conflict = thrown;
      throw thrown;
    }
  }

  /** Nobody waits for that: without a word of it, it ends with its tab. */
  end(): void {
    this.#isEnded = true;
    void this.connection.call({ method: "giveUp", snapshot: this.#number }).catch(() => undefined);
  }

  /** Nothing is written before the commit, so nothing is unknown: a page that was frozen has lost it. */
  #met(thrown: unknown): unknown {
    if (!(thrown instanceof PipkinError)) return thrown;
    if (thrown.code === "conflict") this.conflict = thrown;
    else if (thrown.code === "outcome-unknown") this.conflict = new PipkinError("conflict", "the transaction has gone with the worker of the page", { cause: thrown });
    else return thrown;
    return this.conflict;
  }
}
