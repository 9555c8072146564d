//! sled: a log-structured B-link tree; its last stable release.
//!
//! Tuning: cache larger than the data; mode for high throughput; no compression; batches of 10,000 for load and removals. Single puts stay in
//! buffers of the process until a flush, its own of every 500 ms included, so they do not survive a kill. A flush ends in
//! `sync_file_range`, so what it calls durable is not. It has no compaction that could be
//! asked for, and counts its records by walking over them.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use sled::{Batch, Config, Db, Mode};
use std::path::Path;

const BATCH: usize = 10_000;

pub(crate) struct Sled {
    db: Db,
}

impl Sled {
    fn insert<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        let mut batch = Batch::default();
        for (key, value) in records {
            batch.insert(key, value);
        }
        Ok(self.db.apply_batch(batch)?)
    }
}

impl Engine for Sled {
    const FACTS: Facts = Facts {
        compacts: false,
        sync_gap: Some("it syncs by sync_file_range, which leaves data in the cache of the drive and says nothing of metadata"),
        unflushed: Unflushed::Lost("writes wait in buffers of the process for a flush"),
        ..Facts::peer(
            "sled",
            "sled",
            "cache larger than the data, high throughput mode, no compression, batches of 10,000 to load",
        )
    };

    type Reader<'a> = View<'a>;

    fn open(folder: &Path, options: &OpenOptions) -> Result<Self> {
        let setup = Config::new().path(folder.join("store.sled")).cache_capacity(options.cache);
        Ok(Self { db: setup.mode(Mode::HighThroughput).use_compression(false).open()? })
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        let mut records = records.peekable();
        while records.peek().is_some() {
            self.insert(records.by_ref().take(BATCH))?;
        }
        self.flush()
    }

    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.insert(records)?;
        self.flush()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.insert(key, value)?;
        Ok(())
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        for keys in keys.chunks(BATCH) {
            let mut batch = Batch::default();
            keys.iter().for_each(|key| batch.remove(key));
            self.db.apply_batch(batch)?;
        }
        self.flush()
    }

    fn flush(&self) -> Result<()> {
        self.db.flush()?;
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.db.len() as u64)
    }

    fn reader(&self) -> Result<View<'_>> {
        Ok(View { db: &self.db })
    }

    fn compact(self) -> Result<Self> {
        Ok(self)
    }

    fn close(self) -> Result<()> {
        self.flush()
    }
}

pub(crate) struct View<'a> {
    db: &'a Db,
}

impl Reader for View<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        let value = self.db.get(key)?;
        Ok(value.map(|value| with(&value)).is_some())
    }

    fn range(&mut self, from: &[u8], count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut hits = 0;
        for record in self.db.range(from..).take(count) {
            let (key, value) = record?;
            each(&key, &value);
            hits += 1;
        }
        Ok(hits)
    }
}
