// Exports are read from the file of the store itself, while others write to it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./support/setup.mjs";

const { browser } = await setup();

/** In a page: fills a store, and compares a copy with what the store was then. */
const helpers = () => {
  window.value = (i, round) => `${i}, ${round} `.padEnd(20_000, "x");
  window.write = async (db, round) => {
    for (let i = 0; i < 400; i += 50) await db.setMany(Array.from({ length: 50 }, (_, j) => [`${i + j}`, value(i + j, round)]));
  };
  window.isAsItWas = async (blob, name) => {
    const copy = await pipkin.open(name);
    await copy.import(blob);
    const values = await copy.text().getMany(Array.from({ length: 400 }, (_, i) => `${i}`));
    const seen = [(await copy.stats()).records, values.every((one, i) => one === value(i, 0)), (await copy.verify()).damage];
    await copy.close();
    return seen;
  };
};

// A copy that is not written down anywhere must not change with the store.
test("an export is the store as it was when it began, whatever is written and compacted while it is read, and so is another beside it", async () => {
  const page = await browser.tab();
  await page.evaluate(helpers);
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("moving");
    await write(db, 0);
    const readers = [db.export(), db.export()].map((stream) => stream.getReader());
    const pieces = [[], []];
    const take = async (which) => {
      const { done, value } = await readers[which].read();
      if (!done) pieces[which].push(value);
      return !done;
    };
    await take(0);
    for (let round = 1; round < 4; round++) {
      await write(db, round);
      await db.compact();
      await take(0);
      await take(1);
    }
    const held = (await db.stats()).fileBytes;
    // The one that ends first leaves the other what it needs.
    while (await take(1));
    await write(db, 4);
    await db.compact();
    while (await take(0));
    await db.compact();
    const seen = [await isAsItWas(new Blob(pieces[0]), "moved-0"), await isAsItWas(new Blob(pieces[1]), "moved-1"), (await db.stats()).fileBytes < held / 2];
    await db.close();
    return seen;
  });
  const right = [400, true, []];
  assert.deepEqual(seen, [right, right, true]);
  await page.close();
});

test("an export goes on when the tab goes that leads", async () => {
  const leader = await browser.tab();
  await leader.evaluate(helpers);
  await leader.evaluate(async () => {
    window.db = await pipkin.open("handed");
    await write(db, 0);
  });
  const page = await browser.tab();
  await page.evaluate(helpers);
  await page.evaluate(async () => {
    window.db = await pipkin.open("handed");
    window.reader = db.export().getReader();
    window.pieces = [(await reader.read()).value];
  });
  await leader.evaluate(() => db.close());
  const seen = await page.evaluate(async () => {
    for (let next = await reader.read(); !next.done; next = await reader.read()) pieces.push(next.value);
    const seen = await isAsItWas(new Blob(pieces), "received");
    await db.close();
    return seen;
  });
  assert.deepEqual(seen, [400, true, []]);
  await Promise.all([leader.close(), page.close()]);
});

// An export keeps removed records in their places. One that nobody reads would do so for ever, and keep the store from shrinking.
test("an export that nobody reads any more lets go, and one whose bytes have been written over says so", async () => {
  const page = await browser.tab();
  await page.evaluate(helpers);
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("asleep");
    await write(db, 0);
    const reader = db.export().getReader();
    await reader.read();
    await new Promise((resolve) => setTimeout(resolve, 11_000));
    for (let round = 1; round < 4; round++) {
      await write(db, round);
      await db.compact();
    }
    const small = (await db.stats()).fileBytes < 20_000_000;
    let failed;
    for (let next = {}; !next.done && !failed;) next = await reader.read().catch((error) => (failed = [error.code, error.message]));
    await db.close();
    return [small, failed];
  });
  assert.deepEqual(seen, [true, ["failed", "what was to be exported has been written over meanwhile; export again"]]);
  await page.close();
});
