// Whether a person sees this page, and whether the browser lets it run.

export interface Hearing {
  /** The page came into sight, or went out of it. */
  seen(on: boolean): void;
  /** The browser is about to stop the page: it is frozen, or put aside for the button that goes back. */
  suspend(): void;
  /** The page runs again. */
  resume(): void;
}

/** Listens to the page until `end`; hears nothing in a worker, which has no page of its own. */
export class PageLife {
  readonly #ended = new AbortController();

  constructor(hearing: Hearing) {
    if (typeof document === "undefined") return;
    const { signal } = this.#ended;
    document.addEventListener("visibilitychange", () => hearing.seen(this.isSeen), { signal });
    document.addEventListener("freeze", () => hearing.suspend(), { signal });
    document.addEventListener("resume", () => hearing.resume(), { signal });
    addEventListener("pagehide", ({ persisted }) => persisted && hearing.suspend(), { signal });
    addEventListener("pageshow", ({ persisted }) => persisted && hearing.resume(), { signal });
  }

  get isSeen(): boolean {
    return typeof document === "undefined" || document.visibilityState !== "hidden";
  }

  end(): void {
    this.#ended.abort();
  }
}
