//! Event streams.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

mod appending;
mod attacked;
mod following;
#[cfg(all(feature = "rkyv", feature = "typed"))]
mod payloads;
mod reading;
mod retention;

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Event, EventReader, FailedCheck};

fn open(file: &MemoryStorage) -> Db {
    Db::builder().segment_size(64 * 1024).open_storage(Box::new(file.clone())).unwrap()
}

fn read(reader: &EventReader) -> Vec<Event> {
    let events: Vec<Event> = reader.iter().unwrap().collect::<pipkin::Result<_>>().unwrap();
    let mut in_place = Vec::new();
    reader.for_each(|event| in_place.push(event.to_event())).unwrap();
    assert_eq!(in_place, events, "{reader:?}");
    events
}

fn refused(result: pipkin::Result<pipkin::Appended>) -> Vec<FailedCheck> {
    match result {
        Err(Error::AppendRefused { failed }) => failed.into_vec(),
        other => panic!("{other:?}"),
    }
}
