// Transactions: in one tab, between tabs, and through everything that may end them. For both browsers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Counters } from "./counters.mjs";
import { endWorkers, leaderAndFollower, until } from "./pages.mjs";

/** Times that each tab counts. */
const COUNTS = 60;

/** `browser.tab` opens a tab in front of the others; `endProcess` kills the process of a page that leads. */
export function testTransactions(browser) {
  async function opened(page, name) {
    await page.evaluate(async (name) => {
      window.db = await pipkin.open(name);
      window.code = (call) => call.then((value) => value ?? null, (error) => error.code);
      window.collect = async (iterator) => { const all = []; for await (const one of iterator) all.push(one); return all; };
    }, name);
    return page;
  }

  const two = (name) => leaderAndFollower(browser, (page) => opened(page, name));

  test("a transaction reads what it has written in every way, nobody else does before its end, and a change tells of it", async () => {
    const pages = await two("shape");
    for (const page of pages) {
      const seen = await page.evaluate(async () => {
        await db.clear();
        await db.setMany([["a", "1"], ["b", "2"], ["c", "3"]]);
        await db.json("users/").set("ada", { coins: 3 });
        const heard = [];
        db.on("change", ({ keys }) => heard.push(keys.map((key) => new TextDecoder().decode(key))));
        const seen = {};
        seen.returned = await db.transaction(async (tx) => {
          const text = tx.text();
          const users = tx.json("users/");
          await users.set("ada", { coins: (await users.get("ada")).coins - 1 });
          await tx.structured("s/").set("blob", { map: new Map([[1, 2]]), blob: new Blob(["x"]) });
          await tx.prefix("d").set("1", "4", { ttl: 3_600_000 });
          seen.deleted = [await tx.delete("a"), await tx.delete("a"), await tx.delete("none")];
          seen.reads = [await text.get("a"), await tx.has("b"), await text.getMany(["a", "b", "d1"]), await users.get("ada")];
          seen.walks = [await collect(text.keys({ lt: "s" })), await collect(text.entries({ reverse: true, gte: "b", lt: "e" })), (await collect(tx.keys())).length, await tx.count()];
          seen.blob = await (await tx.structured("s/").get("blob")).blob.text();
          seen.others = await db.text().getMany(["a", "d1"]);
          seen.expiry = await code(tx.expiresAt("d1"));
          return "returned";
        }, { durability: "strict" });
        seen.now = [await collect(db.text().keys({ lt: "s" })), await db.json("users/").get("ada"), (await db.structured("s/").get("blob")).map.get(1), Math.round((await db.expiresAt("d1") - Date.now()) / 60_000)];
        await new Promise((resolve) => setTimeout(resolve, 100));
        seen.heard = [...heard];
        seen.damage = (await db.verify()).damage;
        await db.clear();
        return seen;
      });
      assert.deepEqual(seen, {
        returned: "returned", deleted: [true, false, false], reads: [undefined, true, [undefined, "2", "4"], { coins: 2 }],
        walks: [["b", "c", "d1", "users/ada"].filter((key) => key < "s"), [["d1", "4"], ["c", "3"], ["b", "2"]], 5, 5], blob: "x", others: ["1", undefined], expiry: "usage",
        now: [["b", "c", "d1"], { coins: 2 }, 2, 60], heard: [["users/ada", "s/blob", "d1", "a"]], damage: [],
      });
    }
    for (const page of pages) await page.close();
  });

  test("what its function throws is thrown on, nothing of it is written, and after its end it takes nothing", async () => {
    const page = await opened(await browser.tab(), "thrown");
    const seen = await page.evaluate(async () => {
      const own = new Error("no coin left");
      const seen = {};
      let kept;
      seen.same = await db.transaction(async (tx) => { kept = tx; await tx.set("a", "1"); throw own; }).catch((error) => error === own);
      seen.there = await db.has("a");
      seen.late = await Promise.all([kept.set("a", "1"), kept.get("a"), kept.delete("a"), kept.keys().next(), db.transaction((tx) => kept.get("b"))].map(code));
      // What nobody has waited for is in it, or fails it.
      let runs = 0;
      await db.transaction((tx) => { runs++; tx.set("b", "1"); tx.structured().set("c", new Blob(["x"])); tx.delete("none"); });
      seen.forgotten = [await db.text().get("b"), await db.has("c"), runs];
      seen.failed = await code(db.transaction((tx) => { tx.set("d", "1"); tx.set(new Uint8Array(70_000), "1"); }));
      seen.caught = await code(db.transaction(async (tx) => { await tx.set("d", "1"); await tx.set("e", 7).catch(() => undefined); }));
      seen.none = [await db.has("d"), await code(db.transaction("work")), await code(db.transaction(() => 1, { retries: NaN })), await code(db.transaction(() => 1, { durability: "x" }))];
      // One in another: two transactions, of which the outer one conflicts with what the inner one writes.
      runs = 0;
      await db.transaction(async (outer) => {
        await outer.get("n");
        if (runs++ === 0) await db.transaction((inner) => inner.set("n", "inner"));
        await outer.set("n", `${(await outer.text().get("n"))} outer`);
      });
      seen.nested = [await db.text().get("n"), runs];
      const given = new AbortController();
      given.abort(own);
      seen.given = await db.transaction((tx) => tx.set("f", "1"), { signal: given.signal }).catch((error) => error === own);
      const later = new AbortController();
      seen.later = await db.transaction(async (tx) => { await tx.set("f", "1"); later.abort(own); }, { signal: later.signal }).catch((error) => error === own);
      seen.f = await db.has("f");
      return seen;
    });
    assert.deepEqual(seen, {
      same: true, there: false, late: Array(5).fill("closed"), forgotten: ["1", true, 1], failed: "usage", caught: "usage", none: [false, "usage", "usage", "usage"],
      nested: ["inner outer", 2], given: true, later: true, f: false,
    });
    await page.close();
  });

  test("a savepoint takes back what was written behind it, in every view and way of reading, and in what a change tells", async () => {
    const pages = await two("places");
    for (const page of pages) {
      const seen = await page.evaluate(async () => {
        await db.clear();
        await db.setMany([["a", "1"], ["b", "2"]]);
        const heard = [];
        db.on("change", ({ keys }) => heard.push(keys.map((key) => new TextDecoder().decode(key))));
        const seen = {};
        const state = async (tx) => [await tx.text().getMany(["a", "b", "c", "d"]), (await collect(tx.text().keys({ gte: "" }))).join(""), await tx.count()];
        let other;
        await db.transaction(async (tx) => { other = await tx.savepoint(); });
        await db.transaction(async (tx) => {
          // Not waited for: in front of the savepoint all the same.
          tx.structured("blob/").set("x", new Blob(["x"]));
          tx.set("a", "first");
          const first = await tx.savepoint();
          await tx.set("a", "second");
          tx.delete("b");
          const second = await tx.savepoint();
          await tx.prefix("c").set("", "3");
          tx.set("d", "4");
          seen.all = await state(tx);
          await tx.rollbackTo(second);
          seen.second = await state(tx);
          await tx.set("d", "again");
          await tx.rollbackTo(second);
          seen.again = await state(tx);
          await tx.rollbackTo(first);
          seen.first = await state(tx);
          await tx.json().set("e", [1]);
          await tx.rollbackTo(first);
          seen.refused = [await code(tx.rollbackTo(second)), await code(tx.rollbackTo(other)), await code(tx.rollbackTo({}))];
          await tx.set("c", "kept");
          seen.late = [tx, first];
        });
        seen.late = [await code(seen.late[0].rollbackTo(seen.late[1])), await code(seen.late[0].savepoint())];
        seen.now = [await db.text().getMany(["a", "b", "c", "d", "e"]), await db.has("blob/x")];
        await new Promise((resolve) => setTimeout(resolve, 100));
        seen.heard = heard.map((keys) => keys.sort());
        // Taken back as a whole: nothing is written, and nobody hears of anything.
        await db.transaction(async (tx) => { const begin = await tx.savepoint(); await tx.set("a", "none"); await tx.rollbackTo(begin); });
        // A read that was taken back still counts.
        let runs = 0;
        await db.transaction(async (tx) => {
          const begin = await tx.savepoint();
          await tx.get("a");
          await tx.rollbackTo(begin);
          await tx.set("z", "1");
          if (runs++ === 0) await db.set("a", "between");
        });
        seen.runs = runs;
        await db.clear();
        return seen;
      });
      assert.deepEqual(seen, {
        all: [["second", undefined, "3", "4"], "ablob/xcd", 4], second: [["second", undefined, undefined, undefined], "ablob/x", 2],
        again: [["second", undefined, undefined, undefined], "ablob/x", 2], first: [["first", "2", undefined, undefined], "abblob/x", 3],
        refused: ["usage", "usage", "usage"], late: ["closed", "closed"], now: [["first", "2", "kept", undefined, undefined], true],
        heard: [["a", "blob/x", "c"]], runs: 2,
      });
    }
    for (const page of pages) await page.close();
  });

  test("no update is lost, no two keep what only one may, and no record comes into a range: it conflicts, and runs again", async () => {
    const page = await opened(await browser.tab(), "conflicts");
    const seen = await page.evaluate(async () => {
      const seen = {};
      const conflicts = async (work, between) => {
        let runs = 0;
        const once = await code(db.transaction(async (tx) => { await work(tx); await between(); }, { retries: 0 }));
        await db.transaction(async (tx) => { await work(tx); if (runs++ === 0) await between(); });
        return [once, runs];
      };
      await db.setMany([["x", "on"], ["y", "on"]]);
      const set = (key) => () => db.set(key, String(Math.random()));
      const write = (tx) => tx.set("own", "1");
      seen.key = await conflicts(async (tx) => { await tx.get("x"); await write(tx); }, set("x"));
      seen.none = await conflicts(async (tx) => { await tx.has("not there"); await write(tx); }, async () => void await db.delete("not there") ?? await db.set("not there", "1"));
      seen.range = await conflicts(async (tx) => { await collect(tx.keys({ gte: "x", lt: "z" })); await write(tx); }, set(`xx${Math.random()}`));
      seen.prefix = await conflicts(async (tx) => { await collect(tx.prefix("x").keys()); await write(tx); }, set(`xx${Math.random()}`));
      // These do not: a write without a read, and reads without a write.
      seen.blind = await conflicts(write, set("own"));
      seen.reads = await conflicts((tx) => tx.get("x"), set("x"));
      seen.other = await conflicts(async (tx) => { await tx.get("x"); await write(tx); }, set("y"));
      // Write skew: at least one of two stays on.
      await db.setMany([["x", "on"], ["y", "on"]]);
      const off = (own, other) => db.transaction(async (tx) => { if ((await tx.text().get(other)) === "on") await tx.set(own, "off"); });
      await Promise.all([off("x", "y"), off("y", "x")]);
      seen.skew = (await db.text().getMany(["x", "y"])).filter((value) => value === "on").length;
      // What it has read expires before its end.
      await db.set("short", "1", { ttl: 200 });
      let runs = 0;
      seen.expired = await db.transaction(async (tx) => {
        const there = await tx.has("short");
        await tx.set("long", String(there));
        if (runs++ === 0) while (await db.has("short")) await new Promise((resolve) => setTimeout(resolve, 20));
        return there;
      });
      seen.runs = runs;
      return seen;
    });
    const again = ["conflict", 2];
    assert.deepEqual(seen, { key: again, none: again, range: again, prefix: again, blind: [null, 1], reads: [null, 1], other: [null, 1], skew: 1, expired: false, runs: 2 });
    await page.close();
  });

  test("two tabs that count in one record lose nothing", async () => {
    const pages = await two("counted");
    const count = (page) => page.evaluate((counts) => Promise.all(Array.from({ length: 4 }, async () => {
      for (let i = 0; i < counts / 4; i++) {
        await db.transaction(async (tx) => {
          const both = tx.json();
          await both.set("n", ((await both.get("n")) ?? 0) + 1);
          await both.set(`seen/${await both.get("n")}`, 1);
        });
      }
    })), COUNTS);
    await Promise.all(pages.map(count));
    assert.deepEqual(await pages[1].evaluate(async () => [await db.json().get("n"), await db.prefix("seen/").count()]), [2 * COUNTS, 2 * COUNTS]);
    for (const page of pages) await page.close();
  });

  test("a transaction goes with the leader, and its function runs again on the next one", async () => {
    for (const [how, end] of Object.entries({ closed: (page) => page.close(), killed: endWorkers, imported: (page) => page.evaluate(async () => db.import(await db.exportBlob(), { replace: true })) })) {
      const [one, other] = await two(`gone-${how}`);
      await other.evaluate(() => {
        window.runs = 0;
        window.goOn = new Promise((resolve) => (window.release = resolve));
        window.running = db.transaction(async (tx) => {
          const n = (await tx.json().get("n")) ?? 0;
          runs++;
          await goOn;
          await tx.json().set("n", n + 1);
          return n;
        });
      });
      await until(() => other.evaluate(() => runs === 1));
      await end(one);
      if (how === "imported") await one.evaluate(() => 1);
      else await until(() => other.evaluate(() => db.role === "leader"));
      assert.deepEqual(await other.evaluate(async () => [release(), await running, runs, await db.json().get("n")].slice(1)), [0, 2, 1]);
      await other.close();
      await one.close().catch(() => undefined);
    }
  });

  // Nobody else can: a thousand are as many as there may be.
  for (const [how, go] of Object.entries({ "was closed": (page) => page.close(), "lost its worker": endWorkers })) {
    test(`the leader gives up the transactions of a tab that ${how}`, async () => {
      const [one, other] = await two(`open-${how.replaceAll(" ", "-")}`);
      await other.evaluate(async () => {
        window.begun = 0;
        // Functions that never end.
        for (let i = 0; i < 1000; i++) db.transaction(() => new Promise(() => void begun++)).catch(() => undefined);
      });
      await until(() => other.evaluate(() => begun === 1000));
      assert.equal(await one.evaluate(() => code(db.transaction(() => 1))), "usage");
      await go(other);
      assert.equal(await until(() => one.evaluate(() => code(db.transaction(() => 1)).then((value) => value === 1))), true);
      await other.close().catch(() => undefined);
      await one.close();
    });
  }

  test("a transaction that has conflicted again and again goes first, and leaves nothing when it is given up while it waits for that", async () => {
    const page = await opened(await browser.tab(), "first");
    const seen = await page.evaluate(async () => {
      const own = new Error("given up");
      window.begun = 0;
      const never = () => code(db.transaction(() => new Promise(() => void begun++)));
      void never();
      const given = new AbortController();
      let runs = 0;
      const conflicting = async (tx) => {
        await tx.get("k");
        await tx.set("k", "1");
        await db.set("k", `${++runs}`);
        if (runs === 3) setTimeout(() => given.abort(own), 100);
      };
      const seen = [await db.transaction(conflicting, { signal: given.signal }).catch((error) => error === own), runs];
      // Its turn would have come by then.
      await new Promise((resolve) => setTimeout(resolve, 1000));
      // As many as there may be: it is none of them.
      const refused = Promise.race(Array.from({ length: 999 }, never));
      while (begun < 1000 && !(await Promise.race([refused, new Promise((resolve) => setTimeout(resolve, 20))])));
      return [...seen, begun];
    });
    assert.deepEqual(seen, [true, 3, 1000]);
    await page.close();
  });

  test("a transaction that is too large fails, and one whose store is closed; neither has written anything", async () => {
    const page = await opened(await browser.tab(), "large");
    const seen = await page.evaluate(async () => {
      const value = new Uint8Array(8 * 1024 * 1024);
      const large = await code(db.transaction(async (tx) => { for (let i = 0; i < 20; i++) await tx.set(`${i}`, value); }));
      const after = await db.transaction(async (tx) => { await tx.set("small", "1"); return tx.count(); });
      let closing;
      const closed = await code(db.transaction(async (tx) => { await tx.set("late", "1"); closing = db.close(); await tx.get("late"); }));
      await closing;
      window.db = await pipkin.open("large");
      return [large, after, closed, await code(db.transaction(async (tx) => { await tx.get("small"); await pipkin.destroy("large"); })), await db.count()];
    });
    assert.deepEqual(seen, ["usage", 1, "closed", "locked", 1]);
    await page.close();
  });

  test("five tabs write in transactions while one leader after the other is killed: each counts exactly once", async () => {
    const ways = { worker: endWorkers, tab: (page) => page.close(), process: (page) => browser.endProcess(page) };
    const counters = new Counters(() => browser.tab(), countInTransactions);
    for (const end of Object.values(ways)) {
      await counters.fill(5);
      await counters.kill(end);
    }
    await counters.fill(5);
    assert.ok((await counters.check()) > 0);
  });
}

/** Runs in a page. Each round is one transaction, which counts in a record that all tabs share and in one of its own, and writes a further one. */
async function countInTransactions(number) {
  window.db = await pipkin.open("counters", { durability: number % 3 ? "strict" : "relaxed" });
  const padding = "x".repeat(60_000);
  window.done = 0;
  window.running = (async () => {
    for (; !window.enough; done++) {
      await db.transaction(async (tx) => {
        const [counts = [], own = { count: 0 }] = await tx.json().getMany(["common", `own/${number}`]);
        counts[number] = (counts[number] ?? 0) + 1;
        tx.json().set("common", counts);
        tx.json().set(`own/${number}`, { count: own.count + 1, padding });
        tx.set(`record/${number}/${done}`, "");
      });
    }
  })();
}
