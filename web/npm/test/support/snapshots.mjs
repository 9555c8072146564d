// Snapshots and positions: a store as it was at one moment, in one tab and from others. For both browsers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { endWorkers, leaderAndFollower, until } from "./pages.mjs";

/** `browser.tab` opens a tab in front of the others. */
export function testSnapshots(browser) {
  test("a snapshot shows its moment in every way of reading, whatever is written afterwards", async () => {
    const page = await browser.tab();
    const seen = await page.evaluate(async () => {
      const db = await pipkin.open("moment");
      const records = Array.from({ length: 3000 }, (_, i) => [`key ${String(i).padStart(4, "0")}`, `then ${i}`.padEnd(300, ".")]);
      await db.setMany(records);
      await db.json("users/").set("ada", { born: 1815 });
      const snapshot = await db.snapshot();
      const walk = snapshot.text().entries();
      const walked = [(await walk.next()).value];
      await db.setMany(records.map(([key]) => [key, "now"]));
      await db.deleteMany(records.slice(0, 1000).map(([key]) => key));
      await db.set("later", "1");
      await db.json("users/").delete("ada");
      await db.compact();
      for await (const record of walk) walked.push(record);
      const text = snapshot.text();
      const collect = async (iterator) => { const all = []; for await (const one of iterator) all.push(one); return all; };
      const into = new Uint8Array(400);
      const length = await snapshot.getInto("key 0000", into);
      const expected = new Map(records);
      const seen = {
        get: (await text.get("key 0000")) === expected.get("key 0000"),
        none: [await snapshot.get("later"), await snapshot.has("later"), await snapshot.has("key 0001")],
        many: (await text.getMany(["key 0002", "later", "key 2999"])).map((value, i) => value === expected.get(["key 0002", "later", "key 2999"][i])),
        into: new TextDecoder().decode(into.subarray(0, length)) === expected.get("key 0000"),
        json: [await snapshot.json("users/").get("ada"), await collect(snapshot.json().prefix("users/"))],
        walked: walked.length === 3001 && walked.filter(([key]) => key.startsWith("key")).every(([key, value]) => expected.get(key) === value),
        ordered: await collect(text.keys({ gte: "key 0998", limit: 4 })),
        reverse: await collect(text.prefix("key ").keys({ reverse: true, limit: 2 })),
        counts: [await snapshot.size(), await snapshot.count(), await db.count(), await db.text().get("key 2999")],
      };
      await snapshot.close();
      await snapshot.close();
      seen.closed = await Promise.all([snapshot.get("a"), snapshot.size(), snapshot.keys().next()].map((call) => call.then(() => "read", ({ code }) => code)));
      seen.damage = (await db.verify()).damage;
      await db.close();
      return seen;
    });
    assert.deepEqual(seen, {
      get: true, none: [undefined, false, true], many: [true, true, true], into: true, json: [{ born: 1815 }, [["ada", { born: 1815 }]]], walked: true,
      ordered: ["key 0998", "key 0999", "key 1000", "key 1001"], reverse: ["2999", "2998"], counts: [3001, 3001, 2001, "now"],
      closed: ["closed", "closed", "closed"], damage: [],
    });
    await page.close();
  });

  const opened = (name) => (page) => page.evaluate(async (name) => {
    window.db = await pipkin.open(name);
    window.code = (call) => call.then((value) => value ?? null, (error) => error.code);
  }, name);
  const two = (name) => leaderAndFollower(browser, opened(name));

  const take = (page) => page.evaluate(async () => {
    await db.set("a", "then");
    window.snapshot = await db.snapshot();
    await db.set("a", "now");
    return snapshot.text().get("a");
  });

  test("a follower reads its snapshots through the leader, and one whose leader has gone says so and never shows anything else", async () => {
    const [one, two_] = await two("followed");
    assert.deepEqual([await take(one), await take(two_)], ["then", "then"]);
    await one.close();
    await until(() => two_.evaluate(() => db.role === "leader"));
    const codes = await two_.evaluate(() => Promise.all([code(snapshot.get("a")), code(snapshot.size()), code(snapshot.getMany(["a"])), code(snapshot.keys().next())]));
    assert.deepEqual(codes, Array(4).fill("snapshot-too-old"));
    assert.equal(await take(two_), "then");
    await two_.close();
  });

  // Nobody else can: what is dead stays in the file as long as a snapshot shows it.
  for (const [how, go] of Object.entries({ "was closed": (page) => page.close(), "lost its worker": endWorkers })) {
    test(`the leader gives up the snapshots of a tab that ${how}`, async () => {
      const [one, other] = await two(`given-up-${how.replaceAll(" ", "-")}`);
      const value = "x".repeat(4000);
      await other.evaluate(async (value) => {
        await db.setMany(Array.from({ length: 1000 }, (_, i) => [`${i}`, value]));
        window.snapshot = await db.snapshot();
      }, value);
      const clear = () => one.evaluate(async () => { await db.clear(); await db.compact(); await db.compact(); const { segments, freeSegments } = await db.stats(); return segments - freeSegments; });
      const kept = await clear();
      await go(other);
      await until(async () => (await clear()) < kept);
      await other.close().catch(() => undefined);
      await one.close();
    });
  }

  test("a position outlives closing, is the same for all tabs, and is unknown elsewhere", async () => {
    const [one, other] = await two("position");
    const seen = await one.evaluate(async () => {
      await db.set("a", "1");
      const position = await db.position();
      const snapshot = await db.snapshot();
      const before = await db.stateOf(position);
      await db.flushTo(position);
      const states = [before, await db.stateOf(position), await db.stateOf(new Uint8Array(16).fill(7))];
      const codes = await Promise.all([db.flushTo(new Uint8Array(16).fill(7)), db.stateOf(new Uint8Array(3)), db.flushTo("text")].map(code));
      return { position: [...position], snapshot: [...snapshot.position], states, codes };
    });
    assert.deepEqual([seen.position.length, seen.snapshot], [16, seen.position]);
    assert.match(seen.states[0], /^(appended|durable)$/);
    assert.deepEqual([seen.states.slice(1), seen.codes], [["durable", "unknown"], ["unknown-position", "usage", "usage"]]);
    await one.close();
    const state = (position) => db.stateOf(Uint8Array.from(position));
    assert.equal(await other.evaluate(state, seen.position), "durable");
    await other.evaluate(() => db.close());
    assert.equal(await other.evaluate(async (position) => (await pipkin.open("position")).stateOf(Uint8Array.from(position)), seen.position), "durable");
    await other.close();
  });
}
