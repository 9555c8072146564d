// Structured values as bytes: what `structuredClone` takes, files included. The bytes are ours, as browsers do not hand out theirs.
//
//   clone  := 1, node
//   node   := tag u8, what belongs to it; lengths and counts are LEB128
//
// Every node that is an object has a number, in the order in which they begin; a node `Again` stands for one that has begun before.

import { PipkinError } from "./errors.js";

const FORMAT = 1;
const enum Tag {
  Undefined, Null, True, False, Int, Number, BigInt, Text, Date, RegExp, Map, Set, Array, Object, Buffer, View, Blob, File, Error, Again, Hole, Boxed,
}

const VIEWS = [
  "Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array", "Int32Array", "Uint32Array", "Float32Array", "Float64Array",
  "BigInt64Array", "BigUint64Array", "DataView", "Float16Array",
] as const;
const ERRORS = ["Error", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError"];

/** The value holds blobs, whose bytes come later: wait for `read` and encode it again. */
export class Unread {
  constructor(readonly read: Promise<unknown>) {}
}

/** Bytes of blobs that have been read. */
const bytesOf = new WeakMap<Blob, Uint8Array>();
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

export function encodeClone(value: unknown): Uint8Array {
  const writer = new Writer();
  writer.byte(FORMAT);
  writer.node(value);
  if (writer.unread.length > 0) throw new Unread(Promise.all(writer.unread.map(read)));
  return writer.done();
}

async function read(blob: Blob): Promise<void> {
  bytesOf.set(blob, new Uint8Array(await blob.arrayBuffer()));
}

export function decodeClone(bytes: Uint8Array): unknown {
  const reader = new Reader(bytes);
  if (reader.byte() !== FORMAT) throw new PipkinError("corrupt", "this value was not written by a view of `structured`, or by a newer one");
  return reader.node();
}

const kindOf = (value: object): string => Object.prototype.toString.call(value).slice(8, -1);

class Writer {
  readonly unread: Blob[] = [];
  readonly #begun = new Map<object, number>();
  #bytes = new Uint8Array(256);
  #length = 0;

  done(): Uint8Array {
    return this.#bytes.slice(0, this.#length);
  }

  byte(value: number): void {
    this.#room(1);
    this.#bytes[this.#length++] = value;
  }

  node(value: unknown): void {
    switch (typeof value) {
      case "undefined":
        return this.byte(Tag.Undefined);
      case "boolean":
        return this.byte(value ? Tag.True : Tag.False);
      case "number":
        if (Number.isInteger(value) && value >= 0 && value < 2 ** 31 && !Object.is(value, -0)) {
          this.byte(Tag.Int);
          return this.#count(value);
        }
        this.byte(Tag.Number);
        return this.#number(value);
      case "bigint":
        this.byte(Tag.BigInt);
        return this.#text(value.toString());
      case "string":
        this.byte(Tag.Text);
        return this.#text(value);
      case "object":
        return value === null ? this.byte(Tag.Null) : this.#object(value);
      default:
        throw new PipkinError("usage", `a ${typeof value} cannot be stored`);
    }
  }

  #object(value: object): void {
    const before = this.#begun.get(value);
    if (before !== undefined) {
      this.byte(Tag.Again);
      return this.#count(before);
    }
    this.#begun.set(value, this.#begun.size);
    if (value instanceof Blob) return this.#blob(value);
    if (ArrayBuffer.isView(value)) return this.#view(value);
    if (Array.isArray(value)) return this.#array(value);
    switch (kindOf(value)) {
      case "Date":
        this.byte(Tag.Date);
        return this.#number((value as Date).getTime());
      case "RegExp":
        this.byte(Tag.RegExp);
        this.#text((value as RegExp).source);
        return this.#text((value as RegExp).flags);
      case "Map":
        this.byte(Tag.Map);
        this.#count((value as Map<unknown, unknown>).size);
        return (value as Map<unknown, unknown>).forEach((one, key) => (this.node(key), this.node(one)));
      case "Set":
        this.byte(Tag.Set);
        this.#count((value as Set<unknown>).size);
        return (value as Set<unknown>).forEach((one) => this.node(one));
      case "ArrayBuffer":
        this.byte(Tag.Buffer);
        return this.#blobOf(new Uint8Array(value as ArrayBuffer));
      case "Error":
        return this.#error(value as Error);
      case "Boolean":
      case "Number":
      case "String":
      case "BigInt":
        this.byte(Tag.Boxed);
        return this.node(value.valueOf());
      case "Object": {
        const entries = Object.entries(value);
        this.byte(Tag.Object);
        this.#count(entries.length);
        return entries.forEach(([key, one]) => (this.#text(key), this.node(one)));
      }
      default:
        throw new PipkinError("usage", `a value of the kind ${kindOf(value)} cannot be stored`);
    }
  }

  #array(value: readonly unknown[]): void {
    this.byte(Tag.Array);
    this.#count(value.length);
    for (let i = 0; i < value.length; i++) {
      if (i in value) this.node(value[i]);
      else this.byte(Tag.Hole);
    }
  }

  /** Of a view only what it shows is kept. */
  #view(value: ArrayBufferView): void {
    const kind = VIEWS.indexOf(kindOf(value) as (typeof VIEWS)[number]);
    if (kind < 0) throw new PipkinError("usage", `a value of the kind ${kindOf(value)} cannot be stored`);
    this.byte(Tag.View);
    this.byte(kind);
    this.#blobOf(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  }

  #blob(blob: Blob): void {
    // A worker can read it at once.
    const { FileReaderSync } = globalThis as { FileReaderSync?: new () => { readAsArrayBuffer(blob: Blob): ArrayBuffer } };
    const bytes = FileReaderSync ? new Uint8Array(new FileReaderSync().readAsArrayBuffer(blob)) : bytesOf.get(blob);
    if (!bytes) return void this.unread.push(blob);
    const file = typeof File === "function" && blob instanceof File ? blob : undefined;
    this.byte(file ? Tag.File : Tag.Blob);
    this.#text(blob.type);
    if (file) {
      this.#text(file.name);
      this.#number(file.lastModified);
    }
    this.#blobOf(bytes);
  }

  #error(error: Error): void {
    this.byte(Tag.Error);
    this.#text(ERRORS.includes(error.name) ? error.name : "Error");
    this.#text(error.message);
    this.#text(error.stack ?? "");
    this.node(error.cause);
  }

  #number(value: number): void {
    this.#room(8);
    new DataView(this.#bytes.buffer).setFloat64(this.#length, value, true);
    this.#length += 8;
  }

  #count(value: number): void {
    for (; value > 0x7f; value = Math.floor(value / 128)) this.byte((value % 128) | 0x80);
    this.byte(value);
  }

  /** UTF-16 where UTF-8 would lose half a character. */
  #text(text: string): void {
    const whole = text.isWellFormed?.() ?? true;
    const bytes = whole ? encoder.encode(text) : Uint8Array.from(Array.from({ length: text.length * 2 }, (_, i) => text.charCodeAt(i >> 1) >> (i % 2 ? 8 : 0)));
    this.#count(bytes.length * 2 + (whole ? 0 : 1));
    this.#raw(bytes);
  }

  #blobOf(bytes: Uint8Array): void {
    this.#count(bytes.length);
    this.#raw(bytes);
  }

  #raw(bytes: Uint8Array): void {
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
  }
}

class Reader {
  readonly #begun: object[] = [];
  #at = 0;

  constructor(private readonly bytes: Uint8Array) {}

  byte(): number {
    const byte = this.bytes[this.#at++];
    if (byte === undefined) throw new PipkinError("corrupt", "the bytes of a structured value end too early");
    return byte;
  }

  node(): unknown {
    const tag = this.byte() as Tag;
    switch (tag) {
      case Tag.Undefined: return undefined;
      case Tag.Null: return null;
      case Tag.True: return true;
      case Tag.False: return false;
      case Tag.Int: return this.#count();
      case Tag.Number: return this.#number();
      case Tag.BigInt: return BigInt(this.#text());
      case Tag.Text: return this.#text();
      case Tag.Again: return this.#begun[this.#count()];
      default: return this.#object(tag);
    }
  }

  #object(tag: Tag): object {
    switch (tag) {
      case Tag.Date: return this.#begin(new Date(this.#number()));
      case Tag.RegExp: return this.#begin(new RegExp(this.#text(), this.#text()));
      case Tag.Map: {
        const map = this.#begin(new Map<unknown, unknown>());
        for (let count = this.#count(); count > 0; count--) map.set(this.node(), this.node());
        return map;
      }
      case Tag.Set: {
        const set = this.#begin(new Set<unknown>());
        for (let count = this.#count(); count > 0; count--) set.add(this.node());
        return set;
      }
      case Tag.Array: return this.#array();
      case Tag.Object: {
        const object = this.#begin<{ [key: string]: unknown }>({});
        for (let count = this.#count(); count > 0; count--) {
          const key = this.#text();
          // `__proto__` is a name as any other.
          Object.defineProperty(object, key, { value: this.node(), enumerable: true, configurable: true, writable: true });
        }
        return object;
      }
      case Tag.Buffer: return this.#begin(this.#raw().buffer);
      case Tag.View: return this.#begin(this.#view());
      case Tag.Blob: {
        const type = this.#text();
        return this.#begin(new Blob([this.#raw()], { type }));
      }
      case Tag.File: {
        const [type, name, lastModified] = [this.#text(), this.#text(), this.#number()];
        return this.#begin(new File([this.#raw()], name, { type, lastModified }));
      }
      case Tag.Error: return this.#error();
      case Tag.Boxed: {
        const at = this.#begun.push({}) - 1;
        return (this.#begun[at] = Object(this.node()) as object);
      }
      default:
        throw new PipkinError("corrupt", "the bytes of a structured value make no sense");
    }
  }

  #array(): unknown[] {
    const length = this.#count();
    const array = this.#begin<unknown[]>([]);
    for (let i = 0; i < length; i++) {
      if (this.bytes[this.#at] === Tag.Hole) this.#at++;
      else array[i] = this.node();
    }
    array.length = length;
    return array;
  }

  #view(): object {
    const kind = VIEWS[this.byte()] ?? "Uint8Array";
    const { buffer } = this.#raw();
    const made = (globalThis as unknown as { [kind: string]: (new (buffer: ArrayBufferLike) => object) | undefined })[kind];
    if (!made) throw new PipkinError("unavailable", `this browser has no ${kind}`);
    return new made(buffer);
  }

  #error(): Error {
    const at = this.#begun.push({}) - 1;
    const made = (globalThis as unknown as { [name: string]: ErrorConstructor })[this.#text()] ?? Error;
    const error = new made(this.#text());
    this.#begun[at] = error;
    Object.defineProperty(error, "stack", { value: this.#text(), configurable: true, writable: true });
    const cause = this.node();
    if (cause !== undefined) Object.defineProperty(error, "cause", { value: cause, configurable: true, writable: true });
    return error;
  }

  #begin<T extends object>(object: T): T {
    this.#begun.push(object);
    return object;
  }

  #number(): number {
    this.#at += 8;
    return new DataView(this.bytes.buffer, this.bytes.byteOffset + this.#at - 8, 8).getFloat64(0, true);
  }

  #count(): number {
    let count = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = this.byte();
      count += (byte & 0x7f) * scale;
      if (byte < 0x80) return count;
    }
  }

  #text(): string {
    const length = this.#count();
    const bytes = this.#part(Math.floor(length / 2));
    if (length % 2 === 0) return decoder.decode(bytes);
    return Array.from({ length: bytes.length / 2 }, (_, i) => String.fromCharCode((bytes[2 * i] ?? 0) | ((bytes[2 * i + 1] ?? 0) << 8))).join("");
  }

  #raw(): Uint8Array<ArrayBuffer> {
    return this.#part(this.#count());
  }

  #part(length: number): Uint8Array<ArrayBuffer> {
    if (this.#at + length > this.bytes.length) throw new PipkinError("corrupt", "the bytes of a structured value end too early");
    this.#at += length;
    return this.bytes.slice(this.#at - length, this.#at);
  }
}
