// Records that expire in Firefox.

import { testExpiry } from "../support/expiry.mjs";
import { setup } from "./setup.mjs";

const { browser } = await setup();

testExpiry(browser);
