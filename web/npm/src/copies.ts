// The exports that are being read, piece by piece, by the tabs that asked for them.

/** After this time without a request for a piece, an export no longer keeps records in their places. It can go on while nothing is overwritten. */
const IDLE_MS = 10_000;

interface Copy {
  readonly end: () => void;
  readonly ended: Promise<void>;
  idle: ReturnType<typeof setTimeout>;
}

export class Copies {
  readonly #running = new Map<string, Copy>();

  /** `hold` is called when records have to stay in their places, and when they no longer have to. */
  constructor(private readonly hold: (on: boolean) => void) {}

  /** Keeps every record in its place until the copy ends or is idle for too long. */
  keepFor(name: string): void {
    const known = this.#running.get(name);
    if (known) {
      clearTimeout(known.idle);
      known.idle = setTimeout(known.end, IDLE_MS);
      return;
    }
    this.hold(true);
    let ended = (): void => undefined;
    const promise = new Promise<void>((resolve) => (ended = resolve));
    const end = (): void => {
      clearTimeout(this.#running.get(name)?.idle);
      this.#running.delete(name);
      if (this.#running.size === 0) this.hold(false);
      ended();
    };
    this.#running.set(name, { end, ended: promise, idle: setTimeout(end, IDLE_MS) });
  }

  end(name: string): void {
    this.#running.get(name)?.end();
  }

  /** What a tab read that has gone. */
  endAllOf(tab: string): void {
    for (const [name, { end }] of this.#running) if (name.startsWith(tab)) end();
  }

  async allEnded(): Promise<void> {
    await Promise.all(Array.from(this.#running.values(), ({ ended }) => ended));
  }

  /** The leader ends: nothing is to happen later. */
  stop(): void {
    for (const { idle } of this.#running.values()) clearTimeout(idle);
  }
}
