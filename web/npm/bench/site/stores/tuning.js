// How both builds of SQLite are set up: no lock to take at each call, a write-ahead log, room for everything in the cache.

export function pragmas(durability) {
  return `
    pragma page_size = 8192;
    pragma locking_mode = exclusive;
    pragma journal_mode = wal;
    pragma synchronous = ${durability === "strict" ? "full" : "normal"};
    pragma cache_size = -65536;
    pragma temp_store = memory;
    create table if not exists records (key blob primary key, value blob) without rowid;`;
}

export const PUT = "insert or replace into records (key, value) values (?, ?)";
export const GET = "select value from records where key = ?";
