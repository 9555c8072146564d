// Compressed values: what a page compresses a native program reads, and the other way round. For both browsers. Needs the `pipkin` command; PIPKIN names it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { handOut, takeIn } from "./carried.mjs";

const PROGRAM = process.env.PIPKIN ?? "pipkin";
const pipkin = (...args) => execFileSync(PROGRAM, args, { encoding: "utf8" });
const stats = (file) => JSON.parse(pipkin("stats", "--json", file));

/** One of many values that have much in common. */
const made = (i) => JSON.stringify({ feature: `api.Interface${i % 97}.method${((i * 2654435761) >>> 0).toString(16)}`, support: { version_added: `${i % 50}` }, standard_track: true });
const MADE = `(${made})`;

/** `browser.tab` opens a tab in front of the others. */
export function testCompression(browser) {
  test("a page compresses for a native program, and opens by itself what that has compressed", async () => {
    const folder = mkdtempSync(join(tmpdir(), "pipkin-compressed-"));
    const [file, more] = [join(folder, "a.pipkin"), join(folder, "more.ndjson")];
    try {
      const page = await browser.tab();
      const seen = await page.evaluate(async (MADE) => {
        const made = eval(MADE);
        window.db = await pipkin.open("compressed", { segmentSize: 65536 });
        await db.setMany(Array.from({ length: 3000 }, (_, i) => [`doc/${i}`, made(i)]));
        const [plain, before] = [(await db.stats()).liveBytes, await db.compression()];
        const codes = await Promise.all([db.setCompression("always"), pipkin.open("other", { compression: "yes" })].map((call) => call.then(() => "done", ({ code }) => code)));
        await db.setCompression("on-compaction");
        await db.compact();
        const got = await db.text().getMany(["doc/0", "doc/1234", "doc/2999"]);
        return { before, codes, now: await db.compression(), isSmall: (await db.stats()).liveBytes * 5 < plain * 3, isRight: [0, 1234, 2999].every((i, at) => got[at] === made(i)) };
      }, MADE);
      assert.deepEqual(seen, { before: "off", codes: ["usage", "usage"], now: "on-compaction", isSmall: true, isRight: true });
      await handOut(page, file);
      await page.close();

      pipkin("verify", file);
      assert.ok(stats(file).compressed_records > 2900 && stats(file).dictionaries === 1);
      assert.equal(pipkin("get", file, "doc/77"), made(77));
      writeFileSync(more, Array.from({ length: 1000 }, (_, i) => JSON.stringify({ key: `doc/${3000 + i}`, value: made(3000 + i) })).join("\n"));
      pipkin("import", file, more, "--compression", "on-write");
      assert.ok(stats(file).compressed_records > 3900);

      const other = await browser.tab();
      await takeIn(other, "taken", file);
      const wrong = await other.evaluate(async (MADE) => {
        const made = eval(MADE);
        // The store that was there until now was opened by the first module, and this one is opened by it again.
        await db.close();
        window.db = await pipkin.open("taken");
        const wrong = [];
        let count = 0;
        for await (const [key, value] of db.text("doc/").entries()) {
          count++;
          if (value !== made(Number(key))) wrong.push(key);
        }
        await db.set("doc/4000", made(4000), { durability: "strict" });
        if (count !== 4000 || (await db.text().get("doc/4000")) !== made(4000)) wrong.push(count);
        return [...wrong, await db.compression(), (await db.verify()).damage.length];
      }, MADE);
      assert.deepEqual(wrong, ["on-write", 0]);
      await handOut(other, file);
      // A tab that has gone on with the module of event streams goes on with the one that decodes.
      const streams = await browser.tab();
      await streams.evaluate(async () => {
        window.db = await pipkin.open("streams");
        await (await db.events("log")).append("s", [{ type: "1" }]);
      });
      await takeIn(streams, "streams", file);
      assert.deepEqual(await streams.evaluate(() => Promise.all([db.text().get("doc/3999"), db.compression()])), [made(3999), "on-write"]);
      await streams.close();
      assert.equal(pipkin("get", file, "doc/4000"), made(4000));
      assert.ok(stats(file).compressed_records > 3900);
      await other.close();
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });

  test("two tabs compress together, and a sealed store where it was asked for", async () => {
    const [other, page] = [await browser.tab(), await browser.tab()];
    for (const one of [page, other]) await one.evaluate(async () => (window.db = await pipkin.open("two-compress")) && null);
    // The follower asks; the leader opens the file again with the module that can.
    await other.evaluate(async () => {
      await db.set("before", "1");
      await db.setCompression("on-write");
      await db.set("zeros", new Uint8Array(10_000));
    });
    const seen = await page.evaluate(async () => {
      const [before, zeros, { liveBytes }, when] = [await db.text().get("before"), await db.get("zeros"), await db.stats(), await db.compression()];
      const sealed = await pipkin.open("sealed-plain", { key: new Uint8Array(32).fill(7) });
      const refused = await sealed.setCompression("on-write").catch(({ code, message }) => [code, message.includes("sealed store")]);
      await sealed.close();
      const asked = await pipkin.open("sealed-plain", { key: new Uint8Array(32).fill(7), compression: "on-write", compressSealed: true });
      await asked.set("zeros", new Uint8Array(10_000));
      const packed = [(await asked.get("zeros")).length, (await asked.stats()).liveBytes < 5000];
      await asked.close();
      return [before, zeros.length, zeros.every((byte) => byte === 0), liveBytes < 5000, when, refused, packed];
    });
    assert.deepEqual(seen, ["1", 10_000, true, true, "on-write", ["usage", true], [10_000, true]]);
    for (const one of [page, other]) await one.close();
  });
}
