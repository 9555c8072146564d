// Event streams of a store, as a page holds them: loaded when they are first asked for, as the module that knows them is.

import type { AnswerReader } from "./answer.js";
import type { Connection } from "./connection.js";
import type { PipkinError } from "./errors.js";
import { type Appended, CallWriter, type Conditions, type CursorState, type EventPage, type EventRetention, Kind, type NewEvent, type Selected, type StoredEvent, type Walked, appendedOf, countOf, figuresOf, pageOf } from "./events-wire.js";
import { randomNumber } from "./names.js";
import type { Effect } from "./request.js";
import type { Transaction } from "./transaction.js";
import type { CallOptions, Durability, WriteOptions } from "./types.js";

/** What a call is part of. */
export interface InTransaction {
  /** Done in the commit of this transaction: with everything that it writes, or not at all. */
  readonly tx?: Transaction | undefined;
}

const DONE = { done: true, value: undefined } as const;

/** The class of errors is that of the script that has loaded this one. */
type Errors = typeof PipkinError;

/** A log of events: any number of streams, read by stream, by type, by tag, or all of it in one order. */
export class EventLog {
  /** Use `db.events`. */
  constructor(private readonly connection: Connection, readonly name: string, private readonly durability: Durability, private readonly errors: Errors) {
    this.#call(Kind.Figures);
  }

  /**
   * Appends events to a stream as one commit. Rejects as `append-refused` if the stream is not as `expected`, or an event matches `unless`. With `tx` that is
   * found out when the transaction commits, and nothing is returned. `failed` of the error has the checks.
   */
  append(stream: string, events: NewEvent | readonly NewEvent[], options: Conditions & WriteOptions & { readonly tx: Transaction }): Promise<undefined>;
  append(stream: string, events: NewEvent | readonly NewEvent[], options?: Conditions & WriteOptions): Promise<Appended>;
  async append(stream: string, events: NewEvent | readonly NewEvent[], options: Conditions & WriteOptions & InTransaction = {}): Promise<Appended | undefined> {
    const call = this.#call(Kind.Append).append(stream, Array.isArray(events) ? events : [events as NewEvent], options);
    const answer = await this.#write(call, options);
    return options.tx ? undefined : appendedOf(answer);
  }

  /** The version of the newest event of a stream; 0: it has none. */
  async version(stream: string, options?: CallOptions): Promise<number> {
    return figuresOf(await this.#read(this.#call(Kind.Figures).text(stream), options?.signal)).version;
  }

  /** The highest number of any event of the store, of another log, too; 0: there is none. */
  async lastNumber(options?: CallOptions): Promise<number> {
    return figuresOf(await this.#read(this.#call(Kind.Figures).text(""), options?.signal)).lastNumber;
  }

  /** The events that there are when it begins, or some more; fetched a page at a time. Rejects as `corrupt` at a damaged one; go on behind it with `from`. */
  async *read(options: Walked & CallOptions = {}): AsyncIterableIterator<StoredEvent> {
    const { from = 0, reverse = false, limit = Infinity, signal } = options;
    const walk = randomNumber();
    const put = (behind: number, left: number): CallWriter =>
      this.#call(Kind.Read).number(walk).selected(options).byte(reverse ? 1 : 0).place(from).number(behind).place(left);
    put(NaN, limit);
    for (let behind = NaN, left = limit; left > 0; ) {
      const page = pageOf(await this.#read(put(behind, left), signal));
      for (const event of page.events) {
        signal?.throwIfAborted();
        yield event;
      }
      if (page.isAtEnd) return;
      ({ behind } = page);
      left -= page.events.length;
    }
  }

  /** The events behind the number `after`, those that come in future, too, from any tab: each once, in their order, when it has been flushed. Ends by `break`, `return` or the signal. */
  follow(options: Selected & CallOptions & { readonly after?: number | undefined } = {}): EventFollow {
    return new EventFollow(this.connection, (behind) => this.#followed(options, behind), options.after ?? 0, options.signal);
  }

  /**
   * Follows behind what was acknowledged under a name, in an earlier session, too; a new name begins behind the number `after`. Whoever has followed under
   * it before can acknowledge nothing any more: `cursor-taken`.
   */
  async cursor(name: string, options: Selected & CallOptions & { readonly after?: number | undefined } = {}): Promise<EventCursor> {
    const call = this.#call(Kind.Cursor).text(name).selected(options).place(options.after ?? 0);
    const answer = await this.#write(call, options);
    const token = answer.slice(0, 8);
    const follow = new EventFollow(this.connection, (behind) => this.#followed(options, behind), countOf(answer.subarray(8)), options.signal);
    const ack = async (number: number, write: WriteOptions & InTransaction): Promise<void> => {
      await this.#write(this.#call(Kind.Ack).text(name).raw(token).place(number), write);
    };
    return new EventCursor(name, follow, ack);
  }

  /** All cursors, in order. */
  async cursors(options?: CallOptions): Promise<readonly CursorState[]> {
    return figuresOf(await this.#read(this.#call(Kind.Figures).text(""), options?.signal)).cursors;
  }

  /** Forgets a cursor; true if it was there. */
  async removeCursor(name: string, options: WriteOptions = {}): Promise<boolean> {
    return countOf(await this.#write(this.#call(Kind.RemoveCursor).text(name), options)) === 1;
  }

  /** Removes the events of a stream whose versions are below `before`, and says how many there were; the others keep their versions. */
  async truncate(stream: string, before: number, options: WriteOptions = {}): Promise<number> {
    return countOf(await this.#write(this.#call(Kind.Truncate).text(stream).place(before), options));
  }

  /** The same for all but the last events of a stream. */
  async keepLast(stream: string, count: number, options: WriteOptions = {}): Promise<number> {
    return countOf(await this.#write(this.#call(Kind.KeepLast).text(stream).place(count), options));
  }

  /** The same for all events of a stream. Its version stays, unless it begins `"anew"`. */
  deleteStream(stream: string, options?: WriteOptions): Promise<number> {
    return this.truncate(stream, Infinity, options);
  }

  /** Removes the oldest events of the log up to the first one that is not older than this time, and says how many there were. */
  async removeBefore(time: number, options: WriteOptions = {}): Promise<number> {
    return countOf(await this.#write(this.#call(Kind.RemoveBefore).place(Math.floor(time)), options));
  }

  /**
   * Sets which events the log keeps; the file says so from then on. The others are removed with later writes: of those that are too many, up to an eighth is left
   * until then. What was removed does not come back: a limit of age trusts the clock.
   */
  async setRetention(retention: EventRetention, options: WriteOptions = {}): Promise<void> {
    await this.#write(this.#call(Kind.SetRetention).retention(retention), options);
  }

  /** What `setRetention` has set. */
  async retention(options?: CallOptions): Promise<EventRetention> {
    return figuresOf(await this.#read(this.#call(Kind.Figures).text(""), options?.signal)).retention;
  }

  /** Removes at once what the log need not keep, and says how many events that were. */
  async retain(options: WriteOptions = {}): Promise<number> {
    return countOf(await this.#write(this.#call(Kind.Retain), options));
  }

  #call(kind: Kind): CallWriter {
    const refuse = (why: string): never => {
      throw new this.errors("usage", why);
    };
    return new CallWriter(kind, this.name, refuse);
  }

  async #followed(options: Selected & CallOptions, behind: number): Promise<EventPage> {
    return pageOf(await this.#read(this.#call(Kind.Follow).selected(options).place(behind), options.signal));
  }

  #read(call: CallWriter, signal: AbortSignal | undefined): Promise<Uint8Array> {
    return this.#operate(undefined, call.take(), signal);
  }

  #write(call: CallWriter, { durability, signal, tx }: WriteOptions & InTransaction): Promise<Uint8Array> {
    const bytes = call.take();
    if (!tx) return this.#operate(durability ?? this.durability, bytes, signal);
    const { running } = tx;
    const take = (answer: AnswerReader): Uint8Array => answer.value() ?? new Uint8Array();
    return running.write(async () => {
      const answer = await running.operate("relaxed", (request) => request.events(bytes), take, signal);
      running.isWritten = true;
      return answer;
    });
  }

  #operate(effect: Effect, bytes: Uint8Array, signal: AbortSignal | undefined): Promise<Uint8Array> {
    // The answer is a part of the message, which others read, too.
    const take = (answer: AnswerReader): Uint8Array => (answer.value() ?? new Uint8Array()).slice();
    return this.connection.operate(effect, (request) => request.events(bytes), take, signal);
  }
}

/** Events as they come. */
export class EventFollow implements AsyncIterableIterator<StoredEvent> {
  /** Read and not handed out. */
  #events: StoredEvent[] = [];
  #isNews = true;
  #wake: () => void = () => undefined;
  #last: Promise<unknown> = Promise.resolve();
  #number: number;
  #ended: { readonly reason: unknown } | undefined;
  readonly #forget: () => void;

  /** Use `EventLog.follow`. */
  constructor(connection: Connection, private readonly ask: (behind: number) => Promise<EventPage>, private behind: number, signal: AbortSignal | undefined) {
    this.#number = behind;
    const giveUp = (): void => this.#end(signal?.reason);
    const forget = connection.onNews(() => {
      this.#isNews = true;
      this.#wake();
    });
    this.#forget = () => {
      forget();
      signal?.removeEventListener("abort", giveUp);
    };
    signal?.addEventListener("abort", giveUp);
    if (signal?.aborted) giveUp();
  }

  /** The number of the last event that it has handed out. */
  get number(): number {
    return this.#number;
  }

  next(): Promise<IteratorResult<StoredEvent, undefined>> {
    const next = this.#last.then(() => this.#next());
    this.#last = next.catch(() => undefined);
    return next;
  }

  /** Ends it, also while a call of `next` waits. */
  async return(): Promise<IteratorResult<StoredEvent, undefined>> {
    this.#end(DONE);
    return DONE;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #next(): Promise<IteratorResult<StoredEvent, undefined>> {
    for (;;) {
      if (this.#ended) return this.#over(this.#ended.reason);
      const event = this.#events.shift();
      if (event) {
        this.#number = event.number;
        return { done: false, value: event };
      }
      if (!this.#isNews) await new Promise<void>((resolve) => (this.#wake = resolve));
      else await this.#read();
    }
  }

  async #read(): Promise<void> {
    this.#isNews = false;
    try {
      const page = await this.ask(this.behind);
      this.#isNews ||= !page.isAtEnd;
      this.behind = page.behind;
      this.#events = page.events;
    } catch (thrown) {
      this.#end(thrown);
    }
  }

  #over(reason: unknown): IteratorResult<StoredEvent, undefined> {
    this.#ended = { reason: DONE };
    if (reason === DONE) return DONE;
    throw reason;
  }

  #end(reason: unknown): void {
    if (this.#ended) return;
    this.#ended = { reason };
    this.#events = [];
    this.#forget();
    this.#wake();
  }
}

/** Events behind a cursor that the store keeps. */
export class EventCursor implements AsyncIterable<StoredEvent> {
  /** Use `EventLog.cursor`. */
  constructor(
    readonly name: string, private readonly follow: EventFollow,
    private readonly moved: (number: number, options: WriteOptions & InTransaction) => Promise<void>,
  ) {}

  /**
   * Moves the cursor: this event and all before it do not come again. With `tx` in the commit of the transaction, so that what the events have led to and
   * the note that they were dealt with are both there, or neither. Rejects as `cursor-taken` when another has begun under its name since, or it was removed.
   */
  ack(event: Pick<StoredEvent, "number">, options: WriteOptions & InTransaction = {}): Promise<void> {
    return this.moved(event.number, options);
  }

  /** The next event, when there is one. */
  next(): Promise<IteratorResult<StoredEvent, undefined>> {
    return this.follow.next();
  }

  /** Goes on where the one before has stopped. */
  [Symbol.asyncIterator](): AsyncIterableIterator<StoredEvent> {
    const { follow } = this;
    return { next: () => follow.next(), return: () => Promise.resolve(DONE), [Symbol.asyncIterator]() { return this; } };
  }

  /** Ends it, also while a call of `next` waits. The cursor stays in the store. */
  close(): void {
    void this.follow.return();
  }
}
