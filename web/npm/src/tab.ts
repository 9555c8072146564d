// The worker of one tab. It wants to lead, waits for the lock as long as another tab has it, and asks that one meanwhile.

import { PipkinError, pack } from "./errors.js";
import { Leader } from "./leader.js";
import { PROTOCOL, commonChannel, fromHex, leaderChannel, leaderLock, randomHex, tabChannel, tabLock } from "./names.js";
import type { Answer, Request, ToLeader, ToPage, ToTabs } from "./protocol.js";
import type { EngineOptions, Role } from "./types.js";
import { makeRepeatable } from "./wire.js";

/** An unanswered tab asks again who leads, should it have missed the word. */
const ASK_AGAIN_MS = 500;
/** The holder of the lock has not answered for so long: it is another version, or it hangs. */
const PATIENCE_MS = 30_000;

export class Tab {
  readonly id = randomHex();
  readonly #bytes = fromHex(this.id);
  readonly #common: BroadcastChannel;
  readonly #answers: BroadcastChannel;
  /** What has not been answered yet, in its order. */
  readonly #pending = new Map<number, Request>();
  readonly #abandon = new AbortController();
  #release: (() => void)[] = [];
  #leader: Leader | undefined;
  #follows: { readonly epoch: string; readonly channel: BroadcastChannel } | undefined;
  #askTimer: ReturnType<typeof setInterval> | undefined;
  #listens = false;
  #opened = false;
  #heardAt = performance.now();

  constructor(
    readonly name: string,
    readonly options: EngineOptions,
    private readonly tellPage: (message: ToPage, transfer?: Transferable[]) => void,
  ) {
    this.#common = new BroadcastChannel(commonChannel(name));
    this.#answers = new BroadcastChannel(tabChannel(name, this.id));
  }

  /** Opens the store here, or finds who has it open. */
  async open(): Promise<void> {
    if (this.options.memory) {
      this.#lead(await this.#beginToLead());
      return;
    }
    if (!navigator.locks) throw new PipkinError("unavailable", "this browser has no Web Locks; it takes Chrome 69, Firefox 96 or Safari 15.4");
    await this.#hold(tabLock(this.name, this.id));
    this.#common.onmessage = ({ data }: MessageEvent<ToTabs>) => this.#hear(data);
    this.#answers.onmessage = ({ data }: MessageEvent<Answer>) => this.#answer(data);
    const mode = { mode: "exclusive", signal: this.#abandon.signal } as const;
    navigator.locks.request(leaderLock(this.name), mode, () => this.#leadUntilReleased()).catch((thrown: unknown) => this.#fail(thrown));
    this.#ask();
    this.#askTimer = setInterval(() => this.#askAgain(), ASK_AGAIN_MS);
  }

  /** Takes a request of the page. */
  take(request: Request): void {
    if ("bytes" in request && !this.options.memory) makeRepeatable(request.bytes, this.#bytes, request.number);
    this.#pending.set(request.number, request);
    if (this.#leader) void this.#serve(this.#leader, request, false);
    else this.#send(request);
  }

  setListening(on: boolean): void {
    this.#listens = on;
    this.#leader?.setListening(this.id, on);
    this.#follows?.channel.postMessage({ kind: "listen", tab: this.id, on } satisfies ToLeader);
  }

  /** Closes the store, or takes leave of the tab that has it open. */
  close(): void {
    clearInterval(this.#askTimer);
    this.#abandon.abort();
    this.#follows?.channel.postMessage({ kind: "gone", tab: this.id } satisfies ToLeader);
    this.#follows?.channel.close();
    this.#answers.close();
    this.#common.close();
    try {
      this.#leader?.end();
    } finally {
      this.#leader = undefined;
      for (const release of this.#release) release();
    }
  }

  /** Takes a lock and keeps it until the end of this worker, however that comes. */
  #hold(lock: string): Promise<void> {
    return new Promise((resolve, reject) => {
      navigator.locks
        .request(lock, () => new Promise<void>((release) => {
          this.#release.push(release);
          resolve();
        }))
        .catch(reject);
    });
  }

  async #leadUntilReleased(): Promise<void> {
    const leader = await this.#beginToLead();
    this.#follows?.channel.close();
    this.#follows = undefined;
    await new Promise<void>((release) => {
      this.#release.push(release);
      this.#lead(leader);
      leader.announce();
    });
  }

  #beginToLead(): Promise<Leader> {
    return Leader.begin(this.name, this.id, this.options, {
      changed: (keys, tab) => this.#change(keys, tab),
      failed: (thrown) => this.#fail(thrown),
    });
  }

  #lead(leader: Leader): void {
    this.#leader = leader;
    leader.setListening(this.id, this.#listens);
    this.#enter("leader");
    // The leader before may have carried these out.
    for (const request of this.#pending.values()) void this.#serve(leader, request, true);
  }

  async #serve(leader: Leader, request: Request, again: boolean): Promise<void> {
    // The own page's requests cannot come twice, and need no trace in the log.
    if ("bytes" in request && !again) request.bytes[0] = (request.bytes[0] ?? 0) & 1;
    try {
      this.#answer(await leader.serve(request, this.id));
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  #hear(message: ToTabs): void {
    switch (message.kind) {
      case "who":
        this.#leader?.announce();
        break;
      case "leader":
        if (!this.#leader) this.#follow(message.epoch, message.protocol);
        break;
      case "change":
        // A leader has told its own page already.
        if (!this.#leader) this.#change(message.keys, message.tab);
        break;
    }
  }

  #follow(epoch: string, protocol: number): void {
    this.#heardAt = performance.now();
    if (protocol !== PROTOCOL) {
      this.#fail(new PipkinError("version", `another tab has "${this.name}" open with another version of pipkin: close or reload all tabs of this site`));
      return;
    }
    if (this.#follows?.epoch === epoch) return;
    this.#follows?.channel.close();
    this.#follows = { epoch, channel: new BroadcastChannel(leaderChannel(this.name, epoch)) };
    if (this.#listens) this.setListening(true);
    this.#enter("follower");
    for (const request of this.#pending.values()) this.#send(request);
  }

  #send(request: Request): void {
    this.#follows?.channel.postMessage({ kind: "request", tab: this.id, request } satisfies ToLeader);
  }

  #enter(role: Role): void {
    if (!this.#opened) this.tellPage({ kind: "opened", role, tab: this.id });
    else this.tellPage({ kind: "role", role });
    this.#opened = true;
  }

  #answer(answer: Answer): void {
    this.#heardAt = performance.now();
    // A request that two leaders have carried out is answered twice.
    if (!this.#pending.delete(answer.number)) return;
    this.tellPage({ kind: "answer", answer }, "bytes" in answer ? [answer.bytes.buffer] : []);
  }

  #change(keys: readonly Uint8Array[] | undefined, tab: string): void {
    if (this.#listens) this.tellPage({ kind: "change", keys, local: tab === this.id });
  }

  #ask(): void {
    this.#common.postMessage({ kind: "who" } satisfies ToTabs);
  }

  #askAgain(): void {
    if (this.#leader) return;
    if (this.#opened && this.#pending.size === 0) {
      this.#heardAt = performance.now();
      return;
    }
    if (!this.#opened && performance.now() - this.#heardAt > PATIENCE_MS) {
      this.#fail(new PipkinError("locked", `another tab has "${this.name}" open and does not answer: close or reload it`));
      return;
    }
    this.#ask();
  }

  #fail(thrown: unknown): void {
    if ((thrown as Error | undefined)?.name === "AbortError") return;
    this.tellPage({ kind: "failed", error: pack(thrown) });
    this.close();
  }
}
