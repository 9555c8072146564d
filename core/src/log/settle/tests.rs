//! What an unclean end leaves to be written again, and what of it may be damaged.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use crate::storage::fault::FaultStorage;
use crate::storage::{MemoryStorage, Storage};
use alloc::boxed::Box;

type Medium = FaultStorage<MemoryStorage>;

fn opened(medium: &Medium) -> Db {
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    builder.open_storage(Box::new(medium.clone())).unwrap()
}

#[test]
fn a_log_is_settled_but_behind_an_unclean_end_until_something_is_written() {
    let medium = FaultStorage::new(MemoryStorage::new());
    let is_settled = |db: &Db| db.store().engine.log.is_settled();
    let db = opened(&medium);
    assert!(is_settled(&db));
    db.insert("a", "1").unwrap();
    assert!(is_settled(&db));
    core::mem::forget(db);
    let db = opened(&medium);
    assert!(!is_settled(&db));
    db.insert("b", "2").unwrap();
    assert!(is_settled(&db));
    db.close().unwrap();
    let db = opened(&medium);
    assert!(is_settled(&db));
    let (superblock, image) = (db.store().engine.log.superblock(), medium.inner().to_vec());
    db.flush().unwrap();
    assert_eq!(
        (db.store().engine.log.superblock(), medium.inner().to_vec()),
        (superblock, image),
        "nothing is there to be synced"
    );
}

#[test]
fn settling_syncs_what_was_found_and_only_once() {
    let medium = FaultStorage::new(MemoryStorage::new());
    let db = opened(&medium);
    db.insert("a", "1").unwrap();
    core::mem::forget(db);
    let db = opened(&medium);
    let log = &db.store().engine.log;
    assert!(log.sync_state.synced() < log.end() && !log.tail.lock().unproven.is_empty());
    medium.reset_counts();
    log.settle(&mut log.tail.lock()).unwrap();
    assert_eq!((medium.counts().syncs, log.sync_state.synced(), log.is_settled()), (1, log.end(), true));
    assert!(log.tail.lock().unproven.is_empty() && medium.counts().writes > 0);
    log.settle(&mut log.tail.lock()).unwrap();
    assert_eq!(medium.counts().syncs, 1);
    core::mem::forget(db);
}

/// Bytes of a frame of the log below, about.
const EACH: usize = 800;

/// A log of three records, where they begin, and the segment that has them.
fn three() -> (Db, Medium, [u64; 3], Segment) {
    let medium = FaultStorage::new(MemoryStorage::new());
    let db = opened(&medium);
    (0..3_u8).for_each(|key| db.insert([key], [key + 1; EACH]).unwrap());
    let log = &db.store().engine.log;
    let segment = log.segments()[0];
    let first = segment.first_frame(log.geometry);
    let len = log.header(first).unwrap().frame_len() as u64;
    assert_eq!(segment.end, first + 3 * len);
    (db, medium, [first, first + len, first + 2 * len], segment)
}

/// Where the log is damaged that is written again from an offset on, with the bytes at these offsets changed.
fn damage(proven_to: impl Fn([u64; 3], &Segment) -> u64, changed: &[usize]) -> Option<usize> {
    let (db, medium, records, segment) = three();
    let log = &db.store().engine.log;
    for &record in changed {
        medium.write_at(records[record] + 300, &[&[99]]).unwrap();
    }
    log.sync_state.start_at(segment.lsn(log.geometry, proven_to(records, &segment)));
    let result = log.write_again(&segment);
    core::mem::forget(db);
    match result {
        Ok(()) => None,
        Err(Error::Corrupt { offset, .. }) => records.iter().position(|&record| record == offset),
        Err(_) => Some(9),
    }
}

#[test]
fn damage_in_front_of_what_is_proven_is_passed_over_and_behind_it_found() {
    assert_eq!(damage(|records, _| records[1], &[]), None);
    assert_eq!(damage(|records, _| records[1], &[0]), None, "up to the record behind it");
    assert_eq!(damage(|records, _| records[1] - 1, &[0]), Some(0), "it ends in what is not proven");
    assert_eq!(damage(|records, _| records[1], &[1]), Some(1));
    assert_eq!(damage(|records, _| records[1], &[0, 2]), Some(2));
    assert_eq!(damage(|records, _| records[2], &[0, 1]), None);
    assert_eq!(damage(|records, _| records[2] - 1, &[0, 1]), Some(0), "what follows both is not proven");
    assert_eq!(damage(|_, segment| segment.end, &[2]), None);
    assert_eq!(damage(|_, segment| segment.end - 1, &[2]), Some(2));
    assert_eq!(damage(|_, segment| segment.end, &[0, 1, 2]), None);
}

#[test]
fn so_much_is_written_again_as_is_not_proven_and_a_trailer_that_names_a_segment() {
    let (db, medium, records, segment) = three();
    let log = &db.store().engine.log;
    let written = |proven_to: u64, linked: bool| {
        log.sync_state.start_at(segment.lsn(log.geometry, proven_to));
        medium.reset_counts();
        log.write_again(&Segment { linked, ..segment }).unwrap();
        medium.counts().bytes_written
    };
    assert_eq!([records[1], records[2]].map(|from| written(from, false)), [segment.end - records[1], segment.end - records[2]]);
    assert_eq!([segment.end - 1, segment.end, segment.end + 1].map(|from| written(from, false)), [1, 0, 0]);
    assert_eq!(written(segment.end, true), super::super::TRAILER_LEN);
    log.sync_state.start_at(0);
    medium.reset_counts();
    log.write_again(&segment).unwrap();
    assert_eq!(medium.counts().bytes_written, segment.end - log.geometry.start(segment.extent), "the header, too");
    core::mem::forget(db);
}

#[test]
fn a_segment_whose_header_is_another_ones_is_damaged() {
    let (db, medium, _, segment) = three();
    let log = &db.store().engine.log;
    let start = log.geometry.start(segment.extent);
    let refused = |segment: &Segment| matches!(log.write_again(segment), Err(Error::Corrupt { offset, .. }) if offset == start);
    log.sync_state.start_at(segment.next_base(log.geometry));
    assert!(!refused(&segment) && refused(&Segment { salt: segment.salt + 1, ..segment }));
    medium.write_at(start, &[&[0; super::super::SEGMENT_HEADER_LEN]]).unwrap();
    assert!(refused(&segment), "it has none");
    core::mem::forget(db);
}
