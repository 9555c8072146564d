// A walk over many records, a page at a time: over all of them in no order, or over a range in the order of the keys.

import type { AnswerReader, Record } from "./answer.js";
import { PipkinError } from "./errors.js";
import type { Bound, RequestWriter } from "./request.js";
import { type Damage, type IterateOptions, type Key, keyBytes } from "./types.js";

const NONE: Bound = { kind: 0 };

export class Walk {
  #isDone: boolean;
  /** So many records more are wanted. */
  #left: number;
  /** Where the next page begins when there is no order. */
  #from = 0;
  /** Between these the next pages lie when there is one. */
  #start: Bound | undefined;
  #end: Bound;
  readonly #reverse: boolean;
  /** Offsets of damage that has been reported. */
  readonly #met = new Set<number>();

  constructor(private readonly prefix: Uint8Array, private readonly values: boolean, options: IterateOptions | undefined) {
    const { gte, gt, lte, lt, ordered, reverse = false, limit = Infinity } = options ?? {};
    if (!(limit >= 0) || (limit !== Infinity && !Number.isInteger(limit))) throw new PipkinError("usage", "`limit` is a whole number of records");
    this.#left = limit;
    this.#isDone = limit < 1;
    if ((gte !== undefined && gt !== undefined) || (lte !== undefined && lt !== undefined)) {
      throw new PipkinError("usage", "a range has one beginning and one end: give `gte` or `gt`, and `lte` or `lt`");
    }
    // The caller may fill the buffer of a bound again while the walk goes on.
    const bound = (kind: 1 | 2, key: Key): Bound => ({ kind, key: joined(prefix, keyBytes(key)).slice() });
    this.#reverse = reverse;
    if (gt !== undefined) this.#start = bound(2, gt);
    else if (gte !== undefined || lte !== undefined || lt !== undefined || ordered || reverse) this.#start = bound(1, gte ?? "");
    if (lte !== undefined) this.#end = bound(1, lte);
    else if (lt !== undefined) this.#end = bound(2, lt);
    else this.#end = endOf(prefix);
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /** Asks for the next page. */
  put(request: RequestWriter): void {
    if (this.#start) request.range(this.values, this.#reverse, this.#start, this.#end);
    else request.page(this.#from, this.values, this.prefix);
  }

  /** Takes the next page; keys and values are parts of the message. Calls `damaged` for records that cannot be read. */
  take(answer: AnswerReader, damaged: (damage: Damage<Uint8Array>) => void): readonly Record[] {
    const { next, records, damage } = answer.page(this.values);
    const last = records.at(-1);
    this.#left -= records.length;
    this.#isDone = next < 0 || this.#left < 1;
    this.#from = next;
    if (this.#start && last) {
      const rest: Bound = { kind: 2, key: last[0].slice() };
      if (this.#reverse) this.#end = rest;
      else this.#start = rest;
    }
    for (const one of damage) {
      // Damage of unknown keys comes with every page of an ordered walk.
      if (!this.#met.has(one.offset)) damaged(one);
      this.#met.add(one.offset);
    }
    return this.#left < 0 ? records.slice(0, this.#left) : records;
  }
}

export function joined(prefix: Uint8Array, key: Uint8Array): Uint8Array {
  if (prefix.length === 0) return key;
  const full = new Uint8Array(prefix.length + key.length);
  full.set(prefix);
  full.set(key, prefix.length);
  return full;
}

/** Behind all keys with a prefix: the last byte that can be is counted up. */
function endOf(prefix: Uint8Array): Bound {
  const last = prefix.findLastIndex((byte) => byte < 0xff);
  if (last < 0) return NONE;
  const key = prefix.slice(0, last + 1);
  key[last] = (key[last] ?? 0) + 1;
  return { kind: 2, key };
}
