// The npm package in Firefox: what tells browsers apart is the file, the locks and the channels, so these are tried here again.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import puppeteer from "puppeteer-core";
import { serve } from "../support/site.mjs";

const PROGRAM = process.env.PIPKIN_FIREFOX ?? "/usr/bin/firefox-esr";
const KILLS = Number(process.env.PIPKIN_KILLS ?? 4);
/** Generous: a machine under load must not fail a test. */
const PATIENCE_MS = 120_000;

let site, browser, profile;
before(async () => {
  site = await serve();
  profile = mkdtempSync(join(tmpdir(), "pipkin-firefox-"));
  await launch();
});
after(async () => {
  await browser?.close();
  await site?.close();
  rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
});

async function launch() {
  const options = { browser: "firefox", executablePath: PROGRAM, headless: true, userDataDir: profile };
  for (let attempt = 1; !browser?.connected; attempt++) {
    try {
      browser = await puppeteer.launch({ ...options, timeout: PATIENCE_MS, protocolTimeout: PATIENCE_MS });
    } catch (error) {
      // The driver is still putting the profile of the browser before in order.
      if (error.code !== "ENOENT" || attempt === 100) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

async function tab() {
  const page = await browser.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.goto(site.url);
  await page.waitForFunction(() => window.ready);
  return page;
}

test("values, prefixes and files come back as they were", async () => {
  const page = await tab();
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("values");
    await db.setMany(Array.from({ length: 5000 }, (_, i) => [`${i % 2 ? "odd" : "even"}/${i}`, `value ${i}`]), { durability: "strict" });
    const ordered = await Promise.all([db.text().get("odd/1"), db.delete("odd/1"), db.has("odd/1")]);
    let odd = 0;
    for await (const [key, value] of db.text("odd/")) odd += value === `value ${key}`;
    const file = await new Response(db.export()).blob();
    await db.set("later", "1");
    const refused = await db.import(file).catch((error) => error.code);
    await db.import(file, { replace: true });
    const { damage } = await db.verify();
    const answer = { support: await pipkin.support(), ordered, odd, refused, later: await db.has("later"), records: (await db.stats()).records, damage };
    await db.close();
    await pipkin.destroy("values");
    return { ...answer, missing: await pipkin.open("values", { create: false }).catch((error) => error.code) };
  });
  assert.deepEqual(seen, {
    support: { supported: true }, ordered: ["value 1", true, false], odd: 2499, refused: "usage", later: false, records: 4999, damage: [],
    missing: "missing",
  });
  await page.close();
});

test("a tab that leads is closed while another one writes: it takes over, and each update counts once", async () => {
  const [one, two] = [await tab(), await tab()];
  for (const page of [one, two]) await page.evaluate(async () => void (window.db = await pipkin.open("tabs")));
  assert.deepEqual([await one.evaluate(() => db.role), await two.evaluate(() => db.role)], ["leader", "follower"]);
  await two.evaluate(() => {
    window.done = 0;
    window.running = (async () => {
      while (!window.enough) {
        await db.json().update("count", (old) => (old ?? 0) + 1);
        done++;
      }
    })();
  });
  await two.waitForFunction(() => done > 50);
  await one.close();
  await two.waitForFunction(() => db.role === "leader");
  const before = await two.evaluate(() => done);
  await two.waitForFunction((before) => done > before + 50, {}, before);
  const [done, count] = await two.evaluate(async () => {
    window.enough = true;
    await running;
    return [done, await db.json().get("count")];
  });
  assert.equal(count, done);
  await two.close();
});

test(`of what was acknowledged nothing is lost in ${KILLS} kills of the browser`, async () => {
  let acknowledged = 0;
  for (let kill = 0; kill <= KILLS; kill++) {
    const page = await tab();
    const found = await page.evaluate(async () => {
      window.db = await pipkin.open("killed");
      const commits = {};
      for await (const key of db.text().keys()) {
        const [commit] = key.split("/");
        commits[commit] = (commits[commit] ?? 0) + 1;
      }
      return { sizes: Object.values(commits), last: Math.max(-1, ...Object.keys(commits)), damage: (await db.verify()).damage };
    });
    assert.deepEqual(found.damage, []);
    assert.ok(found.sizes.every((size) => size === 10), "a batch is torn");
    assert.equal(found.sizes.length, found.last + 1, "a commit is missing in front of one that is there");
    assert.ok(found.sizes.length >= acknowledged, `${acknowledged} commits were acknowledged, ${found.sizes.length} are there`);
    if (kill === KILLS) break;
    let reached = found.sizes.length;
    await page.exposeFunction("acknowledge", (commit) => void (reached = Math.max(reached, commit + 1)));
    await page.evaluate(([from, durability]) => {
      void (async () => {
        for (let commit = from; ; commit++) {
          await db.setMany(Array.from({ length: 10 }, (_, i) => [`${commit}/${i}`, "x".repeat(3000)]), { durability });
          acknowledge(commit);
        }
      })();
    }, [reached, kill % 2 ? "strict" : "relaxed"]);
    const until = reached + 20 + 11 * kill;
    while (reached < until) await new Promise((resolve) => setTimeout(resolve, 5));
    const ended = [once(browser.process(), "exit"), once(browser, "disconnected")];
    browser.process().kill("SIGKILL");
    await Promise.all(ended);
    acknowledged = reached;
    await launch();
  }
  assert.ok(acknowledged >= 20 * KILLS);
  console.log(`${KILLS} kills, ${acknowledged} commits acknowledged, none lost`);
});
