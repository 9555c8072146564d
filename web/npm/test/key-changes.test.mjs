// A store in Chromium that is being sealed, made plain or put under another key, and what comes in between: kills, other tabs, a full quota.

import assert from "node:assert/strict";
import { test } from "node:test";
import { endWorkers, leaderAndFollower, until } from "./support/pages.mjs";
import { setup } from "./support/setup.mjs";

const { site, browser } = await setup();
const RECORDS = 3000;
/** Milliseconds from the call to the kill: what is killed then differs, which is the point. */
const DELAYS = (process.env.PIPKIN_KEY_CHANGE_DELAYS ?? "1,40,150,400").split(",").map(Number);

async function tab() {
  const page = await browser.tab();
  await page.evaluate((count) => {
    window.key = (byte) => new Uint8Array(32).fill(byte);
    window.filled = (db) => db.setMany(Array.from({ length: count }, (_, i) => [`name ${i}`, `content ${i}`.padEnd(300, ".")]));
    window.right = async (db) => {
      let right = 0;
      for await (const [name, value] of db.text().entries()) right += value === `content ${name.slice(5)}`.padEnd(300, ".");
      return right;
    };
    /** The code that opening ends with, or how many records are right, before the store is closed again. */
    window.fate = async (name, options) => {
      try {
        const db = await pipkin.open(name, { create: false, ...options });
        try {
          return await right(db);
        } finally {
          await db.close();
        }
      } catch (error) {
        return error.code ?? String(error);
      }
    };
    window.shows = async (name) => {
      const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("pipkin");
      const bytes = new Uint8Array(await (await (await folder.getFileHandle(`${name}.pipkin`)).getFile()).arrayBuffer());
      return new TextDecoder("latin1").decode(bytes).includes("content ");
    };
    window.code = (promise) => promise.then(() => "done", (error) => error.code ?? String(error));
  }, RECORDS);
  return page;
}

/** What a kill may leave of each change: how the store opens, and how the change goes on. */
const CHANGES = {
  enableEncryption: { first: undefined, ways: [{}, { key: 7 }], begin: "db.enableEncryption(key(7))", shows: (way) => way === 0 },
  rotateKey: { first: 7, ways: [{ key: 7 }, { key: 8 }], begin: "db.rotateKey(key(8))", shows: () => false },
  disableEncryption: { first: 7, ways: [{ key: 7 }, { key: 7, disableEncryption: true }, {}], begin: "db.disableEncryption()", shows: (way) => way > 0 },
};

for (const [change, { first, ways, begin, shows }] of Object.entries(CHANGES)) {
  test(`${change} that is killed anywhere loses nothing, and goes on`, async () => {
    const ended = ways.map(() => 0);
    for (const [turn, delay] of DELAYS.entries()) {
      const name = `${change}-${turn}`;
      const page = await tab();
      await page.evaluate(async ([name, first]) => {
        window.db = await pipkin.open(name, first && { key: key(first) });
        await filled(db);
        await db.flush();
      }, [name, first]);
      await page.evaluate(`void (window.changing = code(${begin}))`);
      await page.waitForTimeout(delay);
      await (turn % 2 ? browser.endProcess(page) : endWorkers(page));
      await page.close();
      const after = await tab();
      const fates = await after.evaluate(async ([name, ways]) => {
        const fates = [];
        for (const way of ways) {
          const fate_ = await fate(name, { ...way, ...(way.key && { key: key(way.key) }) });
          fates.push(fate_);
          if (typeof fate_ === "number") break;
        }
        return fates;
      }, [name, ways]);
      assert.equal(fates.at(-1), RECORDS, `killed after ${delay} ms: ${fates}`);
      for (const code of fates.slice(0, -1)) assert.ok(["key-needed", "wrong-key", "not-sealed", "disabling-encryption"].includes(code), code);
      const way = fates.length - 1;
      ended[way]++;
      const finished = await after.evaluate(async ([name, way, isPlainAtLast]) => {
        const sealed = isPlainAtLast ? {} : { key: key(way.key) };
        const db = await pipkin.open(name, sealed);
        if (!isPlainAtLast) await db.finishKeyRotation();
        await db.set("name after", "wards");
        await db.close();
        return shows(name);
      }, [name, ways[way], ways[way].key === undefined || ways[way].disableEncryption === true]);
      assert.equal(finished, shows(way), `killed after ${delay} ms, what can be read in the file`);
      await after.close();
    }
    console.log(`${change}: ended as ${JSON.stringify(ended)}`);
  });
}

test("of two tabs that seal a store at once one has the key, and of two that change it at once each gets an answer", async () => {
  let number = 0;
  const pages = await leaderAndFollower({ tab }, (page) => page.evaluate(async () => {
    window.db = await pipkin.open("at-once");
  }, number++));
  await pages[0].evaluate(() => filled(db));
  const said = await Promise.all(pages.map((page, i) => page.evaluate((byte) => code(db.enableEncryption(key(byte))), 3 + i)));
  assert.deepEqual(said.toSorted(), ["done", "usage"]);
  const winner = 3 + said.indexOf("done");
  const calls = ["db.disableEncryption()", `db.enableEncryption(key(${winner}))`, "db.rotateKey(key(9))", "db.finishKeyRotation()"];
  const answers = await Promise.all(calls.map((call, i) => pages[i % 2].evaluate(`code(${call})`)));
  for (const answer of answers) assert.ok(["done", "usage", "not-sealed"].includes(answer), answers.join());
  assert.equal(await pages[1].evaluate(() => right(db)), RECORDS);
  for (const page of pages) await page.evaluate(() => db.close());
  const fates = await pages[0].evaluate(async (winner) => [await fate("at-once"), await fate("at-once", { key: key(winner) }), await fate("at-once", { key: key(9) })], winner);
  assert.equal(fates.filter((fate) => fate === RECORDS).length, 1, `${answers} ${fates}`);
  for (const page of pages) await page.close();
});

test("a change of keys that meets a full quota says so, and ends once there is room", async () => {
  const page = await tab();
  const session = await browser.context.newCDPSession(page);
  const { usage } = await page.evaluate(async () => {
    window.db = await pipkin.open("full");
    await filled(db);
    await db.flush();
    return navigator.storage.estimate();
  });
  const quota = (quotaSize) => session.send("Storage.overrideQuotaForOrigin", { origin: new URL(site.url).origin, quotaSize });
  await quota(usage + 1024);
  const refused = await page.evaluate(async () => [await code(db.enableEncryption(key(7))), await right(db)]);
  assert.deepEqual(refused, ["quota", RECORDS]);
  await quota(usage + 64 * 1024 * 1024);
  await until(() => page.evaluate(() => code(db.finishKeyRotation().catch((error) => error.code === "not-sealed" ? db.enableEncryption(key(7)) : Promise.reject(error))).then((code) => code === "done")));
  assert.equal(await page.evaluate(() => right(db)), RECORDS);
  await page.evaluate(() => db.close());
  const { usage: sealed } = await page.evaluate(() => navigator.storage.estimate());
  assert.deepEqual(await page.evaluate(async () => [await fate("full"), await fate("full", { key: key(7) }), await shows("full")]), ["key-needed", RECORDS, false]);
  await page.evaluate(async () => (window.db = await pipkin.open("full", { key: key(7) })) && null);
  await quota(sealed + 1024);
  const disabled = await page.evaluate(async () => [await code(db.disableEncryption()), await right(db)]);
  assert.ok(["quota", "done"].includes(disabled[0]) && disabled[1] === RECORDS, disabled.join());
  await quota(sealed + 64 * 1024 * 1024);
  if (disabled[0] === "quota") assert.ok(["done", "not-sealed"].includes(await page.evaluate(() => code(db.disableEncryption()))));
  await page.evaluate(() => db.close());
  assert.equal(await page.evaluate(() => fate("full", { key: key(7), disableEncryption: true })), RECORDS);
  assert.equal(await page.evaluate(() => fate("full")), RECORDS);
  await page.close();
});
