// @sqlite.org/sqlite-wasm as `sqlite.js` sets it up, called through the objects that its documents teach: `bind`, `step`, `get`.

import sqlite, { prepared, together } from "./sqlite.js";

function put(key, value) {
  prepared().put.bind([key, value]).stepReset();
}

function get(key) {
  const statement = prepared().get.bind(1, key);
  const value = statement.step() ? statement.get(0) : undefined;
  statement.reset();
  return value;
}

export default {
  ...sqlite,
  put,
  get,
  putMany: (records) => together(() => records.forEach(([key, value]) => put(key, value))),
  getMany: (keys) => together(() => keys.map(get)),
};
