// Answers as bytes, one for each operation of a request. `web/src/wire.rs` is the other end.

import { PipkinError, codeOf } from "./errors.js";
import type { Answered } from "./protocol.js";
import { Reader } from "./reader.js";
import type { Damage } from "./types.js";

export type Record = readonly [key: Uint8Array, value: Uint8Array];

/** One page of an iteration. */
export interface Page {
  /** Where to go on; less than 0 behind the last record. */
  readonly next: number;
  readonly records: readonly Record[];
  /** Records between them that cannot be read. */
  readonly damage: readonly Damage<Uint8Array>[];
}

/** One page of changes. */
export interface ChangesPage {
  /** There is no more for now. */
  readonly isAtEnd: boolean;
  /** It does not go on where a page before has ended, but begins again there. */
  readonly isAnew: boolean;
  /** After the last commit. */
  readonly position: Uint8Array;
  readonly commits: readonly PackedCommit[];
}

export interface PackedCommit {
  readonly position: Uint8Array;
  /** From its position on it comes again. */
  readonly comesAgain: boolean;
  readonly changes: Uint8Array;
}

const NOTHING = new Uint8Array();
/** Marks a value that cannot be read. */
const DAMAGED = 7;

/**
 * Takes the answers of a message apart, in the order of its operations. A failed operation throws its error. Keys and values are
 * parts of the message: whoever keeps them copies them.
 */
export class AnswerReader {
  readonly #reader: Reader;

  /** `isValue` says that the message is the value of one `get`, or null. */
  constructor(private readonly answer: Answered, private readonly isValue = false) {
    this.#reader = new Reader(answer ?? NOTHING);
  }

  /** Whether a write found what it looked for. */
  written(): boolean {
    this.#expect(1);
    return this.#reader.byte() === 1;
  }

  value(): Uint8Array | undefined {
    if (this.isValue) return this.answer ?? undefined;
    const tag = this.#tag();
    return this.#value(tag);
  }

  /** A number that comes as a value. */
  time(): number | undefined {
    const value = this.value();
    return value && new Reader(value).cursor();
  }

  /** Calls `damaged` for those that cannot be read. */
  values<T>(take: (value: Uint8Array) => T, damaged: (damage: Damage<Uint8Array>) => void): (T | undefined)[] {
    this.#expect(4);
    const found: Damage<Uint8Array>[] = [];
    // All of them first: if one cannot be decoded, the next answer still begins where it does.
    const values = Array.from({ length: this.#reader.number() }, () => {
      const tag = this.#reader.byte();
      if (tag === DAMAGED) found.push(this.#damage(this.#reader.blob()));
      return this.#value(tag);
    });
    const taken = values.map((value) => value && take(value));
    found.forEach(damaged);
    return taken;
  }

  page(values: boolean): Page {
    this.#expect(5);
    const next = this.#reader.cursor();
    const one = (): Record => [this.#reader.blob(), values ? this.#reader.blob() : NOTHING];
    const records = Array.from({ length: this.#reader.number() }, one);
    const damage = Array.from({ length: this.#reader.number() }, () => this.#damage(this.#reader.byte() ? this.#reader.blob() : undefined));
    return { next, records, damage };
  }

  changes(): ChangesPage {
    const reader = this.#reader;
    this.#expect(8);
    const flags = reader.byte();
    const position = reader.position();
    const one = (): PackedCommit => ({ position: reader.position(), comesAgain: reader.byte() === 1, changes: reader.blob() });
    return { isAtEnd: (flags & 1) !== 0, isAnew: (flags & 2) !== 0, position, commits: Array.from({ length: reader.number() }, one) };
  }

  flushed(): void {
    this.#expect(6);
    this.#reader.byte();
  }

  #damage(key: Uint8Array | undefined): Damage<Uint8Array> {
    return { offset: this.#reader.cursor(), what: new TextDecoder().decode(this.#reader.blob()), key };
  }

  #value(tag: number): Uint8Array | undefined {
    return tag === 3 ? this.#reader.blob() : undefined;
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
