// The page's end of its worker. Calls of one task travel as one message; while one is under way, the next calls gather.

import { PipkinError, unpack } from "./errors.js";
import type { Answer, Call, ToPage, ToWorker } from "./protocol.js";
import type { Change, EngineOptions, Role } from "./types.js";
import { AnswerReader, RequestWriter } from "./wire.js";

/** How a call takes its part of an answer, or hears that there will be none. */
interface Waiting {
  readonly read: (answer: AnswerReader) => void;
  readonly fail: (error: PipkinError) => void;
  readonly writes: boolean;
}

/** Whether an operation changes the store, and if so, whether it is flushed before it is answered. */
export type Effect = "read" | "relaxed" | "strict";

export interface Events {
  readonly change: Change;
  readonly leaderchange: { readonly role: Role };
}

export function startWorker(): Worker {
  if (typeof Worker !== "function") throw new PipkinError("unavailable", "there are no workers here; in a worker use the entry `pipkin/sync`");
  return new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "pipkin" });
}

const NO_KEY = new Uint8Array();

export class Connection {
  role: Role = "follower";
  tab = "";
  readonly #listeners = { change: new Set<(event: Change) => void>(), leaderchange: new Set<(event: Events["leaderchange"]) => void>() };
  readonly #worker: Worker;
  readonly #calls = new Map<number, { resolve: (value: unknown) => void; reject: (error: PipkinError) => void; writes: boolean }>();
  #request = new RequestWriter();
  #gathered: Waiting[] = [];
  #underWay: { readonly number: number; readonly waiting: Waiting[] } | undefined;
  #scheduled = false;
  #number = 0;
  #ended: PipkinError | undefined;
  #opening: { resolve: () => void; reject: (error: PipkinError) => void } | undefined;

  private constructor(readonly name: string) {
    this.#worker = startWorker();
    this.#worker.onmessage = ({ data }: MessageEvent<ToPage>) => this.#hear(data);
    this.#worker.onerror = (event) => {
      event.preventDefault?.();
      const code = this.#opening ? "unavailable" : "failed";
      this.#end(new PipkinError(code, `the worker of the store has failed: ${event.message || "its script could not be loaded"}; open the store again`));
    };
  }

  static async open(name: string, options: EngineOptions): Promise<Connection> {
    const connection = new Connection(name);
    await new Promise<void>((resolve, reject) => {
      connection.#opening = { resolve, reject };
      connection.#tell({ kind: "open", name, options });
    });
    return connection;
  }

  /** Adds an operation to the message that leaves when the current task has ended. */
  operate<T>(effect: Effect, put: (request: RequestWriter) => void, take: (answer: AnswerReader) => T): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#ended) return reject(this.#ended);
      put(this.#request);
      if (effect === "strict") this.#request.setDurable();
      const read = (answer: AnswerReader): void => {
        try {
          resolve(take(answer));
        } catch (thrown) {
          reject(thrown);
        }
      };
      this.#gathered.push({ read, fail: reject, writes: effect !== "read" });
      this.#schedule();
    });
  }

  /** Makes a call behind all operations so far. */
  async call<T>(call: Call): Promise<T> {
    await this.#settled();
    const number = ++this.#number;
    return this.#await<T>(number, call.method === "install", { kind: "request", request: { number, call } });
  }

  /** Hands a piece of a copy to the worker. */
  copy(file: string, bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const number = ++this.#number;
    return this.#await(number, false, { kind: "copy", number, file, bytes }, [bytes.buffer]);
  }

  on<E extends keyof Events>(event: E, listener: (event: Events[E]) => void): () => void {
    const listeners = this.#listeners[event] as Set<(event: Events[E]) => void>;
    listeners.add(listener);
    if (event === "change" && listeners.size === 1) this.#tell({ kind: "listen", on: true });
    return () => {
      if (listeners.delete(listener) && event === "change" && listeners.size === 0) this.#tell({ kind: "listen", on: false });
    };
  }

  /** Waits for what is under way and ends the worker. */
  async close(): Promise<void> {
    if (this.#ended) return;
    const settled = this.#settled();
    const closed = new PipkinError("closed", `"${this.name}" has been closed; open it again`);
    this.#ended = closed;
    await settled.catch(() => undefined);
    // It may have failed meanwhile, and then there is nobody left to close it.
    if (this.#ended !== closed) return;
    const number = ++this.#number;
    await new Promise<void>((resolve, reject) => {
      this.#calls.set(number, { resolve: () => resolve(), reject, writes: false });
      this.#tell({ kind: "close", number });
    });
    this.#worker.terminate();
  }

  /** When everything called so far has been answered. */
  async #settled(): Promise<void> {
    if (this.#gathered.length === 0 && !this.#underWay) return;
    // An operation without effect, behind all others.
    await this.operate("read", (request) => request.has(NO_KEY), (answer) => answer.written());
  }

  #await<T>(number: number, writes: boolean, message: ToWorker, transfer: Transferable[] = []): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#ended) return reject(this.#ended);
      this.#calls.set(number, { resolve: resolve as (value: unknown) => void, reject, writes });
      this.#tell(message, transfer);
    });
  }

  #schedule(): void {
    if (this.#scheduled || this.#underWay) return;
    this.#scheduled = true;
    queueMicrotask(() => this.#send());
  }

  #send(): void {
    this.#scheduled = false;
    if (this.#underWay || this.#request.isEmpty) return;
    const number = ++this.#number;
    const bytes = this.#request.take();
    this.#underWay = { number, waiting: this.#gathered };
    this.#gathered = [];
    this.#tell({ kind: "request", request: { number, bytes } }, [bytes.buffer]);
  }

  #tell(message: ToWorker, transfer: Transferable[] = []): void {
    this.#worker.postMessage(message, transfer);
  }

  #hear(message: ToPage): void {
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
      case "answer":
        this.#answer(message.answer);
        break;
      case "role":
        this.role = message.role;
        for (const listener of [...this.#listeners.leaderchange]) listener({ role: message.role });
        break;
      case "change":
        for (const listener of [...this.#listeners.change]) listener({ keys: message.keys, local: message.local });
        break;
    }
  }

  #answer(answer: Answer): void {
    const call = this.#calls.get(answer.number);
    if (call) {
      this.#calls.delete(answer.number);
      if ("error" in answer) call.reject(unpack(answer.error));
      else call.resolve("value" in answer ? answer.value : undefined);
      return;
    }
    if (this.#underWay?.number !== answer.number) return;
    const { waiting } = this.#underWay;
    this.#underWay = undefined;
    // First, so that what is called from now on finds its place behind.
    if (!this.#request.isEmpty) this.#send();
    if ("bytes" in answer) {
      const reader = new AnswerReader(answer.bytes);
      for (const one of waiting) one.read(reader);
    } else {
      const error = "error" in answer ? unpack(answer.error) : new PipkinError("failed", "an answer that makes no sense");
      for (const one of waiting) one.fail(error);
    }
  }

  /** Nothing will be answered any more. */
  #end(error: PipkinError): void {
    this.#worker.terminate();
    this.#opening?.reject(error);
    this.#opening = undefined;
    this.#ended = error;
    const unknown = new PipkinError("outcome-unknown", `the worker ended before it answered; the write may be there or not: ${error.message}`);
    for (const { fail, writes } of this.#underWay?.waiting ?? []) fail(writes ? unknown : error);
    for (const { fail } of this.#gathered) fail(error);
    for (const { reject, writes } of this.#calls.values()) reject(writes ? unknown : error);
    this.#underWay = undefined;
    this.#gathered = [];
    this.#calls.clear();
  }
}
