// `node carry.mjs STORE CHANGES RESULT SCREENSHOT`: a native store goes through headless Chromium, as a person would carry it.
//
// The demonstration page imports it by its button, a second tab makes the changes, the page exports it again. CHANGES has a
// line of JSON for each: a key, and its new value or null. `cargo xtask demo` calls this and looks at RESULT natively.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Browser } from "./support/browser.mjs";
import { serve } from "./support/site.mjs";

const [store, changesFile, result, screenshot] = process.argv.slice(2);
/** So many changes are one commit. */
const COMMIT = 1000;
const PATIENCE_MS = 300_000;

const changes = readFileSync(changesFile, "utf8").trim().split("\n").map((line) => JSON.parse(line));
const site = await serve();
const browser = await Browser.start(site);
browser.context.setDefaultTimeout(PATIENCE_MS);
try {
  const page = await browser.context.newPage();
  await page.setViewportSize({ width: 1200, height: 900 });
  await page.goto(`${site.url}demo/`);
  await page.waitForFunction(() => document.documentElement.dataset.ready);

  let start = performance.now();
  await page.setInputFiles("#import", store);
  await told(page, "imported");
  console.log(`imported by the page in ${since(start)}`);

  const other = await browser.tab();
  start = performance.now();
  const seen = await other.evaluate(async ([changes, size]) => {
    const db = await pipkin.open("demo", { create: false });
    const before = (await db.stats()).records;
    for (let at = 0; at < changes.length; at += size) {
      await db.batch((batch) => {
        for (const [key, value] of changes.slice(at, at + size)) value === null ? batch.delete(key) : batch.set(key, value);
      }, { durability: "strict" });
    }
    return { role: db.role, before, after: (await db.stats()).records };
  }, [changes, COMMIT]);
  console.log(`${changes.length} changes by a second tab (${seen.role}), ${COMMIT} in a commit, flushed, in ${since(start)}; records ${seen.before} -> ${seen.after}`);
  assert.equal(seen.role, "follower");
  await other.close();

  await page.click("#verify");
  await told(page, "no damage");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
  await download.saveAs(result);
  await page.press("[name=value]", "Enter");
  await page.waitForFunction(() => document.getElementById("latency").value && document.getElementById("records").textContent.includes("hello"));
  await page.screenshot({ path: screenshot, fullPage: true });
  assert.equal(await page.isHidden("#problem"), true);
} finally {
  await browser.end();
  await site.close();
}

function since(start) {
  return `${((performance.now() - start) / 1000).toFixed(2)} s`;
}

/** Waits until the page says so, or says what is wrong. */
async function told(page, text) {
  await page.waitForFunction((text) => !document.getElementById("problem").hidden || document.getElementById("told").textContent.includes(text), text);
  if (await page.isVisible("#problem")) throw new Error(await page.textContent("#problem"));
}
