// Several tabs in Chromium.

import { setup } from "./support/setup.mjs";
import { testTabs } from "./support/tabs.mjs";

const { browser } = await setup();

testTabs(browser);
