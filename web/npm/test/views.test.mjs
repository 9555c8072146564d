// What views keep, refuse and tell, and what is done to many records at once.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./support/setup.mjs";

const { browser } = await setup();
const page = await browser.tab();
await page.evaluate(() => {
  /** What became of a call. */
  window.fate = (call) => Promise.resolve().then(call).then((value) => value ?? null, (error) => (typeof error.code === "string" ? error.code : error.name));
  window.all = async (walk) => {
    const found = [];
    for await (const one of walk) found.push(one);
    return found;
  };
});

// Each of these once said that it was done: a `Blob` was stored as `{}`, an object as no records, "c1" was two keys, and no such event ever came.
test("what would be lost without a word is refused: values that JSON empties, lists that are none, events that there are not", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("silent");
    const json = db.json();
    const lost = [
      new Blob(["x"]), new Map([[1, 2]]), new Set([1]), new Uint8Array([1]), new ArrayBuffer(1), /a/, new Error("a"), { deep: [{ file: new File(["x"], "a") }] },
      [new Map()], { at: Promise.resolve() },
    ];
    const kept = [{}, [], { a: {} }, { 0: 1 }, new Date(0), { toJSON: () => ({}) }, "{}", null];
    const calls = [
      ...lost.map((value) => () => json.set("a", value)), () => db.setMany({ a: "1" }), () => db.setMany((async function* () { yield ["a", "1"]; })()), () => db.setMany("ab"),
      () => db.getMany("c1"), () => db.getMany({}), () => db.deleteMany("c1"), () => db.on("chnage", () => undefined), () => db.on("change"), () => db.text().on("chnage", () => undefined),
    ];
    const fates = await Promise.all(calls.map(fate));
    return [new Set(fates).size, fates[0], fates.length, await db.has("a"), await Promise.all(kept.map((value) => fate(() => json.set("k", value))))];
  });
  assert.deepEqual(seen, [1, "usage", 19, false, Array(8).fill(null)]);
});

test("a structured view keeps what `structuredClone` takes, blobs and circles included, and refuses the rest", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("structured");
    const values = db.structured("v/");
    const circle = { name: "circle", list: [1, , 3] };
    circle.self = circle;
    circle.list.push(circle.list);
    const value = {
      circle, undefined: undefined, numbers: [0, -0, NaN, -1, 1.5, 2 ** 40, 123456789012345678901234567890n], date: new Date(5), pattern: /a+/gi, half: "\ud83d", whole: "ä\u{1f600}",
      map: new Map([["a", new Set([1, "b"])]]), bytes: new Uint8Array([1, 2, 3]).subarray(1), floats: new Float64Array([1.5]), buffer: new Uint8Array([9]).buffer,
      view: new DataView(new Uint8Array([7, 8]).buffer), error: new RangeError("far", { cause: 5 }), boxed: Object("text"), "__proto__x": 1, ["__proto__"]: null, nothing: null,
    };
    await values.set("a", value);
    const back = await values.get("a");
    const file = new File(["hello"], "name.txt", { type: "text/plain", lastModified: 7 });
    await Promise.all([values.set("blob", { file, again: file, blob: new Blob(["x"], { type: "a/b" }) }), values.setMany(new Map([["m", new Blob(["many"])], ["n", 1]]))]);
    await values.batch((batch) => { batch.set("b", new Blob(["batch"])); batch.delete("n"); batch.set("o", 2); });
    await values.update("u", (old) => old ?? new Blob(["update"]));
    const { file: there, again, blob } = await values.get("blob");
    const texts = await Promise.all(["m", "b", "u"].map(async (key) => (await values.get(key)).text()));
    const refused = await Promise.all([() => values.set("x", () => 1), () => values.set("x", Symbol()), () => values.set("x", new WeakMap()), () => values.set("x", { deep: document }), async () => { await db.set("v/y", "no clone"); await values.get("y"); }].map(fate));
    return {
      circle: back.circle.self === back.circle && back.circle.list[3] === back.circle.list && !(1 in back.circle.list) && back.circle.list.length === 4,
      numbers: back.numbers.every((number, i) => Object.is(number, value.numbers[i])), strings: [back.half === "\ud83d", back.whole, `${back.boxed}`, typeof back.boxed],
      rest: [back.date.getTime(), `${back.pattern}`, [...back.map.get("a")], [...back.bytes], back.bytes.buffer.byteLength, [...back.floats], back.buffer.byteLength, back.view.getUint8(1), "undefined" in back, back.nothing],
      error: [back.error instanceof RangeError, back.error.message, back.error.cause], names: Object.keys(back).length === Object.keys(value).length,
      file: [there === again, there.name, there.type, there.lastModified, await there.text(), blob.type, await blob.text()], texts, refused, left: await values.has("n"),
    };
  });
  assert.deepEqual(seen, {
    circle: true, numbers: true, strings: [true, "ä\u{1f600}", "text", "object"], rest: [5, "/a+/gi", [1, "b"], [2, 3], 2, [1.5], 1, 8, true, null], error: [true, "far", 5], names: true,
    file: [true, "name.txt", "text/plain", 7, "hello", "a/b", "x"], texts: ["many", "batch", "update"], refused: ["usage", "usage", "usage", "usage", "corrupt"], left: false,
  });
});

// Each of them swapped against all others, and began again: 4000 callers ran their functions 8 million times.
test("many updates of one key run each function once, in their order, also with other views and keys in between", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("updates");
    let runs = 0;
    const order = [];
    const json = db.json();
    await Promise.all(Array.from({ length: 4000 }, (_, i) => json.update("n", (old) => (runs++, order.push(i), (old ?? 0) + 1))));
    const given = new AbortController();
    const fates = Promise.all([
      () => json.update("m", () => 1), () => json.update("m", () => { throw new RangeError("no"); }), () => json.update("m", () => 9, { signal: given.signal }),
      () => json.update("m", (old) => old + 1), () => db.text().update("m", (old) => `${old}0`), () => json.update("m", () => new Map()), () => json.update("m", () => undefined), () => json.update("m", (old) => old ?? "gone"),
    ].map(fate));
    given.abort();
    return [await json.get("n"), runs, order.every((i, at) => i === at), await fates, await json.get("m")];
  });
  assert.deepEqual(seen, [4000, 4000, true, [null, "RangeError", "AbortError", null, null, "usage", null, null], "gone"]);
});

test("a batch writes to several views at once, and to no other store", async () => {
  const seen = await page.evaluate(async () => {
    const [db, other] = [await pipkin.open("views"), await pipkin.open("others")];
    const [users, sizes] = [db.json("users/"), db.text("sizes/")];
    await sizes.set("old", "1");
    await users.batch((batch) => { batch.set("ada", { born: 1815 }); batch.in(sizes).set("ada", "5"); batch.in(sizes).delete("old"); batch.in(db).set("count", "1"); });
    const there = [await all(db.text().keys({ ordered: true })), await users.get("ada"), await sizes.get("ada")];
    return [there, await fate(() => db.batch((batch) => { batch.set("a", "1"); batch.in(other).set("a", "1"); })), await fate(() => db.batch((batch) => batch.in({}))), await db.has("a")];
  });
  assert.deepEqual(seen, [[["count", "sizes/ada", "users/ada"], { born: 1815 }, "5"], "usage", "usage", false]);
});

test("records are counted, limited, and removed many at once, and stores are listed", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("many");
    const [one, two] = [db.text("one/"), db.text("two/")];
    await one.setMany(Array.from({ length: 5000 }, (_, i) => [`${i}`.padStart(4, "0"), "x".repeat(200)]));
    await two.setMany([["a", "1"], ["b", "2"], ["c", "3"]]);
    const counts = [await db.count(), await one.count(), await one.count({ gte: "1000", lt: "1010" }), await one.count({ limit: 7 })];
    const limited = [await all(one.keys({ gte: "0100", limit: 2 })), await all(two.keys({ reverse: true, limit: 1 })), (await all(one.entries({ limit: 3000 }))).length, await all(two.keys({ limit: 0 }))];
    await two.deleteMany(["a", "missing", "c"]);
    await one.clear();
    const wrong = await Promise.all([() => all(two.keys({ limit: -1 })), () => two.count({ limit: 1.5 })].map(fate));
    const { usage, quota } = await db.estimate();
    return { counts, limited, left: await all(db.text().entries()), wrong, listed: (await pipkin.list()).includes("many"), persisted: await db.persisted(), estimate: usage > 0 && quota > usage };
  });
  assert.deepEqual(seen, {
    counts: [5003, 5000, 10, 7], limited: [["0100", "0101"], ["c"], 3000, []], left: [["two/b", "2"]], wrong: ["usage", "usage"], listed: true, persisted: false, estimate: true,
  });
});

test("a view hears of its own records by their names there, and a live value changes with its key, from any tab", async () => {
  const other = await browser.tab();
  await page.evaluate(async () => {
    window.db = await pipkin.open("live");
    window.heard = [];
    db.json("users/").on("change", ({ keys, local }) => heard.push([keys, local]));
    window.live = db.json("users/").live("ada");
    window.snapshots = [live.getSnapshot()];
    window.stop = live.subscribe(() => snapshots.push(live.getSnapshot()));
  });
  await other.evaluate(async () => {
    window.db = await pipkin.open("live");
    await db.set("elsewhere", "1");
    await db.json("users/").set("ada", { born: 1815 });
  });
  await page.waitForFunction(() => snapshots.length === 2);
  const seen = await page.evaluate(async () => {
    const same = live.getSnapshot() === live.getSnapshot();
    await db.setMany([["users/ada", JSON.stringify({ born: 1815 })], ["users/bob", "1"], ["x", "1"]]);
    await db.delete("users/ada");
    while (snapshots.length < 3) await new Promise((resolve) => setTimeout(resolve, 10));
    stop();
    await db.set("users/ada", "1");
    await db.get("a");
    return [same, snapshots.map((snapshot) => snapshot ?? null), heard];
  });
  assert.deepEqual(seen, [true, [null, { born: 1815 }, null], [[["ada"], false], [["ada", "bob"], true], [["ada"], true], [["ada"], true]]]);
  await other.close();
});

// `new Response(db.export()).blob()` says "Failed to fetch", whatever was wrong.
test("a store is exported as a blob, and what goes wrong is said as it is", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("blob");
    await db.set("a", "1");
    const blob = await db.exportBlob();
    await db.import(blob, { replace: true });
    const memory = await pipkin.open("blob", { memory: true });
    return [await db.text().get("a"), await fate(() => memory.exportBlob()), await fate(() => db.exportBlob({ signal: AbortSignal.abort() }))];
  });
  assert.deepEqual(seen, ["1", "unavailable", "AbortError"]);
});

test("in a worker a structured view reads blobs at once, and batches, counts and limits work as they do on a page", async () => {
  const seen = await page.evaluate(async () => {
    const script = `
      import { open } from "${location.origin}/pipkin/sync.js";
      const db = await open("sync-views", { memory: true });
      const values = db.structured("s/");
      values.set("a", { blob: new Blob(["x"]), map: new Map([[1, 2]]) });
      values.setMany([["b", new Blob(["y"])]]);
      db.batch((batch) => { batch.set("c", "1"); batch.in(values).set("c", new Set([1])); });
      const refused = [() => db.getMany("c1"), () => db.setMany({}), () => db.json().set("a", new Map())].map((call) => { try { call(); return "done"; } catch (error) { return error.code; } });
      const counts = [db.count(), values.count({ limit: 2 }), [...values.keys({ ordered: true, limit: 1 })].join()];
      db.deleteMany(["c"]);
      const texts = [await values.get("a").blob.text(), await values.get("b").text(), values.get("c").has(1)];
      values.clear();
      postMessage([refused, counts, texts, db.count()]);`;
    const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
    return new Promise((resolve) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = ({ message }) => resolve(message);
    });
  });
  assert.deepEqual(seen, [["usage", "usage", "usage"], [4, 2, "a"], ["x", "y", true], 0]);
});
