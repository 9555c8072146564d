// The npm package in Firefox: what tells browsers apart is the file, the locks and the channels, so these are tried here again.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Ledger } from "../support/ledger.mjs";
import { refuseNonsense } from "../support/nonsense.mjs";
import { endWorkers } from "../support/pages.mjs";
import { roundTrip } from "../support/roundtrip.mjs";
import { setup } from "./setup.mjs";

const KILLS = Number(process.env.PIPKIN_KILLS_FIREFOX ?? 6);

const { site, browser } = await setup();

test("values, prefixes and files come back as they were", async () => {
  const page = await browser.tab();
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("values");
    await db.setMany(Array.from({ length: 5000 }, (_, i) => [`${i % 2 ? "odd" : "even"}/${i}`, `value ${i}`]), { durability: "strict" });
    const ordered = await Promise.all([db.text().get("odd/1"), db.delete("odd/1"), db.has("odd/1")]);
    let odd = 0;
    for await (const [key, value] of db.text("odd/")) odd += value === `value ${key}`;
    const range = [];
    for await (const key of db.text().keys({ gt: "odd/4991", lte: "odd/4997" })) range.push(key);
    const file = await new Response(db.export()).blob();
    await db.set("later", "1");
    const refused = await db.import(file).catch((error) => error.code);
    await db.import(file, { replace: true });
    const { damage } = await db.verify();
    const answer = { support: await pipkin.support(), ordered, odd, range, refused, later: await db.has("later"), records: (await db.stats()).records, damage };
    await db.close();
    await pipkin.destroy("values");
    return { ...answer, missing: await pipkin.open("values", { create: false }).catch((error) => error.code) };
  });
  assert.deepEqual(seen, {
    support: { supported: true }, ordered: ["value 1", true, false], odd: 2499, range: ["odd/4993", "odd/4995", "odd/4997"], refused: "usage", later: false, records: 4999, damage: [],
    missing: "missing",
  });
  await page.close();
});

test("arguments that make no sense are refused", async () => {
  const page = await browser.tab();
  await refuseNonsense(page);
  await page.close();
});

test("a page that is left gives the file up, and works again on the way back", async () => {
  const [one, two] = [await browser.tab(), await browser.tab()];
  for (const page of [one, two]) await page.evaluate(async () => void (window.db = await pipkin.open("left")));
  await one.bringToFront();
  await one.waitForFunction(() => db.role === "leader");
  await one.goto(`${site.url}?elsewhere`);
  await two.bringToFront();
  await two.waitForFunction(() => db.role === "leader");
  await two.evaluate(() => db.set("a", "2"));
  await one.goBack();
  await one.waitForFunction(() => window.ready);
  // The browser may have kept the page, with the store in it, or not.
  const [kept, value] = await one.evaluate(async () => [!!window.db, await (window.db ?? (await pipkin.open("left"))).text().get("a")]);
  assert.equal(value, "2");
  console.log(`the page was ${kept ? "kept" : "loaded again"}`);
  await one.close();
  await two.close();
});

test("a native store is imported, changed in two tabs, exported, and is what it should be natively", () => roundTrip(() => browser.tab()));

/** Each ends the page's writing at once and leaves the browser running, the last one again. */
const WAYS = {
  async worker(page) {
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
const TURNS = ["worker", "page", "browser"];

test(`of what was acknowledged nothing is lost in ${KILLS} kills, and commits are whole`, async () => {
  const ledger = new Ledger();
  const killed = { worker: 0, page: 0, browser: 0 };
  for (let kill = 0; kill < KILLS; kill++) {
    const page = await browser.tab();
    await ledger.check(page);
    await ledger.write(page, kill % 2 ? "strict" : "relaxed", 5 + ((kill * 7) % 40));
    const way = TURNS[kill % TURNS.length];
    await WAYS[way](page);
    killed[way]++;
  }
  await ledger.check(await browser.tab());
  assert.ok(ledger.acknowledged >= 5 * KILLS);
  console.log(`kills: ${JSON.stringify(killed)}; ${ledger.acknowledged} commits acknowledged, none lost`);
});
