// The store outlives reloads, restarts of the browser, and a kill of all its processes in the middle of writing.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Browser } from "./support/browser.mjs";
import { serve } from "./support/site.mjs";

const KILLS = Number(process.env.PIPKIN_KILLS ?? 15);

let site, browser;
before(async () => {
  site = await serve();
  browser = await Browser.start(site);
});
after(async () => {
  await browser?.end();
  await site?.close();
});

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

// A file that writers leave in the middle: every other commit is a batch, of which all must be there or nothing.
test(`of what was acknowledged nothing is lost in ${KILLS} kills of the whole browser, and batches are whole`, async () => {
  let acknowledged = 0;
  for (let kill = 0; kill < KILLS; kill++) {
    const page = await browser.tab();
    const state = await page.evaluate(async () => {
      window.db = await pipkin.open("killed");
      const text = db.text();
      const counts = {};
      for await (const [key] of text.entries()) {
        const [commit] = key.split("/");
        counts[commit] = (counts[commit] ?? 0) + 1;
      }
      return { counts, damage: (await db.verify()).damage };
    });
    assert.deepEqual(state.damage, []);
    const commits = Object.keys(state.counts).map(Number).sort((a, b) => a - b);
    assert.ok(commits.length >= acknowledged, `kill ${kill}: ${acknowledged} commits were acknowledged, ${commits.length} are there`);
    for (const [place, commit] of commits.entries()) {
      assert.equal(commit, place, "a commit is missing in front of one that is there");
      assert.equal(state.counts[commit], commit % 2 ? 20 : 1, `commit ${commit} is torn`);
    }
    let reached = commits.length;
    await page.exposeFunction("acknowledge", (commit) => void (reached = Math.max(reached, commit + 1)));
    await page.evaluate(([from, durability]) => {
      const write = async () => {
        for (let commit = from; ; commit++) {
          const records = Array.from({ length: commit % 2 ? 20 : 1 }, (_, i) => [`${commit}/${i}`, "x".repeat(3000)]);
          await db.setMany(records, { durability });
          acknowledge(commit);
        }
      };
      void write();
    }, [reached, kill % 2 ? "strict" : "relaxed"]);
    const until = reached + 30 + 17 * kill;
    while (reached < until) await new Promise((resolve) => setTimeout(resolve, 5));
    await browser.kill();
    acknowledged = reached;
    await browser.launch();
  }
  const page = await browser.tab();
  const records = await page.evaluate(async () => {
    const db = await pipkin.open("killed", { create: false });
    let commits = new Set();
    for await (const key of db.text().keys()) commits.add(key.split("/")[0]);
    return commits.size;
  });
  assert.ok(records >= acknowledged, `${acknowledged} commits were acknowledged, ${records} are there`);
  console.log(`${KILLS} kills, ${acknowledged} commits acknowledged, none lost`);
});
