// In Node a store in memory works, for the tests of apps, and everything else says what to do.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");

/** What a program prints that imports the package by its name, as the exports of the package say. */
function run(program) {
  return JSON.parse(execFileSync(process.execPath, ["--input-type=module", "--eval", program], { cwd: here, encoding: "utf8", timeout: 60_000 }));
}

// There was no way to test an app without a browser.
test("a store in memory does in Node what it does on a page, and lets the process end", () => {
  const seen = run(`
    import { open } from "pipkin";
    const [db, other] = [await open("app", { memory: true }), await open("app", { memory: true })];
    const users = db.json("users/");
    const heard = [];
    users.on("change", ({ keys }) => heard.push(...keys));
    await users.set("ada", { born: 1815 });
    await users.update("ada", (old) => ({ ...old, name: "Ada" }));
    await db.structured().set("map", new Map([["a", new Blob(["x"])]]));
    await db.transaction(async (tx) => tx.json("users/").set("ada", { ...await tx.json("users/").get("ada"), in: "tx" }));
    const log = await db.events("log");
    await log.append("s", [{ type: "1" }, { type: "2" }], { durability: "strict" });
    const cursor = await log.cursor("c");
    const types = [];
    for (let i = 0; i < 2; i++) { const event = (await cursor.next()).value; types.push(event.type); await db.transaction((tx) => cursor.ack(event, { tx })); }
    heard.push(...types, (await log.cursors())[0].number, await (await other.events("log")).version("s"));
    await log.setRetention({ maxEvents: 1 });
    heard.push(await log.retention(), await log.retain(), await log.append("s", { type: "3" }, { expected: 7 }).catch(({ code, failed }) => [code, failed]));
    const keys = [];
    for await (const key of db.text().keys({ ordered: true })) keys.push(key);
    const seen = [db.mode, db.role, await users.get("ada"), await (await db.structured().get("map")).get("a").text(), keys, heard, await other.count(), (await db.stats()).records];
    // These asked for what is only in a browser, and threw before there was a promise.
    seen.push(await db.persist(), await db.persisted(), await db.estimate());
    await other.close();
    console.log(JSON.stringify([...seen, await other.get("a").catch(({ code }) => code)]));
    // The first one is left open.`);
  assert.deepEqual(seen, ["memory", "leader", { born: 1815, name: "Ada", in: "tx" }, "x", ["map", "users/ada"], ["ada", "ada", "ada", "1", "2", 2, 0, { maxEvents: 1 }, 1, ["append-refused", [{ stream: "s", expected: 7, current: 2 }]]], 0, 2, false, false, {}, "closed"]);
});

test("without a browser's storage Node is told what to do instead", () => {
  const seen = run(`
    import { destroy, list, open, support } from "pipkin";
    const { open: openSync } = await import("pipkin/sync");
    const said = ({ code, message }) => code + ": " + message;
    const fates = [];
    for (const call of [() => open("app"), () => destroy("app"), () => list(), () => openSync("app")]) fates.push(await Promise.resolve().then(call).then(() => "done", said));
    console.log(JSON.stringify([...fates, (await support()).reason]));`);
  assert.equal(seen.length, 5);
  for (const said of seen) assert.match(said, /Node has no browser's storage: in tests open a store in memory/);
});
