// Messages as bytes: any number of calls in one buffer that is handed over, not copied. `web/src/wire.rs` is the other end.

import { PipkinError, codeOf } from "./errors.js";

const enum Kind { Get = 1, Has, Write, Delete, WriteMany, Swap, GetMany, Page, Flush }

/** A key and its new value; without one it is removed. */
export type Write = readonly [key: Uint8Array, value: Uint8Array | undefined];

/** One page of an iteration. */
export interface Page {
  /** Where to go on; less than 0 behind the last record. */
  readonly next: number;
  readonly records: (readonly [key: Uint8Array, value: Uint8Array | undefined])[];
}

const HEADER = 25;
const DURABLE = 1;
const REPEATABLE = 2;

/** Builds a request: a header, then operations. */
export class RequestWriter {
  #bytes = new Uint8Array(256);
  #view = new DataView(this.#bytes.buffer);
  #length = HEADER;

  get isEmpty(): boolean {
    return this.#length === HEADER;
  }

  /** The request is to be flushed before it is answered. */
  setDurable(): void {
    this.#bytes[0] = DURABLE;
  }

  get(key: Uint8Array): void { this.#keyed(Kind.Get, key); }
  has(key: Uint8Array): void { this.#keyed(Kind.Has, key); }
  delete(key: Uint8Array): void { this.#keyed(Kind.Delete, key); }
  flush(): void { this.#byte(Kind.Flush); }

  write(write: Write): void {
    this.#byte(Kind.Write);
    this.#write(write);
  }

  writeMany(writes: readonly Write[]): void {
    this.#byte(Kind.WriteMany);
    this.#number(writes.length);
    for (const write of writes) this.#write(write);
  }

  swap(key: Uint8Array, expected: Uint8Array | undefined, next: Uint8Array | undefined): void {
    this.#keyed(Kind.Swap, key);
    this.#optional(expected);
    this.#optional(next);
  }

  getMany(keys: readonly Uint8Array[]): void {
    this.#byte(Kind.GetMany);
    this.#number(keys.length);
    for (const key of keys) this.#blob(key);
  }

  page(from: number, values: boolean, prefix: Uint8Array): void {
    this.#byte(Kind.Page);
    this.#room(8);
    this.#view.setFloat64(this.#length, from, true);
    this.#length += 8;
    this.#byte(values ? 1 : 0);
    this.#blob(prefix);
  }

  /** The request, whose buffer may be handed over; the writer is empty again. */
  take(): Uint8Array<ArrayBuffer> {
    const taken = this.#bytes.subarray(0, this.#length);
    this.#bytes = new Uint8Array(256);
    this.#view = new DataView(this.#bytes.buffer);
    this.#length = HEADER;
    return taken;
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

  #keyed(kind: Kind, key: Uint8Array): void {
    this.#byte(kind);
    this.#blob(key);
  }

  #byte(value: number): void {
    this.#room(1);
    this.#bytes[this.#length++] = value;
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

  #room(count: number): void {
    const need = this.#length + count;
    if (need <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(need, this.#bytes.length * 2));
    grown.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = grown;
    this.#view = new DataView(grown.buffer);
  }
}

/** Names the sender of a request, so that the store knows it when it comes a second time. */
export function makeRepeatable(request: Uint8Array, client: Uint8Array, number: number): void {
  request[0] = (request[0] ?? 0) | REPEATABLE;
  request.set(client, 1);
  new DataView(request.buffer, request.byteOffset).setBigUint64(17, BigInt(number), true);
}

/** Whether a request is flushed before it is answered. */
export function isDurable(request: Uint8Array): boolean {
  return ((request[0] ?? 0) & DURABLE) !== 0;
}

/** Walks over the operations of a request, in the words of the caller. */
export function writtenKeys(request: Uint8Array, most: number): { keys: Uint8Array[]; all: boolean } {
  const reader = new Reader(request.subarray(HEADER));
  const keys: Uint8Array[] = [];
  let all = true;
  const note = (key: Uint8Array): void => {
    if (keys.length < most) keys.push(key.slice());
    else all = false;
  };
  while (!reader.isAtEnd) {
    switch (reader.byte() as Kind) {
      case Kind.Get:
      case Kind.Has:
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
      case Kind.Flush:
        break;
    }
  }
  return { keys, all };
}

function skipWrite(reader: Reader): Uint8Array {
  const stores = reader.byte();
  const key = reader.blob();
  if (stores) reader.blob();
  return key;
}

class Reader {
  #at = 0;
  readonly #view: DataView;

  constructor(readonly bytes: Uint8Array) {
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  get isAtEnd(): boolean {
    return this.#at >= this.bytes.length;
  }

  byte(): number {
    return this.#view.getUint8(this.#at++);
  }

  cursor(): number {
    this.#at += 8;
    return this.#view.getFloat64(this.#at - 8, true);
  }

  number(): number {
    this.#at += 4;
    return this.#view.getUint32(this.#at - 4, true);
  }

  /** A part of the message itself. */
  blob(): Uint8Array {
    const length = this.number();
    this.#at += length;
    return this.bytes.subarray(this.#at - length, this.#at);
  }
}

/** Takes the answers of a message apart, in the order of its operations. A failed operation throws its error. */
export class AnswerReader {
  readonly #reader: Reader;

  constructor(answer: Uint8Array) {
    this.#reader = new Reader(answer);
  }

  /** Whether a write found what it looked for. */
  written(): boolean {
    this.#expect(1);
    return this.#reader.byte() === 1;
  }

  value(): Uint8Array | undefined {
    const tag = this.#tag();
    return this.#value(tag);
  }

  values(): (Uint8Array | undefined)[] {
    this.#expect(4);
    return Array.from({ length: this.#reader.number() }, () => this.#value(this.#reader.byte()));
  }

  page(values: boolean): Page {
    this.#expect(5);
    const next = this.#reader.cursor();
    const one = (): readonly [Uint8Array, Uint8Array | undefined] => {
      const key = this.#reader.blob().slice();
      return [key, values ? this.#reader.blob().slice() : undefined];
    };
    return { next, records: Array.from({ length: this.#reader.number() }, one) };
  }

  flushed(): void {
    this.#expect(6);
    this.#reader.byte();
  }

  #value(tag: number): Uint8Array | undefined {
    return tag === 3 ? this.#reader.blob().slice() : undefined;
  }

  #expect(tag: number): void {
    const found = this.#tag();
    if (found !== tag) throw new PipkinError("failed", `an answer of kind ${found} where ${tag} was expected`);
  }

  #tag(): number {
    const tag = this.#reader.byte();
    if (tag !== 0) return tag;
    const code = codeOf(this.#reader.byte());
    throw new PipkinError(code, new TextDecoder().decode(this.#reader.blob()));
  }
}
