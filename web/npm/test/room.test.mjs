// Space at a full quota: what is removed can be written again, and a full store can be taken away.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./support/setup.mjs";

const { site, browser } = await setup();
const MIB = 1024 * 1024;

/** Limits the origin of a page: to so many MiB more than it takes now. */
async function limited(page) {
  const session = await browser.context.newCDPSession(page);
  const origin = new URL(site.url).origin;
  const { usage } = await page.evaluate(() => navigator.storage.estimate());
  return (more) => session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: usage + more * MIB });
}

/** Fills a store of an origin that has room for 24 MiB more, and removes one value in `step`. */
async function full(name, size, step) {
  const page = await browser.tab();
  const quota = await limited(page);
  await quota(24);
  const [filled, code, removed] = await page.evaluate(async ([name, size, step]) => {
    window.db = await pipkin.open(name);
    window.value = (i) => `${i} `.padEnd(size, "x");
    let [count, code] = [0, undefined];
    const many = Math.ceil(50_000 / size);
    for (; !code; count += many) {
      const records = Array.from({ length: many }, (_, i) => [`${count + i}`, value(count + i)]);
      code = await db.setMany(records).then(() => undefined, (error) => error.code);
    }
    count -= many;
    window.kept = [];
    const gone = [];
    for (let i = 0; i < count; i++) (i % step ? kept : gone).push(i);
    for (const i of gone) await db.delete(`${i}`);
    /** How many of these are what they were written as. */
    window.right = async (all, db) => {
      let right = 0;
      for (const i of all) right += (await db.text().get(`${i}`)) === value(i);
      return right;
    };
    /** Writes as many as were removed; says how many were taken. */
    window.again = async () => {
      let written = 0;
      for (const i of gone) {
        if (!(await db.set(`again ${i}`, value(i)).then(() => true, () => false))) break;
        written++;
      }
      return written;
    };
    return [count, code, gone.length];
  }, [name, size, step]);
  assert.equal(code, "quota");
  assert.ok(filled * size > 12 * MIB, `full after ${filled} values of ${size} bytes`);
  return { page, removed, quota };
}

// At a full quota, with every second value removed, writes were refused until somebody called `compact`; with every fourth removed, `compact` was, too.
for (const [size, step] of [[1500, 4], [50_000, 2], [50_000, 4], [50_000, 8], [300_000, 2]]) {
  test(`at a full quota, with 1 of ${step} values of ${size} bytes removed, as much can be written again without a call of compact`, async () => {
    const { page, removed, quota } = await full(`again-${size}-${step}`, size, step);
    const seen = await page.evaluate(async () => {
      const written = await again();
      // A value for which there is no room in the end is refused, and what is there stays.
      const refused = await db.set("too much", new Uint8Array(3_000_000)).then(() => "set", (error) => error.code);
      return { refused, written, right: (await right(kept, db)) === kept.length, damage: (await db.verify()).damage };
    });
    const { written, ...rest } = seen;
    // Not all: values do not fill segments to the last byte, and do so less after a move.
    assert.ok(written >= removed * 0.9, `${written} of ${removed} values were written again`);
    assert.deepEqual(rest, { refused: "quota", right: true, damage: [] });
    await page.evaluate(() => db.close());
    await quota(500);
    await page.close();
  });
}

// `pipkin/sync` has a path of its own for a single write, and refused it just the same.
test("at a full quota the entry for workers makes room by itself, too", async () => {
  const page = await browser.tab();
  const quota = await limited(page);
  await quota(24);
  const seen = await page.evaluate(async () => {
    const script = `
      import { open } from "${location.origin}/pipkin/sync.js";
      const db = await open("alone");
      const set = (key) => { try { return db.set(key, new Uint8Array(50_000)) ?? "set"; } catch (error) { return error.code; } };
      let count = 0, code;
      while ((code = set("" + count)) === "set") count++;
      let removed = 0, written = 0;
      for (let i = 0; i < count; i += 2) removed += db.delete("" + i);
      while (written < removed && set("again " + written) === "set") written++;
      postMessage([code, removed, written, db.verify().damage.length]);
      db.close();
    `;
    const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
    return new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => reject(new Error(event.message));
    });
  });
  const [code, removed, written, damage] = seen;
  assert.deepEqual([code, damage], ["quota", 0]);
  assert.ok(removed > 100 && written >= removed * 0.9, `${written} of ${removed} values were written again`);
  await quota(500);
  await page.close();
});

// At a full quota `compact` was refused while a quarter was dead, and `export` took as much space again as the store has.
test("at a full quota with a quarter removed, compaction gives space back and an export needs none", async () => {
  const { page, removed, quota } = await full("leave", 50_000, 4);
  const seen = await page.evaluate(async () => {
    const files = async () => (await Array.fromAsync((await (await navigator.storage.getDirectory()).getDirectoryHandle("pipkin")).keys())).filter((name) => name.startsWith("leave"));
    const before = (await navigator.storage.estimate()).usage;
    const pieces = [];
    let most = 0;
    for await (const piece of db.export()) {
      pieces.push(piece);
      most = Math.max(most, (await navigator.storage.estimate()).usage);
    }
    window.blob = new Blob(pieces);
    const { bytesFreed } = await db.compact();
    return { grown: most - before, files: await files(), freed: bytesFreed > 0, again: await again() };
  });
  assert.ok(seen.grown < 100_000, JSON.stringify(seen));
  assert.ok(seen.again > removed / 2, `${JSON.stringify(seen)}, removed: ${removed}`);
  assert.deepEqual([seen.files, seen.freed], [["leave.pipkin"], true]);
  await quota(500);
  const copy = await page.evaluate(async () => {
    const other = await pipkin.open("left");
    await other.import(blob);
    return [(await other.verify()).damage, (await other.stats()).records === kept.length, (await right(kept, other)) === kept.length];
  });
  assert.deepEqual(copy, [[], true, true]);
  await page.close();
});
