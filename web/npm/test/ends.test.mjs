// Ends that nobody asked for, and places where nothing can begin: the data of the site is cleared, a worker dies, somebody else has the file.

import assert from "node:assert/strict";
import { test } from "node:test";
import { serve as serveFolders } from "../serve.mjs";
import { endWorkers, until } from "./support/pages.mjs";
import { setup } from "./support/setup.mjs";
import { fileURLToPath } from "node:url";

const { site, browser } = await setup();
const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

async function openPage(name) {
  const page = await browser.tab();
  await page.evaluate(async (name) => {
    window.fate = (call) => call.then((value) => value ?? null, (error) => error.code ?? error.name);
    window.db = await pipkin.open(name);
    window.told = [];
    db.on("error", ({ error }) => told.push([error.code, error.message]));
    await db.set("a", "1");
  }, name);
  return page;
}

// Writes went on to a file without a name, and were acknowledged; closing never ended.
test("when the data of the site is cleared, an open store says so, takes no more writes, and can be closed and opened again", async () => {
  const [page, other] = [await openPage("cleared"), await openPage("closing")];
  const session = await browser.context.newCDPSession(page);
  await page.evaluate(() => db.get("a"));
  await session.send("Storage.clearDataForOrigin", { origin: new URL(site.url).origin, storageTypes: "all" });
  assert.equal(await other.evaluate(() => fate(db.close())), "failed");
  await page.evaluate(() => fate(db.set("lost", "1")));
  await until(() => page.evaluate(() => told.length > 0));
  const seen = await page.evaluate(async () => [told.length, told[0][0], /data of this site was cleared/.test(told[0][1]), await fate(db.set("b", "1")), await fate(db.close())]);
  assert.deepEqual(seen, [1, "failed", true, "failed", null]);
  for (const [tab, name] of [[page, "cleared"], [other, "closing"]]) {
    assert.deepEqual(await tab.evaluate(async (name) => { const db = await pipkin.open(name); await db.set("new", "1"); return [await db.has("a"), await db.text().get("new")]; }, name), [false, "1"]);
    await tab.close();
  }
});

// A page whose worker had ended, for want of memory, waited for ever.
test("when a worker dies its page hears of it, and what waits rejects", async () => {
  const page = await openPage("dies");
  const codes = page.evaluate(async () => {
    await db.get("a");
    workers[0].postMessage = () => undefined;
    const fates = [fate(db.set("b", "1"))];
    return Promise.all([...fates, fate(db.stats())]);
  });
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
  await endWorkers(page);
  assert.deepEqual(await codes, ["outcome-unknown", "failed"]);
  assert.deepEqual(await page.evaluate(async () => [told.map(([code]) => code), await fate(db.get("a")), await (await pipkin.open("dies")).text().get("a")]), [["failed"], "failed", "1"]);
  await page.close();
});

// It was said, after half a minute, that another tab did not answer.
test("a worker that has the file open for itself is named, long before anybody would give up", async () => {
  const page = await browser.tab();
  const seen = await page.evaluate(async () => {
    const script = `
      import { open } from "${location.origin}/pipkin/sync.js";
      const db = await open("alone");
      postMessage("open");
      onmessage = () => { db.close(); postMessage("closed"); };`;
    const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
    const next = () => new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data)));
    await next();
    const blocked = [];
    const refused = await pipkin.open("alone", { blocked: () => blocked.push(1) }).catch(({ code, message }) => [code, message]);
    worker.postMessage("close");
    await next();
    return [refused, blocked, (await pipkin.open("alone")).role];
  });
  assert.deepEqual([seen[0][0], /pipkin\/sync/.test(seen[0][1]), ...seen.slice(1)], ["locked", true, [], "leader"]);
  await page.close();
});

test("shared workers and service workers are told what to do instead", async () => {
  const page = await browser.tab();
  const seen = await page.evaluate(async () => {
    const script = (entry) => `
      import { open } from "${location.origin}/pipkin/${entry}.js";
      globalThis.said = Promise.resolve().then(() => open("nowhere")).then(() => "opened", ({ code, message }) => code + ": " + message);
      onconnect = ({ ports: [port] }) => said.then((text) => port.postMessage(text));`;
    const ask = (entry) => new Promise((resolve) => {
      const worker = new SharedWorker(`data:text/javascript,${encodeURIComponent(script(entry))}`, { type: "module", name: entry });
      worker.port.onmessage = ({ data }) => resolve(data);
      worker.onerror = () => resolve("did not start");
    });
    const blob = (entry) => new Promise((resolve) => {
      const worker = new SharedWorker(URL.createObjectURL(new Blob([script(entry)], { type: "text/javascript" })), { type: "module", name: `${entry} of a blob` });
      worker.port.onmessage = ({ data }) => resolve(data);
      worker.onerror = () => resolve("did not start");
    });
    return [await blob("index"), await blob("sync")];
  });
  for (const said of seen) assert.match(said, /^unavailable: a shared worker has no synchronous files/);
  await page.close();
});

const CSP = "script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; worker-src";
const MOUNTS = [["/pipkin/", folder("../dist")], ["/", folder("site")]];

test("under a Content-Security-Policy a store opens with what the README says it takes, and without it the error says what that is", async () => {
  for (const [policy, expected] of [
    [`default-src 'none'; connect-src 'self'; ${CSP} 'self'`, /^opened$/],
    [`default-src 'self'; ${CSP} 'none'`, /^unavailable: .*worker-src 'self'/],
    ["default-src 'self'; script-src 'self' 'unsafe-inline'; worker-src 'self'", /^unavailable: .*wasm-unsafe-eval/],
  ]) {
    const strict = await serveFolders(MOUNTS, 0, { "content-security-policy": policy });
    try {
      const page = await browser.context.newPage();
      await page.goto(strict.url);
      await page.waitForFunction(() => window.ready);
      assert.match(await page.evaluate(() => pipkin.open("policy").then(() => "opened", ({ code, message }) => `${code}: ${message}`)), expected, policy);
      await page.close();
    } finally {
      await strict.close();
    }
  }
});

test("the worker is started from where the caller says, or by the caller", async () => {
  const page = await browser.tab();
  const seen = await page.evaluate(async () => {
    const url = `${location.origin}/pipkin/worker.js`;
    const made = [];
    const one = await pipkin.open("elsewhere", { worker: url });
    const two = await pipkin.open("elsewhere", { worker: () => (made.push(1), new Worker(url, { type: "module" })) });
    await one.set("a", "1");
    return [await two.text().get("a"), made.length, await pipkin.open("nowhere", { worker: "/missing.js" }).catch(({ code }) => code)];
  });
  assert.deepEqual(seen, ["1", 1, "unavailable"]);
  await page.close();
});
