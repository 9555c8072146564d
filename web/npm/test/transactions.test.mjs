// Transactions in Chromium.

import { setup } from "./support/setup.mjs";
import { testTransactions } from "./support/transactions.mjs";

const { browser } = await setup();

testTransactions(browser);
