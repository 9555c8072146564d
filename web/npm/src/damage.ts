// Records that cannot be read, met by a call that reads many: reported one by one, or all at the end by an error.

import { PipkinError } from "./errors.js";
import type { Damage } from "./types.js";

/** Longer keys are cut in messages. */
const KEY_SHOWN = 100;

export class Damaged<K> {
  readonly #all: Damage<K>[] = [];

  /** `told` is the callback of the caller, if there is one. */
  constructor(private readonly told: ((damage: Damage<K>) => void) | undefined) {}

  meet(damage: Damage<K>): void {
    if (this.told) this.told(damage);
    else this.#all.push(damage);
  }

  /** To be called when everything else has been read: throws if there was damage and no callback for it. */
  end(values?: readonly unknown[]): void {
    const [first] = this.#all;
    if (!first) return;
    const count = this.#all.length === 1 ? "1 record" : `${this.#all.length} records`;
    const message = `${count} cannot be read, all others were: ${described(first)}. \`damage\` lists them; where you know the key, write the record again or remove it by \`deleteMany\``;
    throw new PipkinError("corrupt", message, { damage: this.#all, values });
  }
}

function described({ offset, what, key }: Damage<unknown>): string {
  const place = `damage at byte ${offset} of the file: ${what}`;
  if (key === undefined) return place;
  const text = typeof key === "string" ? JSON.stringify(key) : `[${String(key)}]`;
  return `${place}, in the record of ${text.length > KEY_SHOWN ? `${text.slice(0, KEY_SHOWN)}...` : text}`;
}
