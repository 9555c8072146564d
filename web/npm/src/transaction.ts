// Transactions: a function that reads and writes as if nobody else did meanwhile, and runs again when somebody was faster.

import { BYTES, type Codec, TEXT, encoded, jsonCodec, structuredCodec } from "./codec.js";
import type { Connection } from "./connection.js";
import { Reads } from "./reads.js";
import { Running, type Savepoint } from "./running.js";
import type { AnswerReader } from "./answer.js";
import { PipkinError } from "./errors.js";
import type { Effect, RequestWriter } from "./request.js";
import { type Bytes, type CallOptions, type Key, type SetOptions, type TransactionOptions, type Value, checkDurability, checkedTtl } from "./types.js";

/** After so many runs the other transactions wait for the next one. */
const BESIDE_OTHERS = 3;

/** The records whose keys begin with a prefix, as a transaction reads and writes them. */
export class TransactionView<K, In, Out> extends Reads<K, Out> {
  /** @internal */
  constructor(connection: Connection, protected override readonly codec: Codec<K, In, Out>, start: Uint8Array, /** @internal */ readonly running: Running) {
    super(connection, codec, start);
  }

  /** Stores a value, when the transaction has ended. What it reads from now on finds it. */
  set(key: Key, value: In, options?: Pick<SetOptions, "ttl">): Promise<void> {
    return this.running.write(async () => {
      const full = this.full(key).slice();
      // Default of the store: the number that is none.
      const ttl = checkedTtl(options?.ttl) ?? NaN;
      const made = encoded(this.codec, value);
      const bytes = made instanceof Promise ? await made : made;
      await this.running.operate("relaxed", (request) => request.writeMany([[full, bytes, ttl]]), (answer) => answer.written());
      this.running.note(full);
    });
  }

  /** Removes a key, when the transaction has ended; true if it was there. So the key counts as read. */
  delete(key: Key): Promise<boolean> {
    return this.running.write(async () => {
      const full = this.full(key).slice();
      const there = await this.running.operate("relaxed", (request) => request.delete(full), (answer) => answer.written());
      if (there) this.running.note(full);
      return there;
    });
  }

  /** Not known here: what a transaction writes lives from its end on. Rejects as `usage`. */
  override expiresAt(_key: Key, _options?: CallOptions): Promise<never> {
    return Promise.reject(new PipkinError("usage", "a transaction does not know when a record expires: ask the store"));
  }

  /** The records whose keys begin with `prefix`. */
  override prefix(prefix: Key): TransactionView<K, In, Out> {
    return this.as(this.codec, prefix);
  }

  protected override as<K2, In2, Out2>(codec: Codec<K2, In2, Out2>, prefix: Key): TransactionView<K2, In2, Out2> {
    return new TransactionView(this.connection, codec, this.full(prefix).slice(), this.running);
  }

  protected override operateToRead<T>(put: (request: RequestWriter) => void, take: (answer: AnswerReader) => T, signal?: AbortSignal): Promise<T> {
    return this.running.operate(undefined, put, take, signal);
  }
}

/** Reads show the store as it was when the transaction began, and what it has written since. Use it until its function has ended. */
export class Transaction extends TransactionView<Bytes, Value, Bytes> {
  /** A place to go back to. Wait for it before the next write. */
  savepoint(): Promise<Savepoint> {
    return this.running.savepoint();
  }

  /**
   * Takes back what was written since a savepoint, in all views of the transaction; what was read since counts as read. The savepoint stays
   * valid, those made after it end: they reject as `usage`, and so does one of another run.
   */
  rollbackTo(savepoint: Savepoint): Promise<void> {
    return this.running.rollbackTo(savepoint);
  }

  /** The records of a prefix with text as values. */
  text(prefix: Key = ""): TransactionView<string, string, string> {
    return this.as(TEXT, prefix);
  }

  /** The records of a prefix with JSON as values. */
  json<T = any>(prefix: Key = ""): TransactionView<string, T, T> {
    return this.as(jsonCodec<T>(), prefix);
  }

  /** The records of a prefix with all values that `structuredClone` takes. */
  structured<T = any>(prefix: Key = ""): TransactionView<string, T, T> {
    return this.as(structuredCodec<T>(), prefix);
  }
}

/** Runs `work` until nobody comes in between, and returns what it returned. */
export async function transact<T>(
  connection: Connection, work: (tx: Transaction) => T | Promise<T>, effect: Effect, { retries = 100, signal }: TransactionOptions = {},
): Promise<T> {
  if (typeof work !== "function" || !(retries >= 0)) throw new PipkinError("usage", "a transaction takes a function, and `retries` is a number of times");
  if (effect !== undefined) checkDurability(effect);
  for (let attempt = 0; ; attempt++) {
    const running = new Running(connection);
    try {
      await running.begin(attempt >= BESIDE_OTHERS, signal);
      const value = await work(new Transaction(connection, BYTES, new Uint8Array(), running));
      await running.commit(effect, signal);
      return value;
    } catch (thrown) {
      if (!running.conflict) throw thrown;
      if (attempt >= retries) throw running.conflict;
    } finally {
      running.end();
    }
  }
}
