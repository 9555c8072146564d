// @sqlite.org/sqlite-wasm on its fastest file system, opfs-sahpool, with prepared statements and calls of the exported functions
// themselves, which are faster than the object that wraps them.

import init from "/modules/@sqlite.org/sqlite-wasm/dist/index.mjs";
import { GET, PUT, pragmas } from "./tuning.js";

// Its other file systems take time to start where the page is isolated.
globalThis.sqlite3ApiConfig = { disable: { vfs: { opfs: true, "opfs-vfs": true, "opfs-wl": true } } };

let sqlite, db, statements, putting, getting, keyAt, valueAt;

/** The prepared statements as objects. */
export const prepared = () => statements;

const check = (code) => {
  if (code !== sqlite.capi.SQLITE_OK) throw new Error(`SQLite: ${code}`);
};

function bind(statement, place, bytes, at) {
  sqlite.wasm.heap8u().set(bytes, at);
  check(sqlite.wasm.exports.sqlite3_bind_blob(statement, place, at, bytes.length, 0));
}

function put(key, value) {
  const { sqlite3_step, sqlite3_reset } = sqlite.wasm.exports;
  bind(putting, 1, key, keyAt);
  bind(putting, 2, value, valueAt);
  if (sqlite3_step(putting) !== sqlite.capi.SQLITE_DONE) throw new Error("SQLite refused a put");
  check(sqlite3_reset(putting));
}

function get(key) {
  const { sqlite3_step, sqlite3_reset, sqlite3_column_blob, sqlite3_column_bytes } = sqlite.wasm.exports;
  bind(getting, 1, key, keyAt);
  let value;
  if (sqlite3_step(getting) === sqlite.capi.SQLITE_ROW) {
    const at = sqlite3_column_blob(getting, 0);
    value = sqlite.wasm.heap8u().slice(at, at + sqlite3_column_bytes(getting, 0));
  }
  check(sqlite3_reset(getting));
  return value;
}

/** One transaction around all of it. */
export function together(work) {
  db.exec("begin");
  const result = work();
  db.exec("commit");
  return result;
}

export default {
  async open(durability, name) {
    sqlite = await init({ print: () => undefined, printErr: console.error });
    const pool = await sqlite.installOpfsSAHPoolVfs({ name: "pool", clearOnInit: false });
    db = new pool.OpfsSAHPoolDb(`/${name}`);
    db.exec(pragmas(durability));
    statements = { put: db.prepare(PUT), get: db.prepare(GET) };
    putting = statements.put.pointer;
    getting = statements.get.pointer;
    keyAt = sqlite.wasm.alloc(1024);
    valueAt = sqlite.wasm.alloc(65536);
  },
  putMany: (records) => together(() => records.forEach(([key, value]) => put(key, value))),
  put,
  get,
  getMany: (keys) => together(() => keys.map(get)),
  close: () => db.close(),
};
