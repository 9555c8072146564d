// Several builds of the package in turns: in a page, and this same script in a worker of it.

const CALLS = 200;
const KEYS = Array.from({ length: 1000 }, (_, i) => new TextEncoder().encode(`key of a record ${String(i).padStart(8, "0")}`));
const VALUE = new Uint8Array(150).fill(7);

/** By the call, times of all slices of each store. */
async function inTurns(stores, calls, slices) {
  const found = {};
  for (const [name, call] of Object.entries(calls)) {
    const times = stores.map(() => []);
    for (let slice = 0; slice < slices; slice++) {
      for (let turn = 0; turn < stores.length; turn++) {
        const which = (slice + turn) % stores.length;
        const start = performance.now();
        for (let i = 0; i < CALLS; i++) {
          const done = call(stores[which], KEYS[(slice * 7 + i * 13) % KEYS.length]);
          if (done instanceof Promise) await done;
        }
        times[which].push(((performance.now() - start) * 1000) / CALLS);
      }
    }
    found[name] = times;
  }
  return found;
}

const RECORDS = { get: (db, key) => db.get(key), has: (db, key) => db.has(key), set: (db, key) => db.set(key, VALUE), delete: (db, key) => db.delete(key) };

async function measure(entry, { stores, slices }, more = {}) {
  const dbs = [];
  // Sealed ones first: a worker takes the module that can do most with the first store that it opens.
  const opened = stores.map((store, i) => ({ ...store, i })).sort((one, other) => other.isSealed - one.isSealed);
  for (const { path, isSealed, i } of opened) {
    const { open } = await import(`${path}${entry}.js`);
    const db = await open(`${entry}-${i}`, isSealed ? { key: new Uint8Array(32).fill(7) } : {});
    await db.setMany(KEYS.map((key) => [key, VALUE]));
    dbs[i] = db;
  }
  return inTurns(dbs, { ...more, ...RECORDS }, slices);
}

const named = (place, found) => Object.fromEntries(Object.entries(found).map(([name, times]) => [`${name}, ${place}`, times]));

if (typeof document === "undefined") {
  const into = new Uint8Array(200);
  const more = { getInto: (db, key) => db.getInto(key, into), "getMany of one": (db, key) => db.getMany([key]) };
  onmessage = async ({ data }) => postMessage(await measure("sync", data, more));
} else {
  window.measure = async (task) => {
    const worker = new Worker("versions.js", { type: "module" });
    const inside = await new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => resolve(data);
      worker.onerror = (event) => reject(new Error(event.message));
      worker.postMessage(task);
    });
    worker.terminate();
    return { ...named("in a worker", inside), ...named("of a page", await measure("index", { ...task, slices: Math.ceil(task.slices / 10) })) };
  };
  window.ready = true;
}
