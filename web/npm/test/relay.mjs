// `node relay.mjs STORE RESULT`: a store with a log of events goes through headless Chromium.
//
// A tab takes the store in, a second one notes what has come behind the cursor, appends an event of its own and acknowledges, in one commit, and the first
// one hands the store out again. `cargo xtask demo` calls this and looks at RESULT natively.

import assert from "node:assert/strict";
import { Browser } from "./support/browser.mjs";
import { handOut, takeIn } from "./support/carried.mjs";
import { serve } from "./support/site.mjs";

const [store, result] = process.argv.slice(2);

const site = await serve();
const browser = await Browser.start(site);
try {
  const page = await browser.tab();
  await takeIn(page, "journey", store);
  const other = await browser.tab();
  const [role, note] = await other.evaluate(async () => {
    const db = await pipkin.open("journey");
    const log = await db.events("journey");
    const traveller = await log.cursor("traveller");
    const { value: event } = await traveller.next();
    const note = await db.transaction(async (tx) => {
      const note = `${(await tx.text().get("journey")) ?? ""}${new TextDecoder().decode(event.payload)} `;
      await tx.text().set("journey", note);
      await log.append(event.stream, { type: "Passed", payload: "browser" }, { expected: event.version, tx });
      await traveller.ack(event, { tx });
      return note;
    }, { durability: "strict" });
    return [db.role, note];
  });
  assert.equal(role, "follower");
  console.log(`noted by a second tab: ${note}`);
  await handOut(page, result);
} finally {
  await browser.end();
  await site.close();
}
