//! emdb: an append-only log with a hash index in memory, mapped for reading. The closest relative.
//!
//! Tuning: `insert_many` in portions of 50,000 for the load, as its own benchmark does; reads without a copy through `get_zerocopy`; its
//! index for ranges only where ranges are read, because it costs every other phase. Flushes of several threads share a sync by
//! themselves. The `ttl` feature is off. Its io_uring submission thread (`iouring_sqpoll`) stays off: on two cores it takes one of them.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use emdb::{Emdb, FlushPolicy};
use std::path::Path;

const LOAD_BATCH: usize = 50_000;

pub(crate) struct EmdbEngine {
    db: Emdb,
}

impl Engine for EmdbEngine {
    const FACTS: Facts = Facts {
        order_optional: true,
        unflushed: Unflushed::Kept("in the log, in the page cache of the system"),
        ..Facts::peer("emdb", "emdb", "insert_many of 50,000 to load, zero-copy reads, range index only for ranges and events")
    };

    type Reader<'a> = View<'a>;

    fn open(folder: &Path, options: &OpenOptions) -> Result<Self> {
        let builder = Emdb::builder().path(folder.join("store.emdb")).flush_policy(FlushPolicy::Group);
        Ok(Self { db: builder.enable_range_scans(options.ordered).build()? })
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        let mut records = records.peekable();
        while records.peek().is_some() {
            self.db.insert_many(records.by_ref().take(LOAD_BATCH))?;
        }
        self.flush()
    }

    fn batch_durable<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        self.db.insert_many(records)?;
        self.flush()
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        Ok(self.db.insert(key, value)?)
    }

    fn remove(&self, keys: &[Key]) -> Result<()> {
        for key in keys {
            self.db.remove(key)?;
        }
        self.flush()
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }

    fn len(&self) -> Result<u64> {
        Ok(self.db.len()? as u64)
    }

    fn reader(&self) -> Result<View<'_>> {
        Ok(View { db: &self.db })
    }

    fn compact(self) -> Result<Self> {
        self.db.compact()?;
        self.flush()?;
        Ok(self)
    }

    fn close(self) -> Result<()> {
        Ok(self.db.checkpoint()?)
    }
}

pub(crate) struct View<'a> {
    db: &'a Emdb,
}

impl Reader for View<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        let value = self.db.get_zerocopy(key)?;
        Ok(value.map(|value| with(value.as_slice())).is_some())
    }

    fn range(&mut self, from: &[u8], count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut hits = 0;
        for (key, value) in self.db.iter_from(from)?.take(count) {
            each(&key, &value);
            hits += 1;
        }
        Ok(hits)
    }
}
