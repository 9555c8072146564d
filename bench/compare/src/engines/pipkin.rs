//! pipkin itself.
//!
//! Default options; the log is the store, so a load is a run of commits, of a thousand records or, with the ordered index, of fifty thousand.
//! Single puts without a flush go to the page cache of the system, where a killed process leaves them.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use pipkin::{Db, Events, Expected, FlushPolicy, IndexMemory, NewEvent};
use std::path::Path;
use std::sync::OnceLock;

/// Records of one commit of the load and of the removals: enough for their cost to be that of the records, few enough to stay in the cache.
const LOAD_BATCH: usize = 1_000;
/// The same where the ordered index is on: keys of one commit that belong beside each other are entered at once.
const ORDERED_BATCH: usize = 50_000;
/// The log of events, and the stream that all of them are in.
const LOG: &str = "events";
const STREAM: &str = "stream";

pub(crate) struct Pipkin {
    db: Db,
    /// The log of the events, as the peers keep theirs: looking its name up is no part of a read.
    log: OnceLock<Events>,
    /// Records of one commit.
    batch: usize,
}

impl Pipkin {
    fn log(&self) -> Result<&Events> {
        if let Some(log) = self.log.get() {
            return Ok(log);
        }
        let log = self.db.events(LOG)?;
        Ok(self.log.get_or_init(|| log))
    }
}

impl Engine for Pipkin {
    const FACTS: Facts = Facts {
        peer: false,
        order_optional: true,
        compacts_beside: true,
        unflushed: Unflushed::Kept("in the log, in the page cache of the system"),
        ..Facts::peer(
            "pipkin",
            "pipkin",
            "defaults: shared syncs, checksums on reads; the index in the file where the data are larger than the memory",
        )
    };

    type Reader<'a> = View<'a>;

    fn open(folder: &Path, options: &OpenOptions) -> Result<Self> {
        let builder = Db::builder().path(folder.join("store.pipkin")).flush_policy(FlushPolicy::Group);
        let newer_max = options.cache / 2;
        let builder = if options.little_memory() { builder.index_memory(IndexMemory::InFile { newer_max }) } else { builder };
        let batch = if options.ordered { ORDERED_BATCH } else { LOAD_BATCH };
        Ok(Self { db: builder.verify_on_read(options.verify).ordered(options.ordered).open()?, log: OnceLock::new(), batch })
    }

    fn load<'r>(&self, records: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        let mut records = records.peekable();
        while records.peek().is_some() {
            self.db.insert_many(records.by_ref().take(self.batch))?;
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
        for keys in keys.chunks(self.batch) {
            self.db.remove_many(keys)?;
        }
        self.flush()
    }

    fn flush(&self) -> Result<()> {
        self.db.flush()?;
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.db.len()?)
    }

    fn reader(&self) -> Result<View<'_>> {
        Ok(View { db: &self.db })
    }

    fn compact(self) -> Result<Self> {
        self.compact_beside()?;
        Ok(self)
    }

    fn compact_beside(&self) -> Result<()> {
        self.db.compact()?;
        Ok(())
    }

    fn index_bytes(&self) -> Option<u64> {
        Some(self.db.stats().ok()?.index_bytes)
    }

    fn append_events(&mut self, _: u64, events: &[Vec<u8>]) -> Result<()> {
        let new = events.iter().map(|event| NewEvent::new("event", event.as_slice()));
        self.log()?.append(STREAM, Expected::Any, new)?;
        self.flush()
    }

    fn get_event(&self, number: u64, found: impl FnOnce(&[u8])) -> Result<bool> {
        Ok(self.log()?.get_with(STREAM, number + 1, |event| found(event.payload()))?.is_some())
    }

    fn each_event(&self, _: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut hits = 0;
        self.log()?.all().for_each(|event| {
            each(event.payload());
            hits += 1;
        })?;
        Ok(hits)
    }

    fn append_to(&mut self, stream: u64, _: u64, events: &[Vec<u8>]) -> Result<()> {
        let new = events.iter().map(|event| NewEvent::new("event", event.as_slice()));
        self.log()?.append(&stream.to_string(), Expected::Any, new)?;
        self.flush()
    }

    fn append_among(&mut self, stream: u64, _: u64, event: &[u8], records: &[(Key, &[u8])]) -> Result<()> {
        self.log()?.append(&stream.to_string(), Expected::Any, [NewEvent::new("event", event)])?;
        records.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    fn each_of(&self, stream: u64, _: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut hits = 0;
        self.log()?.stream(stream.to_string()).for_each(|event| {
            each(event.payload());
            hits += 1;
        })?;
        Ok(hits)
    }

    fn close(self) -> Result<()> {
        Ok(self.db.close()?)
    }
}

pub(crate) struct View<'a> {
    db: &'a Db,
}

impl Reader for View<'_> {
    #[inline]
    fn get(&mut self, key: &[u8], with: impl FnOnce(&[u8])) -> Result<bool> {
        let value = self.db.get_zerocopy(key)?;
        Ok(value.map(|value| with(&value)).is_some())
    }

    fn get_many(&mut self, keys: &[Key], mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut hits = 0;
        self.db.get_many_with(keys, |_, value| {
            if let Some(value) = value {
                hits += 1;
                each(value);
            }
        })?;
        Ok(hits)
    }

    fn range(&mut self, from: &[u8], count: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<usize> {
        let mut hits = 0;
        if count > 0 {
            self.db.range_with(from.., |key, value| {
                each(key, value);
                hits += 1;
                hits < count
            })?;
        }
        Ok(hits)
    }
}
