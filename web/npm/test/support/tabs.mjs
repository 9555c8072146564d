// Several tabs: one has the file open, the others ask it, and any of them may go at any time. For both browsers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Counters } from "./counters.mjs";
import { endWorkers, until } from "./pages.mjs";

/** So often a leader is ended in each way. */
const ROUNDS = 5;

/** `browser.tab` opens a tab in front of the others; `endProcess` kills the process of a page that leads, and `hang` has such a page hang. */
export function testTabs(browser) {
  /** Tabs that have the store open. The first one leads; it goes on to, because it is the one that is seen. */
  async function tabs(name, count) {
    const pages = [];
    while (pages.length < count) pages.unshift(await browser.tab());
    for (const page of pages) {
      await page.evaluate(async (name) => {
        window.db = await pipkin.open(name);
        window.told = [];
        db.on("leaderchange", ({ role }) => told.push(role));
        db.on("blocked", () => told.push("blocked"));
      }, name);
    }
    const roles = await Promise.all(pages.map((page) => page.evaluate(() => db.role)));
    assert.deepEqual(roles, ["leader", ...Array(count - 1).fill("follower")]);
    return pages;
  }

  test("two tabs see each other's writes and hear of them", async () => {
    const [one, two] = await tabs("two", 2);
    for (const page of [one, two]) {
      await page.evaluate(() => {
        window.heard = [];
        db.on("change", ({ keys, local }) => heard.push([keys?.map((key) => new TextDecoder().decode(key)), local]));
      });
    }
    await one.evaluate(() => db.set("a", "from one"));
    assert.equal(await two.evaluate(() => db.text().get("a")), "from one");
    const answers = await two.evaluate(() => Promise.all([db.set("b", "from two"), db.delete("a"), db.text().getMany(["a", "b"])]));
    assert.deepEqual(answers, [undefined, true, [undefined, "from two"]]);
    assert.equal(await one.evaluate(() => db.text().get("b")), "from two");
    const codes = await two.evaluate(async () => [(await db.set(new Uint8Array(70_000), "").catch((error) => error.code)), await pipkin.destroy("two").catch((error) => error.code)]);
    assert.deepEqual(codes, ["usage", "locked"]);
    await two.evaluate(() => db.setMany(Array.from({ length: 1000 }, (_, i) => [`many/${i}`, "x"])));
    for (const [page, local] of [[one, [true, false, false]], [two, [false, true, true]]]) {
      await until(() => page.evaluate(() => heard.some(([keys]) => !keys)));
      assert.deepEqual((await page.evaluate(() => heard)).slice(0, 2), [[["a"], local[0]], [["b", "a"], local[1]]]);
      assert.deepEqual((await page.evaluate(() => heard)).at(-1), [undefined, local[2]]);
    }
    for (const page of [one, two]) await page.close();
  });

  test("when the leader is closed another tab takes over and nothing is lost", async () => {
    const [one, two, three] = await tabs("closing", 3);
    await two.evaluate(() => db.set("a", "1", { durability: "strict" }));
    await one.evaluate(() => db.close());
    await until(() => two.evaluate(() => db.role === "leader"));
    assert.equal(await three.evaluate(() => db.text().get("a")), "1");
    assert.deepEqual(await two.evaluate(() => told), ["leader"]);
    await two.close();
    await until(() => three.evaluate(() => db.role === "leader"));
    assert.equal(await three.evaluate(() => db.text().get("a")), "1");
    const { damage } = await three.evaluate(() => db.verify());
    assert.deepEqual(damage, []);
    for (const page of [one, three]) await page.close();
  });

  test("five tabs write while one leader after the other is killed: each update counts exactly once", async () => {
    const ways = { worker: endWorkers, tab: (page) => page.close(), process: (page) => browser.endProcess(page) };
    const counters = new Counters(() => browser.tab());
    for (let round = 0; round < ROUNDS; round++) {
      for (const end of Object.values(ways)) {
        await counters.fill(5);
        await counters.kill(end);
      }
    }
    await counters.fill(5);
    const updates = await counters.check();
    const gone = counters.tabs.filter(({ lives }) => !lives).length;
    console.log(`${updates} updates of one counter; ${ROUNDS} leaders ended each by ${Object.keys(ways).join(", ")}, ${gone} tabs gone with them`);
  });

  test("a leader that hangs is noticed, and its followers wait for it", async () => {
    const [one, two] = await tabs("hangs", 2);
    await two.evaluate(() => db.set("a", "0"));
    // Reads have a way of their own.
    for (const reads of [false, true]) {
      const goOn = await browser.hang(one);
      const calling = two.evaluate(async (reads) => {
        told.length = 0;
        while (!told.includes("blocked")) await (reads ? db.get("a") : db.set("a", "1"));
        return db.text().get("a");
      }, reads);
      try {
        await until(() => two.evaluate(() => told.includes("blocked")));
      } finally {
        await goOn();
      }
      assert.equal(await calling, "1");
      assert.ok((await two.evaluate(() => told)).every((what) => what === "blocked"));
    }
    for (const page of [one, two]) await page.close();
  });

  // A `get` of a follower took five times as long as the leader's: there and back it was broadcast from the worker of one page to that of the other.
  test("what a follower reads goes straight to the worker that has the file, and is answered whatever becomes of that", async () => {
    const isDirect = (page) => page.evaluate(async () => {
      const worker = workers.at(-1);
      let sent = 0;
      worker.postMessage = function (...message) {
        sent++;
        return Worker.prototype.postMessage.apply(this, message);
      };
      const read = [await db.text().get("a"), await db.has("a"), await db.text().getMany(["a"]), await db.count()];
      delete worker.postMessage;
      return db.role === "follower" && sent === 0 && JSON.stringify(read) === '["1",true,["1"],1]';
    });
    const pages = await tabs("straight", 2);
    await pages[0].evaluate(() => db.set("a", "1"));
    for (const end of [endWorkers, (page) => page.evaluate(() => db.close()), (page) => page.close()]) {
      const [leader, follower] = pages;
      await until(() => isDirect(follower));
      const reading = follower.evaluate(async () => {
        const read = new Set();
        let count = 0;
        window.isReading = true;
        for (; isReading || count < 100; count++) read.add(await db.text().get("a"));
        return [...read];
      });
      await until(() => follower.evaluate(() => "isReading" in window));
      await end(leader);
      await until(() => follower.evaluate(() => db.role === "leader"));
      await follower.evaluate(() => void (window.isReading = false));
      assert.deepEqual(await reading, ["1"]);
      await follower.evaluate(() => delete window.isReading);
      await leader.close().catch(() => undefined);
      pages.shift();
      // Behind the others: one in front would take the file over.
      pages.push(await browser.tab());
      await pages[1].evaluate(async () => {
        Object.defineProperty(Document.prototype, "visibilityState", { get: () => "hidden" });
        window.db = await pipkin.open("straight");
      });
    }
    for (const page of pages) await page.close();
  });

  test("when a write fails in the leader, or a flush, all tabs can write again, and nothing acknowledged is lost", async () => {
    for (const method of ["write", "flush"]) {
      const pages = [await browser.tab(), await browser.tab()];
      for (const page of pages) {
        await page.evaluate(async (name) => {
          window.failing = true;
          window.db = await pipkin.open(name, { durability: "strict" });
          window.told = [];
          db.on("error", ({ error }) => told.push(error.code));
          window.fate = (call) => call.then((value) => value ?? null, (error) => error.code);
        }, method);
      }
      await pages[0].evaluate(() => db.set("before", "1"));
      for (const writer of [1, 0]) {
        const leader = await until(async () => {
          for (const page of pages) if (await page.evaluate(() => db.role === "leader" && db.has("a").then(() => db.role === "leader"))) return page;
        });
        await leader.evaluate((method) => failNext(method), method);
        const other = writer ? pages.find((page) => page !== leader) : leader;
        const fates = await other.evaluate(async () => [await fate(db.set("a", "1")), await fate(db.set("b", "2")), await fate(db.text().get("before"))]);
        assert.deepEqual(fates, ["outcome-unknown", null, "1"], method);
        await until(() => leader.evaluate(() => told.length > 0));
        for (const page of pages) {
          const again = await page.evaluate(async (name) => {
            await db.close();
            window.db = await pipkin.open(name, { durability: "strict" });
            db.on("error", ({ error }) => told.push(error.code));
            await db.set("c", "3");
            return [await db.text().getMany(["before", "b", "c"]), (await db.verify()).damage];
          }, method);
          assert.deepEqual(again, [["1", "2", "3"], []]);
        }
        await leader.evaluate(() => void (told.length = 0));
      }
      for (const page of pages) await page.close();
    }
  });

  // A leader that is alone opens the file again itself.
  test("when a write fails in the only tab, it can write again", async () => {
    const page = await browser.tab();
    const seen = await page.evaluate(async () => {
      window.failing = true;
      const db = await pipkin.open("alone");
      const told = new Promise((resolve) => db.on("error", ({ error }) => resolve(error.code)));
      const fate = (call) => call.then((value) => value ?? null, (error) => error.code);
      await db.set("a", "1");
      await failNext("write");
      const fates = [await fate(db.set("b", "2")), await fate(db.set("c", "3")), await fate(db.compact().then(() => "compacted")), await told];
      await failNext("flush");
      fates.push(await fate(db.set("d", "4", { durability: "strict" })), await fate(db.flush()), await db.text().getMany(["a", "c"]));
      await db.close();
      return [fates, (await (await pipkin.open("alone")).verify()).damage];
    });
    assert.deepEqual(seen, [["outcome-unknown", null, "compacted", "failed", "outcome-unknown", null, ["1", "3"]], []]);
    await page.close();
  });

  test("with a store go the copies that were left of it, and nothing of another store", async () => {
    const [gone, page] = [await browser.tab(), await browser.tab()];
    await gone.evaluate(async () => {
      for (const name of ["left", "left2"]) {
        const db = await pipkin.open(name);
        const stalled = new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(1000)) });
        await new Promise((begun) => void db.import(stalled, { progress: begun }));
      }
    });
    await endWorkers(gone);
    const left = () => page.evaluate(async () => (await Promise.all([filesOf("left"), filesOf("left2")])).map((files) => files.length));
    assert.deepEqual(await left(), [2, 2]);
    await page.evaluate(() => pipkin.destroy("left"));
    assert.deepEqual(await left(), [0, 2]);
    for (const tab of [gone, page]) await tab.close();
  });

  test("an import whose leader has gone without a word is of unknown outcome, and what can come twice is done", async () => {
    const page = await browser.tab();
    const seen = await page.evaluate(async () => {
      const file = await fileOf([["a", "imported"]]);
      await (await pipkin.open("silent")).close();
      // A leader that takes requests and never answers.
      let end;
      await new Promise((held) => navigator.locks.request("pipkin/silent", () => (held(), new Promise((resolve) => (end = resolve)))));
      const common = new BroadcastChannel("pipkin/silent");
      const leader = new BroadcastChannel("pipkin/silent/leader/00");
      common.onmessage = ({ data }) => data.kind === "who" && common.postMessage({ kind: "leader", epoch: "00", protocol: 12 });
      const taken = [];
      const both = new Promise((resolve) => {
        leader.onmessage = ({ data }) => data.kind === "request" && taken.push(data.request) === 2 && resolve();
      });
      const fate = (call) => call.then((value) => value ?? null, (error) => error.code);
      const db = await pipkin.open("silent");
      const importing = fate(db.import(file));
      while (taken.length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
      const writing = fate(db.set("b", "written"));
      await both;
      common.close();
      end();
      return [await importing, await writing, db.role, await db.text().getMany(["a", "b"])];
    });
    assert.deepEqual(seen, ["outcome-unknown", null, "leader", [undefined, "written"]]);
    await page.close();
  });

  // Giving up once emptied the copy, which the leader then put in the place of the store; and where no store was left an empty one was opened.
  test("an import that is given up after the file was handed over leaves it to the leader, and no store comes back empty", async () => {
    const page = await browser.tab();
    const seen = await page.evaluate(async () => {
      const file = await fileOf([["a", "imported"]]);
      let end;
      await new Promise((held) => navigator.locks.request("pipkin/given", () => (held(), new Promise((resolve) => (end = resolve)))));
      const common = new BroadcastChannel("pipkin/given");
      common.onmessage = ({ data }) => data.kind === "who" && common.postMessage({ kind: "leader", epoch: "00", protocol: 12 });
      const db = await pipkin.open("given");
      const given = new AbortController();
      whenSent("install", () => given.abort());
      const imported = await db.import(file, { signal: given.signal }).catch((error) => error.code);
      const sizes = await Promise.all((await filesOf("given")).map(async ([, handle]) => (await handle.getFile()).size));
      const ended = new Promise((resolve) => {
        db.on("error", ({ error }) => resolve(error.code));
        db.on("leaderchange", ({ role }) => resolve(role));
      });
      common.close();
      end();
      return [imported, sizes.length === 1 && sizes[0] === file.size, await ended];
    });
    assert.deepEqual(seen, ["outcome-unknown", true, "missing"]);
    await page.close();
  });

  test("an import of another tab is told as that of the other, and one that was given up and refused leaves no copy", async () => {
    const [one, two] = await tabs("given-up", 2);
    await one.evaluate(() => {
      window.heard = [];
      db.on("change", ({ local }) => heard.push(local));
    });
    const heard = await two.evaluate(async () => {
      const file = await fileOf([["a", "imported"]]);
      const told = new Promise((resolve) => db.on("change", ({ local }) => resolve(local)));
      await db.import(file);
      window.given = new AbortController();
      whenSent("install", () => given.abort());
      window.refused = await db.import(file, { signal: given.signal }).catch((error) => error.code);
      return [await told, refused];
    });
    assert.deepEqual(heard, [true, "outcome-unknown"]);
    await until(() => two.evaluate(async () => (await filesOf("given-up")).length === 1));
    assert.deepEqual(await one.evaluate(() => heard), [false]);
    assert.equal(await one.evaluate(() => db.text().get("a")), "imported");
    for (const page of [one, two]) await page.close();
  });

  test("what is written while a file is taken in is written after it, and files come in one after the other", async () => {
    const [one, two] = await tabs("taken-in", 2);
    const seen = await two.evaluate(async () => {
      const file = await fileOf([["a", "imported"]]);
      let writing;
      whenSent("install", () => (writing = db.set("b", "written", { durability: "strict" })));
      await db.import(file);
      await writing;
      const before = await db.text().getMany(["a", "b"]);
      const copied = new Response(db.export()).blob();
      const imports = Array.from({ length: 4 }, () => db.import(file, { replace: true }).then(() => "done", (error) => error.message));
      return [before, await Promise.all(imports), (await copied).size > 0, await db.text().getMany(["a", "b"])];
    });
    assert.deepEqual(seen, [["imported", "written"], Array(4).fill("done"), true, ["imported", undefined]]);
    assert.equal(await one.evaluate(() => db.role), "leader");
    for (const page of [one, two]) await page.close();
  });
}
