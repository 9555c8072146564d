// What can go wrong, as errors that say what to do.

/** A record that cannot be read: stored bytes have changed. */
export interface Damage<K = unknown> {
  /** Where in the file, in bytes. */
  readonly offset: number;
  /** What is damaged there. */
  readonly what: string;
  /** Its key, where that is known: in `getMany`, and in ordered walks whose keys were read before the damage. */
  readonly key?: K | undefined;
}

/** What kind of failure it was; branch on this. */
export type ErrorCode =
  /** The browser gives this page no storage: a private window, no secure context, an old browser, no workers. */
  | "unavailable"
  /** Somebody else has the file open and does not let go. */
  | "locked"
  /** The origin's storage is full. Nothing acknowledged is lost; reads and removals go on. */
  | "quota"
  /** Bytes that were safe have changed, or the file is no store. Nothing was changed or deleted. */
  | "corrupt"
  /** The file, or another tab, comes from another version of pipkin. */
  | "version"
  /** The write may have been carried out or not; read the key again to know. */
  | "outcome-unknown"
  /** An argument that makes no sense; nothing was done. */
  | "usage"
  /** The store was closed. */
  | "closed"
  /** There is no store of that name, and `create` was false. */
  | "missing"
  /** The snapshot has been given up: its tab or the one that had the store open has gone, or a full storage needed its room. Take another one. */
  | "snapshot-too-old"
  /** The store does not contain the commit of a position. */
  | "unknown-position"
  /** What has changed since a position is not kept any more. Ask for `position()`, read what is there, and go on from that position. */
  | "compacted"
  /** A transaction has met writes of others as often as it may, or its tab leads no more; it has written nothing. Run it again. */
  | "conflict"
  /** A stream of events is not as an append expected, or an event matches its query. Nothing was written. */
  | "append-refused"
  /** Another has begun under the name of this cursor since, or it was removed. */
  | "cursor-taken"
  /** The store is sealed, and no key was given. */
  | "key-needed"
  /** The key is not that of the store. Nothing was read. */
  | "wrong-key"
  /** A key was given, and the store is not sealed. */
  | "not-sealed"
  /** The store is being made plain, or that was cut short: with `disableEncryption` and its key it opens, and goes on. */
  | "disabling-encryption"
  /** The browser's file system failed. */
  | "failed";

/** Codes as numbers, in the order of `web/src/failure.rs`, which begins at 1. */
const CODES: readonly ErrorCode[] = [
  "unavailable", "locked", "quota", "corrupt", "version", "outcome-unknown", "usage", "closed", "failed", "missing",
  "snapshot-too-old", "unknown-position", "conflict", "compacted", "append-refused", "cursor-taken",
  "key-needed", "wrong-key", "not-sealed", "disabling-encryption",
];

/** A check of an append that has failed: a stream is not at the version that was expected (`"none"` is 0), or the event of this number matches `unless`. */
export type FailedCheck =
  | { readonly stream: string; readonly expected: number | "exists" | "anew"; readonly current: number; readonly matched?: undefined }
  | { readonly matched: number; readonly stream?: undefined };

/** Every error of this package. */
export class PipkinError extends Error {
  override readonly name = "PipkinError";
  /** The records that a walk or a `getMany` could not read. It has read all others. */
  readonly damage: readonly Damage[] | undefined;
  /** From `getMany`: the values of all keys, with `undefined` for those that could not be read. */
  readonly values: readonly unknown[] | undefined;
  /** As `append-refused`: all checks that have failed. */
  readonly failed: readonly FailedCheck[] | undefined;

  constructor(readonly code: ErrorCode, message: string, options?: ErrorOptions & { readonly damage?: readonly Damage[]; readonly values?: readonly unknown[] | undefined }) {
    // The engine puts them behind its words.
    const [words, failed] = code === "append-refused" ? message.split("\0") : [message];
    super(words, options);
    this.failed = failed ? (JSON.parse(failed) as FailedCheck[]) : undefined;
    this.damage = options?.damage;
    this.values = options?.values;
  }
}

/** An error as it travels between threads. */
export interface PackedError {
  readonly code: ErrorCode;
  readonly message: string;
}

export function codeOf(number: number): ErrorCode {
  return CODES[number - 1] ?? "failed";
}

export function pack(thrown: unknown): PackedError {
  const error = toError(thrown);
  return { code: error.code, message: error.failed ? `${error.message}\0${JSON.stringify(error.failed)}` : error.message };
}

export function unpack(packed: PackedError): PipkinError {
  return new PipkinError(packed.code, packed.message);
}

/** Whatever was thrown, in our own words. */
export function toError(thrown: unknown): PipkinError {
  if (thrown instanceof PipkinError) return thrown;
  // Not every browser throws an `Error` each time: Firefox has an `Exception`, too.
  const { name, message, code } = Object(thrown) as { name?: unknown; message?: unknown; code?: unknown };
  if (typeof name !== "string" || typeof message !== "string") return new PipkinError("failed", String(thrown));
  // As the engine throws it.
  if (name === "PipkinError" && typeof code === "number") return new PipkinError(codeOf(code), message);
  return new PipkinError(codeOfName(name), `${name}: ${message}`, { cause: thrown });
}

/** Browsers agree on the names of errors, not on their classes. */
function codeOfName(name: string): ErrorCode {
  switch (name) {
    case "NoModificationAllowedError":
      return "locked";
    case "QuotaExceededError":
    case "NS_ERROR_FILE_NO_DEVICE_SPACE":
      return "quota";
    case "NotFoundError":
      return "missing";
    case "SecurityError":
    case "NotAllowedError":
    case "NotSupportedError":
      return "unavailable";
    default:
      return "failed";
  }
}

/** Reports what a function of the caller has thrown, as an error that nobody caught. Node has no other way. */
export function report(thrown: unknown): void {
  if (typeof reportError === "function") return reportError(thrown);
  queueMicrotask(() => {
    throw thrown;
  });
}
