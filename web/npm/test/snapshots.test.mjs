// Snapshots and positions in Chromium.

import { setup } from "./support/setup.mjs";
import { testSnapshots } from "./support/snapshots.mjs";

const { browser } = await setup();

testSnapshots(browser);
