// The side of the one worker that has the file open: carries out requests of its own page and of other tabs.

import { Copies } from "./copies.js";
import { WasmStore, beside, compiled, frontOf, openEngine, verifyCopy } from "./engine.js";
import { PipkinError, pack, toError } from "./errors.js";
import { folder, isGone, moveCopy, removeFile, removeOldCopies, storeFile } from "./files.js";
import { PROTOCOL, commonChannel, followersLock, fromHex, leaderChannel, openChannel, randomHex, tabChannel, tabLock } from "./names.js";
import type { Answer, Call, News, Packed, Request, ToLeader, ToPage, ToTabs } from "./protocol.js";
import { NO_SECRET, type Secret, secretOf } from "./secret.js";
import { isDurable, isForFull, isWrite, readersOf, transferred, writtenKeys } from "./request.js";
import { Snapshots } from "./snapshots.js";
import type { EngineOptions, Level, Stats, StoreKey } from "./types.js";

/** A relaxed write is handed to the system so long after it at the latest, and the file of a store that is written to is looked for so often. */
const FLUSH_AFTER_MS = 250;
/** So many keys of a change are named. */
const NAMED_KEYS = 256;
const NOBODY = new Uint8Array();
/** A new leader keeps what changed before so long for those who follow. */
const KEEP_MS = 10_000;
/** The number of that reader; those of tabs are not below 0. */
const EVERYBODY = -1;
/** What is said of a store whose file has gone. */
export const GONE = "the data of this site was cleared while the store was open: what was in it is gone; open the store again to begin a new one";

/** Whose worker this is. */
export interface Owner {
  /** Hears of changes, its own included. */
  changed(news: News, tab: string): void;
  /** It may be time to hand over: a tab that a person sees works through this one, or this one takes no writes any more. */
  reconsider(): void;
  /** Another tab works through this one. */
  joined(): void;
  /** Something failed that nobody waits for. */
  trouble(thrown: unknown): void;
  /** The engine is of no use any more: gives up the lock, so that another tab can begin anew. */
  failed(thrown: unknown): void;
}

export class Leader {
  readonly epoch = randomHex();
  readonly #common: BroadcastChannel;
  readonly #requests: BroadcastChannel;
  /** Where the answers of other tabs go. */
  readonly #tabs = new Map<string, BroadcastChannel>();
  /** By which the pages of other tabs ask for what only reads. */
  readonly #ports = new Map<string, MessagePort>();
  readonly #listeners = new Set<string>();
  /** Other tabs that a person sees. */
  readonly #visible = new Set<string>();
  /** Calls that are being carried out. */
  #calls = 0;
  readonly #copies = new Copies((on) => {
    if (on || !this.#isEnded) this.store.hold(on);
  });
  readonly #snapshots: Snapshots;
  #flushTimer: ReturnType<typeof setTimeout> | undefined;
  #keepTimer: ReturnType<typeof setTimeout> | undefined;
  /** What waits while a file is looked at and put in place, that nothing is written in between. */
  #held: (() => void)[] | undefined;
  /** Nothing was written that is not flushed. */
  #isFlushed = true;
  #isGone = false;
  #isEnded = false;
  #isPoisoned = false;
  /** The file could not be opened again. */
  #isLost = false;
  /** Its module is one that this has loaded, and not one that the page has named. */
  #hasLoaded = false;

  private constructor(
    readonly name: string,
    readonly tab: string,
    private options: EngineOptions,
    private store: WasmStore,
    private readonly owner: Owner,
  ) {
    this.#snapshots = new Snapshots(options.memory ? undefined : name, (tab) => this.#giveUpOf(tab));
    this.#common = openChannel(commonChannel(name));
    this.#requests = openChannel(leaderChannel(name, this.epoch));
    this.#requests.onmessage = ({ data }: MessageEvent<ToLeader>) => this.#hear(data);
  }

  /** Opens the file. The caller holds the lock, and gives it up if this fails. */
  static async begin(name: string, tab: string, options: EngineOptions, owner: Owner): Promise<Leader> {
    const store = await openEngine(name, options);
    const leader = new Leader(name, tab, options, store, owner);
    leader.#dropKey();
    // What cannot be tidied up now is no reason not to open: the next leader tries again.
    if (!options.memory) await leader.#tidyUp().catch(() => undefined);
    return leader;
  }

  /** Forgets what tabs have left behind that have gone. */
  async #tidyUp(): Promise<void> {
    const { held = [] } = await navigator.locks.query();
    if (held.some(({ name }) => name === followersLock(this.name))) this.#keepChanges();
    const prefix = tabLock(this.name, "");
    const living = new Set(held.flatMap(({ name }) => (name?.startsWith(prefix) ? [name.slice(prefix.length)] : [])));
    this.store.forgetRequestsOfAllBut(Uint8Array.from([...living].flatMap((tab) => [...fromHex(tab)])));
    await removeOldCopies(await folder(), this.name, living);
  }

  /** What those have not read who followed the leader before stays until they have asked this one. */
  #keepChanges(): void {
    this.store.keepChanges(EVERYBODY);
    // While a file is put in place the store may be closed, and what it kept has gone with it.
    this.#keepTimer = setTimeout(() => this.#held ?? this.store.giveUp(EVERYBODY), KEEP_MS);
  }

  /** Tells all tabs who leads, and what opens the store. */
  announce(): void {
    if (!this.options.key) return this.#say({ kind: "leader", epoch: this.epoch, protocol: PROTOCOL });
    const told = frontOf(storeFile(this.name)).then((front) => this.#isEnded || this.#say({ kind: "leader", epoch: this.epoch, protocol: PROTOCOL, front }));
    told.catch((thrown: unknown) => this.owner.trouble(thrown));
  }

  /** A tab that begins to listen hears at once that something may be new: it has asked already, perhaps before this. */
  setListening(tab: string, on: boolean): void {
    if (!on) return void this.#listeners.delete(tab);
    this.#listeners.add(tab);
    this.#tellNews();
  }

  /** Whether a tab that a person sees works through this one. */
  get isWatched(): boolean {
    return this.#visible.size > 0;
  }

  /** A write has failed half way. Whoever opens the file again can write. */
  get isPoisoned(): boolean {
    return this.#isPoisoned;
  }

  get isBusy(): boolean {
    return this.#calls > 0;
  }

  /**
   * Carries a request out; `tab` is whose it is, and `twice` says that it may have been carried out before. The bytes of an answer that
   * is no promise are to be sent at once. Throws only when the engine has failed for good.
   */
  serve(request: Request, tab: string, twice: boolean): Answer | Promise<Answer> {
    if (this.#held && !isOfCopy(request)) return new Promise<void>((resolve) => this.#held?.push(resolve)).then(() => kept(this.serve(request, tab, twice)));
    if ("call" in request) return this.#serveCall(request.number, request.call, tab);
    const { number, bytes } = request;
    try {
      if (typeof bytes === "string") return { number, bytes: this.store.getLone(bytes) ?? null };
      if (this.options.level < 1 && isForFull(bytes)) return this.#load(1).then(() => kept(this.serve(request, tab, twice)), (thrown: unknown) => refusal(number, thrown));
      for (const reader of readersOf(bytes)) this.#snapshots.hold(reader, tab);
      const answer = this.store.run(bytes, twice ? fromHex(tab) : NOBODY, number);
      if (isWrite(bytes)) this.#afterWrites(bytes, tab);
      else if (isDurable(bytes)) this.#tellNews();
      this.#look();
      return { number, bytes: answer };
    } catch (thrown) {
      return refusal(number, thrown);
    }
  }

  async #serveCall(number: number, call: Call, tab: string): Promise<Answer> {
    this.#calls++;
    try {
      return { number, value: await this.#call(call, tab) };
    } catch (thrown) {
      return refusal(number, thrown);
    } finally {
      this.#calls--;
      this.#look();
    }
  }

  /** Closes the file; the caller then gives up the lock. */
  end(): void {
    clearTimeout(this.#flushTimer);
    clearTimeout(this.#keepTimer);
    this.#snapshots.end();
    this.#copies.stop();
    this.#requests.close();
    this.#common.close();
    for (const channel of this.#tabs.values()) channel.close();
    this.#closePorts();
    this.#isEnded = true;
    // Chromium never answers who closes such a file.
    if (!this.#isGone) this.store.close();
  }

  #hear(message: ToLeader): void {
    switch (message.kind) {
      case "request":
        void this.#answer(message.request, message.tab);
        break;
      case "visible":
        this.owner.joined();
        if (message.on) this.#visible.add(message.tab);
        else this.#visible.delete(message.tab);
        this.owner.reconsider();
        break;
      case "listen":
        this.setListening(message.tab, message.on);
        break;
      case "gone":
        this.#visible.delete(message.tab);
        this.#listeners.delete(message.tab);
        this.#giveUpOf(message.tab);
        this.#copies.endAllOf(message.tab);
        this.#tabs.get(message.tab)?.close();
        this.#tabs.delete(message.tab);
        this.#ports.get(message.tab)?.close();
        this.#ports.delete(message.tab);
        break;
    }
  }

  async #answer(request: Request, tab: string): Promise<void> {
    try {
      const served = this.serve(request, tab, true);
      const answer = served instanceof Promise ? await served : served;
      // Who has not been answered asks the next one.
      if (!this.#isEnded) this.#channelOf(tab).postMessage(answer);
    } catch (thrown) {
      this.owner.failed(thrown);
    }
  }

  /**
   * Answers what the page of another tab asks for by a way of its own, without its worker in between. Only reads come that way: when this
   * leader goes, they are asked for again.
   */
  serveDirectly(tab: string, port: MessagePort): void {
    this.#ports.get(tab)?.close();
    if (this.#isEnded || this.#isPoisoned) return;
    this.#ports.set(tab, port);
    port.onmessage = ({ data }: MessageEvent<Packed>) => void this.#answerDirectly(port, data, tab);
    // It is used from this word on.
    port.postMessage(null);
  }

  async #answerDirectly(port: MessagePort, bytes: Packed, tab: string): Promise<void> {
    if (typeof bytes !== "string" && isWrite(bytes)) return;
    try {
      const served = this.serve({ number: 0, bytes }, tab, false);
      const answer = served instanceof Promise ? await served : served;
      if ("bytes" in answer) port.postMessage(answer.bytes, transferred(answer.bytes));
      else if ("error" in answer) port.postMessage({ kind: "refused", error: answer.error } satisfies ToPage);
    } catch (thrown) {
      this.owner.failed(thrown);
    }
  }

  #closePorts(): void {
    for (const port of this.#ports.values()) port.close();
    this.#ports.clear();
  }

  #channelOf(tab: string): BroadcastChannel {
    let channel = this.#tabs.get(tab);
    if (!channel) {
      channel = new BroadcastChannel(tabChannel(this.name, tab));
      this.#tabs.set(tab, channel);
    }
    return channel;
  }

  #afterWrites(request: Uint8Array, tab: string): void {
    if (this.#listeners.size > 0) {
      const { keys, all } = writtenKeys(request, NAMED_KEYS);
      if (keys.length > 0 || isDurable(request)) this.#tellChange({ keys: all ? keys : undefined, position: this.store.knownPosition() }, tab);
    }
    this.#isFlushed &&= isDurable(request);
    this.#flushTimer ??= setTimeout(() => this.#flushUnasked(), FLUSH_AFTER_MS);
  }

  #flushUnasked(): void {
    this.#flushTimer = this.#held && setTimeout(() => this.#flushUnasked(), FLUSH_AFTER_MS);
    if (this.#held) return;
    void this.#lookForFile();
    if (this.#isFlushed) return;
    this.#isFlushed = true;
    try {
      this.store.flush();
      this.#tellNews();
    } catch (thrown) {
      this.owner.trouble(thrown);
      this.#look();
    }
  }

  /** Of a file that has been removed with the data of the site Firefox takes no more writes, and Chromium goes on to. */
  async #lookForFile(): Promise<void> {
    this.#calls++;
    try {
      if (await this.isGone()) this.owner.failed(new PipkinError("failed", GONE));
    } finally {
      this.#calls--;
    }
  }

  /** Whether the file was removed while it was open. */
  async isGone(): Promise<boolean> {
    if (this.options.memory || this.#held) return false;
    const gone = await isGone(storeFile(this.name));
    // While it waited, the file may have been closed, and another put in its place.
    this.#isGone = gone && !this.#held && !this.#isEnded;
    return this.#isGone;
  }

  /** What other tabs ask from now on is left to the next leader, to whom they send it again. */
  #look(): void {
    if (this.#isPoisoned || !this.store.isPoisoned()) return;
    this.#isPoisoned = true;
    this.#requests.close();
    this.#closePorts();
    void this.#lookForFile();
    this.owner.reconsider();
  }

  #tellChange(news: News, tab: string): void {
    this.owner.changed(news, tab);
    this.#say({ kind: "change", tab, ...news });
  }

  /** Those who follow what is durable hear of it when it is. */
  #tellNews(): void {
    if (this.#listeners.size > 0) this.#tellChange({ keys: [] }, this.tab);
  }

  async #call(call: Call, tab: string): Promise<unknown> {
    switch (call.method) {
      case "export":
        return call.end ? this.#copies.end(call.copy) : this.#export(call.copy);
      case "piece": {
        const { offset, length, crc } = call.place;
        // An export that began under another leader, or was idle for long, goes on while nothing is overwritten.
        this.#copies.keepFor(call.copy);
        return this.store.piece(offset, length, crc);
      }
      case "install":
        return this.#install(call.file, call.replace, tab);
      case "begin":
        await this.#snapshots.turns.begin(call.snapshot, call.goesFirst);
        while (this.#held) await new Promise<void>((resolve) => this.#held?.push(resolve));
      // Then as a snapshot.
      case "takeSnapshot": {
        // First: a tab that has gone meanwhile gives up also what is refused here.
        this.#snapshots.hold(call.snapshot, tab);
        return this.store[call.method](call.snapshot);
      }
      case "giveUp":
        return this.#snapshots.giveUp(this.store, call.snapshot, tab);
      case "sizeOfSnapshot":
        return this.store.sizeOfSnapshot(call.snapshot);
      case "setDefaultTtl":
        return this.store.setDefaultTtl(call.ttl);
      case "setCompression":
        if (this.options.level < 2) await this.#load(2);
        return this.store.setCompression(call.when);
      case "stateOf":
        return this.store.stateOf(call.position);
      case "flushTo":
        this.store.flushTo(call.position);
        return this.#tellNews();
      case "keys":
        return this.#changeKeys(0, 0, NO_SECRET);
      case "addKey":
        return this.#changeKeys(1, 0, await this.#secretOf(call.key));
      case "removeKey":
        return this.#changeKeys(2, call.slot, NO_SECRET);
      case "rotateKey": {
        const rotated = this.#changeKeys(3, 0, await this.#secretOf(call.key));
        this.options = { ...this.options, key: call.key, disableEncryption: false };
        return rotated;
      }
      case "disableEncryption":
        this.options = { ...this.options, disableEncryption: true };
        return this.#changedKeys(6);
      case "finishKeyRotation":
        return this.#changedKeys(5);
      case "enableEncryption":
        return this.#enableEncryption(call.key);
      default:
        return this.store[call.method]();
    }
  }

  #changeKeys(what: number, slot: number, secret: Secret): unknown {
    if (!this.options.key) throw new PipkinError("not-sealed", "the store is not sealed: only one that was made with a key has keys");
    return this.store.changeKeys(what, slot, secret);
  }

  async #enableEncryption(key: StoreKey): Promise<unknown> {
    this.#checkHasFile("seal");
    if (this.options.level < 2) await this.#load(2);
    const secret = await this.#secretOf(key);
    try {
      return this.store.changeKeys(4, 0, secret);
    } finally {
      // Also after an error the store may have begun to be sealed: whoever opens it again needs the key then.
      if (this.#isSealed()) this.options = { ...this.options, key: this.options.key ?? key, disableEncryption: false };
    }
  }

  /** Changes after which the store may be plain. */
  #changedKeys(what: number): unknown {
    try {
      return this.#changeKeys(what, 0, NO_SECRET);
    } finally {
      this.#dropKey();
    }
  }

  /** What has become plain opens without a key. */
  #dropKey(): void {
    if (this.options.disableEncryption && !this.#isSealed()) this.options = { ...this.options, key: undefined, disableEncryption: false };
  }

  #isSealed(): boolean {
    try {
      this.store.changeKeys(0, 0, NO_SECRET);
      return true;
    } catch {
      return false;
    }
  }

  #secretOf(key: StoreKey): Promise<Secret> {
    return secretOf(key, () => frontOf(storeFile(this.name)));
  }

  /** What a tab held that has gone. */
  #giveUpOf(tab: string): void {
    if (!this.#isEnded) this.#snapshots.giveUpAll(this.store, tab);
  }

  #export(copy: string): Uint8Array {
    this.#copies.keepFor(copy);
    try {
      return this.store.cut();
    } catch (thrown) {
      this.#copies.end(copy);
      throw thrown;
    }
  }

  async #install(file: string, replace: boolean, tab: string): Promise<void> {
    this.#checkHasFile();
    const held: (() => void)[] = [];
    this.#held = held;
    try {
      await this.#copies.allEnded();
      await this.#exchange(file, replace);
    } catch (thrown) {
      // Its tab may have given it up. Where the store cannot be opened any more, it is all that is left.
      if (!this.#isLost) await folder().then((directory) => removeFile(directory, file)).catch(() => undefined);
      throw thrown;
    } finally {
      this.#held = undefined;
      for (const resolve of held) resolve();
    }
    this.#tellChange({ keys: undefined }, tab);
  }

  async #exchange(file: string, replace: boolean): Promise<void> {
    const { records } = this.store.stats() as Stats;
    if (records > 0 && !replace) {
      throw new PipkinError("usage", `the store holds ${records} records that the import would delete; say { replace: true } if it should`);
    }
    const { damage } = await verifyCopy(file, this.options.key);
    const [first] = damage;
    if (first) throw new PipkinError("corrupt", `the imported file is damaged at offset ${first.offset}: ${first.what}; the store is as it was`);
    try {
      this.store.close();
      await moveCopy(await folder(), file, storeFile(this.name));
    } finally {
      this.store = await this.#reopened();
    }
  }

  /** Goes on with another module. It is here before the file is closed. */
  async #load(level: Level): Promise<void> {
    if (this.options.memory || (this.options.wasm && !this.#hasLoaded)) throw new PipkinError("usage", "open the store with { events: true }, { compression } or { key }");
    const held: (() => void)[] = [];
    this.#held = held;
    this.#calls++;
    try {
      await this.#fetch(level);
      if (this.#isEnded) throw new PipkinError("closed", "the store was closed");
      this.store.close();
      this.store = await this.#reopened();
    } finally {
      this.#calls--;
      this.#held = undefined;
      for (const resolve of held) resolve();
    }
  }

  async #fetch(level: Level): Promise<void> {
    this.options = { ...this.options, wasm: await compiled(beside(level)), level };
    this.#hasLoaded = true;
  }

  async #reopened(): Promise<WasmStore> {
    try {
      return await openEngine(this.name, { ...this.options, create: false });
    } catch (thrown) {
      // What has been put in its place may be compressed.
      if (this.#hasLoaded && this.options.level < 2 && toError(thrown).code === "version") return this.#fetch(2).then(() => this.#reopened());
      this.#isLost = true;
      this.owner.failed(thrown);
      throw thrown;
    }
  }

  #checkHasFile(use = "export or import"): void {
    if (this.options.memory) throw new PipkinError("unavailable", `a store in memory has no file to ${use}`);
  }

  #say(message: ToTabs): void {
    this.#common.postMessage(message);
  }
}

function isOfCopy(request: Request): boolean {
  return "call" in request && (request.call.method === "piece" || (request.call.method === "export" && request.call.end === true));
}

/** An answer that is sent later: the engine may use its bytes again. */
function kept(answer: Answer | Promise<Answer>): Answer | Promise<Answer> {
  return "bytes" in answer && answer.bytes ? { ...answer, bytes: answer.bytes.slice() } : answer;
}

function refusal(number: number, thrown: unknown): Answer {
  if (thrown instanceof WebAssembly.RuntimeError) throw thrown;
  return { number, error: pack(thrown) };
}
