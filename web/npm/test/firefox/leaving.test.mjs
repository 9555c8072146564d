// What a page saves in the events in which it goes, in Firefox. It keeps no page with an open store for the way back.

import { testLeaving } from "../support/leaving.mjs";
import { setup } from "./setup.mjs";

const { site, browser } = await setup();

testLeaving({
  tab: () => browser.tab(),
  ways: {
    closed: (page) => page.close(),
    async "closed by a person"(page) {
      await page.close({ runBeforeUnload: true });
    },
    async reloaded(page) {
      await page.reload();
      return () => page.close();
    },
    async left(page) {
      await page.goto(`${site.url}?elsewhere`);
      return () => page.close();
    },
  },
  large: "reloaded",
  events: { closed: ["pagehide", "visibilitychange"] },
  // Firefox cuts the script short that runs in a page when the browser closes it: in one of twenty pages, a listener does not get to its end.
  cutShort: { closed: 1, "closed by a person": 1 },
});
