/// <reference lib="esnext.disposable" preserve="true" />
// The store as it was at one moment, as a page holds it.

import { BYTES, TEXT, jsonCodec, structuredCodec } from "./codec.js";
import type { Connection } from "./connection.js";
import { randomNumber } from "./names.js";
import { type Held, Reads } from "./reads.js";
import type { Bytes, CallOptions, Key } from "./types.js";

/** What is written, removed, cleared or compacted later, in whichever tab, changes nothing that a snapshot shows. */
export class Snapshot extends Reads<Bytes, Bytes> {
  private constructor(
    connection: Connection,
    private readonly own: Held,
    /** Of the commit up to which the snapshot shows everything; none if the store had written something and given out no position before. */
    readonly position: Bytes | undefined,
  ) {
    super(connection, BYTES, new Uint8Array(), own);
  }

  /** @internal */
  static async take(connection: Connection, options: CallOptions | undefined): Promise<Snapshot> {
    const held = { number: randomNumber(), isClosed: false };
    try {
      return new Snapshot(connection, held, await connection.call<Bytes | undefined>({ method: "takeSnapshot", snapshot: held.number }, options?.signal));
    } catch (thrown) {
      // It may have been taken by the time that nobody waits for it any more.
      void connection.call({ method: "giveUp", snapshot: held.number }).catch(() => undefined);
      throw thrown;
    }
  }

  /** The records of a prefix with text as values. */
  text(prefix: Key = ""): Reads<string, string> {
    return this.as(TEXT, prefix);
  }

  /** The records of a prefix with JSON as values. */
  json<T = any>(prefix: Key = ""): Reads<string, T> {
    return this.as(jsonCodec<T>(), prefix);
  }

  /** The records of a prefix with all values that `structuredClone` takes. */
  structured<T = any>(prefix: Key = ""): Reads<string, T> {
    return this.as(structuredCodec<T>(), prefix);
  }

  /** How many records there were, without a walk. */
  async size(options?: CallOptions): Promise<number> {
    this.checkOpen();
    return this.connection.call({ method: "sizeOfSnapshot", snapshot: this.own.number }, options?.signal);
  }

  /** Gives the snapshot up: what only it has kept is free again. A tab that ends gives up its own. */
  async close(): Promise<void> {
    if (this.own.isClosed) return;
    this.own.isClosed = true;
    await this.connection.call({ method: "giveUp", snapshot: this.own.number });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
