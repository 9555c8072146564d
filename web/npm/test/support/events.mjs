// Event streams: in one tab, between tabs, through everything that may end them, and with a module that does not know them. For both browsers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { endWorkers, leaderAndFollower, until } from "./pages.mjs";

/** Events that are appended while tabs follow and die. */
const COUNT = 90;

/** `browser.tab` opens a tab in front of the others. */
export function testEvents(browser) {
  async function opened(page, name, options = {}) {
    await page.evaluate(async ([name, options]) => {
      window.db = await pipkin.open(name, options);
      window.code = (call) => call.then((value) => value ?? null, (error) => error.code);
      window.text = (bytes) => new TextDecoder().decode(bytes);
      window.collect = async (iterator) => { const all = []; for await (const one of iterator) all.push(one); return all; };
      window.shown = async (iterator) => (await collect(iterator)).map(({ stream, version, type }) => `${stream}@${version}:${type}`).join(" ");
    }, [name, options]);
    return page;
  }

  const two = (name) => leaderAndFollower(browser, (page) => opened(page, name));

  test("events are appended as expected, read in every way from either end, and removed, by whoever leads or follows", async () => {
    const pages = await two("event-shape");
    for (const [at, page] of pages.entries()) {
      const seen = await page.evaluate(async (name) => {
        const log = await db.events(name);
        const seen = {};
        const id = new Uint8Array(16).fill(7);
        const one = await log.append("a", [{ type: "one", payload: "x", tags: ["t", "u", "t"], metadata: "m", id, time: 9 }, { type: "two" }], { expected: "none", durability: "strict" });
        seen.one = [one.lastNumber - one.firstNumber, one.version, one.repeated];
        const again = await log.append("a", [{ type: "one", payload: "x", tags: ["t", "u"], metadata: "m", id, time: 9 }, { type: "two" }], { expected: "none" }).then(() => "appended", (error) => error.code);
        seen.again = [again, (await log.append("b", { type: "B", id }, { expected: 0 })).repeated, (await log.append("b", { type: "B", id }, { expected: 0 })).repeated];
        const [first] = await collect(log.read({ stream: "a", limit: 1 }));
        seen.first = [first.number === one.firstNumber, first.version, first.type, text(first.payload), first.tags, text(first.metadata), [...first.id].every((byte) => byte === 7), first.time];
        seen.refused = [await code(log.append("a", { type: "x" }, { expected: 1 })), await code(log.append("new", { type: "x" }, { expected: "exists" })), await code(log.append("b", { type: "x" }, { unless: { tags: ["t"], types: ["one"] } }))];
        seen.decided = (await log.append("b", { type: "C", tags: ["t"] }, { unless: { tags: ["t"] }, after: one.lastNumber })).version;
        seen.reads = [
          await shown(log.read()), await shown(log.read({ reverse: true, limit: 2 })), await shown(log.read({ stream: "a", from: 2 })), await shown(log.read({ stream: "b", reverse: true })),
          await shown(log.read({ query: { tags: ["t"] } })), await shown(log.read({ query: [{ types: ["two"] }, { tags: ["t", "u"] }], reverse: true })), await shown(log.read({ stream: "none" })),
        ];
        seen.many = [];
        await log.append("long", Array.from({ length: 3000 }, (_, i) => ({ type: i % 3 ? "L" : "M", payload: new Uint8Array(300) })));
        for (const options of [{ stream: "long" }, { stream: "long", reverse: true }, { query: { types: ["M"] } }, { query: { types: ["M"] }, reverse: true }, { query: {}, from: one.lastNumber, reverse: true }]) {
          const versions = (await collect(log.read(options))).map(({ version, number }) => (options.stream ? version : number));
          const sorted = versions.every((version, i) => i === 0 || (options.reverse ? version < versions[i - 1] : version > versions[i - 1]));
          seen.many.push([versions.length, sorted]);
        }
        seen.kept = [await log.keepLast("long", 5), await log.truncate("long", 2999), await shown(log.read({ stream: "long" })), await log.deleteStream("long"), await log.version("long")];
        const begun = { expected: "anew" };
        seen.anew = [(await log.append("long", { type: "N" }, begun)).version, await log.append("long", { type: "N" }, begun).catch(({ code, failed }) => [code, failed])];
        seen.usage = [
          await code(log.append("a", [])), await code(log.append("", { type: "x" })), await code(log.append("a", { type: "\0" })), await code(log.append("a", { type: "x", tags: ["\0t"] })),
          await code(log.append("a", { type: "x", id: new Uint8Array(3) })), await code(log.append("a", { type: "x" }, { expected: -1 })), await code(collect(log.read({ query: [] }))), await code(collect(log.read({ stream: "a", query: {} }))),
          await code(log.append("a", { type: "\ud800" })), await code(log.append("a", { type: "x", tags: Array.from({ length: 65 }, (_, i) => `${i}`) })),
          await code(log.append("a", { type: "x", time: -1 })),
        ];
        seen.removed = [await log.removeBefore(10), await shown(log.read({ stream: "a" })), await log.version("none"), (await db.verify()).damage, await db.count()];
        return seen;
      }, `log${at}`);
      const usage = Array.from({ length: 11 }, () => "usage");
      assert.deepEqual(seen, {
        one: [1, 2, false], again: ["append-refused", false, true], first: [true, 1, "one", "x", ["t", "u"], "m", true, 9], refused: ["append-refused", "append-refused", "append-refused"], decided: 2,
        reads: ["a@1:one a@2:two b@1:B b@2:C", "b@2:C b@1:B", "a@2:two", "b@2:C b@1:B", "a@1:one b@2:C", "a@2:two a@1:one", ""],
        many: [[3000, true], [3000, true], [1000, true], [1000, true], [3003, true]],
        kept: [2995, 3, "long@2999:L long@3000:L", 2, 3000], anew: [1, ["append-refused", [{ stream: "long", expected: "anew", current: 1 }]]], usage, removed: [1, "a@2:two", 0, [], 0],
      });
    }
    for (const page of pages) await page.close();
  });

  test("a log keeps what its retention says, and whoever is refused is told which checks have failed, in whichever tab", async () => {
    const pages = await two("event-kept");
    for (const [at, page] of pages.entries()) {
      const seen = await page.evaluate(async (name) => {
        const log = await db.events(name);
        const seen = { none: await log.retention() };
        const old = await log.append("s", Array.from({ length: 20 }, (_, i) => ({ type: "old", time: i })));
        await log.append("s", [{ type: "new", tags: ["t"] }, { type: "new" }, { type: "new" }]);
        await log.setRetention({ maxAge: 60_000.5 });
        seen.age = [await log.retention(), await log.retain(), await log.retain(), await shown(log.read())];
        await log.setRetention({ maxEvents: 2, maxAge: Infinity }, { durability: "strict" });
        seen.count = [await log.retention(), await log.retain(), await shown(log.read()), await log.version("s")];
        seen.gone = (await log.append("s", { type: "unseen" }, { unless: { types: ["old"] } })).version;
        await log.setRetention({});
        await log.append("s", [{ type: "x" }, { type: "x" }]);
        seen.all = [await log.retention(), await log.retain(), await log.version("s")];
        seen.wrong = [await code(log.setRetention({ maxAge: 0 })), await code(log.setRetention({ maxEvents: NaN })), await code(log.setRetention({ maxEvents: "7" })), await code(log.setRetention({ maxAge: -1 }))];
        const failed = (call) => call.then(() => "done", ({ code, message, failed }) => [code, /\0|\[/.test(message), failed]);
        const hostile = 'a "\\stream" \n\u2028 \ud83e\udd80\0';
        await log.append(hostile, { type: "h" });
        seen.failed = [
          await failed(log.append("s", { type: "x" }, { expected: 3 })), await failed(log.append("s", { type: "x" }, { expected: "none" })), await failed(log.append("none", { type: "x" }, { expected: "exists" })),
          await failed(log.append("none", { type: "x" }, { expected: 7, unless: { types: ["x"] }, after: old.lastNumber })), await failed(log.append(hostile, { type: "x" }, { expected: 9 })),
          await failed(db.transaction(async (tx) => { await tx.set("k", "v"); await log.append("s", { type: "x" }, { tx, expected: 1 }); await log.append("none", { type: "x" }, { tx, expected: 2 }); })),
          await failed(db.get(new Uint8Array(100_000))),
        ];
        const last = await log.lastNumber();
        for (const [, , checks] of seen.failed) for (const check of checks ?? []) if (check.matched) check.matched -= last;
        return [seen, hostile];
      }, `log${at}`);
      const [{ none, age, count, gone, all, wrong, failed }, hostile] = seen;
      const unlimited = { maxAge: undefined, maxEvents: undefined };
      assert.deepEqual([none, age], [unlimited, [{ maxAge: 60_000, maxEvents: undefined }, 20, 0, "s@21:new s@22:new s@23:new"]]);
      assert.deepEqual([count, gone], [[{ maxAge: undefined, maxEvents: 2 }, 1, "s@22:new s@23:new", 23], 24]);
      assert.deepEqual(all, [unlimited, 0, 26]);
      assert.deepEqual(wrong, ["usage", "usage", "usage", "usage"]);
      assert.deepEqual(failed, [
        ["append-refused", false, [{ stream: "s", expected: 3, current: 26 }]], ["append-refused", false, [{ stream: "s", expected: 0, current: 26 }]], ["append-refused", false, [{ stream: "none", expected: "exists", current: 0 }]],
        ["append-refused", false, [{ matched: -1 }, { stream: "none", expected: 7, current: 0 }]], ["append-refused", false, [{ stream: hostile, expected: 9, current: 1 }]],
        ["append-refused", false, [{ stream: "s", expected: 1, current: 26 }, { stream: "none", expected: 2, current: 0 }]], ["usage", false, undefined],
      ]);
    }
    for (const page of pages) await page.close();
  });

  test("a store with events keeps them under the module that does not know them, and that one gives way when they are asked for", async () => {
    const page = await opened(await browser.tab(), "event-lean", { events: true });
    await page.evaluate(async () => {
      const log = await db.events("log");
      for (let i = 0; i < 50; i++) await log.append(`s${i % 3}`, { type: "T", payload: new Uint8Array(1000), tags: [`t${i % 5}`] });
      await log.cursor("reader", { after: 7 });
      await log.truncate("s0", 5);
      window.before = JSON.stringify([await collect(log.read()), await log.cursors()]);
      await db.close();
    });
    const seen = await page.evaluate(async () => {
      const seen = {};
      window.db = await pipkin.open("event-lean", { segmentSize: 4096 });
      for (let round = 0; round < 30; round++) await db.setMany(Array.from({ length: 50 }, (_, i) => [`k${i}`, new Uint8Array(500).fill(round)]));
      await db.delete("k0");
      await db.compact();
      seen.records = [await db.count(), (await db.verify()).damage];
      await db.close();
      window.db = await pipkin.open("event-lean");
      const snapshot = await db.snapshot();
      await db.set("new", "1");
      const running = db.transaction(async (tx) => { await tx.get("new"); await (await db.events("log")).version("s1"); await tx.set("by", "tx"); });
      const log = await db.events("log");
      seen.same = JSON.stringify([await collect(log.read()), await log.cursors()]) === before;
      await running;
      seen.after = [await db.text().get("by"), await code(snapshot.get("new")), await log.version("s1"), (await log.append("s1", { type: "T" })).version, await db.count()];
      return seen;
    });
    assert.deepEqual(seen, { records: [49, []], same: true, after: ["tx", "snapshot-too-old", 17, 18, 51] });
    await page.close();
  });

  test("whoever follows hears of each event once and in order, from any tab, through the end of the one that leads", async () => {
    const pages = [...(await two("event-follow"))];
    pages.push(await opened(await browser.tab(), "event-follow"));
    const [leader, follower, last] = pages;
    for (const page of [follower, last]) {
      await page.evaluate(async () => {
        window.log = await db.events("log");
        window.heard = [];
        window.over = (async () => { for await (const event of log.follow({ query: { types: ["job"] } })) heard.push(Number(text(event.payload))); })();
        window.add = async (from, to, durability) => { for (let i = from; i < to; i++) await log.append("jobs", [{ type: "other" }, { type: "job", payload: `${i}` }], { durability }); };
      });
    }
    await follower.evaluate((count) => add(0, count / 3, "strict"), COUNT);
    await until(() => last.evaluate((count) => heard.length === count / 3, COUNT));
    const adding = last.evaluate((count) => add(count / 3, count, "relaxed"), COUNT);
    await until(() => follower.evaluate((count) => heard.length > count / 3 + 5, COUNT));
    await endWorkers(leader);
    await leader.close();
    await adding;
    for (const page of [follower, last]) {
      await until(() => page.evaluate((count) => heard.length >= count, COUNT));
      assert.deepEqual(await page.evaluate(() => heard), Array.from({ length: COUNT }, (_, i) => i));
    }
    assert.equal(await last.evaluate(async () => await log.version("jobs")), 2 * COUNT, "each append counts once");
    await follower.evaluate(() => db.close());
    await last.close();
    await follower.close();
  });

  test("a projection counts each event once: from a leader and a follower that take the cursor from each other, and through the end of either", async () => {
    const [leader, follower] = await two("event-projection");
    const work = async (page) => page.evaluate((count) => {
      window.meetings = 0;
      window.working = (async () => {
        const log = await db.events("log");
        for (;;) {
          const jobs = await log.cursor("worker", { query: { types: ["job"] } });
          try {
            for await (const event of jobs) {
              const known = await db.transaction(async (tx) => {
                const sums = tx.json("sums/");
                const known = (await sums.get("jobs") ?? 0) + 1;
                await sums.set("jobs", known);
                await sums.set(`job${text(event.payload)}`, (await sums.get(`job${text(event.payload)}`) ?? 0) + 1);
                await log.append("done", { type: "done", payload: event.payload }, { tx });
                await jobs.ack(event, { tx });
                return known;
              }, { durability: "strict" });
              if (known >= count) return known;
              if (known % 10 === 0 && Math.random() < 0.3) await new Promise((resolve) => setTimeout(resolve, 30));
            }
          } catch (error) {
            if (error.code !== "cursor-taken") throw error;
            window.meetings++;
            await new Promise((resolve) => setTimeout(resolve, Math.random() * 50));
            if ((await db.json("sums/").get("jobs") ?? 0) >= count) return count;
          }
        }
      })();
      window.working.catch((error) => (window.trouble = `${error.code} ${error.message}`));
    }, COUNT);
    const third = await opened(await browser.tab(), "event-projection");
    await work(leader);
    await work(follower);
    const adding = third.evaluate(async (count) => {
      const log = await db.events("log");
      for (let i = 0; i < count; i++) await log.append("jobs", { type: "job", payload: `${i}` }, { durability: "strict" });
    }, COUNT);
    await until(() => third.evaluate(async (count) => (await db.json("sums/").get("jobs") ?? 0) > count / 3, COUNT));
    await endWorkers(leader);
    await leader.close();
    await adding;
    await until(() => third.evaluate(async (count) => (await db.json("sums/").get("jobs") ?? 0) >= count, COUNT).then(async (done) => done || assert.equal(await follower.evaluate(() => window.trouble), undefined)));
    const seen = await third.evaluate(async () => {
      const log = await db.events("log");
      const jobs = await collect(db.json("sums/").entries({ gte: "job0" }));
      return [await db.json("sums/").get("jobs"), jobs.filter(([key]) => key !== "jobs").every(([, count]) => count === 1), await log.version("done"), new Set((await collect(log.read({ stream: "done" }))).map(({ payload }) => text(payload))).size];
    });
    assert.deepEqual(seen, [COUNT, true, COUNT, COUNT]);
    await follower.close();
    await third.close();
  });

  test("a transaction with events is written whole or not at all", async () => {
    const pages = await two("event-transactions");
    for (const [at, page] of pages.entries()) {
      const seen = await page.evaluate(async (at) => {
        const log = await db.events(`log${at}`);
        const seen = {};
        await log.append("s", [{ type: "1" }, { type: "2" }], { durability: "strict" });
        const own = await log.cursor("c");
        const event = (await own.next()).value;
        seen.refused = await code(db.transaction(async (tx) => { await tx.set("k", "lost"); await own.ack(event, { tx }); await log.append("s", { type: "lost" }, { expected: 7, tx }); }));
        seen.thrown = await code(db.transaction(async (tx) => { await own.ack(event, { tx }); await log.append("s", { type: "lost" }, { tx }); throw Object.assign(new Error(), { code: "own" }); }));
        seen.nothing = [await db.has("k"), await log.version("s"), (await log.cursors())[0].number];
        seen.only = await db.transaction(async (tx) => { await log.append("s", { type: "3" }, { expected: 2, tx }); return "returned"; });
        await db.transaction(async (tx) => { await tx.set("k", "v"); await own.ack(event, { tx }); });
        seen.all = [await db.text().get("k"), await log.version("s"), (await log.cursors())[0].number === event.number];
        const taken = await log.cursor("c");
        seen.taken = [await code(own.ack(event)), await code(db.transaction((tx) => own.ack(event, { tx }))), await code(taken.ack({ number: event.number }))];
        seen.removed = [await log.removeCursor("c"), await log.removeCursor("c"), await code(taken.ack(event))];
        own.close();
        taken.close();
        await db.clear();
        return seen;
      }, at);
      assert.deepEqual(seen, {
        refused: "append-refused", thrown: "own", nothing: [false, 2, 0], only: "returned", all: ["v", 3, true], taken: ["cursor-taken", "cursor-taken", null], removed: [true, false, "cursor-taken"],
      });
    }
    for (const page of pages) await page.close();
  });
}
