// What a page saves in the events in which it goes, in Chromium.

import { after } from "node:test";
import { testLeaving } from "./support/leaving.mjs";
import { PlainBrowser } from "./support/plain.mjs";
import { serve } from "./support/site.mjs";

const site = await serve();
after(() => site.close());
const browser = await PlainBrowser.start(site);
after(() => browser.end());

testLeaving({
  tab: () => browser.tab(),
  async leave(page) {
    await page.evaluate((elsewhere) => void (location.href = elsewhere), `${site.url}?elsewhere`);
    await page.until(() => location.search && window.ready);
  },
});
