// Those who follow what changes: in one tab, between tabs, and through everything that may end them. For both browsers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Counters } from "./counters.mjs";
import { endWorkers, leaderAndFollower, until } from "./pages.mjs";

/** `browser.tab` opens a tab in front of the others; `endProcess` kills the process of a page that leads. */
export function testChanges(browser) {
  async function opened(page, name) {
    await page.evaluate(async (name) => {
      window.db = await pipkin.open(name);
      window.code = (call) => call.then((value) => value ?? null, (error) => error.code ?? error);
      window.hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
      /** So many commits. */
      window.take = async (changes, many) => {
        const commits = [];
        while (commits.length < many) commits.push((await changes.next()).value);
        return commits;
      };
      /** In short. */
      window.short = ({ changes }) => changes.map(({ key, value, removed }) => (removed ? `-${key}` : `${key}=${JSON.stringify(value)}`)).join(" ");
      /** Whether nothing comes for a while; asks no further. */
      window.isQuiet = (next, ms = 700) => Promise.race([next.then(() => false), new Promise((resolve) => setTimeout(() => resolve(true), ms))]);
    }, name);
    return page;
  }

  const two = (name) => leaderAndFollower(browser, (page) => opened(page, name));

  test("whoever follows hears each commit of every tab once, whole, in order, as its view sees it", async () => {
    const pages = await two("shape");
    for (const [own, other] of [pages, pages.toReversed()]) {
      await own.evaluate(async () => {
        await db.clear({ durability: "strict" });
        window.all = db.text().changes();
        window.users = db.json("users/").changes();
        window.blobs = db.structured("blobs/").changes();
        // What the other tab writes comes behind them once a later call has answered.
        await db.get("none");
      });
      await other.evaluate(async () => {
        await db.json("users/").set("ada", { born: 1815 });
        await db.batch((batch) => { batch.set("a", "1"); batch.set("a", "2"); batch.in(db.json("users/")).delete("ada"); batch.in(db.json("users/")).set("bob", [1]); });
        await db.structured("blobs/").set("map", new Map([[1, new Date(7)]]), { ttl: 3_600_000 });
        await db.transaction(async (tx) => { await tx.set("t", "1"); await tx.delete("a"); });
        await db.delete("none");
        await db.flush();
      });
      const seen = await own.evaluate(async () => {
        const [commits, ofUsers, [blob]] = [await take(all, 4), await take(users, 2), await take(blobs, 1)];
        const seen = [commits.map(short).map((text, i) => (i === 2 ? text.split("=")[0] : text)), ofUsers.map(short)];
        seen.push([blob.changes[0].value.get(1).getTime(), Math.round((blob.changes[0].expiresAt - Date.now()) / 60_000), Object.keys(ofUsers[0].changes[0])]);
        const positions = commits.map(({ position }) => hex(position));
        seen.push([new Set(positions).size, ofUsers.every(({ position }, i) => hex(position) === positions[i]), hex(blob.position) === positions[2]]);
        // From the position of each commit on those behind it come.
        for (const [i, { position }] of commits.entries()) seen.push((await take(db.text().changes({ from: position, appended: true }), 3 - i)).length);
        for (const changes of [all, users, blobs]) await changes.return();
        return seen;
      });
      assert.deepEqual(seen, [
        ["users/ada={\"born\":1815}".replace("{\"born\":1815}", JSON.stringify(JSON.stringify({ born: 1815 }))), "a=\"1\" a=\"2\" -users/ada users/bob=\"[1]\"", "blobs/map", "-a t=\"1\""],
        ["ada={\"born\":1815}", "-ada bob=[1]"], [7, 60, ["key", "value"]], [4, true, true], 3, 2, 1, 0,
      ]);
    }
    for (const page of pages) await page.close();
  });

  test("it begins with the call: what was called before is not in it, and what is called after it in the same task is", async () => {
    for (const page of await two("begin")) {
      const seen = await page.evaluate(async () => {
        const text = db.text();
        const seen = [];
        for (let round = 0; round < 5; round++) {
          void text.set("before", `${round}`);
          const changes = text.changes({ appended: true });
          void text.set("after", `${round}`);
          seen.push(short((await changes.next()).value));
          await changes.return();
        }
        // Without a word more, also what is not flushed yet is heard a moment later; and what is not asked for early is not heard early.
        const [early, late] = [text.changes({ appended: true }), text.changes()];
        await text.set("relaxed", "1");
        seen.push(short((await early.next()).value), short((await late.next()).value));
        await text.set("relaxed", "2");
        await text.flush?.();
        const [first, second] = [late.next(), late.next()];
        await text.set("relaxed", "3", { durability: "strict" });
        seen.push(short((await first).value), short((await second).value));
        seen.push(await isQuiet(late.next()));
        for (const changes of [early, late]) await changes.return();
        // Its first request leaves alone: in one message with the write behind it, it would begin behind that when another leader carries the message out again.
        if (db.role === "leader") {
          const flags = [];
          const [worker] = workers;
          const { postMessage } = worker;
          worker.postMessage = (message, ...rest) => (message instanceof Uint8Array && flags.push(message[0]), postMessage.call(worker, message, ...rest));
          void text.set("one", "1");
          const changes = text.changes();
          await text.set("two", "1");
          await changes.return();
          delete worker.postMessage;
          seen.push(flags.slice(0, 2));
        } else seen.push([2 | 4, 2]);
        await db.close();
        return seen;
      });
      assert.deepEqual(seen, [...Array.from({ length: 5 }, (_, i) => `after="${i}"`), "relaxed=\"1\"", "relaxed=\"1\"", "relaxed=\"2\"", "relaxed=\"3\"", true, [2 | 4, 2]]);
      await page.close();
    }
  });

  test("a loop that is left, a signal, a close and an end of the worker end it, also while it waits", async () => {
    for (const page of await two("ends")) {
      const seen = await page.evaluate(async () => {
        const seen = {};
        const text = db.text();
        // Left in the midst of a page; what was read and not handed out is not handed out later.
        const left = text.changes({ appended: true });
        for (const value of ["1", "2", "3"]) await text.set("a", value);
        for await (const commit of left) { seen.first = short(commit); break; }
        seen.twice = [];
        for await (const commit of left) seen.twice.push(commit);
        seen.after = (await left.next()).done;
        // While it waits.
        const waiting = text.changes();
        const next = [waiting.next(), waiting.next()];
        await new Promise((resolve) => setTimeout(resolve, 50));
        seen.returned = [(await waiting.return()).done, ...(await Promise.all(next)).map(({ done }) => done)];
        const own = new Error("given up");
        const given = new AbortController();
        const signalled = text.changes({ signal: given.signal });
        const aborted = signalled.next().catch((error) => error === own);
        await new Promise((resolve) => setTimeout(resolve, 50));
        given.abort(own);
        seen.signal = [await aborted, await text.changes({ signal: given.signal }).next().catch((error) => error === own), (await signalled.next()).done];
        seen.usage = ["x".repeat(16), new Uint8Array(15), [], 7].map((from) => { try { return text.changes({ from }); } catch (error) { return error.code; } });
        // Two loops share what comes.
        const shared = text.changes({ appended: true });
        const both = [];
        const loops = [1, 2].map(async () => { for await (const commit of shared) if (both.push(short(commit)) === 4) await shared.return(); });
        for (const value of ["1", "2", "3", "4"]) await text.set("b", value);
        await Promise.all(loops);
        seen.shared = both;
        const closing = [text.changes().next(), text.changes({ from: new Uint8Array(16), appended: true }).next().then(() => "heard"), text.changes({ appended: true }).next()].map(code);
        await new Promise((resolve) => setTimeout(resolve, 50));
        await db.close();
        seen.closed = [...(await Promise.all(closing)), await code(text.changes().next())];
        window.db = await pipkin.open("ends");
        window.failed = code(db.changes().next());
        await db.get("a");
        return seen;
      });
      assert.deepEqual(seen, {
        first: "a=\"1\"", twice: [], after: true, returned: [true, true, true], signal: [true, true, true], usage: Array(4).fill("usage"),
        shared: ["1", "2", "3", "4"].map((value) => `b="${value}"`), closed: ["closed", "heard", "closed", "closed"],
      });
      await endWorkers(page);
      assert.equal(await page.evaluate(() => failed), "failed");
      await page.close();
    }
  });

  test("positions of another store are unknown, those from before what was compacted away say so, and a reader keeps what it has not read until it ends", async () => {
    const ends = { left: (page) => page.evaluate(() => reader.return().then(() => null)), closed: (page) => page.close(), killed: endWorkers };
    for (const [how, end] of Object.entries(ends)) {
      const [one, other] = await two(`kept-${how}`);
      const begun = await other.evaluate(async () => {
        const elsewhere = await pipkin.open("elsewhere");
        await elsewhere.set("a", "1");
        // The position of an empty store is the beginning of every store.
        await db.set("zeroth", "1");
        window.before = await db.position();
        const unknown = [db.changes({ from: await elsewhere.position() }), elsewhere.changes({ from: before }), db.changes({ from: new Uint8Array(16).fill(255) })];
        const seen = [];
        for (const changes of unknown) seen.push(await code(changes.next()));
        await elsewhere.close();
        window.reader = db.text().changes({ from: before });
        await db.set("first", "1", { durability: "strict" });
        seen.push(short((await reader.next()).value));
        return [seen, Array.from(before)];
      });
      assert.deepEqual(begun[0], ["unknown-position", "unknown-position", "unknown-position", "first=\"1\""]);
      const churn = (rounds) => one.evaluate(async ([before, rounds]) => {
        const value = new Uint8Array(10_000);
        for (let round = 0; round < rounds; round++) await Promise.all(Array.from({ length: 20 }, async (_, i) => { for (let n = 0; n < i % 3; n++) await undefined; await db.set(`k${i}`, value); }));
        await db.flush();
        await db.compact();
        await db.compact();
        const changes = db.changes({ from: Uint8Array.from(before) });
        const found = await code(changes.next());
        await changes.return();
        return found;
      }, [begun[1], rounds]);
      // What the reader has not read is there for everybody.
      assert.notEqual(await churn(20), "compacted");
      if (how === "left") assert.ok(await other.evaluate(async () => (await take(reader, 20)).every(({ changes }) => changes[0].key.startsWith("k"))));
      await end(other);
      // By and by, and far below what is kept at most.
      let rounds = 20;
      await until(async () => (await churn(++rounds && 1)) === "compacted");
      assert.ok(rounds < 50, `${rounds} rounds of 200 kB`);
      await other.close().catch(() => undefined);
      await one.close();
    }
  });

  // They share the position before all of them: from there they come again, with positions of their own.
  test("what was written before anybody asked the leader for a position is heard once, also when that goes in the midst of it, and never passed over", async () => {
    for (const how of ["killed", "replaced"]) {
      const first = await opened(await browser.tab(), `again-${how}`);
      const before = await first.evaluate(async () => {
        // So much that a segment takes a MiB, and that the last one has just begun: what the next session writes first is more than a page.
        for (let i = 0; i < 1050; i++) await db.set(`fill/${i}`, "x".repeat(10_000));
        await db.set("last", "1");
        const position = Array.from(await db.position());
        await db.close();
        return position;
      });
      await first.close();
      const [one, other] = await two(`again-${how}`);
      const copy = how === "replaced" && await one.evaluate(() => db.exportBlob().then((blob) => void (window.copy = blob)));
      assert.equal(copy, how === "replaced" ? undefined : false);
      const write = (value) => one.evaluate(async (value) => { for (let i = 0; i < 80; i++) await db.set(`n/${i}`, `${i}/${value}`.padEnd(5_000)); await db.flush(); }, value);
      await write("first");
      const count = await other.evaluate(async (before) => {
        window.reader = db.text("n/").changes({ from: Uint8Array.from(before) });
        window.heard = [];
        const positions = new Set();
        for (const { position, changes } of await take(reader, 30)) {
          heard.push(changes[0].value.trim());
          positions.add(hex(position));
        }
        return positions.size;
      }, before);
      assert.equal(count, 1, "they have positions of their own");
      if (how === "killed") await endWorkers(one);
      else await one.evaluate(() => db.import(copy, { replace: true }));
      if (how === "replaced") await write("second");
      const rest = await other.evaluate(async () => {
        for (;;) {
          const next = await Promise.race([reader.next().catch((error) => error), new Promise((resolve) => setTimeout(resolve, 3000))]);
          if (!next || next.code) return { heard, code: next?.code };
          heard.push(next.value.changes[0].value.trim());
        }
      });
      if (how === "killed") assert.deepEqual(rest, { heard: Array.from({ length: 80 }, (_, i) => `${i}/first`), code: undefined });
      else assert.equal(rest.code, "unknown-position");
      await other.close();
      await one.close();
    }
  });

  test("what was written and not flushed when the leader was killed is heard by those who wait for what is durable", async () => {
    const [one, other] = await two("unflushed");
    await other.evaluate(() => {
      window.heard = [];
      void (async () => { for await (const commit of db.text().changes()) heard.push(short(commit)); })();
      return db.get("a");
    });
    await one.evaluate(() => { void db.set("a", "1"); return db.get("a").then(() => workers.forEach((worker) => worker.terminate())); });
    await until(() => other.evaluate(() => heard.length > 0));
    assert.deepEqual(await other.evaluate(() => heard), ["a=\"1\""]);
    for (const page of [one, other]) await page.close();
  });

  test("a new leader keeps what is in the file until those have asked it who followed the one before", async () => {
    const [one, other] = await two("asked");
    await other.evaluate(async () => {
      window.reader = db.text().changes({ appended: true });
      await db.set("a", "1");
      await reader.next();
      await db.set("b", "1");
    });
    await endWorkers(one);
    const seen = await other.evaluate(async () => {
      // It asks for nothing meanwhile.
      const value = "x".repeat(10_000);
      for (let round = 0; round < 10; round++) await Promise.all(Array.from({ length: 20 }, (_, i) => db.set(`k${i}`, value)));
      await db.flush();
      await db.compact();
      await db.compact();
      return code(reader.next().then(({ value }) => short(value)));
    });
    assert.equal(seen, "b=\"1\"");
    for (const page of [one, other]) await page.close();
  });

  test("thousands that were begun and left alone keep nobody from anything", async () => {
    for (const page of await two("many")) {
      const seen = await page.evaluate(async () => {
        const text = db.text();
        const first = text.changes({ appended: true });
        const many = Array.from({ length: 3000 }, () => text.changes({ appended: true }));
        await text.set("a", "1");
        const heard = [await first.next(), await many[0].next(), await many[1500].next(), await many[2999].next()].map(({ value }) => short(value));
        await text.set("a", "2");
        heard.push(short((await first.next()).value), short((await many[1].next()).value), short((await many[2999].next()).value));
        await db.close();
        return heard;
      });
      assert.deepEqual(seen, [...Array(4).fill("a=\"1\""), "a=\"2\"", "a=\"1\"", "a=\"2\""]);
      await page.close();
    }
  });

  test("five tabs write and follow while one leader after the other is killed: no gap, nothing twice, each commit whole and in order", async () => {
    const ways = { worker: endWorkers, tab: (page) => page.close(), process: (page) => browser.endProcess(page) };
    const counters = new Counters(() => browser.tab(), countAndFollow);
    for (const end of Object.values(ways)) {
      await counters.fill(5);
      await counters.kill(end);
    }
    await counters.fill(5);
    await counters.check(async (pages) => {
      for (const page of pages) {
        const { heard, common } = await page.evaluate(async () => {
          const counts = await db.json().get("common");
          const common = counts.reduce((sum, count) => sum + (count ?? 0), 0);
          while (!window.wrong && window.last < common) await Promise.race([window.following, new Promise((resolve) => setTimeout(resolve, 20))]);
          return { heard: window.wrong ?? window.heard, common };
        });
        assert.ok(heard > 10, `${heard} of ${common}`);
      }
    });
  });
}

/** Runs in a page. Each round is one transaction, which counts in a record that all tabs share and in one of its own, and writes a further one. It follows all of them meanwhile. */
async function countAndFollow(number) {
  window.db = await pipkin.open("counters", { durability: number % 3 ? "strict" : "relaxed" });
  const padding = "x".repeat(20_000);
  window.done = 0;
  window.heard = 0;
  window.last = 0;
  window.following = (async () => {
    let before;
    for await (const { changes } of db.json().changes({ appended: number % 2 === 1 })) {
      const [common, own, record] = changes;
      const counts = common?.value ?? [];
      const writer = counts.findIndex((count, i) => count !== (before?.[i] ?? null));
      const sum = counts.reduce((sum, count) => sum + (count ?? 0), 0);
      const isNext = !before || (sum === window.last + 1 && counts.every((count, i) => i === writer || count === (before[i] ?? null)) && own?.key === `own/${writer}` && record?.key === `record/${writer}/${counts[writer] - 1}`);
      if (changes.length !== 3 || common.key !== "common" || !isNext) throw new Error(`${JSON.stringify(before)} and then ${JSON.stringify(changes).slice(0, 300)}`);
      before = counts;
      window.heard++;
      window.last = sum;
    }
  })();
  window.following.catch((error) => (window.wrong = `${error.code} ${error}`));
  window.running = (async () => {
    for (; !window.enough; done++) {
      if (window.wrong) throw new Error(window.wrong);
      await db.transaction(async (tx) => {
        const [counts = [], own = { count: 0 }] = await tx.json().getMany(["common", `own/${number}`]);
        counts[number] = (counts[number] ?? 0) + 1;
        await tx.json().set("common", counts);
        await tx.json().set(`own/${number}`, { count: own.count + 1, padding });
        await tx.json().set(`record/${number}/${done}`, "");
      });
    }
  })();
}
