// What is measured of a store, in a worker or in a page. Microseconds an operation, or milliseconds where it says so.

import { inPieces, makeRecords, shuffled, sum } from "./data.js";

const COMMIT = 1000;
/** Single operations are timed in so many groups, of which the median counts: browsers' clocks are too coarse for one. */
const GROUPS = 20;

/** A new store: opened, filled, closed. */
export async function fill(store, { records: count, puts, durability }) {
  const records = makeRecords(count + puts);
  const commits = inPieces(records.slice(0, count), COMMIT);
  const single = records.slice(count);
  const openMs = await timed(() => store.open(durability, "bench"));
  const start = performance.now();
  for (const commit of commits) await store.putMany(commit);
  const batchUs = ((performance.now() - start) * 1000) / count;
  const putUs = single.length > 0 && (await inGroups(single, (group) => putAll(store, group)));
  const closeMs = await timed(() => store.close());
  const figures = { "open first, ms": openMs, "batched put": batchUs, "close, ms": closeMs };
  // The strict ones are measured in turns.
  return putUs === false ? figures : { ...figures, "single put": putUs };
}

async function putAll(store, records) {
  for (const [key, value] of records) {
    const done = store.put(key, value);
    if (done instanceof Promise) await done;
  }
}

/** Durable puts of several stores, in turns: the device has good and bad moments, and all of them get some of both. */
export async function inTurns(stores, { puts }) {
  const times = new Map();
  for (const [name, store] of stores) {
    await store.open("strict", "turns");
    await putAll(store, makeRecords(GROUPS));
    times.set(name, []);
  }
  for (const [i, record] of makeRecords(puts).entries()) {
    // Nobody comes always after the same one.
    const first = i % stores.length;
    for (const [name, store] of [...stores.slice(first), ...stores.slice(0, first)]) {
      times.get(name).push((await timed(() => putAll(store, [record]))) * 1000);
    }
  }
  for (const [, store] of stores) await store.close();
  return Object.fromEntries([...times].map(([name, all]) => [name, median(all)]));
}

/** The same store, found again in a new page. */
export async function read(store, { records: count, puts, gets, durability }) {
  const records = makeRecords(count + puts);
  const some = shuffled(records, gets);
  const expected = some.reduce((total, [, value]) => total + sum(value), 0);
  const keys = some.map(([key]) => key);
  const start = performance.now();
  await store.open(durability, "bench");
  const openMs = performance.now() - start;
  sum(await store.get(keys[0]));
  const firstMs = performance.now() - start;

  let total = 0;
  const get = async (group) => {
    for (const key of group) {
      const value = store.get(key);
      total += sum(value instanceof Promise ? await value : value);
    }
  };
  await get(keys); // every block is in the cache then, and all code is compiled
  same(total, expected);
  total = 0;
  const getUs = await inGroups(keys, get);
  same(total, expected);

  const pieces = inPieces(keys, COMMIT);
  let manyUs;
  for (let pass = 0; pass < 2; pass++) {
    total = 0;
    const times = [];
    for (const piece of pieces) {
      const start = performance.now();
      for (const value of await store.getMany(piece)) total += sum(value);
      times.push(((performance.now() - start) * 1000) / piece.length);
    }
    same(total, expected);
    manyUs = median(times);
  }
  await store.close();
  return { "reopen, ms": openMs, "reopen to first value, ms": firstMs, get: getUs, "get 1000 at once": manyUs, sum: total };
}

/** One more new store, in a browser and on a site that have been used before. */
export async function another(store, { durability }) {
  const openMs = await timed(() => store.open(durability, "another"));
  const [[key, value]] = makeRecords(1);
  await store.put(key, value);
  same(sum(await store.get(key)), sum(value));
  await store.close();
  return { "open new, ms": openMs };
}

function same(total, expected) {
  if (total !== expected) throw new Error(`other bytes came back than were written: ${total}, not ${expected}`);
}

async function timed(work) {
  const start = performance.now();
  await work();
  return performance.now() - start;
}

/** The median over groups of the time for one of `list`. */
export async function inGroups(list, work) {
  const times = [];
  for (const group of inPieces(list, Math.ceil(list.length / GROUPS))) times.push(((await timed(() => work(group))) * 1000) / group.length);
  return median(times);
}

export function median(times) {
  const sorted = [...times].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}
