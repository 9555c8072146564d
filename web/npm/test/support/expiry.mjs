// Records that expire: in every way to write, in one tab and from others. For both browsers.

import assert from "node:assert/strict";
import { test } from "node:test";

const HOUR = 3_600_000;

/** `browser.tab` opens a tab in front of the others. */
export function testExpiry(browser) {
  async function opened(page, name) {
    await page.evaluate(async (name) => {
      window.db = await pipkin.open(name);
      window.code = (call) => call.then((value) => value ?? null, (error) => error.code);
      /** Minutes that records live from now on. */
      window.minutes = (view, keys) => Promise.all(keys.map(async (key) => {
        const expiry = await view.expiresAt(key);
        return expiry === undefined ? ((await view.has(key)) ? "for ever" : "gone") : Math.round((expiry - Date.now()) / 60_000);
      }));
      /** Until a record has expired by the clock that the worker has. */
      window.expired = async (view, key) => { while (await view.has(key)) await new Promise((resolve) => setTimeout(resolve, 20)); };
    }, name);
    return page;
  }

  test("each write lives as long as it says, or as the store says, and what is kept stays", async () => {
    const page = await opened(await browser.tab(), "expiry");
    const seen = await page.evaluate(async (HOUR) => {
      const text = db.text();
      const seen = { none: String(await db.defaultTtl()) };
      await db.set("a", "1");
      await db.setDefaultTtl(HOUR);
      await db.set("b", "1");
      await db.set("c", "1", { ttl: 2 * HOUR });
      await db.set("d", "1", { ttl: Infinity, durability: "strict" });
      await db.setMany([["e", "1"], ["f", "1"]], { ttl: 3 * HOUR });
      await db.batch((batch) => { batch.set("g", "1", { ttl: 4 * HOUR }); batch.set("h", "1"); batch.delete("a"); }, { ttl: 5 * HOUR });
      await text.update("i", () => "1", { ttl: 6 * HOUR });
      await db.structured("s/").set("blob", new Blob(["x"]), { ttl: 7 * HOUR });
      seen.minutes = await minutes(db, ["a", "b", "c", "d", "e", "f", "g", "h", "i", "s/blob"]);
      await text.update("c", (old) => old, { ttl: 8 * HOUR });
      seen.kept = [await db.keep("b"), await db.keep("b"), await db.keep("none")];
      seen.then = await minutes(db, ["b", "c"]);
      const { expiring, clockBehindMs } = await db.stats();
      seen.stats = [expiring, clockBehindMs, await db.defaultTtl()];
      await db.setDefaultTtl(Infinity);
      await db.set("b", "2");
      seen.without = [String(await db.defaultTtl()), ...await minutes(db, ["b"])];
      seen.codes = await Promise.all([
        db.set("x", "1", { ttl: 0 }), db.set("x", "1", { ttl: NaN }), db.setMany([["x", "1"]], { ttl: "1" }), db.setDefaultTtl(-1),
        db.batch((batch) => batch.set("x", "1", { ttl: -1 })), text.update("x", () => "1", { ttl: 0 }), db.has("x"),
      ].map(code));
      return seen;
    }, HOUR);
    assert.deepEqual(seen, {
      none: "Infinity", minutes: ["gone", 60, 120, "for ever", 180, 180, 240, 300, 360, 420], kept: [true, false, false], then: ["for ever", 480],
      stats: [7, 0, HOUR], without: ["Infinity", "for ever"], codes: [...Array(6).fill("usage"), false],
    });
    await page.close();
  });

  test("what has expired is in no read of any tab, and a snapshot shows it still", async () => {
    // The tab that is in front leads, and goes on to.
    const [page, other] = [await browser.tab(), await browser.tab()];
    for (const one of [other, page]) await opened(one, "expired");
    assert.deepEqual(await Promise.all([other, page].map((page) => page.evaluate(() => db.role))), ["leader", "follower"]);
    const seen = await page.evaluate(async () => {
      const text = db.text();
      await db.setMany([["a", "1"], ["c", "1"]]);
      await db.set("b", "1", { ttl: 700 });
      const snapshot = await db.snapshot();
      const walk = async (view, options) => { const keys = []; for await (const key of view.text().keys(options)) keys.push(key); return keys.sort().join(""); };
      const before = await walk(db, { ordered: true });
      await expired(db, "b");
      const seen = {
        before, get: await text.get("b") ?? null, many: (await text.getMany(["a", "b"])).map((value) => value ?? null), expiry: await db.expiresAt("b") ?? null,
        walks: [await walk(db), await walk(db, { ordered: true }), await walk(db, { reverse: true })], count: [await db.count(), await db.count({ gte: "b" })],
        then: [await walk(snapshot), await snapshot.text().get("b"), await snapshot.size(), typeof await snapshot.expiresAt("b")],
        kept: [await db.keep("b"), await db.delete("b")],
      };
      await text.update("b", (old) => old ?? "new");
      return { ...seen, updated: [await text.get("b"), ...await minutes(db, ["b"])] };
    });
    assert.deepEqual(seen, {
      before: "abc", get: null, many: ["1", null], expiry: null, walks: ["ac", "ac", "ac"], count: [2, 1],
      then: ["abc", "1", 3, "number"], kept: [false, false], updated: ["new", "for ever"],
    });
    await page.evaluate((HOUR) => db.set("d", "1", { ttl: HOUR }).then(() => db.setDefaultTtl(2 * HOUR)), HOUR);
    await other.close();
    // Whoever leads next finds both in the file.
    assert.deepEqual(await page.evaluate(async () => [...await minutes(db, ["d"]), await db.defaultTtl()]), [60, 2 * HOUR]);
    await page.close();
  });

  test("in a worker that has the store for itself the verbs are the same", async () => {
    const page = await browser.tab();
    const seen = await page.evaluate(async (HOUR) => {
      const script = `
        import { open } from "${location.origin}/pipkin/sync.js";
        const db = await open("sync-expiry");
        const minutes = (key) => { const at = db.expiresAt(key); return at === undefined ? (db.has(key) ? "for ever" : "gone") : Math.round((at - Date.now()) / 60_000); };
        db.setDefaultTtl(${HOUR});
        db.set("a", "1");
        db.set("b", "1", { ttl: ${2 * HOUR} });
        db.setMany([["c", "1"]], { ttl: Infinity });
        db.batch((batch) => { batch.set("d", "1", { ttl: ${3 * HOUR} }); batch.set("e", "1"); });
        db.text().update("f", () => "1", { ttl: ${4 * HOUR} });
        db.set("g", "1", { ttl: 50 });
        while (db.has("g"));
        const seen = [db.keep("a"), db.keep("a"), ...["a", "b", "c", "d", "e", "f", "g"].map(minutes), db.defaultTtl(), [...db.text().keys({ ordered: true })].join("")];
        try { db.set("x", "1", { ttl: 0 }); } catch (error) { seen.push(error.code, db.resetClock()); }
        db.close();
        postMessage(seen);`;
      const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
      const answer = await new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data)));
      worker.terminate();
      return answer;
    }, HOUR);
    assert.deepEqual(seen, [true, false, "for ever", 120, "for ever", 180, 60, 240, "gone", HOUR, "abcdef", "usage", 0]);
    await page.close();
  });

  // The engine asks `Date` of its own worker for the time.
  test("a clock that is set back brings nothing back until it is asked to", async () => {
    const page = await browser.tab();
    const seen = await page.evaluate(async () => {
      const script = `
        import { open } from "${location.origin}/pipkin/sync.js";
        const now = Date.now();
        let shift = 0;
        Date.now = () => now + shift;
        const db = await open("clock");
        db.set("a", "1", { ttl: 60_000 });
        shift = 60_000;
        const seen = [db.has("a")];
        shift = 0;
        seen.push(db.has("a"), db.stats().clockBehindMs, db.resetClock(), db.stats().clockBehindMs, db.has("a"));
        db.close();
        postMessage(seen);`;
      const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
      const answer = await new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data)));
      worker.terminate();
      return answer;
    });
    assert.deepEqual(seen.slice(0, 3), [false, false, 60_000]);
    const [living, behind, there] = seen.slice(3);
    // Where it was swept meanwhile it does not come back.
    assert.deepEqual([behind, there], [0, living === 1]);
    await page.close();
  });
}
