// Several tabs: one has the file open, the others ask it, and any of them may go at any time.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./support/setup.mjs";

const { browser } = await setup();

/** Tabs that have the store open; the first one leads. */
async function tabs(name, count) {
  const pages = [];
  for (let i = 0; i < count; i++) {
    const page = await browser.tab();
    await page.evaluate(async (name) => {
      window.db = await pipkin.open(name);
      window.told = [];
      db.on("leaderchange", ({ role }) => told.push(role));
    }, name);
    pages.push(page);
  }
  assert.deepEqual(await roles(pages), ["leader", ...Array(count - 1).fill("follower")]);
  return pages;
}

const roles = (pages) => Promise.all(pages.map((page) => page.evaluate(() => db.role)));
const closeAll = (pages) => Promise.all(pages.map((page) => page.close()));

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
    await page.waitForFunction(() => heard.length >= 3);
    assert.deepEqual((await page.evaluate(() => heard)).slice(0, 2), [[["a"], local[0]], [["b", "a"], local[1]]]);
    assert.deepEqual((await page.evaluate(() => heard)).at(-1), [undefined, local[2]]);
  }
  await closeAll([one, two]);
});

test("when the leader is closed another tab takes over and nothing is lost", async () => {
  const pages = await tabs("closing", 3);
  await pages[1].evaluate(() => db.set("a", "1", { durability: "strict" }));
  await pages[0].evaluate(() => db.close());
  await pages[1].waitForFunction(() => db.role === "leader");
  assert.equal(await pages[2].evaluate(() => db.text().get("a")), "1");
  assert.deepEqual(await pages[1].evaluate(() => told), ["leader"]);
  await pages[1].close();
  await pages[2].waitForFunction(() => db.role === "leader");
  assert.equal(await pages[2].evaluate(() => db.text().get("a")), "1");
  const { damage } = await pages[2].evaluate(() => db.verify());
  assert.deepEqual(damage, []);
  await closeAll([pages[0], pages[2]]);
});

// Every tab counts up counters of its own and a common one, without a pause, while leaders vanish in the middle of it.
test("five tabs write while one leader after the other is killed: each update counts exactly once", async () => {
  const pages = await tabs("five", 5);
  for (const [i, page] of pages.entries()) {
    await page.evaluate((i) => {
      window.done = 0;
      window.failed = [];
      window.stop = false;
      const counters = db.json();
      const run = async () => {
        while (!stop) {
          try {
            await Promise.all([
              counters.update("common", (old) => (old ?? 0) + 1),
              db.set(`${i}/${done}`, "x".repeat(200)),
            ]);
            done++;
          } catch (error) {
            failed.push(`${error.code}: ${error.message}`);
            return;
          }
        }
      };
      window.running = run();
    }, i);
  }
  let killed = 0;
  const gone = [];
  let living = [...pages];
  while (living.length > 2) {
    const before = await Promise.all(living.map((page) => page.evaluate(() => done)));
    for (const [i, page] of living.entries()) await page.waitForFunction((before) => done > before + 5, before[i]);
    const now = await roles(living);
    const leader = living[now.indexOf("leader")];
    // What it had been told last may be less than what it has done.
    gone.push({ index: pages.indexOf(leader), done: await leader.evaluate(() => done) });
    const session = await browser.context.newCDPSession(leader);
    const crashed = new Promise((resolve) => leader.once("crash", resolve));
    session.send("Page.crash").catch(() => undefined);
    await crashed;
    living = living.filter((page) => page !== leader);
    killed++;
    await Promise.race(living.map((page) => page.waitForFunction(() => db.role === "leader")));
  }
  for (const page of living) await page.evaluate(() => ((stop = true), running));
  for (const page of living) assert.deepEqual(await page.evaluate(() => failed), []);
  const [witness] = living;
  const counted = await witness.evaluate(async () => {
    const counts = {};
    for await (const key of db.text().keys()) if (key !== "common") counts[key.split("/")[0]] = (counts[key.split("/")[0]] ?? 0) + 1;
    return { counts, common: await db.json().get("common"), damage: (await db.verify()).damage };
  });
  let least = 0;
  let most = 0;
  for (const page of living) {
    const done = await page.evaluate(() => done);
    assert.equal(counted.counts[pages.indexOf(page)], done);
    [least, most] = [least + done, most + done];
  }
  for (const { index, done } of gone) {
    assert.ok(counted.counts[index] >= done, `tab ${index} was told of ${done} records, ${counted.counts[index]} are there`);
    least += done;
    // Its last records and its last counts are apart; each of its writes may count, or not.
    most += counted.counts[index] + 1;
  }
  assert.ok(counted.common >= least && counted.common <= most, `${counted.common} counted, ${least} to ${most} expected`);
  assert.deepEqual(counted.damage, []);
  assert.equal(killed, 3);
  console.log(`${counted.common} updates in five tabs, ${killed} leaders killed`);
  await closeAll(living);
});

test("a leader that hangs is noticed, and its followers wait for it", async () => {
  const [one, two] = await tabs("hangs", 2);
  await two.evaluate(() => db.on("blocked", () => told.push("blocked")));
  const hanging = one.workers()[0].evaluate(() => {
    const until = Date.now() + 6000;
    while (Date.now() < until);
  });
  await two.waitForTimeout(500);
  const answer = two.evaluate(() => db.set("a", "1").then(() => db.text().get("a")));
  await two.waitForFunction(() => told.includes("blocked"));
  await hanging;
  assert.equal(await answer, "1");
  assert.deepEqual(await two.evaluate(() => told), ["blocked"]);
  await closeAll([one, two]);
});

test("an import whose leader has gone without a word is of unknown outcome, and what can come twice is done", async () => {
  const page = await browser.tab();
  const seen = await page.evaluate(async () => {
    const source = await pipkin.open("source");
    await source.set("a", "imported");
    const file = await new Response(source.export()).blob();
    // A leader that takes requests and never answers.
    let end;
    await new Promise((held) => navigator.locks.request("pipkin/silent", () => (held(), new Promise((resolve) => (end = resolve)))));
    const common = new BroadcastChannel("pipkin/silent");
    const leader = new BroadcastChannel("pipkin/silent/leader/00");
    common.onmessage = ({ data }) => data.kind === "who" && common.postMessage({ kind: "leader", epoch: "00", protocol: 3 });
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
