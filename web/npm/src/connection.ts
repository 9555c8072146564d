// The page's end of its worker. Calls of one task travel as one message; while one is under way, the next calls gather.

import type { AnswerReader } from "./answer.js";
import { Calls } from "./calls.js";
import { PipkinError, unpack } from "./errors.js";
import { Emitter, type Events } from "./events.js";
import { Message, Outbox } from "./outbox.js";
import { PageLife } from "./page.js";
import type { Call, ToPage, ToWorker, Told } from "./protocol.js";
import { type Effect, type RequestWriter, transferred } from "./request.js";
import { type Working, startBroker, startWorker } from "./start.js";
import { Updates } from "./updates.js";
import { type Bytes, type EngineOptions, type OpenOptions, type Role, checkDurability } from "./types.js";
import { Watch } from "./watch.js";

/** What hears of a store that is being opened. */
interface Opening {
  readonly resolve: () => void;
  readonly reject: (reason: unknown) => void;
  readonly blocked: (() => void) | undefined;
}

/** Microtasks until they have called, as functions of their own may stand between. */
const HEARERS = 4;
/** The worker of a page that is being left has at least so long for what was sent last: a hundred times what a write takes. */
const LEAVE_MS = 20;
/** It has so many times what the slowest write took lately: the machine may be busy. */
const LEAVE_TIMES = 4;
/** And besides a millisecond for so many bytes. */
const LEAVE_BYTES = 20_000;
/** And this, where calls are under way that take as long as the file is large. */
const LEAVE_CALLS_MS = 200;
/** A page is not kept longer in all. */
const LEAVE_MOST_MS = 1_000;
const NOT_LOADED = "its script could not be loaded; it lies beside that of the package unless `worker` says where, and a Content-Security-Policy has to allow it: `worker-src \'self\'`, with the entry `inline` `worker-src blob:`";
/** A leader that has not answered directly for so long may have gone without a word: the worker asks, which finds out. */
const DIRECT_MS = 500;
/** A file that is not closed by then never will be. */
const CLOSE_MS = 30_000;
const NO_KEY = new Uint8Array();
const UNKNOWN = "the write may be there or not; read the key again to know";

export class Connection {
  role: Role = "follower";
  tab = "";
  readonly #events = new Emitter();
  /** Those who ask again when something may be new. */
  readonly #hearers = new Set<() => void>();
  /** What the worker was told of that. */
  #told = 0;
  readonly #calls = new Calls();
  readonly #outbox = new Outbox();
  readonly updates = new Updates(this);
  readonly #life: PageLife;
  /** None while the page is frozen. */
  #worker: Working | undefined;
  /** In the order of their answers: one, or several when the page is being left. */
  #underWay: Message[] = [];
  /** Takes reads to the worker of the leader, if that is another tab's, and their answers back. */
  #direct: MessagePort | undefined;
  /** The message that is under way went there. */
  #isDirect = false;
  #directTimer: ReturnType<typeof setTimeout> | undefined;
  /** Kept as long as it is used. */
  #broker: SharedWorker | undefined;
  /** Waits for the end of the worker. */
  #watch: Watch | undefined;
  #scheduled = false;
  /** The page may be gone before an answer comes: messages do not wait for one. */
  #isLeaving = false;
  /** By then it has been kept long enough. */
  #leaveUntil = 0;
  #wroteAt = 0;
  /** What the slowest write took lately, in milliseconds. */
  #slowest = 0;
  #ended: PipkinError | undefined;
  #opening: Opening | undefined;
  #closing: Promise<void> | undefined;

  private constructor(readonly name: string, private options: EngineOptions, private readonly script: OpenOptions["worker"]) {
    this.#life = new PageLife({
      seen: (on) => this.#tell({ kind: "visible", on }),
      leave: () => this.#leave(),
      left: () => this.#send(),
      suspend: () => this.#suspend(),
      resume: () => this.#resume(),
    });
  }

  static async open(
    name: string, options: EngineOptions, script?: OpenOptions["worker"], blocked?: () => void, signal?: AbortSignal,
  ): Promise<Connection> {
    signal?.throwIfAborted();
    const connection = new Connection(name, options, script);
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
      if (effect !== undefined) checkDurability(effect);
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

  /** Makes a call behind all operations so far. Closing that begins meanwhile waits for it. */
  async call<T>(call: Call, signal?: AbortSignal): Promise<T> {
    if (this.#ended) throw this.#ended;
    signal?.throwIfAborted();
    await this.#settled();
    // Of a frozen page nothing is left to close.
    if (this.#ended && !this.#worker) throw this.#ended;
    signal?.throwIfAborted();
    return this.#calls.make((number) => ({ kind: "call", number, call }), this.#sendCall, call.method === "install", signal);
  }

  /** The store has another key now; or is plain, or about to be, and its next leader makes it so. */
  setKey(key = this.options.key, disableEncryption = false): void {
    if (!key) return;
    this.options = { ...this.options, key, disableEncryption };
    this.#tell({ kind: "key", key, disableEncryption });
  }

  /** Hands a piece of a copy to the worker. */
  async copy(file: string, bytes: Bytes): Promise<void> {
    if (this.#ended) throw this.#ended;
    return this.#calls.make((number) => ({ kind: "copy", number, file, bytes }), this.#sendCall, false);
  }

  on<E extends keyof Events>(event: E, listener: (told: Events[E]) => void): () => void {
    const remove = this.#events.add(event, listener);
    this.#listen();
    return () => {
      remove();
      this.#listen();
    };
  }

  /** Has `hear` called when something was written or flushed, when the leader is another one, and when there is nothing more to come, until the function that comes back is called. */
  onNews(hear: () => void): () => void {
    this.#hearers.add(hear);
    this.#listen();
    return () => {
      this.#hearers.delete(hear);
      this.#listen();
    };
  }

  /** What is called from now on leaves when everything before has been answered. */
  seal(): void {
    this.#outbox.seal();
  }

  /** Waits for what is under way and ends the worker. Called again, it waits for that, too. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    if (this.#ended) return;
    const isFrozen = !this.#worker;
    const settled = isFrozen ? Promise.resolve() : this.#settled();
    const closed = new PipkinError("closed", `"${this.name}" has been closed; open it again`);
    this.#ended = closed;
    this.#tellNews();
    if (isFrozen) this.#end(closed);
    await settled.catch(() => undefined);
    await this.#calls.settled();
    this.#life.end();
    this.#watch?.end();
    this.#leaveDirect();
    // It may have failed meanwhile, and then there is nobody left to close it.
    if (this.#ended !== closed || !this.#worker) return;
    const late = setTimeout(() => this.#end(new PipkinError("failed", "the browser did not close the file of the store in time; it was given up")), CLOSE_MS);
    try {
      await this.#calls.make<void>((number) => ({ kind: "close", number }), this.#sendCall, false);
    } catch (thrown) {
      // Without a worker it is closed, too.
      if (this.#worker) throw thrown;
    } finally {
      clearTimeout(late);
      this.#worker?.terminate();
    }
  }

  /** When everything called so far has been answered. */
  async #settled(): Promise<void> {
    if (this.#outbox.isEmpty && this.#underWay.length === 0) return;
    // An operation without effect, behind all others.
    await this.operate(undefined, (request) => request.has(NO_KEY), (answer) => answer.written());
  }

  /** Sends a call, unless the page is frozen or the store is being opened. */
  readonly #sendCall = (message: Told): boolean => {
    if (!this.#worker || this.#opening) return false;
    this.#tell(message, "bytes" in message ? [message.bytes.buffer] : []);
    return true;
  };

  #schedule(): void {
    if (this.#scheduled || this.#isWaiting) return;
    this.#scheduled = true;
    void this.#sendAfter(1);
  }

  get #isWaiting(): boolean {
    return this.#underWay.length > 0 && !this.#isLeaving;
  }

  /** Sends what has gathered, together with what those call next who have just heard of an answer. */
  #goOn(): void {
    if (this.#scheduled || this.#outbox.isEmpty) return;
    this.#scheduled = true;
    void this.#sendAfter(HEARERS);
  }

  /** So many microtasks later. By `await`: a `queueMicrotask` takes Chromium a quarter of a microsecond. */
  async #sendAfter(microtasks: number): Promise<void> {
    for (let step = 0; step < microtasks; step++) await undefined;
    this.#send();
  }

  #send(): void {
    this.#scheduled = false;
    while (!this.#isWaiting && !this.#opening && this.#worker && !this.#outbox.isEmpty) this.#sendNext();
  }

  #sendNext(): void {
    const message = this.#outbox.take();
    if (!message) return;
    const { length } = message.bytes;
    this.#underWay.push(message);
    this.#post(message);
    if (this.#isLeaving) this.#giveTime(length);
    else if (message.writes) this.#wroteAt = performance.now();
  }

  /** What only reads is kept, so that it can be sent again. */
  #post(message: Message): void {
    const { bytes, writes } = message;
    if (this.#direct && !writes && !this.#isLeaving) {
      this.#isDirect = true;
      this.#direct.postMessage(bytes);
      this.#directTimer ??= setTimeout(() => this.#lookAtDirect(message), DIRECT_MS);
      return;
    }
    const sent = writes || transferred(bytes).length === 0 ? bytes : bytes.slice();
    this.#tell(sent, transferred(sent));
  }

  #lookAtDirect(message: Message): void {
    this.#directTimer = undefined;
    const [underWay] = this.#underWay;
    if (!this.#isDirect || !underWay) return;
    if (underWay !== message) {
      this.#directTimer = setTimeout(() => this.#lookAtDirect(underWay), DIRECT_MS);
      return;
    }
    this.#leaveDirect();
    this.#tell({ kind: "meet" });
  }

  #useDirect(port: MessagePort): void {
    this.#leaveDirect();
    this.#direct = port;
    port.onmessage = ({ data }: MessageEvent<ToPage>) => {
      if (this.#direct !== port) return;
      this.#isDirect = false;
      this.#hear(data);
    };
  }

  /** From now on the worker is asked, also for what has not been answered yet. */
  #leaveDirect(): void {
    if (!this.#direct) return;
    this.#direct.onmessage = null;
    this.#direct.close();
    this.#direct = undefined;
    if (!this.#isDirect) return;
    this.#isDirect = false;
    for (const message of this.#underWay) this.#post(message);
  }

  #tell(message: ToWorker, transfer: Transferable[] = []): void {
    this.#worker?.postMessage(message, transfer);
  }

  #listen(): void {
    const follows = this.#hearers.size > 0;
    const on = follows || this.#events.has("change");
    const said = Number(on) + Number(follows);
    if (said !== this.#told) this.#tell({ kind: "listen", on, follows });
    this.#told = said;
  }

  #tellNews(): void {
    for (const hear of [...this.#hearers]) hear();
  }

  #start(): void {
    const worker = startWorker({ worker: this.script, memory: this.options.memory });
    this.#worker = worker;
    this.#watch = this.options.memory ? undefined : new Watch(this.name);
    worker.onmessage = ({ data }: MessageEvent<ToPage>) => this.#hear(data);
    worker.onerror = (event) => {
      event.preventDefault?.();
      const code = this.#opening ? "unavailable" : "failed";
      const why = event.message ? `${event.message}; open the store again` : NOT_LOADED;
      this.#end(new PipkinError(code, `the worker of the store has failed: ${why}`));
    };
    // What was open and is not there any more must not come back empty.
    const options = this.tab === "" ? this.options : { ...this.options, create: false };
    try {
      this.#tell({ kind: "open", name: this.name, options, visible: this.#life.isSeen, page: this.#watch?.page ?? "" });
    } catch (thrown) {
      this.#end(new PipkinError("usage", `the options cannot be sent to a worker: ${String(thrown)}`));
    }
  }

  #hear(message: ToPage): void {
    if (message === null || message instanceof Uint8Array) {
      const answered = this.#underWay.shift();
      if (answered?.writes) this.#slowest = Math.max(performance.now() - this.#wroteAt, this.#slowest * 0.95);
      answered?.answer(message);
      this.#goOn();
      return;
    }
    switch (message.kind) {
      case "opened": {
        this.role = message.role;
        this.tab = message.tab;
        this.#watch?.begin(message.tab, message.seesPage, () => this.#end(new PipkinError("failed", "the worker of the store has ended; open the store again")));
        const opening = this.#opening;
        this.#opening = undefined;
        opening?.resolve();
        break;
      }
      case "failed":
        this.#end(unpack(message.error));
        break;
      case "refused":
        this.#underWay.shift()?.fail(this.#note(unpack(message.error)));
        this.#goOn();
        break;
      case "answer": {
        const { answer } = message;
        const call = this.#calls.take(answer.number);
        if ("error" in answer) call?.reject(this.#note(unpack(answer.error)));
        else call?.resolve("value" in answer ? answer.value : undefined);
        break;
      }
      case "broker":
        this.#broker = startBroker({ worker: this.script });
        if (this.#broker) this.#tell({ kind: "broker", port: this.#broker.port }, [this.#broker.port]);
        break;
      case "direct":
        this.#useDirect(message.port);
        break;
      case "role":
        this.#leaveDirect();
        this.role = message.role;
        this.#events.tell("leaderchange", { role: message.role });
        break;
      case "change": {
        const { keys, local, position } = message as { keys: readonly Bytes[] | undefined; local: boolean; position: Bytes | undefined };
        this.#tellNews();
        if (keys?.length !== 0) this.#events.tell("change", { keys, local, position });
        break;
      }
      case "blocked":
        if (this.#opening) this.#opening.blocked?.();
        else this.#events.tell("blocked", undefined);
        break;
      case "trouble":
        this.#events.tell("error", { error: unpack(message.error) });
        break;
    }
  }

  #note<T>(thrown: T): T {
    if (thrown instanceof PipkinError && thrown.code === "quota") this.#events.tell("quota", { error: thrown });
    return thrown;
  }

  /** What has gathered leaves at once, and so does what is called from now on. */
  #leave(): void {
    this.#isLeaving = true;
    this.#leaveUntil = performance.now() + LEAVE_MOST_MS;
    this.#tell({ kind: "leaving" });
    this.#leaveDirect();
    if (this.#outbox.isEmpty) this.#giveTime();
    else this.#send();
  }

  /**
   * Browsers end a worker with its page: Firefox without a look at what has been sent to it. So the page waits a moment; nothing can tell it,
   * while it blocks, that the worker is done. A file that grows needs the page in Chromium, too.
   */
  #giveTime(bytes = 0): void {
    if (!this.#underWay.some(({ writes }) => writes)) return;
    const ms = Math.max(LEAVE_MS, this.#slowest * LEAVE_TIMES) + bytes / LEAVE_BYTES + (this.#calls.areUnderWay ? LEAVE_CALLS_MS : 0);
    for (const until = Math.min(performance.now() + ms, this.#leaveUntil); performance.now() < until; );
  }

  /**
   * The page is about to be frozen: other tabs shall not wait for it. Writes that were called before still leave, and the worker carries them
   * out before it ends. It loses nothing that was acknowledged.
   */
  #suspend(): void {
    if (this.options.memory || !this.#worker) return;
    this.#watch?.end();
    this.#isLeaving = true;
    this.#leaveDirect();
    this.#broker = undefined;
    if (this.#outbox.writes) this.#send();
    this.#worker.onmessage = null;
    this.#tell({ kind: "leave" });
    this.#worker.terminate();
    this.#worker = undefined;
    this.role = "follower";
    const frozen = new PipkinError("failed", "the page was frozen before the answer came; call again");
    const unknown = new PipkinError("outcome-unknown", `the page was frozen before the answer came; ${UNKNOWN}`);
    this.#underWay = this.#underWay.filter((message) => {
      if (message.writes) message.fail(frozen, unknown);
      return !message.writes;
    });
    this.#calls.failSent(frozen, unknown);
    // It was being closed.
    if (this.#ended) this.#end(this.#ended);
  }

  /** The page goes on: opens the store again. What has gathered waits for that. */
  #resume(): void {
    this.#isLeaving = false;
    if (this.#worker || this.#ended) return;
    const resolve = (): void => {
      // This worker has not heard of it yet.
      this.#told = 0;
      this.#listen();
      this.#events.tell("leaderchange", { role: this.role });
      this.#calls.sendHeld(this.#sendCall);
      for (const message of this.#underWay) this.#post(message);
      void this.#sendAfter(1);
    };
    this.#opening ??= { resolve, reject: () => undefined, blocked: () => this.#events.tell("blocked", undefined) };
    this.#start();
  }

  /** Nothing will be answered any more. */
  #end(error: PipkinError, reason: unknown = error): void {
    const wasOpen = this.tab !== "" && !this.#ended;
    this.#life.end();
    this.#watch?.end();
    this.#worker?.terminate();
    this.#worker = undefined;
    this.#leaveDirect();
    this.#opening?.reject(reason);
    this.#opening = undefined;
    this.#ended = error;
    const unknown = new PipkinError("outcome-unknown", `the worker ended before it answered: ${error.message}; ${UNKNOWN}`);
    for (const message of this.#underWay) message.fail(error, unknown);
    this.#underWay = [];
    while (!this.#outbox.isEmpty) this.#outbox.take()?.fail(error);
    this.#calls.fail(error, unknown);
    this.#tellNews();
    if (wasOpen) this.#events.tell("error", { error });
  }
}
