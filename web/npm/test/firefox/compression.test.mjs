// Compressed values in Firefox.

import { testCompression } from "../support/compression.mjs";
import { setup } from "./setup.mjs";

const { browser } = await setup();

testCompression(browser);
