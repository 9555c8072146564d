// A full quota and a private window of Firefox: said in typed errors, and nothing is lost.

import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import puppeteer from "puppeteer-core";
import { fillUp } from "../support/quota.mjs";
import { serve } from "../support/site.mjs";

const PROGRAM = process.env.PIPKIN_FIREFOX ?? "/usr/bin/firefox-esr";
const PATIENCE_MS = 120_000;

let site;
before(async () => {
  site = await serve();
});
after(async () => {
  await site?.close();
});

/** Has `work` done with a page of a Firefox that has these preferences. */
async function withPage(extraPrefsFirefox, work) {
  const userDataDir = mkdtempSync(join(tmpdir(), "pipkin-firefox-"));
  const browser = await puppeteer.launch({
    browser: "firefox", executablePath: PROGRAM, headless: true, userDataDir, extraPrefsFirefox, timeout: PATIENCE_MS, protocolTimeout: PATIENCE_MS,
  });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto(site.url);
    await page.waitForFunction(() => window.ready);
    await work(page);
  } finally {
    await browser.close();
    rmSync(userDataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
}

test("at a full quota writes fail with a typed error, nothing is lost, and removals and compaction make room", () => {
  const quota = 24 * 1024 * 1024;
  return withPage({ "dom.quotaManager.temporaryStorage.fixedLimit": quota / 1024 }, (page) => fillUp(page, quota));
});

test("a private window says that it has no storage; a store in memory works when it is asked for", () =>
  withPage({ "browser.privatebrowsing.autostart": true }, async (page) => {
    const seen = await page.evaluate(async () => {
      const refused = await pipkin.open("private").then(() => ["opened"], ({ code, message }) => [code, message]);
      const db = await pipkin.open("private", { memory: true });
      await db.set("a", "1");
      return { refused, support: await pipkin.support(), memory: [db.mode, await db.text().get("a")] };
    });
    console.log(seen.refused[1]);
    assert.equal(seen.refused[0], "unavailable");
    assert.match(seen.refused[1], /private window/);
    assert.equal(seen.support.supported, false);
    assert.deepEqual(seen.memory, ["memory", "1"]);
  }));
