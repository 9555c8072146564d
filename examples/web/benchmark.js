// pipkin beside IndexedDB, on the same records. The page says in words how.

const RECORDS = 10_000;
const COMMIT = 1000;
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

async function timed(work) {
  const start = performance.now();
  const result = await work();
  return { us: ((performance.now() - start) * 1000) / RECORDS, result };
}

async function pipkinRound({ open, destroy }, records, durability) {
  const db = await open("demo-benchmark", { durability });
  const written = await timed(async () => {
    for (const commit of commits(records)) await db.setMany(commit);
  });
  const keys = commits(shuffled(records));
  const read = await timed(async () => {
    let total = 0;
    for (const some of keys) total += sum(await db.getMany(some));
    return total;
  });
  await db.close();
  await destroy("demo-benchmark");
  return { write: written.us, read: read.us, sum: read.result };
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
  const written = await timed(async () => {
    for (const commit of commits(records)) {
      const transaction = db.transaction("records", "readwrite", { durability });
      const store = transaction.objectStore("records");
      for (const [key, value] of commit) store.put(value, key);
      await completed(transaction);
    }
  });
  const keys = commits(shuffled(records));
  const read = await timed(async () => {
    let total = 0;
    for (const some of keys) {
      const store = db.transaction("records").objectStore("records");
      total += sum(await Promise.all(some.map((key) => settled(store.get(key)))));
    }
    return total;
  });
  db.close();
  await settled(indexedDB.deleteDatabase("demo-benchmark"));
  return { write: written.us, read: read.us, sum: read.result };
}

/** The fastest of several rounds of each store, which take turns. */
export async function compare(pipkin, tell) {
  const records = makeRecords();
  const results = [];
  for (const durability of ["relaxed", "strict"]) {
    const best = { pipkin: { write: Infinity, read: Infinity }, indexedDb: { write: Infinity, read: Infinity } };
    for (let round = 1; round <= ROUNDS; round++) {
      tell(`${durability}, round ${round} of ${ROUNDS}…`);
      const ours = await pipkinRound(pipkin, records, durability);
      const theirs = await indexedDbRound(records, durability);
      if (ours.sum !== theirs.sum) throw new Error("the two stores gave different bytes back");
      for (const [name, { write, read }] of [["pipkin", ours], ["indexedDb", theirs]]) {
        best[name] = { write: Math.min(best[name].write, write), read: Math.min(best[name].read, read) };
      }
    }
    results.push({ what: `write, 1,000 in a commit, ${durability}`, pipkin: best.pipkin.write, indexedDb: best.indexedDb.write });
    if (durability === "relaxed") results.push({ what: "read, 1,000 at a time", pipkin: best.pipkin.read, indexedDb: best.indexedDb.read });
  }
  return results;
}
