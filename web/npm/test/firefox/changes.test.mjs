// Those who follow what changes, in Firefox.

import { testChanges } from "../support/changes.mjs";
import { setup } from "./setup.mjs";

// Fewer processes than tabs: one that is killed takes several tabs with it.
const { browser } = await setup({ "dom.ipc.processCount": 2 });

testChanges(browser);
