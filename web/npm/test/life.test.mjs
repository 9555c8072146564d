// What becomes of a store when its page goes out of sight, is frozen, or is left and kept for the way back.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { PlainBrowser } from "./support/plain.mjs";
import { serve } from "./support/site.mjs";

const site = await serve();
after(() => site.close());
const browser = await PlainBrowser.start(site);
after(() => browser.end());

/** A tab that has the store open and writes down what it is told. It is in front of the others. */
async function tab(name) {
  const page = await browser.tab();
  await page.evaluate(async (name) => {
    window.atFreeze = () => undefined;
    document.addEventListener("freeze", () => atFreeze());
    window.fate = (call) => call.then((value) => value ?? null, (error) => error.code);
    window.db = await pipkin.open(name);
    window.told = [];
    db.on("leaderchange", ({ role }) => told.push(role));
    db.on("error", ({ error }) => told.push(error.code));
    window.heard = 0;
    db.on("change", () => heard++);
  }, name);
  return page;
}

const leads = (page) => page.until(() => db.role === "leader");
const follows = (page) => page.until(() => db.role === "follower");
const get = (page, key) => page.evaluate((key) => db.text().get(key), key);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

test("the tab that is seen leads, and no call is lost or counted twice when it changes", async () => {
  const pages = [await tab("sight"), await tab("sight"), await tab("sight")];
  for (const page of pages) {
    await page.evaluate(() => {
      window.count = 0;
      window.running = (async () => {
        while (!window.enough) {
          await db.json().update("common", (old) => (old ?? 0) + 1);
          count++;
        }
      })();
    });
  }
  for (const seen of [2, 0, 1, 0, 2]) {
    await pages[seen].show();
    await leads(pages[seen]);
    const before = await pages[seen].evaluate(() => count);
    await pages[seen].until((before) => count > before + 5, before);
  }
  for (const page of pages.slice(0, 2)) await follows(page);
  let counted = 0;
  for (const page of pages) {
    counted += await page.evaluate(async () => {
      window.enough = true;
      await running;
      return count;
    });
  }
  assert.equal(await pages[0].evaluate(() => db.json().get("common")), counted);
  for (const page of pages) assert.ok((await page.evaluate(() => told)).every((what) => what === "leader" || what === "follower"));
  // With no other tab left to be seen, it stays where it is.
  await pages[0].close();
  await pages[1].close();
  const elsewhere = await browser.tab();
  await pause(1000);
  assert.deepEqual(await pages[2].evaluate(() => [document.visibilityState, db.role]), ["hidden", "leader"]);
  await elsewhere.close();
  await pages[2].close();
});

test("a frozen leader is replaced, and follows when it goes on", async () => {
  const [one, two] = [await tab("frozen"), await tab("frozen")];
  await two.close();
  await leads(one);
  await one.evaluate(() => db.set("a", "1"));
  await one.freeze();
  const three = await tab("frozen");
  await leads(three);
  assert.equal(await get(three, "a"), "1");
  await three.evaluate(() => db.set("a", "2"));
  await one.thaw();
  assert.equal(await get(one, "a"), "2");
  assert.equal(await one.evaluate(() => db.role), "follower");
  const heard = await one.evaluate(() => heard);
  await three.evaluate(() => db.set("b", "3"));
  await one.until((heard) => window.heard > heard, heard);

  // Frozen, it does not get the file either when it is its turn.
  await one.freeze();
  const four = await tab("frozen");
  await three.close();
  await leads(four);
  assert.equal(await get(four, "b"), "3");
  await one.thaw();
  assert.equal(await get(one, "b"), "3");
  await four.close();
  await leads(one);
  assert.ok(!(await one.evaluate(() => told)).some((what) => what !== "leader" && what !== "follower"));
  await one.close();
});

test("a page that follows what changes goes on after it was frozen, and one whose leader was frozen misses nothing", async () => {
  const [one, two] = [await tab("followed"), await tab("followed")];
  const follow = (page) => page.evaluate(() => {
    window.commits = [];
    window.following = (async () => { for await (const { changes } of db.text().changes()) commits.push(changes.map(({ key, value }) => `${key}=${value}`).join(" ")); })();
    window.wrong = fate(following);
  });
  const heard = async (page, many) => {
    await page.until((many) => commits.length >= many, many);
    return page.evaluate(() => commits);
  };
  for (const page of [one, two]) await follow(page);
  const write = (page, ...numbers) => page.evaluate(async (numbers) => { for (const number of numbers) await db.setMany([["n", `${number}`], ["m", `${number}`]]); }, numbers);
  await leads(two);
  await write(one, 1, 2);
  const wanted = (to) => Array.from({ length: to }, (_, i) => `n=${i + 1} m=${i + 1}`);
  for (const page of [one, two]) assert.deepEqual(await heard(page, 2), wanted(2));
  // The one that leads, in sight or not.
  await two.freeze();
  await leads(one);
  await write(one, 3, 4, 5);
  assert.deepEqual(await heard(one, 5), wanted(5));
  await two.thaw();
  assert.deepEqual(await heard(two, 5), wanted(5));
  // One that follows, while the leader goes.
  const three = await tab("followed");
  await leads(three);
  await two.freeze();
  await write(one, 6);
  await three.close();
  await leads(one);
  await write(one, 7);
  await two.thaw();
  await write(two, 8);
  for (const page of [one, two]) assert.deepEqual(await heard(page, 8), wanted(8));
  // Frozen, it can be left: nothing waits for an answer then.
  await two.freeze();
  await two.evaluate(() => void db.close());
  await two.thaw();
  assert.equal(await two.evaluate(() => wrong), "closed");
  await pause(300);
  for (const page of [one, two]) assert.equal(await page.evaluate(() => commits.length), 8);
  await two.close();
  await one.close();
});

test("calls of a frozen page are made when it goes on; a write that was under way is of unknown outcome", async () => {
  const page = await tab("calls");
  await page.evaluate(() => db.set("a", "1"));
  await page.evaluate(() => (atFreeze = () => (window.under = [fate(db.set("b", "2")), fate(db.text().get("a")), fate(db.stats())])) && null);
  await page.freeze();
  await page.evaluate(() => {
    window.later = [fate(db.text().get("a")), fate(db.set("c", "3")), fate(db.stats().then(({ records }) => records))];
  });
  await page.thaw();
  const [under, later] = await page.evaluate(async () => [await Promise.all(under), await Promise.all(later)]);
  assert.deepEqual([under, later.slice(0, 2)], [["outcome-unknown", "failed", "failed"], ["1", null]]);
  assert.equal(later[2], (await page.evaluate(() => db.has("b"))) ? 3 : 2);

  await page.evaluate(() => (atFreeze = () => (window.under = fate(db.text().get("c")))) && null);
  await page.freeze();
  await page.thaw();
  assert.equal(await page.evaluate(() => under), "3", "a read that was under way was sent again");

  // What was deleted meanwhile does not come back empty.
  await page.evaluate(() => (atFreeze = () => undefined) && null);
  await page.freeze();
  const other = await browser.tab();
  await other.evaluate(() => pipkin.destroy("calls"));
  await page.thaw();
  await page.until(() => told.includes("missing"));
  assert.equal(await page.evaluate(() => fate(db.get("a"))), "missing");
  await other.close();
  await page.close();
});

test("an import that waits for its source when the page is frozen does not go on with half of the file", async () => {
  const page = await tab("halves");
  await page.evaluate(async () => {
    await db.set("a", "1");
    const file = await fileOf([["a", "imported"]]);
    const begun = new Promise((resolve) => {
      const pull = async (controller) => {
        if (file.begun) await new Promise((goOn) => resolve((window.goOn = goOn)));
        controller.enqueue(new Uint8Array(await (file.begun ? file.slice(file.size / 2) : file.slice(0, file.size / 2)).arrayBuffer()));
        if (file.begun) controller.close();
        file.begun = true;
      };
      window.imported = fate(db.import(new ReadableStream({ pull }, { highWaterMark: 0 }), { replace: true }));
    });
    await begun;
  });
  await page.freeze();
  await page.thaw();
  assert.equal(await page.evaluate(() => (goOn(), imported)), "failed");
  assert.equal(await get(page, "a"), "1");
  assert.equal(await page.evaluate(async () => (await filesOf("halves")).length), 1);
  await page.close();
});

test("opening goes on when the page does, and closing ends with it", async () => {
  const page = await tab("begun");
  await page.evaluate(() => (atFreeze = () => (window.fates = [fate(pipkin.open("new").then((db) => db.role)), fate(db.set("a", "1")), fate(db.close())])) && null);
  await page.freeze();
  await page.thaw();
  assert.deepEqual(await page.evaluate(() => Promise.all(fates)), ["leader", "outcome-unknown", null]);
  assert.equal(await page.evaluate(() => fate(db.get("a"))), "closed");
  await page.evaluate(async () => {
    window.again = await pipkin.open("begun");
    atFreeze = () => undefined;
  });
  await page.freeze();
  await page.evaluate(() => (window.fates = [fate(again.set("a", "1")), fate(again.stats()), fate(again.close())]) && null);
  await page.thaw();
  assert.deepEqual(await page.evaluate(() => Promise.all(fates)), ["closed", "closed", null]);
  await page.close();
});

test("a page that is left gives the file up, and goes on when the browser brings it back", async () => {
  const [two, one] = [await tab("left"), await tab("left")];
  await leads(one);
  await one.evaluate((elsewhere) => {
    window.mark = "the same page";
    location.href = elsewhere;
  }, `${site.url}?elsewhere`);
  await leads(two);
  await one.until(() => location.search && window.ready && !window.mark);
  await two.evaluate(() => db.set("a", "2"));
  await one.evaluate(() => history.back());
  await one.until(() => window.mark === "the same page");
  assert.equal(await get(one, "a"), "2");
  await one.close();
  await two.close();
});

// When a tab that is not seen had given the file up, and the next one had not opened it yet, what the first one saved as it was closed was lost.
test("what a tab saves when it goes is carried out by the next leader, where there is none at the moment", async () => {
  const gone = await browser.tab();
  await gone.evaluate(async () => {
    window.db = await pipkin.open("between");
    await db.set("a", "1");
    addEventListener("pagehide", () => void db.set("going", "1"));
  });
  // It gets the lock between the two.
  const between = await browser.tab();
  await between.evaluate(() => void navigator.locks.request("pipkin/between", () => new Promise((end) => (window.end = end))));
  const next = await tab("between");
  await between.until(() => window.end);
  await gone.evaluate(() => void db.set("waiting", "1"));
  await gone.close();
  await new Promise((resolve) => setTimeout(resolve, 300));
  await between.evaluate(() => end());
  await leads(next);
  assert.deepEqual(await next.evaluate(() => db.text().getMany(["a", "waiting", "going"])), ["1", "1", "1"]);
  await next.close();
  await between.close();
});
