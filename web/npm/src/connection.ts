// The page's end of its worker. Calls of one task travel as one message; while one is under way, the next calls gather.

import type { AnswerReader } from "./answer.js";
import { PipkinError, unpack } from "./errors.js";
import { Emitter, type Events } from "./events.js";
import { Message, Outbox } from "./outbox.js";
import { PageLife } from "./page.js";
import type { Call, ToPage, ToWorker } from "./protocol.js";
import { type Effect, type RequestWriter, transferred } from "./request.js";
import { startWorker } from "./start.js";
import type { EngineOptions, Role } from "./types.js";

/** A call that is no packed operation. */
interface Calling {
  /** What is to be sent when the page runs again. */
  readonly message: ToWorker | undefined;
  readonly resolve: (value: unknown) => void;
  readonly reject: (reason: unknown) => void;
  readonly writes: boolean;
}

/** What hears of a store that is being opened. */
interface Opening {
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
  readonly blocked: (() => void) | undefined;
}

const NO_KEY = new Uint8Array();
const UNKNOWN = "the write may be there or not; read the key again to know";

export class Connection {
  role: Role = "follower";
  tab = "";
  readonly #events = new Emitter();
  readonly #calls = new Map<number, Calling>();
  readonly #outbox = new Outbox();
  readonly #life: PageLife;
  /** None while the page is frozen. */
  #worker: Worker | undefined;
  #underWay: Message | undefined;
  #scheduled = false;
  #number = 0;
  #ended: PipkinError | undefined;
  #opening: Opening | undefined;

  private constructor(readonly name: string, private readonly options: EngineOptions) {
    this.#life = new PageLife({
      seen: (on) => this.#tell({ kind: "visible", on }),
      suspend: () => this.#suspend(),
      resume: () => this.#resume(),
    });
  }

  static async open(name: string, options: EngineOptions, blocked?: () => void, signal?: AbortSignal): Promise<Connection> {
    signal?.throwIfAborted();
    const connection = new Connection(name, options);
    const giveUp = (): void => connection.#end(new PipkinError("closed", "opening was given up"), signal?.reason);
    signal?.addEventListener("abort", giveUp);
    try {
      await new Promise<void>((resolve, reject) => {
        connection.#opening = { resolve, reject, blocked };
        connection.#start();
      });
    } finally {
      signal?.removeEventListener("abort", giveUp);
    }
    return connection;
  }

  /** Adds an operation to the message that leaves when the current task has ended. */
  operate<T>(effect: Effect, put: (request: RequestWriter) => void, take: (answer: AnswerReader) => T, signal?: AbortSignal): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#ended) throw this.#ended;
      signal?.throwIfAborted();
      const read = (answer: AnswerReader): void => {
        try {
          resolve(take(answer));
        } catch (thrown) {
          this.#note(thrown);
          reject(thrown);
        }
      };
      this.#outbox.add(effect, put, read, reject, signal);
      this.#schedule();
    });
  }

  /** Makes a call behind all operations so far. */
  async call<T>(call: Call, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    await this.#settled();
    signal?.throwIfAborted();
    const writes = call.method === "install";
    const number = ++this.#number;
    const giveUp = (): void => {
      const reason: unknown = signal?.reason;
      this.#calls.get(number)?.reject(writes ? new PipkinError("outcome-unknown", `the import was given up while it ended; ${UNKNOWN}`, { cause: reason }) : reason);
      this.#calls.delete(number);
    };
    signal?.addEventListener("abort", giveUp);
    try {
      return await this.#await<T>(number, writes, { kind: "call", number, call });
    } finally {
      signal?.removeEventListener("abort", giveUp);
    }
  }

  /** Hands a piece of a copy to the worker. */
  copy(file: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const number = ++this.#number;
    return this.#await(number, false, { kind: "copy", number, file, bytes }, [bytes.buffer]);
  }

  on<E extends keyof Events>(event: E, listener: (told: Events[E]) => void): () => void {
    const remove = this.#events.add(event, listener);
    if (event === "change") this.#listen();
    return () => {
      remove();
      if (event === "change") this.#listen();
    };
  }

  /** Waits for what is under way and ends the worker. */
  async close(): Promise<void> {
    if (this.#ended) return;
    const isFrozen = !this.#worker;
    const settled = isFrozen ? Promise.resolve() : this.#settled();
    const closed = new PipkinError("closed", `"${this.name}" has been closed; open it again`);
    this.#ended = closed;
    if (isFrozen) this.#end(closed);
    await settled.catch(() => undefined);
    this.#life.end();
    // It may have failed meanwhile, and then there is nobody left to close it.
    if (this.#ended !== closed || !this.#worker) return;
    const number = ++this.#number;
    await new Promise<void>((resolve, reject) => {
      this.#calls.set(number, { message: undefined, resolve: () => resolve(), reject, writes: false });
      this.#tell({ kind: "close", number });
    });
    this.#worker.terminate();
  }

  /** When everything called so far has been answered. */
  async #settled(): Promise<void> {
    if (this.#outbox.isEmpty && !this.#underWay) return;
    // An operation without effect, behind all others.
    await this.operate("read", (request) => request.has(NO_KEY), (answer) => answer.written());
  }

  #await<T>(number: number, writes: boolean, message: ToWorker, transfer: Transferable[] = []): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#ended) throw this.#ended;
      const waits = !this.#worker || this.#opening;
      this.#calls.set(number, { message: waits ? message : undefined, resolve: resolve as (value: unknown) => void, reject, writes });
      if (!waits) this.#tell(message, transfer);
    });
  }

  #schedule(): void {
    if (this.#scheduled || this.#underWay) return;
    this.#scheduled = true;
    queueMicrotask(() => this.#send());
  }

  #send(): void {
    this.#scheduled = false;
    if (this.#underWay || this.#opening || !this.#worker || this.#outbox.isEmpty) return;
    this.#underWay = this.#outbox.take();
    if (this.#underWay) this.#post(this.#underWay);
  }

  /** What only reads is kept, so that it can be sent again. */
  #post({ bytes, writes }: Message): void {
    const transfer = transferred(bytes);
    if (writes || transfer.length === 0) return this.#tell(bytes, transfer);
    const copy = bytes.slice();
    this.#tell(copy, [copy.buffer]);
  }

  #tell(message: ToWorker, transfer: Transferable[] = []): void {
    this.#worker?.postMessage(message, transfer);
  }

  #listen(): void {
    this.#tell({ kind: "listen", on: this.#events.has("change") });
  }

  #start(): void {
    const worker = startWorker();
    this.#worker = worker;
    worker.onmessage = ({ data }: MessageEvent<ToPage>) => this.#hear(data);
    worker.onerror = (event) => {
      event.preventDefault?.();
      const code = this.#opening ? "unavailable" : "failed";
      this.#end(new PipkinError(code, `the worker of the store has failed: ${event.message || "its script could not be loaded"}; open the store again`));
    };
    // What was open and is not there any more must not come back empty.
    const options = this.tab === "" ? this.options : { ...this.options, create: false };
    this.#tell({ kind: "open", name: this.name, options, visible: this.#life.isSeen });
  }

  #hear(message: ToPage): void {
    if (message === null || message instanceof Uint8Array) {
      this.#answered()?.answer(message);
      return;
    }
    switch (message.kind) {
      case "opened":
        this.role = message.role;
        this.tab = message.tab;
        this.#opening?.resolve();
        this.#opening = undefined;
        break;
      case "failed":
        this.#end(unpack(message.error));
        break;
      case "refused":
        this.#answered()?.fail(this.#note(unpack(message.error)));
        break;
      case "answer": {
        const { answer } = message;
        const call = this.#calls.get(answer.number);
        this.#calls.delete(answer.number);
        if ("error" in answer) call?.reject(this.#note(unpack(answer.error)));
        else call?.resolve("value" in answer ? answer.value : undefined);
        break;
      }
      case "role":
        this.role = message.role;
        this.#events.tell("leaderchange", { role: message.role });
        break;
      case "change":
        this.#events.tell("change", { keys: message.keys, local: message.local });
        break;
      case "blocked":
        if (this.#opening) this.#opening.blocked?.();
        else this.#events.tell("blocked", undefined);
        break;
      case "trouble":
        this.#events.tell("error", { error: unpack(message.error) });
        break;
    }
  }

  #answered(): Message | undefined {
    const message = this.#underWay;
    this.#underWay = undefined;
    // First, so that what is called from now on finds its place behind.
    this.#send();
    return message;
  }

  #note<T>(thrown: T): T {
    if (thrown instanceof PipkinError && thrown.code === "quota") this.#events.tell("quota", { error: thrown });
    return thrown;
  }

  /**
   * The page is about to be frozen: other tabs shall not wait for it. The worker ends as if it were killed, which loses nothing that
   * was acknowledged, for nobody knows whether it will still have time to end by itself.
   */
  #suspend(): void {
    if (this.options.memory || !this.#worker) return;
    this.#worker.terminate();
    this.#worker = undefined;
    this.role = "follower";
    const frozen = new PipkinError("failed", "the page was frozen before the answer came; call again");
    const unknown = new PipkinError("outcome-unknown", `the page was frozen before the answer came; ${UNKNOWN}`);
    if (this.#underWay?.writes) {
      this.#underWay.fail(frozen, unknown);
      this.#underWay = undefined;
    }
    for (const [number, { message, reject, writes }] of this.#calls) {
      if (message) continue;
      reject(writes ? unknown : frozen);
      this.#calls.delete(number);
    }
    // It was being closed.
    if (this.#ended) this.#end(this.#ended);
  }

  /** The page goes on: opens the store again. What has gathered waits for that. */
  #resume(): void {
    if (this.#worker || this.#ended) return;
    const resolve = (): void => {
      if (this.#events.has("change")) this.#listen();
      this.#events.tell("leaderchange", { role: this.role });
      for (const [number, call] of this.#calls) {
        if (call.message) this.#tell(call.message);
        this.#calls.set(number, { ...call, message: undefined });
      }
      if (this.#underWay) this.#post(this.#underWay);
      else queueMicrotask(() => this.#send());
    };
    this.#opening ??= { resolve, reject: () => undefined, blocked: () => this.#events.tell("blocked", undefined) };
    this.#start();
  }

  /** Nothing will be answered any more. */
  #end(error: PipkinError, reason: unknown = error): void {
    const wasOpen = this.tab !== "" && !this.#ended;
    this.#life.end();
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#opening?.reject(reason);
    this.#opening = undefined;
    this.#ended = error;
    const unknown = new PipkinError("outcome-unknown", `the worker ended before it answered: ${error.message}; ${UNKNOWN}`);
    this.#underWay?.fail(error, unknown);
    this.#underWay = undefined;
    this.#outbox.take()?.fail(error);
    for (const { reject, writes } of this.#calls.values()) reject(writes ? unknown : error);
    this.#calls.clear();
    if (wasOpen) this.#events.tell("error", { error });
  }
}
