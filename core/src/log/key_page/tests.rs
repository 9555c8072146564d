//! What is overwritten with zeros, and what is only read.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use crate::storage::fault::FaultStorage;
use crate::storage::{MemoryStorage, Storage};
use alloc::boxed::Box;

/// A store of three full segments and one that takes appends, and its medium.
fn store() -> (Db, FaultStorage<MemoryStorage>) {
    let medium = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(medium.clone())).unwrap();
    (0..4_u8).for_each(|key| db.insert([key], alloc::vec![key + 1; 3_000]).unwrap());
    (db, medium)
}

/// The bytes from a place on.
fn bytes(medium: &impl Storage, from: u64, len: usize) -> Vec<u8> {
    let mut bytes = alloc::vec![0; len];
    medium.read_at(from, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_range_is_wiped_up_to_its_end_and_what_is_zero_is_not_written() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let (front, len) = (medium.len().unwrap(), 3 * WIPED);
    medium.write_at(front, &[&alloc::vec![1; len]]).unwrap();
    let mut expected = alloc::vec![1; len];
    let wiped = |from: usize, to: usize| {
        medium.reset_counts();
        log.wipe(front + from as u64, front + to as u64).unwrap();
        medium.counts().writes
    };
    assert_eq!((wiped(10, 10), wiped(10, 9)), (0, 0));
    assert_eq!((wiped(10, WIPED + 15), wiped(10, WIPED + 15)), (2, 0));
    expected[10..WIPED + 15].fill(0);
    assert_eq!(bytes(&medium, front, len), expected);
    // Only the piece that has something in it.
    medium.write_at(front + WIPED as u64 + 9, &[&[7]]).unwrap();
    assert_eq!((wiped(10, WIPED + 10), bytes(&medium, front, len)), (1, expected.clone()));
    // Up to the end of the file.
    assert_eq!(wiped(len - 5, len + 100), 1);
    expected[len - 5..].fill(0);
    assert_eq!((bytes(&medium, front, len), medium.len().unwrap()), (expected, front + len as u64));
    assert_eq!(wiped(len + 10, len + 100), 0);
    core::mem::forget(db);
}

#[test]
fn free_extents_are_wiped_and_stay_free_and_the_others_stay_as_they_are() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    assert!(log.secure_free(2).unwrap());
    let free = log.tail.lock().space.all_free();
    let start = |extent: u32| log.geometry.start(extent);
    free.iter().for_each(|&(extent, _)| medium.write_at(start(extent), &[&[9; 4096]]).unwrap());
    let used = bytes(&medium, start(0), start(free[0].0) as usize - start(0) as usize);
    log.wipe_free().unwrap();
    assert!(free.len() >= 2 && free.iter().all(|&(extent, _)| bytes(&medium, start(extent), 4096) == [0; 4096]));
    assert_eq!((log.tail.lock().space.all_free(), bytes(&medium, start(0), used.len())), (free, used));
}

#[test]
fn behind_a_snapshot_and_behind_torn_ends_is_wiped_what_nobody_keeps() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let front = log.geometry.start(20);
    medium.write_at(front, &[&[9; 3 * 4096]]).unwrap();
    let segment = SnapshotSegment { extent: 20, extents: 2, salt: 1, end: front + 100, own: true };
    log.tail.lock().snapshot = [segment].into();
    log.wipe_behind_snapshot().unwrap();
    assert_eq!(bytes(&medium, front, 3 * 4096), [&[9; 100], [0; 2 * 4096 - 100].as_slice(), &[9; 4096]].concat());
    let [first, second] = [log.ended_segments()[0], log.ended_segments()[1]];
    let behind = |segment: &Segment| bytes(&medium, segment.end, (segment.behind(log.geometry) - segment.end) as usize);
    // As a crash leaves them: the trailer of one names the next one.
    let torn = |segment: Segment, linked: bool| {
        let end = segment.limit(log.geometry) - 50;
        medium.write_at(end, &[&[9; 50 + TRAILER_LEN as usize]]).unwrap();
        let torn = Segment { end, linked, ..segment };
        log.tail.lock().segments.insert(segment.base, torn);
        torn
    };
    let (first, second) = (torn(first, true), torn(second, false));
    log.wipe_rests(&|segment| segment.base == second.base).unwrap();
    assert_eq!(behind(&first), [[0; 50].as_slice(), &[9; TRAILER_LEN as usize]].concat());
    assert_eq!(behind(&second), [9; 50 + TRAILER_LEN as usize]);
    log.wipe_rests(&|_| false).unwrap();
    assert_eq!(behind(&second), [0; 50 + TRAILER_LEN as usize]);
    core::mem::forget(db);
}

#[test]
fn the_last_trailer_is_wiped_where_no_segment_takes_appends() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    log.seal_active().unwrap();
    let at = log.tail.lock().previous.trailer.unwrap();
    let around = || bytes(&medium, at - 1, TRAILER_LEN as usize + 2);
    medium.write_at(at - 1, &[&[9; TRAILER_LEN as usize + 2]]).unwrap();
    let last = log.segments()[3];
    log.tail.lock().active = Some(super::super::Active::new(last, last.end, log.geometry, false));
    log.wipe_last_trailer().unwrap();
    assert_eq!(around(), [9; TRAILER_LEN as usize + 2]);
    log.tail.lock().active = None;
    log.wipe_last_trailer().unwrap();
    assert_eq!(around(), [&[9], [0; TRAILER_LEN as usize].as_slice(), &[9]].concat());
    core::mem::forget(db);
}

#[test]
fn segments_in_front_of_a_border_are_counted_and_those_that_are_retired_with_them() {
    let (db, _medium) = store();
    let engine = &db.store().engine;
    let log = &engine.log;
    let segments = log.segments();
    let [first, second] = [segments[0], segments[1]];
    assert_eq!((segments.len(), log.ended_segments().len(), log.has_retired()), (4, 3, false));
    let left = |border: u64| log.left_in_front_of(border);
    assert_eq!([first.base, first.base + 1, second.base, u64::MAX].map(left), [(0, 0), (1, 0), (1, 0), (4, 0)]);
    log.retire(&engine.pins, first).unwrap();
    assert!(log.has_retired());
    assert_eq!([first.base, second.base, second.base + 1].map(left), [(1, 0), (1, 0), (2, 0)]);
    log.follow(0, u64::MAX);
    log.retire(&engine.pins, second).unwrap();
    assert_eq!([second.base, second.base + 1].map(left), [(1, 0), (2, 4096)], "history");
    log.seal_active().unwrap();
    assert_eq!(log.ended_segments().len(), 2);
    core::mem::forget(db);
}
