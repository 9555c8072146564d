// wa-sqlite, as its maintained fork publishes it: the synchronous build on AccessHandlePoolVFS.

import factory from "/modules/@journeyapps/wa-sqlite/dist/wa-sqlite.mjs";
import { AccessHandlePoolVFS } from "/modules/@journeyapps/wa-sqlite/src/examples/AccessHandlePoolVFS.js";
import * as SQLite from "/modules/@journeyapps/wa-sqlite/src/sqlite-api.js";
import { GET, PUT, pragmas } from "./tuning.js";

let sqlite, db, putting, getting;

async function prepare(sql) {
  for await (const statement of sqlite.statements(db, sql, { unscoped: true })) return statement;
}

async function put(key, value) {
  sqlite.bind_blob(putting, 1, key);
  sqlite.bind_blob(putting, 2, value);
  await sqlite.step(putting);
  await sqlite.reset(putting);
}

async function get(key) {
  sqlite.bind_blob(getting, 1, key);
  const found = (await sqlite.step(getting)) === SQLite.SQLITE_ROW;
  const value = found ? sqlite.column_blob(getting, 0).slice() : undefined;
  await sqlite.reset(getting);
  return value;
}

/** One transaction around all of it. */
async function together(work) {
  await sqlite.exec(db, "begin");
  const result = await work();
  await sqlite.exec(db, "commit");
  return result;
}

export default {
  async open(durability, name) {
    const module = await factory();
    sqlite = SQLite.Factory(module);
    sqlite.vfs_register(await AccessHandlePoolVFS.create("pool", module), true);
    db = await sqlite.open_v2(name);
    await sqlite.exec(db, pragmas(durability));
    putting = await prepare(PUT);
    getting = await prepare(GET);
  },
  putMany: (records) => together(async () => {
    for (const [key, value] of records) await put(key, value);
  }),
  put,
  get,
  getMany: (keys) => together(async () => {
    const values = [];
    for (const key of keys) values.push(await get(key));
    return values;
  }),
  async close() {
    await sqlite.finalize(putting);
    await sqlite.finalize(getting);
    await sqlite.close(db);
  },
};
