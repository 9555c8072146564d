// A full quota and a private window of Firefox: said in typed errors, and nothing is lost.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fillUp } from "../support/quota.mjs";
import { setup } from "./setup.mjs";

const QUOTA = 24 * 1024 * 1024;

const { browser: limited } = await setup({ "dom.quotaManager.temporaryStorage.fixedLimit": QUOTA / 1024 });
const { browser: secret } = await setup({ "browser.privatebrowsing.autostart": true });

test("at a full quota writes fail with a typed error, nothing is lost, and removals and compaction make room", async () => {
  await fillUp(await limited.tab(), QUOTA);
});

test("a private window says that it has no storage; a store in memory works when it is asked for", async () => {
  const page = await secret.tab();
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
});
