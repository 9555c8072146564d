//! SQLite, with a write-ahead log whose index lies in its own memory (WASI has none to share), and without syncs. Its cache is larger
//! than the data.
#![allow(missing_docs, reason = "generated exports")]

use pipkin_peers::bindings::exports::pipkin::peers::peer::Guest;
use pipkin_peers::{Exported, Peer, Record, Result, words};
use rusqlite::{Connection, OptionalExtension, Statement};

struct Component;

impl Guest for Component {
    type Store = Exported<Sqlite>;
    fn nothing() {}
}

pipkin_peers::bindings::export!(Component with_types_in pipkin_peers::bindings);

struct Sqlite(Connection);

impl Sqlite {
    fn prepared<T>(&self, sql: &str, work: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>) -> Result<T> {
        self.0.prepare_cached(sql).and_then(|mut statement| work(&mut statement)).map_err(words)
    }
}

impl Peer for Sqlite {
    fn create() -> Result<Self> {
        let connection = Connection::open("/peer.sqlite").map_err(words)?;
        let settings =
            "pragma locking_mode = exclusive; pragma journal_mode = wal; pragma synchronous = off; pragma cache_size = -65536;
            create table records (key blob primary key, value blob not null) without rowid;";
        connection.execute_batch(settings).map_err(words)?;
        Ok(Self(connection))
    }

    fn put_together<'a>(&self, records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        self.commit(records)
    }

    fn commit<'a>(&self, mut records: impl Iterator<Item = Record<'a>>) -> Result<()> {
        self.prepared("begin", |begin| begin.execute([]))?;
        self.prepared("insert or replace into records values (?, ?)", |insert| {
            records.try_for_each(|(key, value)| insert.execute((key, value)).map(drop))
        })?;
        self.prepared("commit", |commit| commit.execute([])).map(drop)
    }

    fn get_each<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>, mut each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        self.prepared("select value from records where key = ?", |select| {
            keys.try_for_each(|key| {
                let found = select.query_row([key], |row| Ok(each(Some(row.get_ref(0)?.as_blob()?)))).optional()?;
                if found.is_none() {
                    each(None);
                }
                Ok(())
            })
        })
    }

    fn get_batch(&self, keys: &[&[u8]], each: impl FnMut(Option<&[u8]>)) -> Result<()> {
        self.prepared("begin", |begin| begin.execute([]))?;
        self.get_each(keys.iter().copied(), each)?;
        self.prepared("commit", |commit| commit.execute([])).map(drop)
    }

    fn walk(&self, behind: Option<&[u8]>, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let sql = match behind {
            Some(_) => "select key, value from records where key > ?1 order by key",
            None => "select key, value from records where ?1 is null order by key",
        };
        self.prepared(sql, |select| {
            let mut rows = select.query([behind])?;
            while let Some(row) = rows.next()? {
                if !each(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?) {
                    break;
                }
            }
            Ok(())
        })
    }
}
