// Event streams in Firefox.

import { testEvents } from "../support/events.mjs";
import { setup } from "./setup.mjs";

const { browser } = await setup();

testEvents(browser);
