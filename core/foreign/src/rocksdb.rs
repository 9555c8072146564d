//! Reads RocksDB, beside a program that writes it.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::source::{Each, Record, Source, Table};
use rocksdb::{DB, IteratorMode, Options};
use std::path::Path;

struct RocksDb {
    db: DB,
    families: Vec<String>,
}

pub(crate) fn open(path: &Path) -> Result<Box<dyn Source>> {
    let options = Options::default();
    let families = DB::list_cf(&options, path).map_err(Error::from(Engine::RocksDb))?;
    let db = DB::open_cf_for_read_only(&options, path, &families, false).map_err(Error::from(Engine::RocksDb))?;
    Ok(Box::new(RocksDb { db, families }))
}

impl Source for RocksDb {
    fn tables(&self) -> Result<Vec<Table>> {
        Ok(self
            .families
            .iter()
            .map(|name| Table { name: name.clone(), is_default: name == rocksdb::DEFAULT_COLUMN_FAMILY_NAME })
            .collect())
    }

    fn read(&self, table: &str, each: &mut Each<'_>) -> Result<()> {
        let family = self.db.cf_handle(table).ok_or_else(|| Error::no_table(table))?;
        for record in self.db.iterator_cf(family, IteratorMode::Start) {
            let (key, value) = record.map_err(Error::from(Engine::RocksDb))?;
            if each(Record { key: &key, value: &value, expires_at: None }).is_break() {
                break;
            }
        }
        Ok(())
    }
}
