// Calls that gather until the next message leaves, and what becomes of them.

import { AnswerReader } from "./answer.js";
import { PipkinError } from "./errors.js";
import type { Answered, Packed } from "./protocol.js";
import { type Effect, RequestWriter } from "./request.js";

/** How a call takes its part of an answer, or hears that there will be none. */
interface Waiting {
  /** Where its operation begins in the request. */
  readonly at: number;
  readonly effect: Effect;
  readonly read: (answer: AnswerReader) => void;
  readonly fail: (reason: unknown) => void;
  state: "gathered" | "sent" | "withdrawn";
  /** Called when it has been answered. */
  settled?: () => void;
}

/** Operations that have left together. */
export class Message {
  constructor(readonly bytes: Packed, private readonly waiting: readonly Waiting[]) {}

  get writes(): boolean {
    return this.waiting.some(({ effect }) => effect);
  }

  answer(bytes: Answered): void {
    const reader = new AnswerReader(bytes, typeof this.bytes === "string");
    for (const one of this.waiting) {
      one.settled?.();
      one.read(reader);
    }
  }

  /** `ofWrites` is what those hear that may have written. */
  fail(error: PipkinError, ofWrites = error): void {
    for (const { effect, fail, settled } of this.waiting) {
      settled?.();
      fail(effect ? ofWrites : error);
    }
  }
}

export class Outbox {
  /** Messages in front of what has gathered. */
  readonly #sealed: Message[] = [];
  #request = new RequestWriter();
  #waiting: Waiting[] = [];
  /** Where the next operation begins. */
  #end = this.#request.length;

  get isEmpty(): boolean {
    return this.#sealed.length === 0 && this.#waiting.length === 0;
  }

  /** Whether a write has gathered. */
  get writes(): boolean {
    return this.#sealed.some(({ writes }) => writes) || this.#waiting.some(({ effect, state }) => effect && state === "gathered");
  }

  /** Adds an operation. Throws, and adds nothing, if an argument makes no sense. */
  add(
    effect: Effect,
    put: (request: RequestWriter) => void,
    read: (answer: AnswerReader) => void,
    fail: (reason: unknown) => void,
    signal: AbortSignal | undefined,
  ): void {
    const at = this.#end;
    // A part of an operation has no place there. It was refused; or Firefox, which cuts a script short when a page is closed, has gone on with the next.
    if (this.#request.length > at) this.#request.cut([[at, this.#request.length]]);
    put(this.#request);
    this.#end = this.#request.length;
    const waiting: Waiting = { at, effect, read, fail, state: "gathered" };
    this.#waiting.push(waiting);
    if (signal) giveUpOn(signal, waiting);
  }

  /** What is added from now on is in another message. */
  seal(): void {
    const message = this.#made();
    if (message) this.#sealed.push(message);
  }

  /** What has gathered, up to where it was sealed first; nothing when all of it was withdrawn. */
  take(): Message | undefined {
    return this.#sealed.shift() ?? this.#made();
  }

  #made(): Message | undefined {
    let waiting = this.#waiting;
    this.#waiting = [];
    if (this.#request.length > this.#end) this.#request.cut([[this.#end, this.#request.length]]);
    if (waiting.some(({ state }) => state === "withdrawn")) {
      const ends = [...waiting.slice(1).map(({ at }) => at), this.#request.length];
      this.#request.cut(waiting.flatMap(({ at, state }, i) => (state === "withdrawn" ? [[at, ends[i] ?? at] as const] : [])));
      waiting = waiting.filter(({ state }) => state !== "withdrawn");
    }
    for (const one of waiting) {
      one.state = "sent";
      if (one.effect) this.#request.setWrites(one.effect);
    }
    const bytes = this.#request.take();
    this.#end = this.#request.length;
    return waiting.length > 0 ? new Message(bytes, waiting) : undefined;
  }
}

function giveUpOn(signal: AbortSignal, waiting: Waiting): void {
  const giveUp = (): void => {
    if (waiting.state === "sent" && waiting.effect) {
      const message = "the write was given up after it had left; it may be there or not: read the key again to know";
      waiting.fail(new PipkinError("outcome-unknown", message, { cause: signal.reason }));
    } else {
      if (waiting.state === "gathered") waiting.state = "withdrawn";
      waiting.fail(signal.reason);
    }
  };
  signal.addEventListener("abort", giveUp, { once: true });
  waiting.settled = () => signal.removeEventListener("abort", giveUp);
}
