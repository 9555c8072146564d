// The same file in a browser and in a native program, both ways. Needs the `pipkin` command; PIPKIN names it.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PROGRAM = process.env.PIPKIN ?? "pipkin";
const pipkin = (...args) => execFileSync(PROGRAM, args, { encoding: "utf8" });

/** A native store is imported, changed in two tabs that `tab` opens, exported, and is what it should be natively. */
export async function roundTrip(tab) {
  const folder = mkdtempSync(join(tmpdir(), "pipkin-native-"));
  try {
    await carry(tab, folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function carry(tab, folder) {
  const native = join(folder, "native.pipkin");
  const source = join(folder, "source.ndjson");
  const records = new Map(Array.from({ length: 3000 }, (_, i) => [`key/${i}`, `value ${i}`.repeat(1 + (i % 30))]));
  const ndjson = () => [...records].map(([key, value]) => JSON.stringify({ key, value })).join("\n");
  writeFileSync(source, ndjson());
  pipkin("import", native, source);

  const spaces = join(folder, "spaces.pipkin");
  pipkin("put", "--namespace", "one", spaces, "a", "1");
  pipkin("put", "--namespace", "two", spaces, "b", "2");

  // The tab that is in front leads, and goes on to.
  const [other, page] = [await tab(), await tab()];
  for (const one of [page, other]) await one.evaluate(async () => (window.spaces = await pipkin.open("spaces")) && null);
  // What the package itself keeps of a follower's writes is no record that an import would delete.
  const role = await other.evaluate(async () => {
    await spaces.set("a", "1");
    await spaces.delete("a");
    await spaces.close();
    return spaces.role;
  });
  assert.equal(role, "follower");
  const counted = await page.evaluate(async (base64) => {
    const db = spaces;
    const file = new Blob([Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))]);
    const import_ = (options) => db.import(file, options).then(() => "imported", ({ code, message }) => [code, /\d+ records/.exec(message)[0]]);
    const fates = [(await db.stats()).records, await import_(), (await db.stats()).records, await import_(), await import_({ replace: true })];
    await db.close();
    return fates;
  }, readFileSync(spaces).toString("base64"));
  assert.deepEqual(counted, [0, "imported", 2, ["usage", "2 records"], "imported"]);
  const refused = await page.evaluate(async (base64) => {
    window.db = await pipkin.open("imported");
    const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
    const damaged = bytes.slice();
    damaged[20_000] ^= 1;
    await db.set("before", "1");
    const codes = [];
    for (const [file, options] of [[bytes, {}], [damaged, { replace: true }], [bytes.slice(0, 100), { replace: true }]]) {
      codes.push(await db.import(new Blob([file]), options).catch((error) => error.code));
    }
    const kept = await db.text().get("before");
    await db.import(new Blob([bytes]), { replace: true });
    return { codes, kept, gone: await db.has("before"), records: (await db.stats()).records };
  }, readFileSync(native).toString("base64"));
  assert.deepEqual(refused, { codes: ["usage", "corrupt", "corrupt"], kept: "1", gone: false, records: 3000 });

  await page.evaluate(() => db.setMany([["key/0", "changed by the leader"], ["new", "from a browser"]]));
  await other.evaluate(async () => {
    window.db = await pipkin.open("imported");
    await db.delete("key/1");
    await db.set("key/2", "changed by a follower");
  });
  records.set("key/0", "changed by the leader").set("new", "from a browser").set("key/2", "changed by a follower").delete("key/1");

  // Through the follower, so that the leader writes the file and another tab reads it.
  const exported = await other.evaluate(async () => {
    const bytes = new Uint8Array(await new Response(db.export()).arrayBuffer());
    let text = "";
    for (let at = 0; at < bytes.length; at += 32768) text += String.fromCharCode(...bytes.subarray(at, at + 32768));
    const left = [];
    for await (const name of (await (await navigator.storage.getDirectory()).getDirectoryHandle("pipkin")).keys()) if (name.startsWith("imported")) left.push(name);
    return { base64: btoa(text), left, role: db.role };
  });
  assert.deepEqual([exported.left, exported.role], [["imported.pipkin"], "follower"]);

  const back = join(folder, "back.pipkin");
  writeFileSync(back, Buffer.from(exported.base64, "base64"));
  pipkin("verify", back);
  const expected = join(folder, "expected.pipkin");
  writeFileSync(source, ndjson());
  pipkin("import", expected, source);
  const digest = (store) => pipkin("digest", store).split(/\s+/)[0];
  assert.equal(digest(back), digest(expected));
  pipkin("put", back, "and", "on");
  assert.equal(pipkin("get", back, "new"), "from a browser");
  await page.close();
  await other.close();
}
