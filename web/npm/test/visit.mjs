// `node visit.mjs STORE RESULT`: a store with a group of keys goes through headless Chromium.
//
// A tab takes the store in. A second one finds what the component has left, a record that stays and one that lives for an hour, waits until a third one
// has expired, deletes the group and leaves one of its own. The first tab hands the store out again. `cargo xtask demo` looks at RESULT natively.

import assert from "node:assert/strict";
import { Browser } from "./support/browser.mjs";
import { handOut, takeIn } from "./support/carried.mjs";
import { serve } from "./support/site.mjs";

const [store, result] = process.argv.slice(2);

const site = await serve();
const browser = await Browser.start(site);
try {
  const page = await browser.tab();
  await takeIn(page, "visits", store);
  const other = await browser.tab();
  const found = await other.evaluate(async () => {
    const db = await pipkin.open("visits");
    const before = db.text("visit.component.");
    while (await before.has("code")) await new Promise((resolve) => setTimeout(resolve, 20));
    const keys = [];
    for await (const key of before.keys()) keys.push(key);
    const left = (await before.expiresAt("session")) - Date.now();
    const name = await before.get("name");
    await before.clear({ durability: "strict" });
    const empty = await db.count();
    const own = db.text("visit.browser.");
    await own.set("name", "browser");
    await own.set("session", "s", { ttl: 3_600_000 });
    await own.set("code", "c", { ttl: 500, durability: "strict" });
    return { role: db.role, keys, left, name, empty };
  });
  assert.equal(found.role, "follower");
  assert.deepEqual(found.keys.sort(), ["name", "session"]);
  assert.equal(found.name, "component");
  assert.ok(found.left > 0 && found.left <= 3_600_000, `${found.left} ms`);
  assert.equal(found.empty, 0);
  console.log(`a second tab has taken over from ${found.name}; its session had ${Math.round(found.left / 1000)} s left`);
  await handOut(page, result);
} finally {
  await browser.end();
  await site.close();
}
