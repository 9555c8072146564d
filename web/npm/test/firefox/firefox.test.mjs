// The npm package in Firefox: what tells browsers apart is the file, the locks and the channels, so these are tried here again.

import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import puppeteer from "puppeteer-core";
import { Ledger } from "../support/ledger.mjs";
import { roundTrip } from "../support/roundtrip.mjs";
import { serve } from "../support/site.mjs";

const PROGRAM = process.env.PIPKIN_FIREFOX ?? "/usr/bin/firefox-esr";
const KILLS = Number(process.env.PIPKIN_KILLS ?? 10);
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

test("a page that is left gives the file up, and works again on the way back", async () => {
  const [one, two] = [await tab(), await tab()];
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

test("a native store is imported, changed in two tabs, exported, and is what it should be natively", () => roundTrip(tab));

/** Each ends the page's writing at once and leaves the browser running, the last one again. */
const WAYS = {
  async worker(page) {
    await page.evaluate(() => void workers.forEach((worker) => worker.terminate()));
    await page.close();
  },
  async page(page) {
    const pids = contentProcesses(browser.process().pid);
    assert.ok(pids.length > 0, "no process that shows pages was found");
    for (const pid of pids) process.kill(pid, "SIGKILL");
    // The driver hangs if it is asked for something before the browser has noticed.
    await new Promise((resolve) => setTimeout(resolve, 500));
    await page.close();
  },
  async browser() {
    const ended = [once(browser.process(), "exit"), once(browser, "disconnected")];
    browser.process().kill("SIGKILL");
    await Promise.all(ended);
    await launch();
  },
};
const TURNS = ["worker", "page", "browser"];

test(`of what was acknowledged nothing is lost in ${KILLS} kills, and commits are whole`, async () => {
  const ledger = new Ledger();
  const killed = { worker: 0, page: 0, browser: 0 };
  for (let kill = 0; kill < KILLS; kill++) {
    const page = await tab();
    await ledger.check(page);
    await ledger.write(page, kill % 2 ? "strict" : "relaxed", 5 + ((kill * 7) % 40));
    const way = TURNS[kill % TURNS.length];
    await WAYS[way](page);
    killed[way]++;
  }
  await ledger.check(await tab());
  assert.ok(ledger.acknowledged >= 5 * KILLS);
  console.log(`kills: ${JSON.stringify(killed)}; ${ledger.acknowledged} commits acknowledged, none lost`);
});

/** The processes under `ancestor` that run pages; they are started by a process in between. */
function contentProcesses(ancestor) {
  const parents = new Map();
  const pages = [];
  for (const entry of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) {
    try {
      parents.set(Number(entry), Number(readFileSync(`/proc/${entry}/stat`, "utf8").split(") ")[1].split(" ")[1]));
      if (/ -contentproc .* tab$/.test(readFileSync(`/proc/${entry}/cmdline`, "utf8").replaceAll("\0", " ").trim())) pages.push(Number(entry));
    } catch {
      // It has ended meanwhile.
    }
  }
  return pages.filter((pid) => {
    for (let at = pid; at; at = parents.get(at)) if (at === ancestor) return true;
    return false;
  });
}
