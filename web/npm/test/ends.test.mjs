// Ends that nobody asked for, and places where nothing can begin: the data of the site is cleared, a worker dies, somebody else has the file.

import assert from "node:assert/strict";
import { test } from "node:test";
import { serve as serveFolders } from "../serve.mjs";
import { testEnds } from "./support/ends.mjs";
import { setup } from "./support/setup.mjs";
import { fileURLToPath } from "node:url";

const { site, browser } = await setup();
const folder = (path) => fileURLToPath(new URL(path, import.meta.url));

testEnds(browser, {
  clears: {
    async "by its user"(page) {
      const session = await browser.context.newCDPSession(page);
      await session.send("Storage.clearDataForOrigin", { origin: new URL(site.url).origin, storageTypes: "all" });
    },
  },
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

// It said that a `TypeError` had come, and nothing of what to do.
test("under Trusted Types the error says how the page starts the worker, and then a store opens", async () => {
  const strict = await serveFolders(MOUNTS, 0, { "content-security-policy": "require-trusted-types-for 'script'; trusted-types app" });
  try {
    const page = await browser.context.newPage();
    await page.goto(strict.url);
    await page.waitForFunction(() => window.ready);
    const seen = await page.evaluate(async () => {
      const inline = await import("/pipkin/inline.js");
      const refused = await Promise.all([pipkin, inline].map(({ open }) => open("trusted").catch(({ code, message }) => `${code}: ${message}`)));
      const policy = trustedTypes.createPolicy("app", { createScriptURL: (url) => url });
      const db = await pipkin.open("trusted", { worker: () => new Worker(policy.createScriptURL("/pipkin/worker.js"), { type: "module" }) });
      await db.set("a", "1");
      return [refused, await db.text().get("a")];
    });
    for (const said of seen[0]) assert.match(said, /^unavailable: the Trusted Types of this page .*policy\.createScriptURL/);
    assert.equal(seen[1], "1");
    await page.close();
  } finally {
    await strict.close();
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
