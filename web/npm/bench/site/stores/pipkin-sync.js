// pipkin, as code in a worker uses it.

import { open } from "/pipkin/sync.js";

const CACHE_BYTES = 64 * 1024 * 1024;
let db;

export default {
  async open(durability, name) {
    db = await open(name, { durability, cacheBytes: CACHE_BYTES });
  },
  putMany: (records) => db.setMany(records),
  put: (key, value) => db.set(key, value),
  get: (key) => db.get(key),
  getMany: (keys) => db.getMany(keys),
  close: () => db.close(),
};
