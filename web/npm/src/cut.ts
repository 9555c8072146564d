// A copy of a store as it is at one moment: mostly parts of the store's own file. `web/src/cut.rs` has the format.

import { Reader } from "./reader.js";
import type { Bytes } from "./types.js";

/** Bytes of zeros in one piece, at most. */
const ZEROS = 1024 * 1024;

/** Bytes to be read from the file. */
export interface Place {
  readonly offset: number;
  readonly length: number;
  /** CRC-32C of the bytes: they may have been overwritten since. */
  readonly crc: number;
}

/** The length of a copy and its parts in order: bytes, or where to read them. */
export function partsOf(cut: Bytes): { readonly length: number; readonly parts: Iterable<Bytes | Place> } {
  const reader = new Reader(cut);
  const pieces: [offset: number, part: Bytes | Place][] = [];
  let length = 0;
  for (;;) {
    const offset = reader.cursor();
    if (reader.isAtEnd) {
      length = offset;
      break;
    }
    pieces.push([offset, reader.byte() ? reader.blob().slice() : { offset, length: reader.number(), crc: reader.number() }]);
  }
  pieces.sort(([one], [other]) => one - other);
  function* parts(): Generator<Bytes | Place> {
    let at = 0;
    for (const [offset, part] of [...pieces, [length] as const]) {
      for (; at < offset; at += ZEROS) yield new Uint8Array(Math.min(offset - at, ZEROS));
      if (part) yield part;
      at = offset + (part?.length ?? 0);
    }
  }
  return { length, parts: parts() };
}
