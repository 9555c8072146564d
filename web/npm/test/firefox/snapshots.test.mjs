// Snapshots and positions in Firefox.

import { testSnapshots } from "../support/snapshots.mjs";
import { setup } from "./setup.mjs";

const { browser } = await setup();

testSnapshots(browser);
