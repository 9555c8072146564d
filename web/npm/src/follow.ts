// What changes, commit by commit: asked for page by page, of whichever tab leads.

import type { AnswerReader, ChangesPage, PackedCommit } from "./answer.js";
import type { Codec } from "./codec.js";
import type { Connection } from "./connection.js";
import { PipkinError } from "./errors.js";
import { randomNumber } from "./names.js";
import { POSITION, Reader } from "./reader.js";
import type { Bytes, ChangesOptions, Commit, RecordChange } from "./types.js";

/** Kinds of changes. */
const enum Kind { Removed, Stored, StoredFor, Cleared }

const DONE = { done: true, value: undefined } as const;

/** The caller may fill the buffer again. */
export function positionBytes(position: Uint8Array): Bytes {
  if (position instanceof Uint8Array && position.length === POSITION) return position.slice();
  throw new PipkinError("usage", "a position is the Uint8Array of 16 bytes that `position()` gave");
}

/** How far a reader has come: to a position, and over those commits that come again from there. */
class Place {
  /** Of each such commit a number made of what it has changed. */
  #passed: number[] = [];
  /** Of those that come next, though they have been handed out. */
  #again: number[] = [];

  constructor(public after: Uint8Array | undefined) {}

  /** The commits of the next page that are new. */
  take({ isAnew, commits, position }: ChangesPage): PackedCommit[] {
    if (isAnew) {
      this.#again.unshift(...this.#passed);
      this.#passed = [];
    }
    const found = commits.filter((commit) => this.#isNew(commit));
    this.#goTo(position);
    return found;
  }

  #isNew({ position, comesAgain, changes }: PackedCommit): boolean {
    this.#goTo(position);
    const is = comesAgain || this.#again.length > 0 ? numberOf(changes) : 0;
    if (comesAgain) this.#passed.push(is);
    else this.#passed = [];
    const was = this.#again.shift();
    if (was !== undefined && was !== is) throw new PipkinError("unknown-position", "a commit that was handed out before it was flushed has been lost: read what is there, and go on from `position()`");
    return was === undefined;
  }

  #goTo(position: Uint8Array): void {
    if (this.after && position.every((byte, i) => byte === this.after?.[i])) return;
    this.after = position.slice();
    this.#passed = [];
  }
}

/** FNV-1a. */
function numberOf(bytes: Uint8Array): number {
  return bytes.reduce((number, byte) => Math.imul(number ^ byte, 0x01000193), 0x811c9dc5 | 0);
}

export class Follow<K, Out> implements AsyncIterableIterator<Commit<K, Out>> {
  readonly #number = randomNumber();
  readonly #place: Place;
  readonly #appended: boolean;
  readonly #ended = new AbortController();
  readonly #forget: () => void;
  /** Read and not handed out. */
  #commits: PackedCommit[] = [];
  /** Calls wait for the one before. */
  #last: Promise<unknown> = Promise.resolve();
  #page: Promise<ChangesPage> | undefined;
  /** Something may be there that no page has had. */
  #isNews = true;
  #wake: () => void = () => undefined;
  #isOver = false;

  constructor(
    private readonly connection: Connection, private readonly codec: Codec<K, any, Out>, private readonly start: Uint8Array,
    { from, appended = false, signal }: ChangesOptions = {},
  ) {
    this.#place = new Place(from && positionBytes(from));
    this.#appended = appended;
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
    if (from) return;
    // It begins here: in front of what is called next, which another leader may carry out again.
    this.#page = this.#ask();
    this.#page.catch(() => undefined);
    connection.seal();
  }

  next(): Promise<IteratorResult<Commit<K, Out>, undefined>> {
    const next = this.#last.then(() => this.#next());
    this.#last = next.catch(() => undefined);
    return next;
  }

  /** Ends it, also while a call of `next` waits. */
  async return(): Promise<IteratorResult<Commit<K, Out>, undefined>> {
    this.#end(DONE);
    return DONE;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async #next(): Promise<IteratorResult<Commit<K, Out>, undefined>> {
    const { signal } = this.#ended;
    if (this.#isOver) return DONE;
    try {
      for (;;) {
        signal.throwIfAborted();
        const commit = this.#commits.shift();
        if (commit) return { done: false, value: this.#shown(commit) };
        if (!this.#isNews && !this.#page) await new Promise<void>((resolve) => (this.#wake = resolve));
        else await this.#read();
      }
    } catch (thrown) {
      const reason: unknown = signal.aborted ? signal.reason : thrown;
      this.#end(DONE);
      this.#isOver = true;
      if (reason === DONE) return DONE;
      throw reason;
    }
  }

  async #read(): Promise<void> {
    const page = await (this.#page ?? this.#ask());
    this.#page = undefined;
    this.#commits = this.#place.take(page);
    this.#isNews ||= !page.isAtEnd;
  }

  #ask(): Promise<ChangesPage> {
    this.#isNews = false;
    const { after } = this.#place;
    const take = (answer: AnswerReader): ChangesPage => answer.changes();
    return this.connection.operate(undefined, (request) => request.changes(this.#number, this.#appended, after, this.start), take, this.#ended.signal);
  }

  #shown({ position, changes }: PackedCommit): Commit<K, Out> {
    const reader = new Reader(changes);
    const shown: RecordChange<K, Out>[] = [];
    while (!reader.isAtEnd) {
      const kind: Kind = reader.byte();
      if (kind === Kind.Cleared) {
        shown.push({ cleared: true });
        continue;
      }
      const key = this.codec.key(reader.blob().subarray(this.start.length));
      if (kind === Kind.Removed) shown.push({ key, removed: true });
      else {
        const value = this.codec.decode(reader.blob());
        shown.push(kind === Kind.StoredFor ? { key, value, expiresAt: reader.cursor() } : { key, value });
      }
    }
    return { position: position.slice() as Bytes, changes: shown };
  }

  /** Nobody waits for that: without a word of it, it ends with its tab. */
  #end(reason: unknown): void {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort(reason);
    this.#commits = [];
    this.#forget();
    this.#wake();
    void this.connection.call({ method: "giveUp", snapshot: this.#number }).catch(() => undefined);
  }
}
