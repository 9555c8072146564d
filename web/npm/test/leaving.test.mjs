// What a page saves in the events in which it goes, in Chromium.

import assert from "node:assert/strict";
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
  ways: {
    closed: (page) => page.close(),
    "closed by a person": (page) => page.closeAsked(),
    async reloaded(page) {
      await page.evaluate(() => void location.reload());
      await page.until(() => window.ready && !window.db);
      return () => page.close();
    },
    async "kept for the way back"(page) {
      await page.evaluate((elsewhere) => {
        window.mark = "the same page";
        location.href = elsewhere;
      }, `${site.url}?elsewhere`);
      await page.until(() => location.search && window.ready);
      return async () => {
        await page.evaluate(() => history.back());
        await page.until(() => !location.search && window.ready);
        assert.equal(await page.evaluate(() => window.mark), "the same page");
        await page.close();
      };
    },
    async frozen(page) {
      await page.freeze();
      return () => page.close();
    },
  },
  large: "closed",
  events: { closed: ["pagehide", "visibilitychange"], frozen: ["freeze"] },
});
