// What a page saves in the events in which it goes, in Firefox.

import { testLeaving } from "../support/leaving.mjs";
import { setup } from "./setup.mjs";

const { site, browser } = await setup();

// Firefox cuts the script short that runs in a page when the browser closes it: in one of twenty pages, a listener does not get to its end.
testLeaving({ tab: () => browser.tab(), leave: (page) => page.goto(`${site.url}?elsewhere`), cutShort: { closed: 1 } });
