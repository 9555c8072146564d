// Requests as bytes: any number of calls in one buffer. `web/src/wire.rs` is the other end.

import { PipkinError } from "./errors.js";
import type { Packed } from "./protocol.js";
import { Reader } from "./reader.js";
import { type Bytes, type Durability, checkedTtl } from "./types.js";

const enum Kind { Get = 1, Has, Write, Delete, WriteMany, Swap, GetMany, Page, Flush, Range, At, WriteManyFor, SwapFor, ExpiresAt, Keep, In, Commit, Changes, Events, Savepoint, RollbackTo }

/** A key and its new value, and how long it lives; without a value it is removed. */
export type Write = readonly [key: Uint8Array, value: Uint8Array | undefined, ttl?: number | undefined];

/** Where a range begins or ends: nowhere, with a key or without it. */
export type Bound = { readonly kind: 0 } | { readonly kind: 1 | 2; readonly key: Uint8Array };

/** What an operation changes: nothing, or something that is as durable. */
export type Effect = Durability | undefined;

/** In front of the operations. */
const HEADER = 1;
const DURABLE = 1;
const WRITES = 2;
/** One of the operations asks for changes. For who passes it on. */
const FOLLOWS = 4;
/** One of the operations is for the full module. */
const FULL = 8;
const APPENDED = 1;
const AFTER = 2;

/** What requests are written to begins with this size, and is kept for the next ones up to the other. */
const SCRATCH = 1024;
const SCRATCH_MAX = 64 * 1024;
/** Room for the longest value and more. Of 2 GiB Chromium hands no buffer over. */
const MESSAGE_MAX = 1.5 * 1024 ** 3;
/** Up to here a browser copies a message faster than it hands a buffer over. Sixteen times as much takes it twice as long. */
const COPIED_MAX = 1024;
/** A `get` of a longer key is a message as all others are. */
const LONE_KEY_MAX = 256;

/** Builds a request: a header, then operations. */
export class RequestWriter {
  #bytes = new Uint8Array(SCRATCH);
  #view = new DataView(this.#bytes.buffer);
  #length = HEADER;
  #flags = 0;
  /** The key of the first `get`, if it came as text that has a byte for each character. */
  #text: string | undefined;

  get isEmpty(): boolean {
    return this.#length === HEADER;
  }

  /** Where the next operation begins. */
  get length(): number {
    return this.#length;
  }

  /** One of the operations at least writes. */
  setWrites(durability: Durability): void {
    this.#flags |= WRITES;
    if (durability === "strict") this.#flags |= DURABLE;
  }

  /** The next operation, a read, is one of the snapshot of that number. */
  at(snapshot: number): void {
    this.#byte(Kind.At);
    this.#float(snapshot);
  }

  /** The next operation, a read or a write, is one in the transaction of that number. */
  in(transaction: number): void {
    this.#byte(Kind.In);
    this.#float(transaction);
  }

  /** In a transaction: a place of that number, or what was written behind it is taken back. */
  place(number: number, goesBack: boolean): void {
    this.#byte(goesBack ? Kind.RollbackTo : Kind.Savepoint);
    this.#float(number);
    this.#flags |= FULL;
  }

  /** `keys` are some that it has written. */
  commit(transaction: number, keys: readonly Uint8Array[]): void {
    this.#byte(Kind.Commit);
    this.#float(transaction);
    this.#blobs(keys);
  }

  /** `from` is what the bytes of the key were made of. */
  get(key: Uint8Array, from?: string | Uint8Array): void {
    if (this.isEmpty && typeof from === "string" && from.length === key.length) this.#text = from;
    this.#keyed(Kind.Get, key);
  }

  has(key: Uint8Array): void { this.#keyed(Kind.Has, key); }
  expiresAt(key: Uint8Array): void { this.#keyed(Kind.ExpiresAt, key); }
  keep(key: Uint8Array): void { this.#keyed(Kind.Keep, key); }
  delete(key: Uint8Array): void { this.#keyed(Kind.Delete, key); }
  flush(): void {
    this.#byte(Kind.Flush);
    this.#flags |= DURABLE;
  }

  /** The next page of the reader of that number, `after` a position or from now on. */
  changes(reader: number, appended: boolean, after: Uint8Array | undefined, prefix: Uint8Array): void {
    this.#byte(Kind.Changes);
    this.#float(reader);
    this.#byte((appended ? APPENDED : 0) | (after ? AFTER : 0));
    for (const byte of after ?? []) this.#byte(byte);
    this.#blob(prefix);
    this.#flags |= FOLLOWS;
  }

  /** A call of event streams. */
  events(call: Uint8Array): void {
    this.#keyed(Kind.Events, call);
    this.#flags |= FULL;
  }

  write(write: Write): void {
    if (write[2] !== undefined) return this.writeMany([write]);
    this.#byte(Kind.Write);
    this.#write(write);
  }

  writeMany(writes: readonly Write[]): void {
    const expire = writes.some(([, , ttl]) => ttl !== undefined);
    this.#byte(expire ? Kind.WriteManyFor : Kind.WriteMany);
    this.#number(writes.length);
    for (const write of writes) {
      this.#write(write);
      if (expire) this.#float(write[2] ?? NaN);
    }
  }

  swap(key: Uint8Array, expected: Uint8Array | undefined, next: Uint8Array | undefined, ttl?: number): void {
    this.#byte(ttl === undefined ? Kind.Swap : Kind.SwapFor);
    if (ttl !== undefined) this.#float(ttl);
    this.#blob(key);
    this.#optional(expected);
    this.#optional(next);
  }

  getMany(keys: readonly Uint8Array[]): void {
    this.#byte(Kind.GetMany);
    this.#blobs(keys);
  }

  page(from: number, values: boolean, prefix: Uint8Array): void {
    this.#byte(Kind.Page);
    this.#float(from);
    this.#byte(values ? 1 : 0);
    this.#blob(prefix);
  }

  range(values: boolean, reverse: boolean, start: Bound, end: Bound): void {
    this.#byte(Kind.Range);
    this.#byte((values ? 1 : 0) | (reverse ? 2 : 0));
    this.#bound(start);
    this.#bound(end);
  }

  /** Takes operations out again, those between the places of each pair. */
  cut(parts: readonly (readonly [from: number, to: number])[]): void {
    let at = HEADER;
    let kept = HEADER;
    for (const [from, to] of [...parts, [this.#length, this.#length] as const]) {
      this.#bytes.copyWithin(at, kept, from);
      at += from - kept;
      kept = to;
    }
    this.#length = at;
    this.#text = undefined;
  }

  /** The request; the writer is empty again. */
  take(): Packed {
    const lone = this.#loneKey();
    const taken = lone ?? this.takeBytes();
    this.#length = HEADER;
    this.#text = undefined;
    return taken;
  }

  /** The same, always as bytes. */
  takeBytes(): Bytes {
    this.#bytes[0] = this.#flags;
    const kept = this.#bytes.length <= SCRATCH_MAX;
    const taken = kept ? this.#bytes.slice(0, this.#length) : this.#bytes.subarray(0, this.#length);
    if (!kept) {
      this.#bytes = new Uint8Array(SCRATCH);
      this.#view = new DataView(this.#bytes.buffer);
    }
    this.#length = HEADER;
    this.#flags = 0;
    this.#text = undefined;
    return taken;
  }

  #loneKey(): string | undefined {
    const start = HEADER + 5;
    if (this.#bytes[HEADER] !== Kind.Get || this.#length < start || this.#length > start + LONE_KEY_MAX) return undefined;
    if (this.#view.getUint32(HEADER + 1, true) !== this.#length - start) return undefined;
    if (this.#text !== undefined) return this.#text;
    // Spread out, they would take longer than all of the rest.
    return String.fromCharCode.apply(null, this.#bytes.subarray(start, this.#length) as unknown as number[]);
  }

  #write([key, value]: Write): void {
    this.#byte(value ? 1 : 0);
    this.#blob(key);
    if (value) this.#blob(value);
  }

  #optional(bytes: Uint8Array | undefined): void {
    this.#byte(bytes ? 1 : 0);
    if (bytes) this.#blob(bytes);
  }

  #bound(bound: Bound): void {
    this.#byte(bound.kind);
    if (bound.kind !== 0) this.#blob(bound.key);
  }

  #keyed(kind: Kind, key: Uint8Array): void {
    this.#byte(kind);
    this.#blob(key);
  }

  #byte(value: number): void {
    this.#room(1);
    this.#bytes[this.#length++] = value;
  }

  #float(value: number): void {
    this.#room(8);
    this.#view.setFloat64(this.#length, value, true);
    this.#length += 8;
  }

  #number(value: number): void {
    this.#room(4);
    this.#view.setUint32(this.#length, value, true);
    this.#length += 4;
  }

  #blob(bytes: Uint8Array): void {
    this.#number(bytes.length);
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.#length);
    this.#length += bytes.length;
  }

  #blobs(list: readonly Uint8Array[]): void {
    this.#number(list.length);
    for (const bytes of list) this.#blob(bytes);
  }

  #room(count: number): void {
    const need = this.#length + count;
    if (need <= this.#bytes.length) return;
    if (need > MESSAGE_MAX) throw new PipkinError("usage", "more than 1.5 GiB at once: wait for the calls before");
    const grown = new Uint8Array(Math.min(Math.max(need, this.#bytes.length * 2), MESSAGE_MAX));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}

/** The writes, of which those live for this time that do not say. */
export function lasting(writes: readonly Write[], ttl: number | undefined): readonly Write[] {
  checkedTtl(ttl);
  return ttl === undefined ? writes : writes.map(([key, value, own]) => [key, value, own ?? ttl]);
}

/** What of a message is handed over. */
export function transferred(bytes: Packed | null): Transferable[] {
  return bytes instanceof Uint8Array && bytes.length > COPIED_MAX ? [bytes.buffer] : [];
}

/** Whether a request flushes before it is answered. */
export function isDurable(request: Uint8Array): boolean {
  return ((request[0] ?? 0) & DURABLE) !== 0;
}

/** Whether a request may change something. */
export function isWrite(request: Uint8Array): boolean {
  return ((request[0] ?? 0) & WRITES) !== 0;
}

/** Whether a request needs the full module. */
export function isForFull(request: Uint8Array): boolean {
  return ((request[0] ?? 0) & FULL) !== 0;
}

/** The readers of changes that a request asks. */
export function readersOf(request: Uint8Array): number[] {
  const readers: number[] = [];
  if (((request[0] ?? 0) & FOLLOWS) === 0) return readers;
  const reader = new Reader(request.subarray(HEADER));
  while (!reader.isAtEnd) skip(reader, reader.byte(), () => undefined, (number) => void readers.push(number));
  return readers;
}

/** Walks over the operations of a request for the keys that it writes, `most` of them at most. */
export function writtenKeys(request: Uint8Array, most: number): { keys: Uint8Array[]; all: boolean } {
  const reader = new Reader(request.subarray(HEADER));
  const keys: Uint8Array[] = [];
  let all = true;
  const note = (key: Uint8Array): void => {
    if (keys.length < most) keys.push(key.slice());
    else all = false;
  };
  while (!reader.isAtEnd) skip(reader, reader.byte(), note);
  return { keys, all };
}

/** Goes behind an operation, and notes the keys that it writes, and the reader of changes that it asks. */
function skip(reader: Reader, kind: Kind, note: (key: Uint8Array) => void, follows: (number: number) => void = () => undefined): void {
  switch (kind) {
    case Kind.Get:
    case Kind.Has:
    case Kind.ExpiresAt:
    case Kind.Events:
    // The value stays.
    case Kind.Keep:
      reader.blob();
      break;
    case Kind.Delete:
      note(reader.blob());
      break;
    case Kind.Write:
      note(skipWrite(reader));
      break;
    case Kind.WriteMany:
      for (let count = reader.number(); count > 0; count--) note(skipWrite(reader));
      break;
    case Kind.WriteManyFor:
      for (let count = reader.number(); count > 0; count--) {
        note(skipWrite(reader));
        reader.cursor();
      }
      break;
    case Kind.Commit:
      reader.cursor();
      for (let count = reader.number(); count > 0; count--) note(reader.blob());
      break;
    case Kind.SwapFor:
      reader.cursor();
    // Then as without a time.
    case Kind.Swap:
      note(reader.blob());
      if (reader.byte()) reader.blob();
      if (reader.byte()) reader.blob();
      break;
    case Kind.GetMany:
      for (let count = reader.number(); count > 0; count--) reader.blob();
      break;
    case Kind.Page:
      reader.cursor();
      reader.byte();
      reader.blob();
      break;
    // The operation itself is next.
    case Kind.At:
    case Kind.Savepoint:
    case Kind.RollbackTo:
      reader.cursor();
      break;
    case Kind.In:
      reader.cursor();
      // Nothing is written before the commit.
      skip(reader, reader.byte(), () => undefined);
      break;
    case Kind.Changes:
      follows(reader.cursor());
      if (reader.byte() & AFTER) reader.position();
      reader.blob();
      break;
    case Kind.Range:
      reader.byte();
      for (const _ of ["start", "end"]) if (reader.byte()) reader.blob();
      break;
  }
}

function skipWrite(reader: Reader): Uint8Array {
  const stores = reader.byte();
  const key = reader.blob();
  if (stores) reader.blob();
  return key;
}
