// Takes bytes apart that came in a message.

/** The bytes of a position. */
export const POSITION = 16;

export class Reader {
  #at = 0;

  constructor(readonly bytes: Uint8Array) {}

  get isAtEnd(): boolean {
    return this.#at >= this.bytes.length;
  }

  byte(): number {
    return this.bytes[this.#at++] ?? 0;
  }

  cursor(): number {
    this.#at += 8;
    return new DataView(this.bytes.buffer, this.bytes.byteOffset + this.#at - 8).getFloat64(0, true);
  }

  /** Byte by byte: a view would cost a small message more than all that is read with it. */
  number(): number {
    return (this.byte() | (this.byte() << 8) | (this.byte() << 16) | (this.byte() << 24)) >>> 0;
  }

  /** A part of the message itself. */
  blob(): Uint8Array {
    return this.#part(this.number());
  }

  /** The same. */
  position(): Uint8Array {
    return this.#part(POSITION);
  }

  #part(length: number): Uint8Array {
    this.#at += length;
    return this.bytes.subarray(this.#at - length, this.#at);
  }
}
