// idb-keyval: small and widely used. It has one durability, that of the browser's default.

import { createStore, get, getMany, set, setMany } from "/modules/idb-keyval/dist/index.js";

let store;

export default {
  async open(_, name) {
    store = createStore(name, "records");
    // It opens with the first call.
    await get("nothing", store);
  },
  putMany: (records) => setMany(records, store),
  put: (key, value) => set(key, value, store),
  get: (key) => get(key, store),
  getMany: (keys) => getMany(keys, store),
  close: () => undefined,
};
