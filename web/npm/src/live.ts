// The value of one key as it changes.

import type { Connection } from "./connection.js";
import { report } from "./errors.js";
import type { Live } from "./types.js";

export class LiveValue<T> implements Live<T> {
  readonly #hearers = new Set<() => void>();
  #bytes: Uint8Array | undefined;
  #value: T | undefined;
  #stop: (() => void)[] = [];
  /** Of several reads under way the last one counts. */
  #reads = 0;

  constructor(
    private readonly connection: Connection,
    private readonly key: Uint8Array,
    private readonly decode: (bytes: Uint8Array) => T,
  ) {}

  readonly subscribe = (changed: () => void): (() => void) => {
    const own = (): void => changed();
    if (this.#hearers.size === 0) this.#start();
    this.#hearers.add(own);
    return () => {
      if (this.#hearers.delete(own) && this.#hearers.size === 0) for (const stop of this.#stop.splice(0)) stop();
    };
  };

  readonly getSnapshot = (): T | undefined => this.#value;

  #start(): void {
    const isOurs = (key: Uint8Array): boolean => same(key, this.key);
    this.#stop = [
      this.connection.on("change", ({ keys }) => (!keys || keys.some(isOurs)) && this.#read()),
      // Changes of the moments before may not have been told.
      this.connection.on("leaderchange", () => this.#read()),
    ];
    this.#read();
  }

  #read(): void {
    const number = ++this.#reads;
    this.connection.operate(undefined, (request) => request.get(this.key), (answer) => answer.value()?.slice()).then(
      (bytes) => number === this.#reads && this.#take(bytes),
      // What cannot be read stays as it was; the store itself says that it has failed.
      () => undefined,
    ).catch(report);
  }

  #take(bytes: Uint8Array | undefined): void {
    if (same(bytes, this.#bytes)) return;
    this.#value = bytes && this.decode(bytes);
    this.#bytes = bytes;
    for (const changed of [...this.#hearers]) changed();
  }
}

function same(one: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  return one === other || (one?.length === other?.length && !!one?.every((byte, i) => byte === other?.[i]));
}
