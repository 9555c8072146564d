//! UmaDB's storage engine, in the same process: an event store for conditions over types and tags. It takes part in the rows about events only.
//!
//! Tuning: a commit for each batch; events without tags, which would cost it an index more. Its reads hand out copies.

use crate::Result;
use crate::data::{Key, Pair};
use crate::engine::{Engine, Facts, OpenOptions, Reader, Unflushed};
use std::path::Path;
use std::sync::Arc;
use umadb_core::db::UmaDb;
use umadb_core::mvcc::{Mvcc, StorageOptions};
use umadb_dcb::{DcbEvent, DcbEventStoreSync};

/// Events that are read at a time: a read without a limit brings all into memory.
const TOGETHER: u32 = 1_000;

pub(crate) struct Uma {
    store: UmaDb,
}

fn events_only<T>() -> Result<T> {
    Err("UmaDB stores events only".into())
}

impl Engine for Uma {
    const FACTS: Facts = Facts {
        pairs: false,
        streams: false,
        compacts: false,
        unflushed: Unflushed::Kept("every commit syncs"),
        ..Facts::peer("umadb", "umadb-core", "its storage engine in the process; a batch for each commit, no tags")
    };

    type Reader<'a> = View;

    fn open(folder: &Path, _: &OpenOptions) -> Result<Self> {
        let options = StorageOptions::default().db_path(folder);
        Ok(Self { store: UmaDb::from_arc(Arc::new(Mvcc::new(false, options)?)) })
    }

    fn load<'r>(&self, _: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        events_only()
    }

    fn put_durable(&self, _: &[u8], _: &[u8]) -> Result<()> {
        events_only()
    }

    fn batch_durable<'r>(&self, _: impl Iterator<Item = Pair<'r>>) -> Result<()> {
        events_only()
    }

    fn put(&self, _: &[u8], _: &[u8]) -> Result<()> {
        events_only()
    }

    fn remove(&self, _: &[Key]) -> Result<()> {
        events_only()
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.store.head()?.unwrap_or(0))
    }

    fn reader(&self) -> Result<View> {
        events_only()
    }

    fn compact(self) -> Result<Self> {
        Ok(self)
    }

    fn append_events(&mut self, _: u64, events: &[Vec<u8>]) -> Result<()> {
        let event = |data: &Vec<u8>| DcbEvent { event_type: "E".to_owned(), data: data.clone(), ..DcbEvent::default() };
        self.store.append(events.iter().map(event).collect(), None, None)?;
        Ok(())
    }

    fn get_event(&self, number: u64, found: impl FnOnce(&[u8])) -> Result<bool> {
        let event = self.store.read(None, Some(number + 1), false, Some(1))?.next_batch()?.into_iter().next();
        let is_there = event.is_some();
        if let Some(event) = event {
            found(&event.event.data);
        }
        Ok(is_there)
    }

    fn each_event(&self, _: usize, mut each: impl FnMut(&[u8])) -> Result<usize> {
        let mut next = 1;
        loop {
            let events = self.store.read(None, Some(next), false, Some(TOGETHER))?.next_batch()?;
            if events.is_empty() {
                return Ok(next as usize - 1);
            }
            events.iter().for_each(|event| each(&event.event.data));
            next += events.len() as u64;
        }
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

pub(crate) struct View;

impl Reader for View {
    fn get(&mut self, _: &[u8], _: impl FnOnce(&[u8])) -> Result<bool> {
        events_only()
    }
}
