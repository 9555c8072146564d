//! How much room there is in free extents, and which of them are backed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use crate::frame::{FrameSpec, Kind, Meta};
use crate::log::Space;
use crate::storage::fault::{Effect, Fault, FaultStorage, Io};
use crate::storage::{MemoryStorage, Storage};
use alloc::boxed::Box;

/// Bytes of a segment that no record can take.
const TAKEN: u64 = SEGMENT_HEADER_LEN as u64 + TRAILER_LEN;

/// A store of one record, in extents of 4 KiB, and its medium.
fn store() -> (Db, FaultStorage<MemoryStorage>) {
    let medium = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(medium.clone())).unwrap();
    db.insert("a key", "value").unwrap();
    (db, medium)
}

/// Calls `run` while these extents are free ones, each backed or not, out of `total`.
fn with_free<T>(log: &Log, total: u32, free: &[(u32, bool)], run: impl FnOnce(&Log) -> T) -> T {
    let mut space = Space::new(log.geometry);
    space.total = total;
    free.iter().for_each(|&(extent, backed)| space.release(extent, 1, backed));
    let before = core::mem::replace(&mut log.tail.lock().space, space);
    let result = run(log);
    log.tail.lock().space = before;
    result
}

fn free(log: &Log) -> Vec<(u32, bool)> {
    log.tail.lock().space.all_free()
}

#[test]
fn of_each_free_extent_counts_what_records_of_a_length_certainly_leave_no_room_for() {
    let (db, _) = store();
    let log = &db.store().engine.log;
    let active = log.room_of_active();
    let room = |longest: u64| log.room_up_to(&log.tail.lock(), longest);
    with_free(log, 8, &[(3, true), (5, true), (6, false)], |_| {
        assert_eq!(room(1000), active - 1000 - RETIRE_ROOM + 2 * (4096 - TAKEN - 1000 - RETIRE_ROOM));
        // What is left of an extent in front of the retirement's room is one byte, then nothing.
        let most = 4096 - TAKEN - RETIRE_ROOM;
        assert_eq!((room(most - 1), room(most), room(most + 1)), (2, 0, 0));
        let fits = active - RETIRE_ROOM;
        let beyond = 2 * (most - fits);
        assert_eq!((room(fits - 1), room(fits), room(fits + 1)), (1 + beyond + 2, beyond, beyond - 2));
    });
}

#[test]
fn room_is_that_of_the_active_segment_and_half_of_what_is_backed_and_at_most_all_that_is_free() {
    let (db, _) = store();
    let log = &db.store().engine.log;
    let active = log.room_of_active();
    with_free(log, 8, &[(3, true), (5, true), (6, false)], |log| {
        assert_eq!(log.room(&log.tail.lock()), active + 4096);
        assert!(log.has_room(active + 4096) && !log.has_room(active + 4097));
        assert_eq!(log.room_at_most(), active + 3 * 4096);
    });
    let before = log.tail.lock().active.take();
    assert_eq!((log.room_of_active(), log.room_at_most()), (0, log.usage().free_bytes));
    log.tail.lock().active = before;
}

#[test]
fn extents_are_backed_from_the_front_until_there_are_so_many_bytes() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let unbacked = [(3, false), (4, true), (5, false), (6, false)];
    // The first one that is backed already counts.
    for (bytes, backed) in
        [(0, [false, true, false, false]), (1, [true, true, false, false]), (2 * 4096, [true, true, false, false])]
    {
        with_free(log, 7, &unbacked, |log| {
            log.back_front(bytes);
            assert_eq!(free(log).into_iter().map(|(_, is_backed)| is_backed).collect::<Vec<_>>(), backed, "{bytes} bytes");
        });
    }
    with_free(log, 7, &unbacked, |log| {
        log.back_front(2 * 4096 + 1);
        assert_eq!(free(log), [(3, true), (4, true), (5, true), (6, false)]);
        assert_eq!(medium.len().unwrap(), log.geometry.start(6), "up to the end of the last one");
        log.back_front(u64::MAX);
        assert_eq!((free(log), medium.len().unwrap()), ([3, 4, 5, 6].map(|extent| (extent, true)).into(), log.geometry.start(7)));
    });
}

#[test]
fn where_the_host_has_no_space_for_one_the_ones_behind_it_stay_as_they_are() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    with_free(log, 9, &[(5, false), (6, false), (7, false)], |log| {
        medium.set_capacity(Some(log.geometry.start(7) - 1));
        log.back_front(u64::MAX);
        assert_eq!(free(log), [(5, true), (6, false), (7, false)]);
        assert_eq!(medium.len().unwrap(), log.geometry.start(6));
        assert!(!log.is_poisoned());
    });
}

#[test]
fn a_reservation_that_finds_no_space_is_told_apart_from_one_that_fails() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let flags = || [&log.medium_full, &log.medium_was_full].map(|flag| flag.load(Ordering::Relaxed));
    assert_eq!(flags(), [false, false]);
    assert!(matches!(log.reserve(FILE_LEN_MAX - 1, FILE_LEN_MAX + 1), Err(Error::NoSpace)));
    assert_eq!(flags(), [false, false], "no medium was asked");
    let len = medium.len().unwrap();
    medium.set_capacity(Some(len));
    assert!(matches!(log.reserve(len, len + 1), Err(Error::NoSpace)));
    assert_eq!((flags(), log.is_poisoned()), ([true, true], false));
    medium.set_capacity(None);
    log.reserve(len, len + 1).unwrap();
    assert_eq!((flags(), medium.len().unwrap()), ([false, true], len + 1));
    medium.arm(Fault::nth(1, Io::Reserve, Effect::Error(StorageErrorKind::Other)));
    assert!(matches!(log.reserve(len, len + 2), Err(Error::Storage(_))));
    assert_eq!((flags(), log.is_poisoned()), ([true, true], true));
}

/// Extents of 4, 8, 16, 16, ... KiB.
#[test]
fn the_reserve_is_a_full_extent_or_the_last_one_of_a_file_without_any() {
    let builder = Db::builder().segment_size(16_384).entropy([7; 32]).background(false);
    let db = builder.in_memory().unwrap();
    db.insert("a key", "value").unwrap();
    let log = &db.store().engine.log;
    let from = |total: u32| with_free(log, total, &[], |log| log.reserve_extents().start);
    assert_eq!([0, 1, 2, 3, 4].map(from), [0, 0, 1, 2, 2]);
}

#[test]
fn so_many_bytes_are_secured_as_the_longest_extents_have_and_false_says_that_they_are_not() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    assert!(log.secure_free(3).unwrap());
    assert_eq!(log.tail.lock().space.backed_bytes(), 3 * 4096);
    let len = medium.len().unwrap();
    assert!(log.secure_free(3).unwrap());
    assert_eq!(medium.len().unwrap(), len, "there were so many");
    medium.set_capacity(Some(len + 4096));
    assert!(log.secure_free(4).unwrap() && !log.secure_free(5).unwrap());
    assert_eq!(medium.len().unwrap(), len + 4096);
}

/// A run that was taken for a write goes back, and so does what the file grew by.
#[test]
fn a_plan_that_finds_no_room_leaves_the_free_extents_as_they_were() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    assert!(log.secure_free(3).unwrap());
    let (before, len) = (free(log), medium.len().unwrap());
    medium.set_capacity(Some(len));
    let frame = |continues| FrameSpec { kind: Kind::Put, continues, meta: Meta::plain(0), key: b"key", value: &[1; 3000] };
    // One fits into the active segment, and one into each free one.
    let four = [frame(true), frame(true), frame(true), frame(false)];
    let mut placed = Vec::new();
    assert!(matches!(log.append(&four, Purpose::Store, &mut placed), Err(Error::NoSpace)));
    assert_eq!((free(log), medium.len().unwrap(), placed.len()), (before, len, 0));
    log.append(&four[1..], Purpose::Store, &mut placed).unwrap();
    assert_eq!((free(log).len(), placed.len()), (1, 3), "the reserve is left");
}

#[test]
fn extents_that_are_taken_are_backed_and_those_that_cannot_be_are_passed_over() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let take = |bytes: u64| log.take(&mut log.tail.lock(), bytes, Purpose::BookKeeping);
    let run = |extent, extents| Run { extent, extents, fresh: false, backed: true };
    let unbacked = [(3, false), (4, true), (5, false), (6, true), (7, true)];
    with_free(log, 9, &unbacked, |_| {
        let len = medium.len().unwrap();
        assert_eq!(take(1).unwrap(), run(3, 1));
        assert_eq!((medium.len().unwrap(), take(4096).unwrap()), (len.max(log.geometry.start(4)), run(4, 1)));
        assert_eq!(take(4097).unwrap(), run(5, 2));
        assert_eq!(free(log), [(7, true)]);
    });
    with_free(log, 9, &unbacked, |log| {
        medium.inner().set_len(log.geometry.start(3)).unwrap();
        medium.set_capacity(Some(log.geometry.start(3)));
        assert_eq!(take(1).unwrap(), run(4, 1), "the host has no space for the first one");
        assert_eq!(free(log), [(3, false), (5, false), (6, true), (7, true)]);
        assert!(matches!(take(4 * 4096), Err(Error::NoSpace)));
        assert_eq!(free(log), [(3, false), (5, false), (6, true), (7, true)]);
    });
    core::mem::forget(db);
}
