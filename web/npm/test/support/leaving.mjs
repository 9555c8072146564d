// What a page saves in the events in which it goes. For both browsers.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { until } from "./pages.mjs";

/** So many pages go in each way and event. */
const PAGES = Number(process.env.PIPKIN_LEAVING ?? 2);
/** So many more may be cut short. */
const SHORT_MAX = 8;
const EVENTS = ["beforeunload", "pagehide", "visibilitychange"];

/**
 * `browser.tab` opens a tab in front of the others. `browser.ways` are functions that make a page go, by their names, `browser.events` those that
 * have other events than these three, and `browser.cutShort` says of how many calls of a page the browser may keep the package from hearing.
 * `browser.large` is the way in which pages go that save much. A way resolves to a function that tidies up, if there is something left of the page.
 */
export function testLeaving(browser) {
  const saves = { made: 0, kept: 0 };
  // Saves in `pagehide` and `visibilitychange` were lost when a page was left: the package, whose listener came before that of the application,
  // had ended its worker already. What was called while an answer was waited for was lost, too.
  for (const role of ["leader", "follower"]) {
    for (const [way, go] of Object.entries(browser.ways)) {
      for (const event of browser.events?.[way] ?? EVENTS) {
        test(`what a ${role} saves in ${event} is there when its page was ${way}`, async () => {
          const least = 4 - (browser.cutShort?.[way] ?? 0);
          // A browser on a busy machine ends a page before all of it was heard: that may happen to some pages, a defect happens to every one.
          const short = [];
          for (let whole = 0; whole < PAGES; ) {
            const number = whole + short.length;
            const kept = await saved(`${role}-${event}-${way.replaceAll(" ", "-")}-${number}`, role, event, go, least);
            if (kept.filter((saved) => saved === role).length >= least) whole++;
            else short.push(`page ${number} has kept ${kept}`);
            assert.ok(short.length <= SHORT_MAX, short.join("; "));
            saves.made += kept.length;
            saves.kept += kept.filter(Boolean).length;
          }
        });
      }
    }
  }

  // A script that removes a frame runs on until the frame is gone: nothing that the frame had put off until the end of its task was ever sent.
  test("what a frame saves in pagehide is there when it was removed, or went elsewhere", async () => {
    const page = await browser.tab();
    const kept = await page.evaluate(saveInFrames);
    assert.deepEqual(kept, Array(3).fill(["1", "1"]));
    await page.close();
  });

  // A page waited 20 ms for its worker, whatever that had to do: values of 20 MB were lost, and what was called behind a `verify`.
  for (const [what, [save, expected]] of Object.entries(LARGE)) {
    test(`${what} that a page saves when it goes is there`, async () => {
      const name = what.replaceAll(" ", "-");
      const page = await browser.tab();
      await page.evaluate(openFull, name);
      await page.evaluate(save);
      const end = await browser.ways[browser.large](page);
      const again = await browser.tab();
      assert.deepEqual(await again.evaluate(countSaved, name), expected);
      await end?.();
      await again.close();
    });
  }

  after(() => console.log(`${saves.kept} of ${saves.made} saves of pages that were going are there`));

  async function saved(name, role, event, go, least) {
    const other = role === "follower" && (await browser.tab());
    // A leader that believes that it is seen keeps the file.
    if (other) await other.evaluate(leadOn, name);
    const page = await browser.tab();
    await page.evaluate(saveIn, { name, event });
    const end = await go(page);
    const again = other || (await browser.tab());
    let seen;
    await until(async () => {
      seen = await again.evaluate(found, name);
      // The words of a follower are still on their way, perhaps.
      return seen.filter(Boolean).length >= least || !other;
    }).catch(() => undefined);
    await end?.();
    await again.close();
    return seen;
  }
}

/** Runs in a page. */
async function leadOn(name) {
  Object.defineProperty(Document.prototype, "visibilityState", { get: () => "visible" });
  window.db = await pipkin.open(name);
}

/** Each runs in a page; with how many records there are afterwards, and their bytes. */
const LARGE = {
  "a large value": [() => addEventListener("pagehide", () => db.set("saved/0", new Uint8Array(20 << 20))), [1, 20 << 20]],
  "many records": [() => addEventListener("pagehide", () => { for (let i = 0; i < 1000; i++) db.set(`saved/${i}`, "1"); }), [1000, 1000]],
  "a record behind a check of the file": [() => addEventListener("pagehide", () => { db.verify(); db.set("saved/0", "1"); }), [1, 1]],
};

/** Runs in a page: opens a store in a frame, which then goes in each of three ways. */
async function saveInFrames() {
  const pause = () => new Promise((resolve) => setTimeout(resolve, 20));
  const ways = [(frame) => frame.remove(), (frame) => void (frame.src = "about:blank"), (frame) => void (frame.src += "?again")];
  const kept = [];
  for (const [i, go] of ways.entries()) {
    const frame = Object.assign(document.createElement("iframe"), { src: location.href });
    document.body.append(frame);
    while (!frame.contentWindow.ready) await pause();
    const inside = frame.contentWindow;
    inside.db = await inside.pipkin.open(`frame-${i}`);
    inside.addEventListener("pagehide", () => void inside.db.set("pagehide", "1"));
    inside.addEventListener("pagehide", () => void inside.db.json().setMany([["last", 1]]));
    await inside.db.set("warm", "1");
    go(frame);
    const db = await pipkin.open(`frame-${i}`);
    kept.push(await db.text().getMany(["pagehide", "last"]));
    await db.close();
    frame.remove();
  }
  return kept;
}

/** Runs in a page: a store of 20 MB. */
async function openFull(name) {
  window.db = await pipkin.open(name);
  await db.setMany(Array.from({ length: 20_000 }, (_, i) => [`${i}`, "x".repeat(1000)]));
}

/** Runs in a page: how many records were saved, and their bytes. */
async function countSaved(name) {
  const db = await pipkin.open(name);
  let [count, bytes] = [0, 0];
  for await (const [, value] of db.prefix("saved/").entries({ ordered: true })) [count, bytes] = [count + 1, bytes + value.length];
  await db.close();
  return [count, bytes];
}

/** Runs in a page: saves in four ways, one of which is still under way when the next is called. */
async function saveIn({ name, event }) {
  const target = event === "visibilitychange" || event === "freeze" ? document : window;
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
