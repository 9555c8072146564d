// Records that expire in Chromium.

import { testExpiry } from "./support/expiry.mjs";
import { setup } from "./support/setup.mjs";

const { browser } = await setup();

testExpiry(browser);
