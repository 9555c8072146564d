// The same file in Chromium and in a native program, both ways. Needs the `pipkin` command; PIPKIN names it.

import { after, before, test } from "node:test";
import { Browser } from "./support/browser.mjs";
import { roundTrip } from "./support/roundtrip.mjs";
import { serve } from "./support/site.mjs";

let site, browser;
before(async () => {
  site = await serve();
  browser = await Browser.start(site);
});
after(async () => {
  await browser?.end();
  await site?.close();
});

test("a native store is imported, changed in two tabs, exported, and is what it should be natively", () => roundTrip(() => browser.tab()));
