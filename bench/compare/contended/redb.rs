//! redb: one writer at a time, so no conflicts. `Durability::None` is its way to commit without a flush.

use super::{Counters, Result, key, one_higher};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;

const TABLE: TableDefinition<'static, [u8; 8], [u8; 8]> = TableDefinition::new("counters");

pub(crate) struct Redb(Database);

impl Counters for Redb {
    fn open(folder: &Path, keys: u64) -> Result<Self> {
        let db = Database::create(folder.join("store.redb"))?;
        let write = db.begin_write()?;
        let mut table = write.open_table(TABLE)?;
        for number in 0..keys {
            table.insert(key(number), 0_u64.to_le_bytes())?;
        }
        drop(table);
        write.commit()?;
        Ok(Self(db))
    }

    fn raise(&self, key: [u8; 8]) -> Result<u64> {
        let mut write = self.0.begin_write()?;
        write.set_durability(Durability::None)?;
        let mut table = write.open_table(TABLE)?;
        let old = table.get(key)?.ok_or("no counter")?.value();
        table.insert(key, one_higher(&old)?)?;
        drop(table);
        write.commit()?;
        Ok(1)
    }

    fn value(&self, key: [u8; 8]) -> Result<u64> {
        let table = self.0.begin_read()?.open_table(TABLE)?;
        Ok(u64::from_le_bytes(table.get(key)?.ok_or("no counter")?.value()))
    }
}
