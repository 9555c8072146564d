// What is asked of pages in the same way through every driver.

import assert from "node:assert/strict";

/** Generous: a machine under load must not fail a test. */
const PATIENCE_MS = 120_000;
/** Far longer than an answer takes. */
const SILENCE_MS = 1_000;
const PAUSE_MS = 20;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Asks until the answer is yes, and returns it. The drivers' own way asks once a frame, and pages out of sight have hardly any. */
export async function until(condition) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await pause(PAUSE_MS)) {
    const answer = await condition();
    if (answer) return answer;
  }
  throw new Error(`never true: ${condition}`);
}

/** Ends the workers of a page as a kill would. */
export const endWorkers = (page) => page.evaluate(() => workers.forEach((worker) => worker.terminate()));

/** Whether a page with a store in it is still there. A driver that is asked before the browser has noticed may never answer: asks again. */
export async function isThere(page) {
  for (;;) {
    const answer = await Promise.race([page.evaluate(() => "db" in window).catch(() => false), pause(SILENCE_MS)]);
    if (answer !== undefined) return answer;
  }
}

/** Two tabs of a store, a leader and a follower behind it. `browser.tab` opens a tab in front of the others, `opened` the store in it. */
export async function leaderAndFollower(browser, opened) {
  const pages = [];
  while (pages.length < 2) pages.unshift(await browser.tab());
  for (const page of pages) await opened(page);
  assert.deepEqual(await Promise.all(pages.map((page) => page.evaluate(() => db.role))), ["leader", "follower"]);
  return pages;
}
