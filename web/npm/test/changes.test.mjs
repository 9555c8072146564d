// Those who follow what changes, in Chromium.

import { setup } from "./support/setup.mjs";
import { testChanges } from "./support/changes.mjs";

const { browser } = await setup();

testChanges(browser);
