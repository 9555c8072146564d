// Event streams in Chromium.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./support/setup.mjs";
import { testEvents } from "./support/events.mjs";

const { browser } = await setup();

testEvents(browser);

test("code in a worker of its own has events, too, and a page goes on with them", async () => {
  const page = await browser.tab();
  const seen = await page.evaluate(async () => {
    const script = `
      import { open } from "${location.origin}/pipkin/sync.js";
      const fate = (call) => { try { return call() ?? null; } catch (error) { return error.code; } };
      const lean = await open("event-sync");
      const both = await open("event-other", { events: true }).catch((error) => error.code);
      const refused = fate(() => lean.events("log").append("s", { type: "T" }));
      lean.set("k", "v");
      (await open("event-memory", { memory: true })).close();
      lean.close();
      const db = await open("event-sync", { events: true });
      const log = db.events("log");
      const first = log.append("s", [{ type: "1", tags: ["t"] }, { type: "2", payload: new Uint8Array(300_000) }, { type: "3", payload: "x" }], { expected: "none", durability: "strict" });
      const shown = (options) => [...log.read(options)].map(({ version, type }) => version + type).join(" ");
      const reads = [shown(), shown({ stream: "s", from: 2, limit: 1 }), shown({ reverse: true }), shown({ query: { tags: ["t"] } })];
      const others = [first.version, fate(() => log.append("s", { type: "x" }, { expected: "none" })), log.truncate("s", 2), log.version("s"), log.cursors().length, fate(() => log.append("s", []))];
      log.setRetention({ maxEvents: 1 });
      const kept = [log.retention().maxEvents, log.retain(), shown(), (() => { try { log.append("s", { type: "x" }, { expected: 9 }); } catch (error) { return error.failed; } })()];
      log.setRetention({});
      log.append("s", { type: "4" });
      db.close();
      postMessage([both, refused, reads, others, kept, fate(() => log.version("s"))]);`;
    const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
    const inWorker = await new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data)));
    worker.terminate();
    const db = await pipkin.open("event-sync");
    const log = await db.events("log");
    const types = [];
    for await (const { type } of log.read()) types.push(type);
    return [...inWorker, types, await db.text().get("k")];
  });
  assert.deepEqual(seen, ["usage", "usage", ["11 22 33", "22", "33 22 11", "11"], [3, "append-refused", 1, 3, 0, "usage"], [1, 1, "33", [{ stream: "s", expected: 9, current: 3 }]], "closed", ["3", "4"], "v"]);
  await page.close();
});

test("a page that never asks for events loads no more than before, and one that asks loads two files", async () => {
  const page = await browser.tab();
  const asked = [];
  page.on("request", (request) => asked.push(request.url().split("/").at(-1)));
  await page.evaluate(async () => {
    window.db = await pipkin.open("event-files");
    await db.transaction((tx) => tx.set("k", "v"));
  });
  assert.deepEqual(asked.filter((file) => /full|event/.test(file)), []);
  await page.evaluate(async () => { await (await db.events("log")).append("s", { type: "T" }); });
  assert.ok(asked.includes("event-log.js"), `asked for ${asked}`);
  assert.equal(await page.evaluate(async () => (await pipkin.open("event-memory", { memory: true })).events("log").then((log) => log.version("s")).catch((error) => error.code)), "usage");
  assert.equal(await page.evaluate(async () => (await pipkin.open("event-memory", { memory: true, events: true })).events("log").then((log) => log.version("s"))), 0);
  await page.close();
});

// The fetch fails before the file is closed.
test("where the second module cannot be loaded, the call is refused and the store goes on", async () => {
  const page = await browser.tab();
  await page.context().route("**/pipkin_full_bg.wasm", (route) => route.abort());
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("event-offline");
    await db.set("k", "v");
    const log = await db.events("log");
    const refused = await log.append("s", { type: "T" }).then(() => "appended", (error) => error.code);
    return [refused, await db.text().get("k"), (await db.verify()).damage];
  });
  assert.deepEqual(seen, ["failed", "v", []]);
  await page.context().unroute("**/pipkin_full_bg.wasm");
  assert.equal(await page.evaluate(async () => (await (await (await pipkin.open("event-offline")).events("log")).append("s", { type: "T" })).version), 1);
  await page.close();
});
