//! What copies with an origin say, and what a copy leaves behind that could not be written.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use crate::frame::{Kind, Meta};
use crate::storage::fault::{Effect, Fault, FaultStorage, Io};
use crate::storage::{MemoryStorage, StorageErrorKind};
use alloc::boxed::Box;

/// A store of one record, and its medium.
fn store() -> (Db, FaultStorage<MemoryStorage>) {
    let medium = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(medium.clone())).unwrap();
    db.insert("a key", alloc::vec![1; 1000]).unwrap();
    (db, medium)
}

fn frame(value: &[u8]) -> FrameSpec<'_> {
    FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: b"key", value }
}

/// What of the log an append changes: its segments, and where it ends.
fn state(log: &Log) -> (Vec<u64>, Option<u64>, u64) {
    let tail = log.tail.lock();
    (tail.segments.values().map(|segment| segment.base).collect(), tail.active.map(|active| active.position), log.end())
}

#[test]
fn a_copy_carries_the_distance_to_where_its_record_was_first_written() {
    // In the active segment, and in the next one.
    for (len, segments) in [(100, 1), (3000, 2)] {
        let (db, _medium) = store();
        let log = &db.store().engine.log;
        let (value, begin) = (alloc::vec![2; len], log.end() - 10);
        let placed = log.append_with_origin(&frame(&value), begin, Purpose::Store).unwrap();
        let copy = log.frame(placed.offset).unwrap();
        assert!(copy.check().is_ok() && copy.header.copied && copy.header.has_origin());
        assert_eq!((copy.key(), copy.value(), copy.header.frame_len() as u64), (b"key".as_slice(), &*value, placed.len));
        assert_eq!(log.begin_of(placed.offset).unwrap(), (begin, true));
        assert_eq!((log.segment_count(), log.end()), (segments, log.lsn(placed.offset) + placed.len));
    }
}

#[test]
fn a_copy_that_cannot_be_written_leaves_the_end_of_the_log_where_it_was() {
    for len in [100, 3000] {
        for nth in 1.. {
            let (db, medium) = store();
            let log = &db.store().engine.log;
            let before = state(log);
            medium.arm(Fault::nth(nth, Io::Write, Effect::Error(StorageErrorKind::Other)));
            let value = alloc::vec![2; len];
            if log.append_with_origin(&frame(&value), 5, Purpose::Store).is_ok() {
                assert!(nth > if len == 100 { 1 } else { 3 });
                break;
            }
            assert_eq!((state(log), log.is_poisoned()), (before, true), "write {nth}");
            assert!(log.tail.lock().scratch.is_empty());
        }
    }
}

#[test]
fn copies_go_together_one_behind_the_other_where_they_fit() {
    let (db, _medium) = store();
    let log = &db.store().engine.log;
    let values = [alloc::vec![2; 300], alloc::vec![3; 400], alloc::vec![4; 900]];
    let begins = [Some(log.end() - 10), None, Some(log.end() - 20)];
    let copies = |count: usize| {
        let all = values.iter().zip(begins).map(|(value, begin)| Dated { frame: frame(value), begin });
        all.take(count).collect::<Vec<_>>()
    };
    let (end, mut room) = (log.end(), Vec::new());
    let placed = log.append_dated(&copies(3), &mut room, Purpose::Store).unwrap().unwrap();
    let mut lsn = end;
    for ((placed, value), begin) in placed.iter().zip(&values).zip(begins) {
        let copy = log.frame(placed.offset).unwrap();
        assert!(copy.check().is_ok() && copy.header.copied);
        assert_eq!((copy.value(), copy.header.has_origin()), (value.as_slice(), begin.is_some()));
        assert_eq!((log.lsn(placed.offset), copy.header.frame_len() as u64), (lsn, placed.len));
        if let Some(begin) = begin {
            assert_eq!(log.begin_of(placed.offset).unwrap(), (begin, true));
        }
        lsn += placed.len;
    }
    assert_eq!((placed.len(), log.end()), (3, lsn));
    let end = log.end();
    assert!(log.append_dated(&copies(3), &mut room, Purpose::Store).unwrap().is_none(), "they do not fit");
    assert_eq!((log.end(), log.segment_count()), (end, 1));
}

#[test]
fn what_is_no_copy_begins_where_it_stands() {
    let (db, _medium) = store();
    let log = &db.store().engine.log;
    let first = log.segments()[0].first_frame(log.geometry);
    assert_eq!(log.begin_of(first).unwrap(), (log.lsn(first), false));
    let extent = log.segments()[0].extent;
    assert_eq!(log.lsn(first) - log.lsn(log.geometry.start(extent)), crate::log::SEGMENT_HEADER_LEN as u64);
}
