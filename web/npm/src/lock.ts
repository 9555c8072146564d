// The lock of whoever has the file open, for those who do not wait in line for it.

import { leaderLock } from "./names.js";

/** Whoever has just closed the store gives its lock up a moment later. */
const PATIENCE_MS = 1_000;
const PAUSE_MS = 20;

/** Works under the lock of a store, or with `null` while somebody else has it. The lock is free again before this resolves. */
export async function withLock(name: string, work: (lock: Lock | null) => Promise<void>): Promise<void> {
  const until = performance.now() + PATIENCE_MS;
  for (let held = true; held; ) {
    await navigator.locks.request(leaderLock(name), { ifAvailable: true }, async (lock) => {
      held = !lock && performance.now() < until;
      if (!held) await work(lock);
    });
    if (held) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  }
}
