// Takes bytes apart that came in a message.

export class Reader {
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
