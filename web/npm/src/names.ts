// Names of stores, and of everything that tabs share about one.

import { PipkinError } from "./errors.js";

/** What tabs say to each other may change with this number; tabs of different ones refuse to work together. */
export const PROTOCOL = 12;

const GRAMMAR = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$/;

/** A name is a file name on every system, and never spelled in two ways. */
export function checkName(name: string): void {
  if (typeof name !== "string" || !GRAMMAR.test(name)) {
    throw new PipkinError(
      "usage",
      `"${String(name)}" cannot name a store: use 1 to 100 letters, digits, ".", "_" and "-", and no "." or "-" at the beginning`,
    );
  }
}

/** The lock of whoever has the file open. */
export const leaderLock = (name: string): string => `pipkin/${name}`;

/** Held besides by whoever has the file open for one worker alone. */
export const syncLock = (name: string): string => `pipkin/${name}/sync`;

/** The lock that a tab holds as long as it lives. */
export const tabLock = (name: string, tab: string): string => `pipkin/${name}/tab/${tab}`;

/** The lock that all tabs share that follow changes: the next leader keeps what they have not read. */
export const followersLock = (name: string): string => `pipkin/${name}/followers`;

/** The lock that a page holds while its worker opens the store. */
export const pageLock = (name: string, page: string): string => `pipkin/${name}/page/${page}`;

/** All tabs listen here. */
export const commonChannel = (name: string): string => `pipkin/${name}`;

/** One leader listens here for as long as it leads. */
export const leaderChannel = (name: string, epoch: string): string => `pipkin/${name}/leader/${epoch}`;

/** One tab listens here for its answers. */
export const tabChannel = (name: string, tab: string): string => `pipkin/${name}/tab/${tab}`;

export function randomHex(): string {
  return toHex(crypto.getRandomValues(new Uint8Array(16)));
}

export function toHex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(hex: string): Uint8Array {
  return Uint8Array.from(hex.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

/** In Node an open channel would keep the process from ending. */
export function openChannel(name: string): BroadcastChannel {
  const channel = new BroadcastChannel(name) as BroadcastChannel & { unref?: () => void };
  channel.unref?.();
  return channel;
}

/** 53 random bits, all that a number holds. */
export function randomNumber(): number {
  const [high = 0, low = 0] = crypto.getRandomValues(new Uint32Array(2));
  return high * 2 ** 21 + (low >>> 11);
}
