// The store outlives reloads, restarts of the browser, and kills of the worker, the page's process and the whole browser in the middle
// of writing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Ledger } from "./support/ledger.mjs";
import { endWorkers } from "./support/pages.mjs";
import { setup } from "./support/setup.mjs";

const KILLS = Number(process.env.PIPKIN_KILLS_CHROMIUM ?? 20);

const { browser } = await setup();

test("records outlive a reload of the page and a restart of the browser", async () => {
  let page = await browser.tab();
  await page.evaluate(async () => {
    window.db = await pipkin.open("lasting");
    await db.setMany(Array.from({ length: 1000 }, (_, i) => [`key ${i}`, `value ${i}`]));
  });
  const found = () => page.evaluate(async () => {
    const db = await pipkin.open("lasting", { create: false });
    return [(await db.stats()).records, await db.text().get("key 999")];
  });
  await page.reload();
  await page.waitForFunction(() => window.ready);
  assert.deepEqual(await found(), [1000, "value 999"]);
  await browser.restart();
  page = await browser.tab();
  assert.deepEqual(await found(), [1000, "value 999"]);
  await page.close();
});

/** Each ends the page's writing at once and leaves the browser running, the last one again. */
const WAYS = {
  async worker(page) {
    // Closing the page is no part of it: the worker has ended before.
    await endWorkers(page);
    await page.close();
  },
  async page(page) {
    await browser.endProcess(page);
    await page.close();
  },
  async browser() {
    await browser.kill();
    await browser.launch();
  },
};
/** A start of the browser takes longest, so it gets the smallest part. */
const TURNS = ["worker", "page", "worker", "page", "browser"];

test(`of what was acknowledged nothing is lost in ${KILLS} kills, and commits are whole`, async () => {
  const ledger = new Ledger();
  const killed = { worker: 0, page: 0, browser: 0 };
  for (let kill = 0; kill < KILLS; kill++) {
    const page = await browser.tab();
    await ledger.check(page);
    // Long enough runs in between that compaction starts; the rest is short.
    await ledger.write(page, kill % 2 ? "strict" : "relaxed", 5 + ((kill * 7) % 40));
    const way = TURNS[kill % TURNS.length];
    await WAYS[way](page);
    killed[way]++;
  }
  const page = await browser.tab();
  await ledger.check(page);
  await page.close();
  assert.equal(killed.worker + killed.page + killed.browser, KILLS);
  assert.ok(ledger.acknowledged >= 5 * KILLS);
  console.log(`kills: ${JSON.stringify(killed)}; ${ledger.acknowledged} commits acknowledged, none lost`);
});
