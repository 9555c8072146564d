// pipkin beside IndexedDB, on the same records. The page says in words how.

const RECORDS = 10_000;
const COMMIT = 1000;
const SINGLE = 200;
const ROUNDS = 3;

/** Keys and values that are the same in every run. */
function makeRecords() {
  let state = 42;
  const random = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0);
  const bytes = (length) => Uint8Array.from({ length }, () => random() >>> 24);
  return Array.from({ length: RECORDS }, () => [bytes(24), bytes(150)]);
}

function commits(records) {
  return Array.from({ length: RECORDS / COMMIT }, (_, i) => records.slice(i * COMMIT, (i + 1) * COMMIT));
}

/** Every key once, in another order. */
function shuffled(records) {
  return Array.from(records, (_, i) => records[(i * 7919) % RECORDS][0]);
}

function sum(values) {
  return values.reduce((total, value) => total + value.reduce((sum, byte) => sum + byte, 0), 0);
}

async function timed(count, work) {
  const start = performance.now();
  const result = await work();
  return { us: ((performance.now() - start) * 1000) / count, result };
}

/** All that is measured of a store, of which `put` writes one commit and `get` reads some values. */
async function phases(records, put, get) {
  const written = await timed(RECORDS, async () => {
    for (const commit of commits(records)) await put(commit);
  });
  const keys = shuffled(records);
  const read = await timed(RECORDS, async () => {
    let total = 0;
    for (const some of commits(keys)) total += sum(await get(some));
    return total;
  });
  const set = await timed(SINGLE, async () => {
    for (const record of records.slice(0, SINGLE)) await put([record]);
  });
  const got = await timed(SINGLE, async () => {
    let total = 0;
    for (const key of keys.slice(0, SINGLE)) total += sum(await get([key]));
    return total;
  });
  return { times: { write: written.us, read: read.us, set: set.us, get: got.us }, sum: read.result + got.result };
}

async function pipkinRound({ open, destroy }, records, durability) {
  const db = await open("demo-benchmark", { durability });
  const put = (commit) => (commit.length > 1 ? db.setMany(commit) : db.set(...commit[0]));
  const get = async (keys) => (keys.length > 1 ? db.getMany(keys) : [await db.get(keys[0])]);
  const round = await phases(records, put, get);
  await db.close();
  await destroy("demo-benchmark");
  return round;
}

const settled = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});
const completed = (transaction) => new Promise((resolve, reject) => {
  transaction.oncomplete = resolve;
  transaction.onabort = () => reject(transaction.error);
});

async function indexedDbRound(records, durability) {
  await settled(indexedDB.deleteDatabase("demo-benchmark"));
  const opening = indexedDB.open("demo-benchmark");
  opening.onupgradeneeded = () => opening.result.createObjectStore("records");
  const db = await settled(opening);
  const put = async (commit) => {
    const transaction = db.transaction("records", "readwrite", { durability });
    const store = transaction.objectStore("records");
    for (const [key, value] of commit) store.put(value, key);
    await completed(transaction);
  };
  const get = (keys) => {
    const store = db.transaction("records").objectStore("records");
    return Promise.all(keys.map((key) => settled(store.get(key))));
  };
  const round = await phases(records, put, get);
  db.close();
  await settled(indexedDB.deleteDatabase("demo-benchmark"));
  return round;
}

const PHASES = {
  relaxed: { write: "write, 1,000 in a commit, relaxed", read: "read, 1,000 at a time", set: "write one, relaxed", get: "read one" },
  strict: { write: "write, 1,000 in a commit, strict", set: "write one, strict" },
};

/** The fastest of several rounds of each store, which take turns. */
export async function compare(pipkin, tell) {
  const records = makeRecords();
  const results = [];
  for (const durability of ["relaxed", "strict"]) {
    const best = { pipkin: {}, indexedDb: {} };
    for (let round = 1; round <= ROUNDS; round++) {
      tell(`${durability}, round ${round} of ${ROUNDS}…`);
      const ours = await pipkinRound(pipkin, records, durability);
      const theirs = await indexedDbRound(records, durability);
      if (ours.sum !== theirs.sum) throw new Error("the two stores gave different bytes back");
      for (const [name, { times }] of [["pipkin", ours], ["indexedDb", theirs]]) {
        for (const [what, us] of Object.entries(times)) best[name][what] = Math.min(best[name][what] ?? Infinity, us);
      }
    }
    for (const [phase, what] of Object.entries(PHASES[durability])) results.push({ what, pipkin: best.pipkin[phase], indexedDb: best.indexedDb[phase] });
  }
  return results;
}
