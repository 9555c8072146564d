// Sealed stores in Firefox.

import { testSealed } from "../support/sealed.mjs";
import { setup } from "./setup.mjs";

const { browser } = await setup();

testSealed(browser);
