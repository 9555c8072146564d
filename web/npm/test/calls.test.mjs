// Calls that are given up, walks in order, buffers of the caller, copies with progress, and events that something really raised.

import assert from "node:assert/strict";
import { test } from "node:test";
import { setup } from "./support/setup.mjs";

const { site, browser } = await setup();
const page = await browser.tab();
await page.evaluate(() => {
  /** What became of a call. */
  window.fate = (call) => call.then((value) => value, (error) => (typeof error.code === "string" ? error.code : error.name));
});

test("a call that has not left is withdrawn, a read that has is not waited for, a write that has is of unknown outcome", async () => {
  const seen = await page.evaluate(async () => {
    const db = (await pipkin.open("signals")).text();
    await db.set("kept", "1");
    const gone = AbortSignal.abort();
    const refused = [await fate(db.set("a", "1", { signal: gone })), await fate(db.get("kept", { signal: gone }))];

    const early = new AbortController();
    const { signal } = early;
    const calls = [
      db.set("a", "1"), db.set("withdrawn", "x".repeat(3000), { signal, durability: "strict" }), db.set("b", "2"),
      db.get("kept", { signal }), db.setMany([["withdrawn too", "3"]], { signal }), db.get("b"),
    ].map(fate);
    early.abort(new RangeError("changed my mind"));
    const withdrawn = await Promise.all(calls);

    const late = new AbortController();
    const left = [fate(db.set("c", "3", { signal: late.signal })), fate(db.get("kept", { signal: late.signal })), fate(db.get("kept"))];
    await Promise.resolve();
    late.abort();
    const given = await Promise.all(left);
    const unused = new AbortController();
    const done = await fate(db.set("d", "4", { signal: unused.signal }));
    unused.abort();
    return { refused, withdrawn, given, done, there: await db.getMany(["a", "withdrawn", "b", "withdrawn too", "c", "d"]) };
  });
  assert.deepEqual(seen, {
    refused: ["AbortError", "AbortError"],
    withdrawn: [undefined, "RangeError", undefined, "RangeError", "RangeError", "2"],
    given: ["outcome-unknown", "AbortError", "1"],
    done: undefined,
    there: ["1", undefined, "2", undefined, "3", "4"],
  });
});

test("walks, copies and updates can be given up, too, and leave the store as it was", async () => {
  const answers = await page.evaluate(async () => {
    const store = await pipkin.open("given-up");
    const db = store.text();
    await db.setMany(Array.from({ length: 20_000 }, (_, i) => [`${i}`, "x".repeat(100)]));
    const walk = new AbortController();
    let met = 0;
    const walked = await fate((async () => {
      for await (const _ of db.entries({ signal: walk.signal })) if (++met === 100) walk.abort();
    })());
    const update = new AbortController();
    const updated = await fate(db.update("0", () => (update.abort(), "y"), { signal: update.signal }));

    const progress = [];
    const file = await new Response(store.export({ progress: (...told) => progress.push(told) })).blob();
    const half = new AbortController();
    const exported = await fate(store.export({ signal: half.signal, progress: () => half.abort() }).pipeTo(new WritableStream()));
    const taken = [];
    const other = new AbortController();
    const options = { replace: true, signal: other.signal, progress: (done) => done > file.size / 2 && other.abort() };
    const stopped = await fate(store.import(file, options));
    const kept = (await store.stats()).records;
    await db.delete("1");
    await store.import(file.stream(), { replace: true, progress: (...told) => taken.push(told) });
    const left = [];
    for await (const name of (await (await navigator.storage.getDirectory()).getDirectoryHandle("pipkin")).keys()) if (name.startsWith("given-up")) left.push(name);
    return {
      met, walked, updated, unchanged: await db.get("0") === "x".repeat(100), exported, stopped, kept, left, back: await db.has("1"),
      sizes: [progress.length > 1, progress.at(-1), taken.at(-1)], size: file.size, damage: (await store.verify()).damage,
    };
  });
  const { size, ...rest } = answers;
  assert.deepEqual(rest, {
    met: 100, walked: "AbortError", updated: "AbortError", unchanged: true, exported: "AbortError", stopped: "AbortError", kept: 20_000,
    left: ["given-up.pipkin"], back: true, sizes: [true, [size, size], [size, undefined]], damage: [],
  });
});

test("an import from a stream that has stalled can be given up, and an export that was given up lets space go", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("stalled");
    await db.set("a", "1");
    const waits = new AbortController();
    const never = () => new Promise(() => undefined);
    const imported = fate(db.import(new ReadableStream({ pull: () => (setTimeout(() => waits.abort()), never()), cancel: never }, { highWaterMark: 0 }), { signal: waits.signal }));
    const stalled = await Promise.race([imported, new Promise((resolve) => setTimeout(resolve, 10_000, "stalled"))]);
    const made = new AbortController();
    whenSent("export", () => made.abort());
    const exported = await fate(db.export({ signal: made.signal }).getReader().read());
    // Given up by who reads it, who has half of it.
    await db.setMany(Array.from({ length: 30 }, (_, i) => [`${i}`, new Uint8Array(1_000_000)]));
    const reader = db.export().getReader();
    for (let i = 0; i < 15; i++) await reader.read();
    await db.clear();
    const held = await db.compact().then(() => db.stats());
    const cancelled = await fate(reader.cancel());
    const free = await db.compact().then(() => db.stats());
    const left = [held.fileBytes > 30_000_000, free.fileBytes < 10_000_000, (await filesOf("stalled")).length];
    return [stalled, exported, cancelled, left];
  });
  assert.deepEqual(seen, ["AbortError", "AbortError", undefined, [true, true, 1]]);
});

test("an import takes buffers of a stream as well as arrays, and refuses what has no bytes", async () => {
  const seen = await page.evaluate(async () => {
    const bytes = await (await fileOf([["a", "imported"]])).arrayBuffer();
    const db = await pipkin.open("pieces");
    const streamOf = (...pieces) => new ReadableStream({ start: (controller) => (pieces.forEach((piece) => controller.enqueue(piece)), controller.close()) });
    const refused = [await fate(db.import(streamOf(bytes, 5))), await fate(db.import(streamOf([1, 2])))];
    await db.import(streamOf(bytes.slice(0, 10_000), new Uint8Array(bytes, 10_000)));
    return [refused, await db.text().get("a")];
  });
  assert.deepEqual(seen, [["usage", "usage"], "imported"]);
});

test("closing waits for a file that is being taken in", async () => {
  const seen = await page.evaluate(async () => {
    const file = await fileOf([["a", "imported"]]);
    const db = await pipkin.open("closing");
    let closed;
    whenSent("install", () => (closed = db.close()));
    const imported = await Promise.race([fate(db.import(file)), new Promise((resolve) => setTimeout(resolve, 10_000, "never settled"))]);
    await closed;
    const again = await pipkin.open("closing");
    return [imported, await again.text().get("a")];
  });
  assert.deepEqual(seen, [undefined, "imported"]);
});

test("a range comes in the order of its keys, also while the store changes", async () => {
  const seen = await page.evaluate(async () => {
    const store = await pipkin.open("ordered");
    const db = store.text();
    const all = async (walk) => {
      const found = [];
      for await (const one of walk) found.push(one);
      return found;
    };
    const names = ["b", "a", "ba", "c", "", "ä", "users/1", "users/2", "users/10", "users0"];
    await db.setMany(names.map((name) => [name, `of ${name}`]));
    const before = await all(db.keys({ ordered: true }));
    await db.batch((batch) => { batch.delete("ba"); batch.set("bb", "new"); batch.set("a", "changed"); });
    await db.delete("c");
    await db.update("bc", () => "newer");
    const users = store.text("users/");
    const ends = await all(store.prefix(new Uint8Array([0xff])).keys({ ordered: true }));
    const numbers = Array.from({ length: 30_000 }, (_, i) => String(i).padStart(5, "0"));
    await store.text("n").setMany([...numbers].reverse().map((number) => [number, number.repeat(4)]));
    const walked = await all(store.text("n").entries({ gt: "00009", lte: "29990" }));
    const back = await all(store.text("n").entries({ gt: "00009", lte: "29990", reverse: true }));
    return {
      back: [back.length, back.every(([key, value], i) => walked.at(-1 - i)[0] === key && value === key.repeat(4))],
      newest: (await users.keys({ reverse: true }).next()).value,
      before, after: await all(db.entries({ gte: "a", lt: "n" })), users: await all(users.keys({ ordered: true })),
      behind: await all(users.keys({ gt: "1" })), ends: ends.length, nothing: await all(db.keys({ gt: "b", lt: "b" })), turned: await all(db.keys({ gte: "c", lte: "b" })),
      walked: [walked.length, walked[0][0], walked.at(-1)[0], walked.every(([key, value], i) => Number(key) === i + 10 && value === key.repeat(4))],
      wrong: await fate(all(db.keys({ gt: "a", gte: "a" }))),
    };
  });
  assert.deepEqual(seen, {
    back: [29_981, true], newest: "2",
    before: ["", "a", "b", "ba", "c", "users/1", "users/10", "users/2", "users0", "ä"],
    after: [["a", "changed"], ["b", "of b"], ["bb", "new"], ["bc", "newer"]],
    users: ["1", "10", "2"], behind: ["10", "2"], ends: 0, nothing: [], turned: [], walked: [29_981, "00010", "29990", true], wrong: "usage",
  });
});

test("a value is read into a buffer of the caller, and what makes no sense is refused alone", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("buffers");
    const buffer = new Uint8Array(8).fill(9);
    const calls = [
      db.set("a", new Uint8Array([1, 2, 3])), db.getInto("a", buffer), db.getInto("missing", buffer), db.set("long", "x".repeat(9)),
      db.getInto("long", buffer), db.set(5, "a"), db.set("b", 5), db.get("a").then((value) => value.buffer.byteLength),
    ];
    return [await Promise.all(calls.map(fate)), [...buffer]];
  });
  assert.deepEqual(seen, [[undefined, 3, undefined, undefined, "usage", "usage", "usage", 3], [1, 2, 3, 9, 9, 9, 9, 9]]);
});

test("a value that cannot be decoded fails its own call, and the others of the task get their own answers", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("undecodable");
    await db.setMany([["bad", "no JSON"], ["good", "1"], ["other", "the other"]]);
    const calls = [db.json().getMany(["bad", "good"]), db.text().get("other"), db.json().getMany(["good"]), db.has("missing")];
    return Promise.all(calls.map(fate));
  });
  assert.deepEqual(seen, ["SyntaxError", "the other", [1], false]);
});

test("what would be lost because nobody waits for it is refused, and nothing is done", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("promises");
    const json = db.json();
    await json.set("a", 1);
    let late;
    await db.batch((batch) => void (late = batch));
    const lateness = (() => {
      try {
        late.set("b", "2");
      } catch (error) {
        return error.code;
      }
    })();
    const fates = [
      json.batch(async (batch) => { batch.set("a", 2); await 0; batch.set("b", 2); }), json.batch(async () => { throw new Error("no"); }),
      json.update("a", async (old) => old + 1), json.set("a", Promise.resolve(2)), json.setMany([["a", Promise.resolve(2)]]),
      db.update("a", async () => "2"),
    ];
    return [lateness, await Promise.all(fates.map(fate)), await json.get("a"), await db.has("b")];
  });
  assert.deepEqual(seen, ["usage", Array(6).fill("usage"), 1, false]);
});

test("arguments that make no sense reject, and text comes back as it was, a mark of the byte order in front too", async () => {
  const seen = await page.evaluate(async () => {
    const db = (await pipkin.open("marks")).text();
    const fates = [db.getMany([1]), db.getMany(), db.setMany([["a", 1]]), db.setMany([[1, "a"]])].map((call) => call.catch((error) => error.name));
    await db.set("\uFEFFkey", "\uFEFFvalue");
    const keys = [];
    for await (const key of db.keys()) keys.push(key);
    return [await Promise.all(fates), keys, await db.get("\uFEFFkey")];
  });
  assert.deepEqual(seen, [["PipkinError", "PipkinError", "PipkinError", "PipkinError"], ["\uFEFFkey"], "\uFEFFvalue"]);
});

test("half a character is refused, where it would become another key, and kept in JSON", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("halves");
    const half = "\ud83d";
    const fates = [db.set(half, "1"), db.get(`a${half}`), db.text().set("a", "b".repeat(100) + half), db.getMany([half])].map(fate);
    await db.set("\ud83d\ude00", "\ud83d\ude00");
    await db.json().set("j", half);
    const keys = [];
    for await (const key of db.text().keys({ ordered: true })) keys.push(key);
    return [await Promise.all(fates), keys, await db.text().get("\ud83d\ude00"), (await db.json().get("j")) === half];
  });
  assert.deepEqual(seen, [["usage", "usage", "usage", "usage"], ["j", "\ud83d\ude00"], "\ud83d\ude00", true]);
});

// Chromium refuses to hand over buffers of 2 GiB: the page once waited for ever for the answer of a message that had not left.
test("what is too much for one message is refused alone, and what follows goes its way", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("much");
    // So much that nobody needs to have the memory for it.
    const much = Object.defineProperty(new Uint8Array(1), "length", { value: 3e9 });
    const inPage = await Promise.all([db.set("a", "1"), db.set("b", much), db.setMany([["c", "1"], ["d", much]]), db.getMany(["a", "b", "c"])].map(fate));
    const script = `
      import { open } from "${location.origin}/pipkin/sync.js";
      const db = await open("much", { memory: true });
      const much = Object.defineProperty(new Uint8Array(1), "length", { value: 3e9 });
      let refused;
      try { db.setMany([["a", "1"], ["b", much]]); } catch (error) { refused = error.code; }
      db.setMany([["c", "1"]]);
      postMessage([refused, db.getMany(["a", "b", "c"]).map((value) => value?.length)]);`;
    const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
    const inWorker = await new Promise((resolve) => (worker.onmessage = ({ data }) => resolve(data)));
    worker.terminate();
    return [...inPage.slice(0, 3), inPage[3].map((value) => value?.length), ...inWorker];
  });
  assert.deepEqual(seen, [undefined, "usage", "usage", [1, undefined, undefined], "usage", [undefined, undefined, 1]]);
});

test("a buffer that was a key, a prefix, a bound or a value may be filled again", async () => {
  const seen = await page.evaluate(async () => {
    const db = await pipkin.open("reused");
    const [key, value] = [new Uint8Array(1), new Uint8Array(1)];
    await db.batch((batch) => {
      for (const code of [65, 66, 67]) {
        key[0] = value[0] = code;
        batch.set(key, value);
      }
      key[0] = 66;
      batch.delete(key);
      key[0] = 0;
    });
    const updates = [65, 67].map((code) => ((key[0] = code), db.text().update(key, (old) => `${old}!`)));
    key[0] = 112;
    const view = db.prefix(key);
    key[0] = 122;
    await Promise.all([...updates, view.set("refix", "1")]);
    const records = [];
    for await (const record of db.text().entries({ ordered: true })) records.push(record);
    // Behind a page that is full, the walk goes on.
    await db.setMany(Array.from({ length: 4 }, (_, i) => [`q${i}`, new Uint8Array(200_000)]));
    const bound = new TextEncoder().encode("q3");
    const range = db.text().entries({ gte: "q", lt: bound });
    const keys = [(await range.next()).value[0]];
    bound[0] = 122;
    for await (const [key] of range) keys.push(key);
    const filled = function* (make) {
      for (key[0] = value[0] = 120; key[0] < 123; key[0]++, value[0]++) yield make();
    };
    await db.setMany(filled(() => [key, value]));
    const many = (await db.text().getMany(filled(() => key))).join("");
    return [records, keys, many];
  });
  assert.deepEqual(seen, [[["A", "A!"], ["C", "C!"], ["prefix", "1"]], ["q0", "q1", "q2"], "xyz"]);
});

test("a full storage raises `quota`, and reads and removals go on", async () => {
  const session = await browser.context.newCDPSession(page);
  const { origin } = new URL(site.url);
  await page.evaluate(async () => {
    window.full = await pipkin.open("full");
    await full.set("old", "1");
  });
  const { usage } = await session.send("Storage.getUsageAndQuota", { origin });
  await session.send("Storage.overrideQuotaForOrigin", { origin, quotaSize: usage + 4_000_000 });
  const seen = await page.evaluate(async () => {
    const raised = [];
    full.on("quota", ({ error }) => raised.push(error.code));
    const value = new Uint8Array(200_000);
    let refused;
    for (let i = 0; i < 200 && !refused; i++) refused = await full.set(`${i}`, value).then(() => undefined, (error) => error.code);
    return [refused, raised, await full.text().get("old"), await full.delete("old"), await full.has("old")];
  });
  await session.send("Storage.overrideQuotaForOrigin", { origin });
  assert.deepEqual(seen, ["quota", ["quota"], "1", true, false]);
  await page.evaluate(() => full.set("again", "1"));
});

test("a worker that fails raises `error`, once, and the store says so from then on", async () => {
  const seen = await page.evaluate(async () => {
    // The lock and the word of another version of pipkin.
    let free;
    await new Promise((held) => navigator.locks.request("pipkin/newer", () => (held(), new Promise((resolve) => (free = resolve)))));
    const channel = new BroadcastChannel("pipkin/newer");
    const say = (protocol) => channel.postMessage({ kind: "leader", epoch: "00", protocol });
    channel.onmessage = ({ data }) => data.kind === "who" && say(12);
    const db = await pipkin.open("newer");
    const raised = [];
    db.on("error", ({ error }) => raised.push(error.code));
    db.on("error", () => { throw new Error("a listener that fails"); });
    db.on("error", () => raised.push("heard"));
    const waiting = fate(db.get("a"));
    const writing = fate(db.set("a", "1"));
    await Promise.resolve();
    const later = fate(db.set("b", "1"));
    say(1000);
    const answers = [await waiting, await writing, await later, await fate(db.get("a")), raised];
    free();
    channel.close();
    return answers;
  });
  assert.deepEqual(seen, ["version", "outcome-unknown", "version", "version", ["version", "heard"]]);
});

test("opening can be given up while somebody else does not let go, and says that it waits", async () => {
  const seen = await page.evaluate(async () => {
    let free;
    await new Promise((held) => navigator.locks.request("pipkin/held", () => (held(), new Promise((resolve) => (free = resolve)))));
    const giveUp = new AbortController();
    const blocked = await new Promise((resolve) => {
      const opening = fate(pipkin.open("held", { signal: giveUp.signal, blocked: () => giveUp.abort() }));
      opening.then(resolve);
    });
    free();
    const db = await pipkin.open("held", { signal: giveUp.signal }).catch((error) => error.name);
    const again = await pipkin.open("held");
    await again.close();
    return [blocked, db, again.name];
  });
  assert.deepEqual(seen, ["AbortError", "AbortError", "held"]);
});
