//! Reads LevelDB. The library opens the files only to write, so a copy is read.

use crate::copy::Copy;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::source::{Each, Record, Source, Table};
use rusty_leveldb::{DB, LdbIterator, Options};
use std::path::Path;

struct LevelDb(Copy);

fn options() -> Options {
    Options { create_if_missing: false, ..Options::default() }
}

pub(crate) fn open(path: &Path) -> Result<Box<dyn Source>> {
    let copy = Copy::of(Engine::LevelDb, path)?;
    DB::open(copy.path(), options()).map_err(Error::from(Engine::LevelDb))?;
    Ok(Box::new(LevelDb(copy)))
}

impl Source for LevelDb {
    fn tables(&self) -> Result<Vec<Table>> {
        Ok(vec![Table { name: "default".to_owned(), is_default: true }])
    }

    fn read(&self, table: &str, each: &mut Each<'_>) -> Result<()> {
        if table != "default" {
            return Err(Error::no_table(table));
        }
        let mut db = DB::open(self.0.path(), options()).map_err(Error::from(Engine::LevelDb))?;
        let mut records = db.new_iter().map_err(Error::from(Engine::LevelDb))?;
        while let Some((key, value)) = records.next() {
            if each(Record { key: &key, value: &value, expires_at: None }).is_break() {
                break;
            }
        }
        Ok(())
    }
}
