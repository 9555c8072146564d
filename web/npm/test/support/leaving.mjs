// What a page saves in the events in which it goes. For both browsers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "./pages.mjs";

/** So many pages go in each way. */
const PAGES = 4;
/** The events that each way of going has for certain. */
const WAYS = { closed: ["pagehide", "visibilitychange"], left: ["beforeunload", "pagehide", "visibilitychange"] };

/**
 * `browser.tab` opens a tab in front of the others, and `browser.leave` has it go to another page, which may keep this one for the way back.
 * `browser.cutShort` says of how many calls of a page the browser may keep the package from hearing, by the way in which the page goes.
 */
export function testLeaving(browser) {
  // Saves in `pagehide` and `visibilitychange` were lost when a page was left: the package, whose listener came before that of the application,
  // had ended its worker already. What was called while an answer was waited for was lost, too.
  for (const role of ["leader", "follower"]) {
    for (const [way, events] of Object.entries(WAYS)) {
      for (const event of events) {
        test(`what a ${role} saves in ${event} is there when its page was ${way}`, async () => {
          const least = 4 - (browser.cutShort?.[way] ?? 0);
          for (let number = 0; number < PAGES; number++) {
            const kept = await saved(`${role}-${event}-${way}-${number}`, role, event, way, least);
            assert.ok(kept.filter((saved) => saved === role).length >= least, `page ${number} has kept ${kept}`);
          }
        });
      }
    }
  }

  async function saved(name, role, event, way, least) {
    const other = role === "follower" && (await browser.tab());
    // A leader that believes that it is seen keeps the file.
    if (other) await other.evaluate(leadOn, name);
    const page = await browser.tab();
    await page.evaluate(saveIn, { name, event });
    if (way === "closed") await page.close();
    else await browser.leave(page);
    const again = other || (await browser.tab());
    let seen;
    await until(async () => {
      seen = await again.evaluate(found, name);
      // The words of a follower are still on their way, perhaps.
      return seen.filter(Boolean).length >= least || !other;
    }).catch(() => undefined);
    if (way !== "closed") await page.close();
    await again.close();
    return seen;
  }
}

/** Runs in a page. */
async function leadOn(name) {
  Object.defineProperty(Document.prototype, "visibilityState", { get: () => "visible" });
  window.db = await pipkin.open(name);
}

/** Runs in a page: saves in four ways, one of which is still under way when the next is called. */
async function saveIn({ name, event }) {
  const target = event === "visibilitychange" ? document : window;
  const save = (key) => void db.set(key, db.role);
  target.addEventListener(event, () => save("before"));
  window.db = await pipkin.open(name);
  await db.set("warm", "1");
  target.addEventListener(event, () => {
    save("first");
    Promise.resolve().then(() => undefined).then(() => undefined).then(() => save("then"));
  });
  target.addEventListener(event, () => save("last"));
}

/** Runs in a page. */
async function found(name) {
  window.db ??= await pipkin.open(name);
  return (await db.text().getMany(["before", "first", "then", "last"])).map((value) => value ?? null);
}
