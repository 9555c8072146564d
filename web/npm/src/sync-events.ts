// Event streams for code that runs in a worker already: what `event-log.ts` is to a page, without promises.

import { AnswerReader } from "./answer.js";
import { PipkinError, toError } from "./errors.js";
import type { WasmStore } from "./engine.js";
import { type Appended, CallWriter, type Conditions, type CursorState, type EventRetention, Kind, type NewEvent, type StoredEvent, type Walked, appendedOf, countOf, figuresOf, pageOf } from "./events-wire.js";
import { randomNumber } from "./names.js";
import { RequestWriter } from "./request.js";
import { type Durability, type SyncWriteOptions, checkDurability } from "./types.js";

const NOBODY = new Uint8Array();
const writer = new RequestWriter();

function refuse(why: string): never {
  throw new PipkinError("usage", why);
}

/** A log of events. */
export class SyncEventLog {
  /** Use `db.events`. */
  constructor(private readonly wasm: WasmStore, readonly name: string, private readonly durability: Durability) {
    this.#call(Kind.Figures);
  }

  /** Appends events to a stream as one commit. Throws `append-refused` if the stream is not as `expected`, or an event matches `unless`. */
  append(stream: string, events: NewEvent | readonly NewEvent[], options: Conditions & SyncWriteOptions = {}): Appended {
    return appendedOf(this.#write(this.#call(Kind.Append).append(stream, Array.isArray(events) ? events : [events as NewEvent], options), options));
  }

  /** The version of the newest event of a stream; 0: it has none. */
  version(stream: string): number {
    return figuresOf(this.#read(this.#call(Kind.Figures).text(stream))).version;
  }

  /** The highest number of any event of the store; 0: there is none. */
  lastNumber(): number {
    return figuresOf(this.#read(this.#call(Kind.Figures).text(""))).lastNumber;
  }

  /** The events that there are; read a page at a time. */
  *read(options: Walked = {}): IterableIterator<StoredEvent> {
    const { from = 0, reverse = false, limit = Infinity } = options;
    const walk = randomNumber();
    for (let behind = NaN, left = limit; left > 0; ) {
      const call = this.#call(Kind.Read).number(walk).selected(options).byte(reverse ? 1 : 0).place(from).number(behind).place(left);
      const page = pageOf(this.#read(call));
      yield* page.events;
      if (page.isAtEnd) return;
      ({ behind } = page);
      left -= page.events.length;
    }
  }

  /** All cursors, in order. A page acknowledges by them. */
  cursors(): readonly CursorState[] {
    return figuresOf(this.#read(this.#call(Kind.Figures).text(""))).cursors;
  }

  /** Removes the events of a stream whose versions are below `before`, and says how many there were. */
  truncate(stream: string, before: number, options: SyncWriteOptions = {}): number {
    return countOf(this.#write(this.#call(Kind.Truncate).text(stream).place(before), options));
  }

  /** The same for all but the last events of a stream. */
  keepLast(stream: string, count: number, options: SyncWriteOptions = {}): number {
    return countOf(this.#write(this.#call(Kind.KeepLast).text(stream).place(count), options));
  }

  /** The same for all events of a stream. Its version stays, unless it begins `"anew"`. */
  deleteStream(stream: string, options?: SyncWriteOptions): number {
    return this.truncate(stream, Infinity, options);
  }

  /** Removes the oldest events of the log up to the first one that is not older than this time. */
  removeBefore(time: number, options: SyncWriteOptions = {}): number {
    return countOf(this.#write(this.#call(Kind.RemoveBefore).place(Math.floor(time)), options));
  }

  /** Sets which events the log keeps; the others are removed with later writes. */
  setRetention(retention: EventRetention, options: SyncWriteOptions = {}): void {
    this.#write(this.#call(Kind.SetRetention).retention(retention), options);
  }

  /** What `setRetention` has set. */
  retention(): EventRetention {
    return figuresOf(this.#read(this.#call(Kind.Figures).text(""))).retention;
  }

  /** Removes at once what the log need not keep, and says how many events that were. */
  retain(options: SyncWriteOptions = {}): number {
    return countOf(this.#write(this.#call(Kind.Retain), options));
  }

  #call(kind: Kind): CallWriter {
    return new CallWriter(kind, this.name, refuse);
  }

  #read(call: CallWriter): Uint8Array {
    return this.#run(call.take());
  }

  #write(call: CallWriter, { durability = this.durability }: SyncWriteOptions): Uint8Array {
    checkDurability(durability);
    return this.#run(call.take(), durability);
  }

  #run(call: Uint8Array, durability?: Durability): Uint8Array {
    writer.events(call);
    if (durability) writer.setWrites(durability);
    const request = writer.takeBytes();
    try {
      return new AnswerReader(this.wasm.run(request, NOBODY, 0)).value() ?? NOBODY;
    } catch (thrown) {
      throw toError(thrown);
    }
  }
}
