// Calls of event streams as bytes, and what comes back. `web/src/events.rs` is the other end.

import { Reader } from "./reader.js";
import type { Bytes, Value } from "./types.js";

/** An event to append. */
export interface NewEvent {
  readonly type: string;
  /** Default: none. */
  readonly payload?: Value | undefined;
  /** By which it is found; at most 64. */
  readonly tags?: readonly string[] | undefined;
  /** Bytes beside the payload, at most 60 KiB. */
  readonly metadata?: Value | undefined;
  /** 16 bytes. Two events with one id are the same event: an `append` that is repeated with its ids writes nothing. Default: random. */
  readonly id?: Uint8Array | undefined;
  /** When it happened, in milliseconds as `Date.now()` counts them. Default: now. */
  readonly time?: number | undefined;
}

/** An event as it was appended. */
export interface StoredEvent {
  /** It rises over all events of the store, in the order of their commits. */
  readonly number: number;
  readonly stream: string;
  /** Its place in the stream, from 1 and without gaps. */
  readonly version: number;
  readonly type: string;
  readonly payload: Bytes;
  readonly tags: readonly string[];
  readonly metadata: Bytes;
  readonly id: Bytes;
  readonly time: number;
}

/** What an append has got. */
export interface Appended {
  /** The numbers of its first and its last event. */
  readonly firstNumber: number;
  readonly lastNumber: number;
  /** Of its last event: what the next append to the stream may expect. */
  readonly version: number;
  /** The same events were there already, and nothing was written. */
  readonly repeated: boolean;
}

/** Events of one of these types, if any are named, that have all of these tags. */
export interface QueryItem {
  readonly types?: readonly string[] | undefined;
  readonly tags?: readonly string[] | undefined;
}

/** What a stream is to have in front of an append: anything, never an event, an event, a newest one of this version, or no event that is left: then its versions begin with 1 again. */
export type Expected = "any" | "none" | "exists" | "anew" | number;

/** Which events: of a stream, of one of these items, or all. */
export interface Selected {
  readonly stream?: string | undefined;
  readonly query?: QueryItem | readonly QueryItem[] | undefined;
}

/** What an append depends on. */
export interface Conditions {
  /** Default: `"any"`. */
  readonly expected?: Expected | undefined;
  /** Nothing is appended if an event behind the number `after` matches: what was read before the decision does not count, nor what was removed. */
  readonly unless?: QueryItem | readonly QueryItem[] | undefined;
  /** Default: 0. */
  readonly after?: number | undefined;
}

/** Where a walk begins and ends. */
export interface Walked extends Selected {
  /** The first number; in a stream the first version. Default: the first one there is. */
  readonly from?: number | undefined;
  /** The newest one first, down to `from`. Default: false. */
  readonly reverse?: boolean | undefined;
  /** So many at most. */
  readonly limit?: number | undefined;
}

/** What a store knows about a cursor. */
export interface CursorState {
  readonly name: string;
  /** The event of this number, and all before it, are acknowledged. */
  readonly number: number;
}

/** What a log keeps by itself; without a limit all. */
export interface EventRetention {
  /** Events that are older than so many milliseconds may go, at least 1: the first one that is younger keeps all behind it. */
  readonly maxAge?: number | undefined;
  /** Of more events than this, at least 1, the oldest may go. */
  readonly maxEvents?: number | undefined;
}

/** Kinds of calls. */
export const enum Kind { Append = 1, Ack, Cursor, RemoveCursor, Truncate, KeepLast, RemoveBefore, SetRetention, Retain, Read = 16, Follow, Figures }

/** Throws what says that an argument makes no sense. */
export type Refuse = (why: string) => never;

const NOTHING = new Uint8Array();
const ID = 16;

function itemsOf(query: QueryItem | readonly QueryItem[]): readonly QueryItem[] {
  return Array.isArray(query) ? query : [query as QueryItem];
}

/** Puts a call together. */
export class CallWriter {
  #bytes = new Uint8Array(256);
  #length = 0;

  constructor(kind: Kind, log: string, private readonly refuse: Refuse) {
    this.byte(kind).text(log);
  }

  byte(value: number): this {
    return this.raw(Uint8Array.of(value));
  }

  number(value: number): this {
    const bytes = new Uint8Array(8);
    new DataView(bytes.buffer).setFloat64(0, value, true);
    return this.raw(bytes);
  }

  count(value: number): this {
    return this.raw(Uint8Array.of(value, value >>> 8, value >>> 16, value >>> 24));
  }

  raw(bytes: Uint8Array): this {
    const need = this.#length + bytes.length;
    if (need > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(need, this.#bytes.length * 2));
      grown.set(this.#bytes.subarray(0, this.#length));
      this.#bytes = grown;
    }
    this.#bytes.set(bytes, this.#length);
    this.#length = need;
    return this;
  }

  blob(bytes: Uint8Array): this {
    return this.count(bytes.length).raw(bytes);
  }

  text(text: string): this {
    if (typeof text !== "string" || text.isWellFormed?.() === false) this.refuse("names of logs, streams, types, tags and cursors are strings, without half a character (a lone surrogate)");
    return this.blob(new TextEncoder().encode(text));
  }

  value(value: Value | undefined): this {
    if (value === undefined) return this.blob(NOTHING);
    if (typeof value === "string") return this.text(value);
    if (value instanceof ArrayBuffer) return this.blob(new Uint8Array(value));
    if (value instanceof Uint8Array) return this.blob(value);
    return this.refuse("a payload is a string, a Uint8Array or an ArrayBuffer");
  }

  /** A number of an event, or a version. */
  place(place: number): this {
    if (!(place >= 0) || (place !== Infinity && !Number.isInteger(place))) this.refuse("numbers and versions of events are whole numbers");
    return this.number(place);
  }

  retention({ maxAge, maxEvents }: EventRetention): this {
    for (const limit of [maxAge, maxEvents]) {
      if (limit === undefined || limit === Infinity) this.number(NaN);
      else if (typeof limit === "number" && limit >= 1) this.number(Math.floor(limit));
      else this.refuse("`maxAge` and `maxEvents` are numbers, at least 1");
    }
    return this;
  }

  texts(texts: readonly string[] = []): this {
    this.count(texts.length);
    for (const text of texts) this.text(text);
    return this;
  }

  query(query: QueryItem | readonly QueryItem[]): this {
    const items = itemsOf(query);
    this.count(items.length);
    for (const { types, tags } of items) this.texts(types).texts(tags);
    return this;
  }

  selected({ stream, query }: Selected): this {
    if (stream !== undefined && query !== undefined) this.refuse("`stream` or `query`, not both");
    if (stream !== undefined) return this.byte(1).text(stream);
    return query === undefined ? this.byte(0) : this.byte(2).query(query);
  }

  append(stream: string, events: readonly NewEvent[], { expected = "any", unless, after = 0 }: Conditions): this {
    const named = { any: -1, exists: -2, anew: -3, none: 0 };
    this.text(stream);
    if (typeof expected === "number") this.place(expected);
    else this.number(named[expected] ?? this.refuse('`expected` is "any", "none", "exists", "anew" or a version'));
    if (unless === undefined) this.byte(0);
    else this.byte(1).query(unless).place(after);
    this.count(events.length);
    for (const { type, payload, tags, metadata, id, time } of events) {
      if (id !== undefined && !(id instanceof Uint8Array && id.length === ID)) this.refuse("an id is a Uint8Array of 16 bytes");
      if (time !== undefined && !(time >= 0)) this.refuse("`time` is a number of milliseconds since 1970");
      this.raw(id ?? crypto.getRandomValues(new Uint8Array(ID))).number(time ?? NaN).text(type).value(payload).value(metadata).texts(tags);
    }
    return this;
  }

  take(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }
}

/** One page of events. */
export interface EventPage {
  readonly isAtEnd: boolean;
  /** Where the next page begins. */
  readonly behind: number;
  readonly events: StoredEvent[];
}

const decoder = new TextDecoder();

function texts(reader: Reader): string[] {
  return Array.from({ length: reader.number() }, () => decoder.decode(reader.blob()));
}

function eventOf(reader: Reader): StoredEvent {
  const [number, version, stream, id, time] = [reader.cursor(), reader.cursor(), decoder.decode(reader.blob()), reader.position().slice() as Bytes, reader.cursor()];
  const [type, payload, metadata] = [decoder.decode(reader.blob()), reader.blob().slice() as Bytes, reader.blob().slice() as Bytes];
  return { number, stream, version, type, payload, tags: texts(reader), metadata, id, time };
}

export function pageOf(answer: Uint8Array): EventPage {
  const reader = new Reader(answer);
  const [isAtEnd, behind] = [reader.byte() === 1, reader.cursor()];
  return { isAtEnd, behind, events: Array.from({ length: reader.number() }, () => eventOf(reader)) };
}

export function appendedOf(answer: Uint8Array): Appended {
  const reader = new Reader(answer);
  return { firstNumber: reader.cursor(), lastNumber: reader.cursor(), version: reader.cursor(), repeated: reader.byte() === 1 };
}

export function figuresOf(answer: Uint8Array): { readonly version: number; readonly lastNumber: number; readonly retention: EventRetention; readonly cursors: CursorState[] } {
  const reader = new Reader(answer);
  const limit = (): number | undefined => {
    const limit = reader.cursor();
    return Number.isNaN(limit) ? undefined : limit;
  };
  const [version, lastNumber, maxAge, maxEvents] = [reader.cursor(), reader.cursor(), limit(), limit()];
  return { version, lastNumber, retention: { maxAge, maxEvents }, cursors: Array.from({ length: reader.number() }, () => ({ name: decoder.decode(reader.blob()), number: reader.cursor() })) };
}

export const countOf = (answer: Uint8Array): number => new Reader(answer).cursor();
