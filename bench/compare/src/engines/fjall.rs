//! fjall: a log-structured merge tree in Rust.
//!
//! Tuning: cache larger than the data; no compression; a hash index inside of data blocks; filter and index blocks pinned; one thread per
//! core for its background work. Every write goes to the page cache of the system through its journal. A durable write is one with
//! `SyncData`. After the load the background work is waited for, outside of the clock.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use fjall::config::{CompressionPolicy, HashRatioPolicy, PinningPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;
use std::time::Duration;

const LOAD_BATCH: usize = 1_000;

pub(crate) struct Fjall {
    db: Database,
    records: Keyspace,
}

impl Fjall {
    fn write<'r>(&self, records: impl Iterator<Item = Pair<'r>>, durability: Option<PersistMode>) -> Result<()> {
        let mut batch = self.db.batch().durability(durability);
        for (key, value) in records {
            batch.insert(&self.records, key, value);
        }
        Ok(batch.commit()?)
    }
}

impl Engine for Fjall {
    const FACTS: Facts = Facts {
        compacts_beside: true,
        unflushed: Unflushed::Kept("in the journal, in the page cache of the system"),
        ..Facts::peer(
            "fjall",
            "fjall",
            "no compression, hash index in blocks, pinned filters and indexes, cache larger than the data",
        )
    };

    type Reader<'a> = View<'a>;

    fn open(folder: &Path, options: &OpenOptions) -> Result<Self> {
        let threads = std::thread::available_parallelism().map_or(2, |threads| threads.get());
        let db = Database::builder(folder).cache_size(options.cache).worker_threads(threads.max(2)).open()?;
        let setup = || {
            KeyspaceCreateOptions::default()
                .data_block_compression_policy(CompressionPolicy::disabled())
                .index_block_compression_policy(CompressionPolicy::disabled())
                .data_block_hash_ratio_policy(HashRatioPolicy::all(1.0))
                .filter_block_pinning_policy(PinningPolicy::all(true))
                .index_block_pinning_policy(PinningPolicy::all(true))
        };
        let records = db.keyspace("records", setup)?;
        Ok(Self { db, records })
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        let mut records = records.peekable();
        while records.peek().is_some() {
            self.write(records.by_ref().take(LOAD_BATCH), None)?;
        }
        self.flush()
    }

    fn put_durable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(std::iter::once((key, value)), Some(PersistMode::SyncData))
    }

    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.write(records, Some(PersistMode::SyncData))
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.records.insert(key, value)?)
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        for keys in keys.chunks(LOAD_BATCH) {
            let mut batch = self.db.batch();
            keys.iter().for_each(|key| batch.remove(&self.records, key.as_slice()));
            batch.commit()?;
        }
        self.flush()
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.persist(PersistMode::SyncData)?)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.records.len()? as u64)
    }

    fn reader(&self) -> Result<View<'_>> {
        Ok(View { records: &self.records })
    }

    fn settle(&self) -> Result<()> {
        while self.db.outstanding_flushes() > 0 || self.db.active_compactions() > 0 || self.records.sealed_memtable_count() > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    fn compact(self) -> Result<Self> {
        self.compact_beside()?;
        Ok(self)
    }

    fn compact_beside(&self) -> Result<()> {
        self.records.rotate_memtable_and_wait()?; // or else what is in memory would keep the removed records alive
        self.records.major_compact()?;
        Ok(())
    }

    fn close(self) -> Result<()> {
        self.flush()
    }
}

pub(crate) struct View<'a> {
    records: &'a Keyspace,
}

impl Reader for View<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        let value = self.records.get(key)?;
        Ok(value.map(|value| with(&value)).is_some())
    }

    fn range(&mut self, from: &[u8], count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut hits = 0;
        for record in self.records.range(from..).take(count) {
            let (key, value) = record.into_inner()?;
            each(&key, &value);
            hits += 1;
        }
        Ok(hits)
    }
}
