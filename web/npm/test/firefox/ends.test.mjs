// Ends that nobody asked for, in Firefox.

import { testEnds } from "../support/ends.mjs";
import { setup } from "./setup.mjs";

const { browser } = await setup();

// There, a shared worker can start workers.
testEnds(browser, { shared: /^opened$/ });
