// Whether a person sees this page, and whether the browser lets it run.

export interface Hearing {
  /** The page came into sight, or went out of it. */
  seen(on: boolean): void;
  /** The page is being left or closed: what it calls now may be the last. */
  leave(): void;
  /** All listeners of the page have heard of that, and perhaps nothing runs any more once this has returned: a frame is being removed. */
  left(): void;
  /** The browser is about to stop the page: it is frozen, or put aside for the button that goes back. */
  suspend(): void;
  /** The page runs again. */
  resume(): void;
}

/**
 * Listens to the page until `end`; hears nothing in a worker, which has no page of its own.
 *
 * A page saves in the very events that tell it is about to be stopped, so suspending comes after all of its own listeners.
 */
export class PageLife {
  readonly #ended = new AbortController();

  constructor(hearing: Hearing) {
    if (typeof document === "undefined") return;
    const { signal } = this.#ended;
    const suspend = (): void => hearing.suspend();
    const left = (): void => hearing.left();
    document.addEventListener("visibilitychange", () => hearing.seen(this.isSeen), { signal });
    document.addEventListener("freeze", () => last(document, "freeze", suspend), { signal, capture: true });
    document.addEventListener("resume", () => hearing.resume(), { signal });
    const leaving = ({ persisted }: PageTransitionEvent): void => {
      hearing.leave();
      last(globalThis, "pagehide", left);
      if (!persisted) {
        document.addEventListener("visibilitychange", () => last(document, "visibilitychange", left), { signal, capture: true, once: true });
        return;
      }
      // A page that is seen goes out of sight next: by the standard after this event, in Chromium before it.
      if (this.isSeen) document.addEventListener("visibilitychange", () => last(document, "visibilitychange", suspend), { signal, capture: true, once: true });
      else last(globalThis, "pagehide", suspend);
    };
    addEventListener("pagehide", leaving, { signal, capture: true });
    addEventListener("pageshow", ({ persisted }) => persisted && hearing.resume(), { signal });
  }

  get isSeen(): boolean {
    return typeof document === "undefined" || document.visibilityState !== "hidden";
  }

  end(): void {
    this.#ended.abort();
  }
}

/** Called while the listeners that capture an event hear it: `work` comes after all listeners that there are. */
function last(target: EventTarget, event: string, work: () => void): void {
  target.addEventListener(event, work, { once: true });
}
