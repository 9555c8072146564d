//! redb: a copy-on-write B-tree in one file.
//!
//! Tuning: a cache larger than the data, one write transaction for the whole load and for the removals (more of them only cost commits),
//! one read transaction with one open table for a run of reads. Its mode without a sync (`Durability::None`) keeps commits in memory until
//! the next durable one, so they are lost with the process.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    WriteTransaction,
};
use std::path::Path;

const TABLE: TableDefinition<'static, &'static [u8], &'static [u8]> = TableDefinition::new("records");

pub(crate) struct RedbEngine {
    db: Database,
}

impl RedbEngine {
    fn insert<'r>(&self, records: impl Iterator<Item = Pair<'r>>, durability: Durability) -> Result<()> {
        let write = self.begin(durability)?;
        let mut table = write.open_table(TABLE)?;
        for (key, value) in records {
            table.insert(key, value)?;
        }
        drop(table);
        Ok(write.commit()?)
    }

    fn begin(&self, durability: Durability) -> Result<WriteTransaction> {
        let mut write = self.db.begin_write()?;
        write.set_durability(durability)?;
        Ok(write)
    }
}

impl Engine for RedbEngine {
    const FACTS: Facts = Facts {
        unflushed: Unflushed::Lost("`Durability::None` is lost with the process until a durable commit follows"),
        ..Facts::peer(
            "redb",
            "redb",
            "cache larger than the data, one transaction for load and removals, one read transaction per run",
        )
    };

    type Reader<'a> = View;

    fn open(folder: &Path, options: &OpenOptions) -> Result<Self> {
        let db = Database::builder().set_cache_size(options.cache as usize).create(folder.join("store.redb"))?;
        let engine = Self { db };
        engine.insert(std::iter::empty(), Durability::Immediate)?; // readers want the table to be there
        Ok(engine)
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.insert(records, Durability::Immediate)
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(std::iter::once((key, value)), Durability::Immediate)
    }

    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.insert(records, Durability::Immediate)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert(std::iter::once((key, value)), Durability::None)
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        let write = self.begin(Durability::Immediate)?;
        let mut table = write.open_table(TABLE)?;
        for key in keys {
            table.remove(key.as_slice())?;
        }
        drop(table);
        Ok(write.commit()?)
    }

    fn flush(&self) -> Result<()> {
        self.insert(std::iter::empty(), Durability::Immediate)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.reader()?.table.len()?)
    }

    fn reader(&self) -> Result<View> {
        Ok(View { table: self.db.begin_read()?.open_table(TABLE)? })
    }

    fn compact(mut self) -> Result<Self> {
        self.db.compact()?;
        Ok(self)
    }

    fn close(self) -> Result<()> {
        drop(self.db);
        Ok(())
    }
}

pub(crate) struct View {
    table: ReadOnlyTable<&'static [u8], &'static [u8]>,
}

impl Reader for View {
    #[inline]
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        // The trait's method hands out a borrow; the table's own one of the same name counts references.
        let value = ReadableTable::get(&self.table, key)?;
        Ok(value.map(|value| with(value.value())).is_some())
    }

    fn range(&mut self, from: &[u8], count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut hits = 0;
        for record in ReadableTable::range(&self.table, from..)?.take(count) {
            let (key, value) = record?;
            each(key.value(), value.value());
            hits += 1;
        }
        Ok(hits)
    }
}
