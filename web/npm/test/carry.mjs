// `node carry.mjs STORE CHANGES RESULT SCREENSHOT`: a native store goes through headless Chromium, as a person would carry it.
//
// The demonstration page imports it by its button, a second tab makes the changes, a third one watches, the page exports it again. CHANGES
// has a line of JSON for each: a key, and its new value or null. `cargo xtask demo` calls this and looks at RESULT natively.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Browser } from "./support/browser.mjs";
import { serve } from "./support/site.mjs";

const [store, changesFile, result, screenshot] = process.argv.slice(2);
/** So many changes are one commit. */
const COMMIT = 1000;
const PATIENCE_MS = 300_000;
/** What comes twice has come by then. */
const QUIET_MS = 1_000;

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

  const watching = await watcher(browser);
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
  await tellsAll(watching, changes);
  await Promise.all([other.close(), watching.close()]);

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

/** A tab that follows what the others write, from now on. */
async function watcher(browser) {
  const page = await browser.tab();
  await page.evaluate(async () => {
    const db = await pipkin.open("demo", { create: false });
    Object.assign(window, { db, commits: [], count: 0, events: 0 });
    db.on("change", ({ local }) => void (events += local ? 0 : 1));
    const following = db.text().changes();
    void (async () => {
      for await (const { position, changes } of following) {
        commits.push([position.join(), changes.map(({ key, value, removed }) => [key, removed ? null : value])]);
        count += changes.length;
      }
    })().catch((error) => (window.failed = `${error.code}: ${error.message}`));
    // Whatever is written once this has answered comes.
    await db.get("none");
  });
  return page;
}

/** Every commit once, whole and in order, and nothing besides. */
async function tellsAll(page, changes) {
  await page.waitForFunction((many) => window.failed || count >= many, changes.length);
  await new Promise((resolve) => setTimeout(resolve, QUIET_MS));
  const { commits, events, failed } = await page.evaluate(() => ({ commits, events, failed: window.failed }));
  assert.equal(failed, undefined);
  const expected = [];
  for (let at = 0; at < changes.length; at += COMMIT) expected.push(changes.slice(at, at + COMMIT));
  assert.deepEqual(commits.map(([, told]) => told), expected);
  assert.equal(new Set(commits.map(([position]) => position)).size, commits.length, "a commit came twice");
  assert.ok(events > 0, "no change event");
  console.log(`a third tab was told of ${changes.length} changes in ${commits.length} commits, each once, and got ${events} change events`);
}

function since(start) {
  return `${((performance.now() - start) / 1000).toFixed(2)} s`;
}

/** Waits until the page says so, or says what is wrong. */
async function told(page, text) {
  await page.waitForFunction((text) => !document.getElementById("problem").hidden || document.getElementById("told").textContent.includes(text), text);
  if (await page.isVisible("#problem")) throw new Error(await page.textContent("#problem"));
}
