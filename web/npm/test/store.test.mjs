// What one tab sees of a store.

import assert from "node:assert/strict";
import { test } from "node:test";
import { refuseNonsense } from "./support/nonsense.mjs";
import { setup } from "./support/setup.mjs";

const { browser } = await setup();
const page = await browser.tab();

test("it needs no special headers and says that it is supported", async () => {
  const seen = await page.evaluate(async () => [crossOriginIsolated, await pipkin.support()]);
  assert.deepEqual(seen, [false, { supported: true }]);
});

test("what was set is there, as bytes, text and JSON", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("values");
    await db.set("text", "grün");
    await db.set(new Uint8Array([0, 255]), new Uint8Array([1, 2, 3]));
    await db.set("empty", "");
    const users = db.json("users/");
    await users.set("ada", { born: 1815, name: "Ada" });
    await db.set("users/bob", JSON.stringify({ born: 1900 }));
    return {
      text: new TextDecoder().decode(await db.get("text")),
      view: await db.text().get("text"),
      bytes: [...(await db.get(new Uint8Array([0, 255])))],
      empty: (await db.get("empty")).length,
      missing: await db.get("missing"),
      has: [await db.has("text"), await db.has("missing")],
      ada: await users.get("ada"),
      bob: await users.get("bob"),
      many: (await db.text().getMany(["text", "missing", "empty"])),
      deleted: [await db.delete("text"), await db.delete("text"), await db.has("text")],
      mode: [db.mode, db.role, db.name],
    };
  });
  assert.deepEqual(seen, {
    text: "grün", view: "grün", bytes: [1, 2, 3], empty: 0, missing: undefined, has: [true, false],
    ada: { born: 1815, name: "Ada" }, bob: { born: 1900 }, many: ["grün", undefined, ""],
    deleted: [true, false, false], mode: ["opfs", "leader", "values"],
  });
});

test("reads of a task see the writes in front of them, in one message", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("order");
    await db.set("a", "0");
    let messages = 0;
    const post = Worker.prototype.postMessage;
    Worker.prototype.postMessage = function (...args) {
      messages++;
      return post.apply(this, args);
    };
    const t = db.text();
    const answers = await Promise.all([
      t.get("a"), t.set("a", "1"), t.get("a"), t.delete("a"), t.get("a"), t.has("a"), t.delete("a"),
      t.setMany([["b", "2"], ["c", "3"]]), t.getMany(["a", "b", "c"]), t.set("b", "4"), t.get("b"),
    ]);
    Worker.prototype.postMessage = post;
    return { answers, messages };
  });
  assert.equal(seen.messages, 1);
  assert.deepEqual(seen.answers, ["0", undefined, "1", true, undefined, false, false, undefined, [undefined, "2", "3"], undefined, "4"]);
});

test("a batch that throws writes nothing, one that returns writes all", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("batch");
    const t = db.text();
    await t.setMany([["kept", "1"], ["gone", "2"]]);
    const thrown = await t.batch((batch) => {
      batch.set("never", "3");
      throw new RangeError("no");
    }).catch((error) => error.name);
    await t.batch((batch) => {
      batch.delete("gone");
      batch.set("new", "4");
    }, { durability: "strict" });
    return [thrown, await t.getMany(["kept", "gone", "never", "new"])];
  });
  assert.deepEqual(seen, ["RangeError", ["1", undefined, undefined, "4"]]);
});

test("an operation that makes no sense fails alone", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("usage");
    const settled = await Promise.allSettled([db.set("a", "1"), db.set(new Uint8Array(70_000), "2"), db.set("b", "3")]);
    return {
      codes: settled.map(({ reason }) => reason?.code),
      there: await db.text().getMany(["a", "b"]),
      missing: await pipkin.open("nobody", { create: false }).catch((error) => error.code),
    };
  });
  assert.deepEqual(seen, { codes: [undefined, "usage", undefined], there: ["1", "3"], missing: "missing" });
});

test("arguments that make no sense are refused", () => refuseNonsense(page));

test("updates that run at the same time lose nothing", async () => {
  const count = await page.evaluate(async () => {
    const db = await pipkin.open("counter");
    const counters = db.json();
    await Promise.all(Array.from({ length: 50 }, () => counters.update("n", (old) => (old ?? 0) + 1)));
    const reached = await counters.get("n");
    await counters.update("n", () => undefined);
    return [reached, await counters.has("n")];
  });
  assert.deepEqual(count, [50, false]);
});

test("iteration over many pages meets every record once, and prefixes keep apart", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("pages");
    await db.setMany(Array.from({ length: 20_000 }, (_, i) => [`${i % 2 ? "odd" : "even"}/${i}`, `value ${i}`.repeat(4)]));
    await db.setMany([[new Uint8Array([111]), "x"]]);
    const all = new Set();
    for await (const [key, value] of db.text()) if (key.length > 1 && value === `value ${key.split("/")[1]}`.repeat(4)) all.add(key);
    const odd = [];
    for await (const key of db.text("odd/").keys()) odd.push(Number(key));
    return [all.size, odd.length, odd.every((i) => i % 2 === 1), new Set(odd).size, (await db.stats()).records];
  });
  assert.deepEqual(seen, [20_000, 10_000, true, 10_000, 20_001]);
});

test("compaction gives space back, and verify finds nothing wrong", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("compact");
    const value = new Uint8Array(1000).fill(7);
    for (let round = 0; round < 5; round++) await db.setMany(Array.from({ length: 5000 }, (_, i) => [`${i}`, value]));
    const before = await db.stats();
    const report = await db.compact();
    const after = await db.stats();
    const { damage, records } = await db.verify();
    return { freed: report.bytesFreed > 0, smaller: after.fileBytes < before.fileBytes, records: after.records, damage, checked: records >= 5000 };
  });
  assert.deepEqual(seen, { freed: true, smaller: true, records: 5000, damage: [], checked: true });
});

test("a worker opens the same file without promises, and a page is told who has it", async () => {
  const seen = await page.evaluate(async () => {
    const first = await pipkin.open("shared");
    await first.set("from the page", "1");
    const script = `
      import { open } from "${location.origin}/pipkin/sync.js";
      const refused = await open("shared").catch((error) => error.code);
      postMessage(refused);
      onmessage = () => work().catch((error) => postMessage({ error: error.message }));
      const work = async () => {
        const db = await open("shared", { durability: "strict" });
        db.set("from the worker", "2");
        db.setMany([["a", "x"], ["b", "y"]]);
        db.update("a", (old) => new TextDecoder().decode(old) + "!");
        db.batch((batch) => batch.delete("b"));
        const text = (bytes) => bytes && new TextDecoder().decode(bytes);
        const seen = {
          get: text(db.get("from the page")), many: db.getMany(["a", "b"]).map(text), has: db.has("a"),
          deleted: [db.delete("never"), db.delete("a")], keys: [...db.text("from ").keys()].sort(),
          entries: [...db.entries()].length, records: db.stats().records, damage: db.verify().damage.length, segments: db.segments().length > 0,
        };
        db.close();
        let closed;
        try { db.get("a"); } catch (error) { closed = error.code; }
        postMessage({ ...seen, closed });
      };`;
    const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
    const next = () => new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data)));
    const refused = await next();
    await first.close();
    worker.postMessage("go");
    const answer = await next();
    worker.terminate();
    const again = await pipkin.open("shared");
    return { refused, ...answer, again: await again.text().get("from the worker") };
  });
  assert.deepEqual(seen, {
    refused: "locked", get: "1", many: ["x!", undefined], has: true, deleted: [false, true],
    keys: ["the page", "the worker"], entries: 2, records: 2, damage: 0, segments: true, closed: "closed", again: "2",
  });
});

test("a store in memory is only there when it is asked for, and ends with its handle", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("memory", { memory: true });
    await db.set("a", "1");
    const there = await db.text().get("a");
    await db.close();
    const again = await pipkin.open("memory", { memory: true });
    return [db.mode, there, await again.has("a"), await pipkin.open("memory", { create: false }).catch((error) => error.code)];
  });
  assert.deepEqual(seen, ["memory", "1", false, "missing"]);
});

test("a store is destroyed only when nobody has it open, and a closed one says so", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("doomed");
    await db.set("a", "1");
    const locked = await pipkin.destroy("doomed").catch((error) => error.code);
    const last = db.set("b", "2");
    await db.close();
    await last;
    const closed = await db.get("a").catch((error) => error.code);
    const again = await pipkin.open("doomed");
    const kept = await again.text().getMany(["a", "b"]);
    await again.close();
    await pipkin.destroy("doomed");
    return [locked, closed, kept, await pipkin.open("doomed", { create: false }).catch((error) => error.code)];
  });
  assert.deepEqual(seen, ["locked", "closed", ["1", "2"], "missing"]);
});

test("who closes a store that is being closed waits for that, too", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("twice");
    let written = false;
    const writing = db.set("a", "1").then(() => (written = true));
    const closing = db.close();
    await db.close();
    const before = written;
    await Promise.all([writing, closing]);
    return [before, await db.close()];
  });
  assert.deepEqual(seen, [true, undefined]);
});

test("closing waits for calls that were made just before", async () => {
  const seen = await page.evaluate(async () => {
    const made = [];
    for (const busy of [false, true]) {
      const db = await pipkin.open("before");
      if (busy) void db.set("a", "1");
      const calls = [db.compact(), db.stats(), db.segments(), db.verify()];
      const closing = db.close();
      const late = db.stats();
      made.push((await Promise.allSettled([...calls, closing, late])).map(({ reason }) => reason?.code));
    }
    return made;
  });
  assert.deepEqual(seen, Array(2).fill([...Array(5).fill(undefined), "closed"]));
});

test("a damaged file is reported and stays as it is", async () => {
  const seen = await page.evaluate(async () => {
    const file = async () => (await (await navigator.storage.getDirectory()).getDirectoryHandle("pipkin")).getFileHandle("rotten.pipkin", { create: true });
    const db = await pipkin.open("rotten");
    await db.set("a", "1", { durability: "strict" });
    await db.close();
    const rubbish = new Uint8Array(20_000).fill(0x55);
    const writer = await (await file()).createWritable();
    await writer.write(rubbish);
    await writer.close();
    const error = await pipkin.open("rotten").catch((error) => error);
    const left = new Uint8Array(await (await (await file()).getFile()).arrayBuffer());
    return [error.code, error instanceof pipkin.PipkinError, left.length, left.every((byte) => byte === 0x55)];
  });
  assert.deepEqual(seen, ["corrupt", true, 20_000, true]);
});
