// `node sealed.mjs STORE RESULT`: a sealed store goes through headless Chromium, with its key of 32 bytes 07.
//
// A tab takes the store in. A second one, whose key WebCrypto keeps, finds what the host before has left, and leaves its name. The first tab hands the store
// out again. `cargo xtask demo` looks at RESULT natively.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { Browser } from "./support/browser.mjs";
import { handOut } from "./support/carried.mjs";
import { serve } from "./support/site.mjs";

const [store, result] = process.argv.slice(2);

const site = await serve();
const browser = await Browser.start(site);
try {
  const page = await browser.tab();
  await page.evaluate(async (bytes) => {
    window.db = await pipkin.open("sealed", { key: new Uint8Array(32).fill(7) });
    await db.import(await (await fetch(`data:application/octet-stream;base64,${bytes}`)).blob());
  }, readFileSync(store, "base64"));
  const other = await browser.tab();
  const found = await other.evaluate(async () => {
    const refused = await pipkin.open("sealed").catch((error) => error.code);
    const key = await crypto.subtle.importKey("raw", new Uint8Array(32).fill(7), "HKDF", false, ["deriveBits"]);
    const db = await pipkin.open("sealed", { key });
    const name = await db.text().get("visit.served.name");
    await db.set("visit.browser.name", "browser", { durability: "strict" });
    return { refused, name, role: db.role };
  });
  assert.deepEqual(found, { refused: "key-needed", name: "served", role: "follower" });
  console.log(`a second tab has taken over from ${found.name}, with a key that no script can read`);
  await handOut(page, result);
} finally {
  await browser.end();
  await site.close();
}
