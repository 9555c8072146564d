// The worker of one tab. It wants to lead, waits for the lock as long as another tab has it, and asks that one meanwhile.

import { PipkinError, pack } from "./errors.js";
import { checkOptions } from "./engine.js";
import { GONE, Leader } from "./leader.js";
import { PROTOCOL, commonChannel, followersLock, leaderChannel, leaderLock, openChannel, pageLock, randomHex, syncLock, tabChannel, tabLock } from "./names.js";
import type { Answer, Call, News, Packed, Request, ToBroker, ToLeader, ToPage, ToTabs } from "./protocol.js";
import { isWrite, transferred } from "./request.js";
import type { EngineOptions, Role, StoreKey } from "./types.js";

/** An unanswered tab asks again who leads, should it have missed the word. */
const ASK_AGAIN_MS = 500;
/** A leader that has not been heard for so long hangs: the page is told. */
const BLOCKED_AFTER_MS = 2_000;
/** The holder of the lock has not answered for so long: it is another version, or it hangs. */
const PATIENCE_MS = 30_000;
/** A leader out of sight waits so long before it hands over: tabs come and go while somebody looks for one. */
const HAND_OVER_AFTER_MS = 200;

/** What a tab had left to do when it went is kept so long: somebody leads by then. */
const LEFT_MS = 10_000;

/** What has not been answered yet. */
interface Pending {
  readonly request: Request;
  /** The number of a call in the words of the page; operations have none. */
  readonly call: number | undefined;
  /** A leader has been asked. */
  sent: boolean;
}

export class Tab {
  readonly id = randomHex();
  readonly #common: BroadcastChannel;
  readonly #answers: BroadcastChannel;
  /** In the order of their numbers. */
  readonly #pending = new Map<number, Pending>();
  readonly #closed = new AbortController();
  #number = 0;
  /** Gives up the locks: that of this tab, and that of the leader. */
  #leave: () => void = () => undefined;
  #giveUp: () => void = () => undefined;
  /** Ends the lock of those who follow changes. */
  #unfollow: () => void = () => undefined;
  #leader: Leader | undefined;
  #follows: { readonly epoch: string; readonly channel: BroadcastChannel } | undefined;
  #broker: MessagePort | undefined;
  #wantsBroker = false;
  #askTimer: ReturnType<typeof setInterval> | undefined;
  #handOverTimer: ReturnType<typeof setTimeout> | undefined;
  #listens = false;
  #isLeaving = false;
  /** What other tabs had left to do when they went, until a leader takes it. */
  readonly #left = new Map<string, { readonly tab: string; readonly request: Request }>();
  #opened = false;
  /** The leader to whose store the key of this tab is held. */
  #checks: string | undefined;
  #seesPage = false;
  #heardAt = performance.now();
  #toldBlocked = false;

  constructor(
    readonly name: string,
    private options: EngineOptions,
    private visible: boolean,
    private readonly page: string,
    private readonly tellPage: (message: ToPage, transfer?: Transferable[]) => void,
  ) {
    this.#common = openChannel(commonChannel(name));
    this.#answers = openChannel(tabChannel(name, this.id));
  }

  /** Opens the store here, or finds who has it open. */
  async open(): Promise<void> {
    if (this.options.memory) {
      this.#lead(await this.#beginToLead());
      return;
    }
    if (!navigator.locks) throw new PipkinError("unavailable", "this browser has no Web Locks; it takes Chrome 69, Firefox 96 or Safari 15.4");
    await Promise.all([this.#holdTabLock(), this.#lookForPage()]);
    this.#common.onmessage = ({ data }: MessageEvent<ToTabs>) => this.#hear(data);
    this.#answers.onmessage = ({ data }: MessageEvent<Answer>) => this.#answer(data);
    this.#waitInLine().catch((thrown: unknown) => this.#fail(thrown));
    this.#ask();
    this.#askTimer = setInterval(() => this.#askAgain(), ASK_AGAIN_MS);
  }

  /** Takes packed operations of the page. */
  operate(bytes: Packed): void {
    this.#take({ request: { number: ++this.#number, bytes }, call: undefined, sent: false });
  }

  call(number: number, call: Call): void {
    this.#take({ request: { number: ++this.#number, call }, call: number, sent: false });
  }

  setListening(on: boolean): void {
    this.#listens = on;
    this.#leader?.setListening(this.id, on);
    this.#tellLeader({ kind: "listen", tab: this.id, on });
  }

  /** Says it by a lock, which ends with this worker, however that comes. */
  setFollowing(on: boolean): void {
    this.#unfollow();
    if (!on || this.options.memory) return;
    const held = new Promise<void>((end) => (this.#unfollow = end));
    navigator.locks.request(followersLock(this.name), { mode: "shared" }, () => held).catch(() => undefined);
  }

  /** Of a store that has another key now. */
  setKey(key: StoreKey, disableEncryption: boolean): void {
    this.options = { ...this.options, key, disableEncryption };
  }

  setVisible(on: boolean): void {
    this.visible = on;
    this.#tellLeader({ kind: "visible", tab: this.id, on });
    this.#considerHandingOver();
  }

  /** The page may be gone before there is a leader again: what waits for one is told to all tabs, now and from now on. */
  setLeaving(): void {
    this.#isLeaving = true;
    for (const pending of this.#pending.values()) this.#leaveBehind(pending);
  }

  /** Only what no leader has got: it is carried out once, in whichever order. */
  #leaveBehind(pending: Pending): void {
    const { request, sent } = pending;
    if (sent || this.options.memory || !("bytes" in request) || typeof request.bytes === "string" || !isWrite(request.bytes)) return;
    pending.sent = true;
    this.#common.postMessage({ kind: "left", tab: this.id, request } satisfies ToTabs);
  }

  /** Any tab may be the next to lead. The leader that there seems to be has heard it, too, if it is still there, and says so. */
  #keepLeft(tab: string, request: Request): void {
    const name = leftName(tab, request);
    this.#left.set(name, { tab, request });
    setTimeout(() => this.#left.delete(name), LEFT_MS);
  }

  #carryOut(leader: Leader, tab: string, request: Request): void {
    try {
      // Nobody waits for the answer.
      void leader.serve(request, tab, true);
      this.#common.postMessage({ kind: "taken", left: leftName(tab, request) } satisfies ToTabs);
    } catch (thrown) {
      this.#fail(thrown);
    }
  }

  /** Takes the way to the broker, which the page was asked for. */
  useBroker(broker: MessagePort): void {
    this.#broker = broker;
    broker.onmessage = ({ data, ports: [port] }: MessageEvent<ToBroker>) => {
      if (data.kind === "meet" && port && this.#leader?.epoch === data.epoch) this.#leader.serveDirectly(data.tab, port);
    };
    this.meet();
  }

  /** Has the page and its leader introduced to each other, or the other way round. */
  meet(): void {
    const { name } = this;
    if (!this.#broker) {
      if (!this.#wantsBroker && (this.#leader || this.#follows)) this.tellPage({ kind: "broker" });
      this.#wantsBroker = true;
    } else if (this.#leader) {
      this.#broker.postMessage({ kind: "lead", name, epoch: this.#leader.epoch } satisfies ToBroker);
    } else if (this.#follows) {
      const { epoch } = this.#follows;
      const { port1, port2 } = new MessageChannel();
      // The leader says that it is there. If it never does, everything goes by broadcasts.
      port1.onmessage = () => {
        port1.onmessage = null;
        if (this.#follows?.epoch === epoch) this.tellPage({ kind: "direct", port: port1 }, [port1]);
      };
      this.#broker.postMessage({ kind: "meet", name, epoch, tab: this.id } satisfies ToBroker, [port2]);
    }
  }

  /** The same when the page waits for it: it hears of a file that has gone. */
  async closeAsked(): Promise<void> {
    const isGone = await this.#leader?.isGone();
    this.close();
    if (isGone) throw new PipkinError("failed", GONE);
  }

  /** Closes the store, or takes leave of the tab that has it open. */
  close(): void {
    clearInterval(this.#askTimer);
    clearTimeout(this.#handOverTimer);
    this.#closed.abort();
    this.#unfollow();
    this.#tellLeader({ kind: "gone", tab: this.id });
    this.#follows?.channel.close();
    this.#broker?.close();
    this.#answers.close();
    this.#common.close();
    try {
      this.#leader?.end();
    } finally {
      this.#leader = undefined;
      this.#giveUp();
      this.#leave();
    }
  }

  /** Held until the end of this worker, however that comes. */
  #holdTabLock(): Promise<void> {
    return new Promise((resolve, reject) => {
      const hold = (): Promise<void> => new Promise((leave) => {
        this.#leave = leave;
        resolve();
      });
      navigator.locks.request(tabLock(this.name, this.id), hold).catch(reject);
    });
  }

  /** It has requested its lock before it said that the store is to be opened. */
  async #lookForPage(): Promise<void> {
    const { held = [], pending = [] } = await navigator.locks.query();
    const lock = pageLock(this.name, this.page);
    this.#seesPage = [...held, ...pending].some(({ name }) => name === lock);
  }

  /** Leads whenever the lock is ours. Who has handed it over goes to the end of the line. */
  async #waitInLine(): Promise<void> {
    const { signal } = this.#closed;
    while (!signal.aborted) await navigator.locks.request(leaderLock(this.name), { signal }, () => this.#leadUntilGivenUp());
  }

  async #leadUntilGivenUp(): Promise<void> {
    const leader = await this.#beginToLead();
    if (this.#closed.signal.aborted) return leader.end();
    this.#follows?.channel.close();
    this.#follows = undefined;
    await new Promise<void>((giveUp) => {
      this.#giveUp = giveUp;
      this.#lead(leader);
      leader.announce();
    });
  }

  async #beginToLead(): Promise<Leader> {
    // What was open and is not there any more must not come back empty.
    const options = { ...this.options, create: this.options.create && !this.#opened };
    const beginning = Leader.begin(this.name, this.id, options, {
      changed: (news, tab) => this.#change(news, tab),
      reconsider: () => this.#considerHandingOver(),
      joined: () => this.#broker ?? this.meet(),
      trouble: (thrown) => this.tellPage({ kind: "trouble", error: pack(thrown) }),
      failed: (thrown) => this.#fail(thrown),
    });
    return beginning.catch((thrown: unknown) => {
      if (!this.#opened || !(thrown instanceof PipkinError) || thrown.code !== "missing") throw thrown;
      throw new PipkinError("missing", `"${this.name}" is not there any more: it was destroyed, or the data of this site was cleared; open the store again to begin a new one`);
    });
  }

  #lead(leader: Leader): void {
    this.#leader = leader;
    leader.setListening(this.id, this.#listens);
    this.#enter("leader");
    for (const { tab, request } of this.#left.values()) this.#carryOut(leader, tab, request);
    this.#left.clear();
    if (this.#broker) this.meet();
    this.#sendAgain((pending) => this.#serve(leader, pending, true));
  }

  /**
   * A page out of sight is slow, and may be frozen: it leaves the file to one that a person sees. After a write that has failed half way the
   * file has to be opened again, by whoever is next.
   */
  get #yields(): boolean {
    return !!this.#leader && (this.#leader.isPoisoned || (this.#leader.isWatched && !this.visible));
  }

  #considerHandingOver(): void {
    if (!this.#yields) return;
    this.#handOverTimer ??= setTimeout(() => {
      this.#handOverTimer = undefined;
      const leader = this.#leader;
      if (!leader || !this.#yields) return;
      if (leader.isBusy) return this.#considerHandingOver();
      this.#leader = undefined;
      this.#heard();
      try {
        leader.end();
      } catch (thrown) {
        this.tellPage({ kind: "trouble", error: pack(thrown) });
      }
      this.#giveUp();
    }, HAND_OVER_AFTER_MS);
  }

  #take(pending: Pending): void {
    // The own page's requests cannot come twice, and need no trace in the log.
    if (this.#leader && !this.#leader.isPoisoned) return this.#serve(this.#leader, pending, false);
    this.#pending.set(pending.request.number, pending);
    this.#send(pending);
    if (this.#isLeaving) this.#leaveBehind(pending);
  }

  /** The leader before may have carried these out. Operations tell by their numbers, but a file cannot be put in place twice. */
  #sendAgain(send: (pending: Pending) => void): void {
    for (const pending of [...this.#pending.values()]) {
      const { request, sent } = pending;
      if (sent && "call" in request && request.call.method === "install") {
        const message = "the tab that took the file in has gone before it said how it ended; look whether the store holds what was imported";
        this.#answer({ number: request.number, error: pack(new PipkinError("outcome-unknown", message)) });
      } else {
        send(pending);
      }
    }
  }

  #serve(leader: Leader, pending: Pending, again: boolean): void {
    pending.sent = true;
    try {
      const answer = leader.serve(pending.request, this.id, again);
      if (answer instanceof Promise) {
        this.#pending.set(pending.request.number, pending);
        answer.then((answer) => this.#answer(answer)).catch((thrown: unknown) => this.#fail(thrown));
      } else {
        this.#pending.delete(answer.number);
        this.#pass(answer, pending);
      }
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
        if (!this.#leader) void this.#meetLeader(message.epoch, message.protocol, message.front);
        break;
      case "left":
        if (this.#leader && !this.#leader.isPoisoned) this.#carryOut(this.#leader, message.tab, message.request);
        else this.#keepLeft(message.tab, message.request);
        break;
      case "taken":
        this.#left.delete(message.left);
        break;
      case "change":
        // A leader has told its own page already.
        if (!this.#leader) this.#change(message, message.tab);
        break;
    }
  }

  /** Works through a leader, if the key of this tab opens its store. */
  async #meetLeader(epoch: string, protocol: number, front: Uint8Array | undefined): Promise<void> {
    if (!this.#opened && protocol === PROTOCOL && (front || this.options.key) && epoch !== this.#checks) {
      this.#checks = epoch;
      try {
        await checkOptions(this.options, front);
      } catch (thrown) {
        return this.#fail(thrown);
      }
      // Another one may have taken its place meanwhile.
      if (this.#checks !== epoch || this.#leader || this.#closed.signal.aborted) return;
    } else if (!this.#opened && epoch === this.#checks) {
      return this.#heard();
    }
    this.#follow(epoch, protocol);
  }

  #follow(epoch: string, protocol: number): void {
    this.#heard();
    if (protocol !== PROTOCOL) {
      this.#fail(new PipkinError("version", `another tab has "${this.name}" open with another version of pipkin: close or reload all tabs of this site`));
      return;
    }
    if (this.#follows?.epoch === epoch) return;
    this.#follows?.channel.close();
    this.#follows = { epoch, channel: new BroadcastChannel(leaderChannel(this.name, epoch)) };
    if (this.#listens) this.setListening(true);
    this.setVisible(this.visible);
    this.#enter("follower");
    this.meet();
    this.#sendAgain((pending) => this.#send(pending));
  }

  #send(pending: Pending): void {
    if (!this.#follows) return;
    pending.sent = true;
    this.#tellLeader({ kind: "request", tab: this.id, request: pending.request });
  }

  #tellLeader(message: ToLeader): void {
    this.#follows?.channel.postMessage(message);
  }

  #enter(role: Role): void {
    if (!this.#opened) this.tellPage({ kind: "opened", role, tab: this.id, seesPage: this.#seesPage });
    else this.tellPage({ kind: "role", role });
    this.#opened = true;
  }

  #answer(answer: Answer): void {
    this.#heard();
    const pending = this.#pending.get(answer.number);
    // A request that two leaders have carried out is answered twice.
    if (!pending) return;
    this.#pending.delete(answer.number);
    this.#pass(answer, pending);
  }

  #pass(answer: Answer, pending: Pending): void {
    if ("bytes" in answer) this.tellPage(answer.bytes, transferred(answer.bytes));
    else if (pending.call !== undefined) this.tellPage({ kind: "answer", answer: { ...answer, number: pending.call } });
    else if ("error" in answer) this.tellPage({ kind: "refused", error: answer.error });
  }

  #change({ keys, position }: News, tab: string): void {
    if (this.#listens) this.tellPage({ kind: "change", keys, position, local: tab === this.id });
  }

  #ask(): void {
    this.#common.postMessage({ kind: "who" } satisfies ToTabs);
  }

  #heard(): void {
    this.#heardAt = performance.now();
    this.#toldBlocked = false;
  }

  #askAgain(): void {
    if (this.#leader) return;
    if (this.#opened && this.#pending.size === 0) return this.#heard();
    if (!this.#opened) void this.#askForSync();
    const silence = performance.now() - this.#heardAt;
    if (!this.#opened && silence > PATIENCE_MS) {
      this.#fail(new PipkinError("locked", `another tab has "${this.name}" open and does not answer: close or reload it`));
      return;
    }
    if (silence > BLOCKED_AFTER_MS && !this.#toldBlocked) {
      this.#toldBlocked = true;
      this.tellPage({ kind: "blocked" });
    }
    this.#ask();
  }

  /** A worker that has the file open for itself answers nobody, and nobody can say when it closes. */
  async #askForSync(): Promise<void> {
    const { held = [] } = await navigator.locks.query();
    if (this.#opened || this.#leader || !held.some(({ name }) => name === syncLock(this.name))) return;
    this.#fail(new PipkinError("locked", `a worker has "${this.name}" open for itself, by \`pipkin/sync\`: close it there`));
  }

  #fail(thrown: unknown): void {
    if ((thrown as Error | undefined)?.name === "AbortError") return;
    this.tellPage({ kind: "failed", error: pack(thrown) });
    this.close();
  }
}

function leftName(tab: string, request: Request): string {
  return `${tab}/${request.number}`;
}
