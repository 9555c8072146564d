// The same file in Chromium and in a native program, both ways. Needs the `pipkin` command; PIPKIN names it.

import { test } from "node:test";
import { roundTrip } from "./support/roundtrip.mjs";
import { setup } from "./support/setup.mjs";

const { browser } = await setup();

test("a native store is imported, changed in two tabs, exported, and is what it should be natively", () => roundTrip(() => browser.tab()));
