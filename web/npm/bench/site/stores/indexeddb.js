// IndexedDB without a wrapper: no handler for each put of a transaction, and all gets of a transaction asked for before one is awaited.

let db, durability;

const settled = (request) => new Promise((resolve, reject) => {
  request.onsuccess = () => resolve(request.result);
  request.onerror = () => reject(request.error);
});

function write(fill) {
  const transaction = db.transaction("records", "readwrite", { durability });
  fill(transaction.objectStore("records"));
  transaction.commit();
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(transaction.error);
  });
}

export default {
  async open(wanted, name) {
    durability = wanted;
    const opening = indexedDB.open(name);
    opening.onupgradeneeded = () => opening.result.createObjectStore("records");
    db = await settled(opening);
  },
  putMany: (records) => write((store) => records.forEach(([key, value]) => store.put(value, key))),
  put: (key, value) => write((store) => store.put(value, key)),
  get: (key) => settled(db.transaction("records").objectStore("records").get(key)),
  getMany(keys) {
    const store = db.transaction("records").objectStore("records");
    return Promise.all(keys.map((key) => settled(store.get(key))));
  },
  close: () => db.close(),
};
