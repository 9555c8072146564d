// What a store does when the storage of its origin is full. For both browsers.

import assert from "node:assert/strict";

/** Fills the storage of an origin that has `quota` bytes: nothing may be lost, and removals and compaction make room. */
export async function fillUp(page, quota) {
  const full = await page.evaluate(async () => {
    window.db = await pipkin.open("full");
    window.value = (i) => `${i} `.padEnd(50_000, "x");
    window.there = async (from, to) => {
      let right = 0;
      for (let i = from; i < to; i++) right += (await db.text().get(`${i}`)) === value(i);
      return right;
    };
    let count = 0;
    try {
      for (; count < 2000; count++) await db.set(`${count}`, value(count));
    } catch (error) {
      const { usage } = await navigator.storage.estimate();
      return { count, code: error.code, typed: error instanceof pipkin.PipkinError, message: error.message, usage, there: await there(0, count) };
    }
    return { count };
  });
  console.log(`${full.count} values of 50 kB, ${full.usage} bytes in use at a quota of ${quota}: ${full.message}`);
  assert.deepEqual([full.code, full.typed], ["quota", true]);
  assert.ok(full.count > 100 && full.usage <= quota, JSON.stringify(full));
  assert.equal(full.there, full.count);

  const after = await page.evaluate(async (count) => {
    // To the last byte, and from a tab that asks another one, too.
    let small = 0;
    while (await db.set(`small ${small}`, "").then(() => true, () => false)) small++;
    const other = await pipkin.open("full");
    const follower = [other.role, await other.delete("0"), await db.has("0"), await other.delete("0"), await other.delete("1")];
    await other.close();
    await db.batch((batch) => Array.from({ length: small }, (_, i) => batch.delete(`small ${i}`)));
    // More than what was removed, whose room a write may take.
    const large = new Uint8Array(3_000_000);
    const strict = await db.set("more", large, { durability: "strict" }).catch((error) => error.code);
    const batch = await db.setMany([["small", "1"], ["more", large]]).catch((error) => error.code);
    const torn = await db.has("small");
    const removed = [];
    for (let i = 2; i < count / 2; i++) removed.push(await db.delete(`${i}`));
    await db.flush();
    const { damage } = await db.verify();
    const report = await db.compact();
    await db.set("more", value(7), { durability: "strict" });
    return { follower, strict, batch, torn, removed: removed.every(Boolean), damage, freed: report.bytesFreed > 0, more: (await db.text().get("more")) === value(7) };
  }, full.count);
  assert.deepEqual(after, { follower: ["follower", true, false, false, true], strict: "quota", batch: "quota", torn: false, removed: true, damage: [], freed: true, more: true });

  await page.reload();
  await page.waitForFunction(() => window.ready);
  const again = await page.evaluate(async (count) => {
    const db = await pipkin.open("full");
    let right = 0;
    for (let i = Math.ceil(count / 2); i < count; i++) right += (await db.text().get(`${i}`)) === `${i} `.padEnd(50_000, "x");
    return { right, records: (await db.stats()).records, damage: (await db.verify()).damage };
  }, full.count);
  const left = full.count - Math.ceil(full.count / 2);
  assert.deepEqual(again, { right: left, records: left + 1, damage: [] });
}
