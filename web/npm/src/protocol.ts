// What a page and its worker, and the workers of several tabs, say to each other.

import type { Place } from "./cut.js";
import type { PackedError } from "./errors.js";
import type { Bytes, Compression, EngineOptions, Role, StoreKey } from "./types.js";

/** A call that is no packed operation. */
export type Call =
  | { readonly method: "compact" | "stats" | "segments" | "verify" | "position" | "defaultTtl" | "compression" | "resetClock" }
  | { readonly method: "setDefaultTtl"; readonly ttl: number }
  | { readonly method: "setCompression"; readonly when: Compression }
  | { readonly method: "stateOf" | "flushTo"; readonly position: Uint8Array }
  /** Takes the snapshot of that number, which the tab has chosen and reads it by until it gives it up or ends; says how many records it has. */
  | { readonly method: "takeSnapshot" | "sizeOfSnapshot" | "giveUp"; readonly snapshot: number }
  /** Begins a transaction in the same way; `goesFirst` says that others have been faster too often. */
  | { readonly method: "begin"; readonly snapshot: number; readonly goesFirst: boolean }
  /** Says what a copy of the store as it is now consists of, and keeps that in its place until a call with `end`, or a long time without a `piece`. */
  | { readonly method: "export"; readonly copy: string; readonly end?: true }
  /** A piece of such a copy. */
  | { readonly method: "piece"; readonly copy: string; readonly place: Place }
  /** Lists what opens the store, or changes it. */
  | { readonly method: "keys" | "finishKeyRotation" | "disableEncryption" }
  | { readonly method: "addKey" | "rotateKey" | "enableEncryption"; readonly key: StoreKey }
  | { readonly method: "removeKey"; readonly slot: number }
  /** Puts a checked copy in the place of the store. */
  | { readonly method: "install"; readonly file: string; readonly replace: boolean };

/**
 * Packed operations. One `get` and nothing else, the most common of all, is a string: its key with a character for each byte. Nothing but a
 * number travels cheaper.
 */
export type Packed = Bytes | string;

/** One request of a tab to the leader: packed operations, or a call. */
export type Request =
  | { readonly number: number; readonly bytes: Packed }
  | { readonly number: number; readonly call: Call };

/** Answers of packed operations; to one `get` alone its value, or null when there is none. */
export type Answered = Bytes | null;

/** What became of a request. */
export type Answer =
  | { readonly number: number; readonly bytes: Answered }
  | { readonly number: number; readonly value: unknown }
  | { readonly number: number; readonly error: PackedError };

/** One message with packed operations is under way at a time, and its answer is bytes, too. */
export type ToWorker = Packed | Told;

export type Told =
  /** `page` is the name of the lock that the page holds meanwhile. */
  | { readonly kind: "open"; readonly name: string; readonly options: EngineOptions; readonly visible: boolean; readonly page: string }
  | { readonly kind: "support" }
  /** The store is opened with this key from now on. */
  | { readonly kind: "key"; readonly key: StoreKey; readonly disableEncryption: boolean }
  | { readonly kind: "call"; readonly number: number; readonly call: Call }
  /** Whether a person sees the page. */
  | { readonly kind: "visible"; readonly on: boolean }
  /** A piece of a copy that comes in; an empty one ends it. Goes to a file, not to the store. */
  | { readonly kind: "copy"; readonly number: number; readonly file: string; readonly bytes: Bytes }
  /** `follows` says that the page reads changes one by one. */
  | { readonly kind: "listen"; readonly on: boolean; readonly follows: boolean }
  /** The way to the broker, which was asked for. */
  | { readonly kind: "broker"; readonly port: MessagePort }
  /** The way to the leader that this page had does not answer. */
  | { readonly kind: "meet" }
  /** The page may be gone at any moment. */
  | { readonly kind: "leaving" }
  /** The page is being stopped: nothing comes after this, and nobody waits for an answer. */
  | { readonly kind: "leave" }
  | { readonly kind: "close"; readonly number: number };

export type ToPage =
  | Answered
  /** None of the operations was carried out. */
  | { readonly kind: "refused"; readonly error: PackedError }
  /** `seesPage` says whether page and worker see the locks of each other. */
  | { readonly kind: "opened"; readonly role: Role; readonly tab: string; readonly seesPage: boolean }
  | { readonly kind: "failed"; readonly error: PackedError }
  | { readonly kind: "answer"; readonly answer: Answer }
  | { readonly kind: "role"; readonly role: Role }
  /** Other tabs have the store open, too: a worker cannot start the broker itself. */
  | { readonly kind: "broker" }
  /** Takes what only reads to the worker of the leader, and its answers back, until the next change of roles. */
  | { readonly kind: "direct"; readonly port: MessagePort }
  /** The tab that has the store open does not answer. */
  | { readonly kind: "blocked" }
  /** Something failed that nobody waits for. */
  | { readonly kind: "trouble"; readonly error: PackedError }
  | { readonly kind: "change"; readonly local: boolean } & News;

/** What has been written. */
export interface News {
  /** None when there are too many to name. An empty list says that something else is new: what was written has been flushed, or there is another leader. */
  readonly keys: readonly Uint8Array[] | undefined;
  /** Of the store after it, where somebody has asked for one before. */
  readonly position?: Uint8Array | undefined;
}

/** Said to the broker: who leads, or, with a port, who wants to be introduced to that leader. The leader gets the latter with the port. */
export type ToBroker =
  | { readonly kind: "lead"; readonly name: string; readonly epoch: string }
  | { readonly kind: "meet"; readonly name: string; readonly epoch: string; readonly tab: string };

/** Said to all tabs. */
export type ToTabs =
  /** Who leads? */
  | { readonly kind: "who" }
  | { readonly kind: "leader"; readonly epoch: string; readonly protocol: number; /** Of a sealed store, what says which keys open it. */ readonly front?: Uint8Array | undefined }
  /** Writes of a tab that is going, which no leader has got: whoever leads next carries them out, and says so. */
  | { readonly kind: "left"; readonly tab: string; readonly request: Request }
  | { readonly kind: "taken"; readonly left: string }
  | { readonly kind: "change"; readonly tab: string } & News;

/** Said to the leader. */
export type ToLeader =
  | { readonly kind: "request"; readonly tab: string; readonly request: Request }
  /** This tab wants to hear of changes, or no longer. */
  | { readonly kind: "listen"; readonly tab: string; readonly on: boolean }
  /** A person sees this tab, or no longer. */
  | { readonly kind: "visible"; readonly tab: string; readonly on: boolean }
  | { readonly kind: "gone"; readonly tab: string };
