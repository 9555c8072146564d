// Compressed values in Chromium.

import { testCompression } from "./support/compression.mjs";
import { setup } from "./support/setup.mjs";

const { browser } = await setup();

testCompression(browser);
