// Records that cannot be read: everything beside them can.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./support/setup.mjs";

const { browser } = await setup();
const page = await browser.tab();

// One damaged record once made all of `getMany` reject, and ended every walk with whatever stood behind it unread.
test("beside damaged records all others are read, in every way, and the damage is told with its key or place", async () => {
  const seen = await page.evaluate(async () => {
    const name = (i) => `key ${String(i).padStart(4, "0")}`;
    const value = (i) => `value of ${i};`.padEnd(1000, "x");
    const damaged = [300, 301, 700];
    const file = async () => (await (await navigator.storage.getDirectory()).getDirectoryHandle("pipkin")).getFileHandle("damaged.pipkin");
    const written = await pipkin.open("damaged");
    await written.setMany(Array.from({ length: 1000 }, (_, i) => [name(i), value(i)]), { durability: "strict" });
    await written.close();
    const bytes = new Uint8Array(await (await (await file()).getFile()).arrayBuffer());
    const text = new TextDecoder("latin1").decode(bytes);
    const places = damaged.map((i) => text.indexOf(`value of ${i};`) + 500);
    for (const at of places) bytes[at] ^= 1;
    const writer = await (await file()).createWritable();
    await writer.write(bytes);
    await writer.close();

    const db = await pipkin.open("damaged");
    const near = (all) => all.map(({ offset, what }) => [damaged[places.findIndex((place) => place >= offset && place < offset + 1100)], what.length > 0]).sort();
    const walked = async (walk, key = (one) => one) => {
      const found = [];
      try {
        for await (const one of walk) found.push(key(one));
      } catch (error) {
        return [new Set(found).size, error.code, near(error.damage), error.damage.map((one) => one.key)];
      }
      return [new Set(found).size];
    };
    const walks = async (store) => {
      const told = [];
      const options = { damaged: (damage) => told.push(damage) };
      const first = ([key]) => key;
      const all = [
        await walked(store.keys()), await walked(store.entries(), first), await walked(store.entries({ ordered: true }), first),
        await walked(store.entries({ gte: "key 0299", lt: "key 0303", reverse: true }), first),
        await walked(store.keys({ gte: "key 0299", lt: "key 0303" })), await walked(store.entries({ limit: 10, ordered: true }), first),
        await walked(store.entries(options), first), near(told.splice(0)),
        await walked(store.prefix("key 0").entries({ ordered: true, ...options }), first), told.splice(0).map(({ key }) => key),
        await store.count(options), near(told.splice(0)),
      ];
      const keys = [name(299), name(300), name(301), "missing", name(302)];
      const many = await (async () => store.getMany(keys))().catch((error) => [error.code, error.message, near(error.damage), error.damage.map(({ key }) => key), error.values]);
      const others = await store.prefix("key 0").getMany(["299", "300", "302"], options);
      return { all, many, others, keys: told.splice(0).map(({ key }) => key) };
    };
    const page = await walks(db.text());
    const alone = await db.get(name(300)).catch((error) => error.code);
    const beside = await Promise.allSettled([db.text().getMany([name(300)]), db.text().get(name(302))]);
    const cleared = await db.clear().catch((error) => [error.code, error.damage.length]);
    // What is written anew is read again, and no walk tells of the old records any more.
    await db.setMany(damaged.map((i) => [name(i), value(i)]));
    const mended = await db.text().getMany(damaged.map(name));
    const counts = [await db.count(), await db.count({ ordered: true })];
    await db.close();
    const worker = `
      import { open } from "${location.origin}/pipkin/sync.js";
      const damaged = ${JSON.stringify(damaged)};
      const places = ${JSON.stringify(places)};
      const near = ${near};
      const walked = ${walked};
      const name = ${name};
      const walks = ${walks};
      const db = await open("damaged");
      postMessage(await walks(db.text()));
      db.close();
    `;
    // As it was before it was mended.
    const again = await (await file()).createWritable();
    await again.write(bytes);
    await again.close();
    const { data: sync } = await new Promise((resolve, reject) => {
      const running = new Worker(URL.createObjectURL(new Blob([worker], { type: "text/javascript" })), { type: "module" });
      running.onmessage = resolve;
      running.onerror = (event) => reject(new Error(event.message));
    });
    return { page, alone, beside: beside.map(({ status }) => status), cleared, counts, mended: mended.every((one, i) => one === value(damaged[i])), sync };
  });
  const three = [[300, true], [301, true], [700, true]];
  const unknown = [undefined, undefined, undefined];
  const [first, last] = [299, 302].map((i) => `value of ${i};`.padEnd(1000, "x"));
  const { many, others, all } = seen.page;
  assert.deepEqual(all, [
    [997, "corrupt", three, unknown], [997, "corrupt", three, unknown], [997, "corrupt", three, unknown],
    [2, "corrupt", three, unknown], [2, "corrupt", three, unknown], [10, "corrupt", three, unknown],
    [997], three, [997], unknown, 997, three,
  ]);
  const [code, message, ...rest] = many;
  assert.equal(code, "corrupt");
  assert.match(message, /^2 records cannot be read, all others were: damage at byte \d+ of the file: .*"key 0300"/);
  assert.deepEqual(rest, [[[300, true], [301, true]], ["key 0300", "key 0301"], [first, undefined, undefined, undefined, last]]);
  assert.deepEqual([others, seen.page.keys], [[first, undefined, last], ["300"]]);
  assert.deepEqual(seen.sync, seen.page);
  assert.deepEqual([seen.alone, seen.beside, seen.cleared], ["corrupt", ["rejected", "fulfilled"], ["corrupt", 3]]);
  assert.deepEqual([seen.mended, seen.counts], [true, [1000, 1000]]);
});
