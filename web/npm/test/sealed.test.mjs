// Sealed stores in Chromium.

import { testSealed } from "./support/sealed.mjs";
import { setup } from "./support/setup.mjs";

const { browser } = await setup();

testSealed(browser);
