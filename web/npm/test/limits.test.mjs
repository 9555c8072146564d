// A full quota, a private window, a browser that lacks what the package needs: said in typed errors, and nothing is lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { chromium } from "playwright-core";
import { LAUNCH } from "./support/browser.mjs";
import { fillUp } from "./support/quota.mjs";
import { setup } from "./support/setup.mjs";

const { site, browser } = await setup();
const MIB = 1024 * 1024;

test("at a full quota writes fail with a typed error, nothing is lost, and removals and compaction make room", async () => {
  const page = await browser.tab();
  const session = await browser.context.newCDPSession(page);
  const origin = new URL(site.url).origin;
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: 24 * MIB });
  await fillUp(page, 24 * MIB);
  await page.close();
});

test("at a quota that has no room for a store, opening one fails with a typed error, and later works", async () => {
  const page = await browser.tab();
  const session = await browser.context.newCDPSession(page);
  const origin = new URL(site.url).origin;
  const { usage } = await page.evaluate(() => navigator.storage.estimate());
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: usage + 1000 });
  const refused = await page.evaluate(async () => pipkin.open("nowhere").then(() => "opened", (error) => error.code));
  assert.equal(refused, "quota");
  await session.send("Storage.overrideQuotaForOrigin", { origin });
  assert.equal(await page.evaluate(async () => (await pipkin.open("nowhere")).mode), "opfs");
  await page.close();
});

// Chromium gives private windows a file system in memory.
test("in a private window of Chromium a store works, and ends with the window", async () => {
  const incognito = await chromium.launch(LAUNCH);
  try {
    const visit = async (context) => {
      const page = await context.newPage();
      await page.goto(site.url);
      await page.waitForFunction(() => window.ready);
      return page.evaluate(async () => {
        const db = await pipkin.open("private");
        const before = await db.text().get("seen");
        await db.set("seen", "yes", { durability: "strict" });
        await db.close();
        return [await pipkin.support(), before];
      });
    };
    const window = await incognito.newContext();
    assert.deepEqual(await visit(window), [{ supported: true }, undefined]);
    assert.deepEqual(await visit(window), [{ supported: true }, "yes"]);
    await window.close();
    assert.deepEqual(await visit(await incognito.newContext()), [{ supported: true }, undefined]);
  } finally {
    await incognito.close();
  }
});

/** What old browsers lack, taken away in a real one before the package loads; in its worker where that is what is missing. */
const MISSING = {
  "synchronous file handles": { worker: "delete FileSystemFileHandle.prototype.createSyncAccessHandle" },
  "the file system": { worker: "delete StorageManager.prototype.getDirectory" },
  "Web Locks": { worker: "delete WorkerNavigator.prototype.locks", page: "delete Navigator.prototype.locks" },
};
for (const [what, { worker, page: inPage }] of Object.entries(MISSING)) {
  test(`a browser without ${what} is told so`, async () => {
    const page = await browser.context.newPage();
    await page.addInitScript(([worker, inPage]) => {
      if (inPage) eval(inPage);
      const { Worker } = window;
      window.Worker = class extends Worker {
        constructor(url, options) {
          const first = `data:text/javascript,${encodeURIComponent(`if (globalThis.WorkerNavigator) { ${worker} }`)}`;
          super(URL.createObjectURL(new Blob([`import "${first}"; import "${url}";`], { type: "text/javascript" })), options);
        }
      };
    }, [worker, inPage]);
    await page.goto(site.url);
    await page.waitForFunction(() => window.ready);
    const { support, error } = await page.evaluate(async () => ({
      support: await pipkin.support(),
      error: await pipkin.open("old").then(() => "opened", ({ code, message }) => [code, message]),
    }));
    console.log(`without ${what}: ${support.reason}`);
    assert.equal(support.supported, false);
    assert.equal(error[0], "unavailable", error[1]);
    await page.close();
  });
}
