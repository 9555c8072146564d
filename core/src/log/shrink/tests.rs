//! What of the free extents goes back to the host, and what stays.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
use super::super::Space;
use super::*;
use crate::Db;
use crate::log::SnapshotSegment;
use crate::storage::fault::FaultStorage;
use crate::storage::{MemoryStorage, Storage};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A store of one record, in extents of 4 KiB, whose file has ten, and its medium.
fn store() -> (Db, FaultStorage<MemoryStorage>) {
    let medium = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(medium.clone())).unwrap();
    db.insert("a key", "value").unwrap();
    medium.set_len(db.store().engine.log.geometry.start(10)).unwrap();
    (db, medium)
}

/// Which extents are in the file and free, each backed or not, behind a call with these ones of ten.
fn after(free: &[(u32, bool)], listed: u32, call: impl FnOnce(&Log)) -> (u32, Vec<(u32, bool)>) {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let mut space = Space::new(log.geometry);
    (space.total, space.listed) = (10, listed);
    free.iter().for_each(|&(extent, backed)| space.release(extent, 1, backed));
    log.tail.lock().space = space;
    call(log);
    let tail = log.tail.lock();
    assert_eq!(medium.len().unwrap(), log.geometry.start(tail.space.total));
    let result = (tail.space.total, tail.space.all_free());
    drop(tail);
    core::mem::forget(db);
    result
}

#[test]
fn of_what_is_free_one_extent_stays_as_the_reserve() {
    let shrunk = |free: &[(u32, bool)], listed: u32| after(free, listed, |log| log.shrink().unwrap());
    assert_eq!(shrunk(&[(7, true), (8, true), (9, true)], 0), (8, [(7, true)].into()));
    assert_eq!(shrunk(&[(9, true)], 0), (10, [(9, true)].into()));
    assert_eq!(shrunk(&[(2, true), (8, true), (9, true)], 0), (8, [(2, true)].into()), "another one is the reserve");
    assert_eq!(shrunk(&[(2, true), (3, true), (9, true)], 0), (9, [(2, true), (3, false)].into()), "and one more is discarded");
    assert_eq!(
        shrunk(&[(7, true), (8, true), (9, true)], 9),
        (9, [(7, true), (8, false)].into()),
        "a list names extents up to there"
    );
    assert_eq!(shrunk(&[], 0), (10, [].into()));
}

#[test]
fn blocks_are_given_back_from_the_end_but_for_what_is_to_be_kept() {
    let given = |kept: u64| {
        let free = [(2, true), (3, false), (4, true), (6, true)];
        let (_, left) = after(&free, 0, |log| log.give_back(kept));
        left.into_iter().filter(|(_, is_backed)| *is_backed).map(|(extent, _)| extent).collect::<Vec<_>>()
    };
    assert_eq!(
        [0, 1, 4096, 4097, 3 * 4096].map(given),
        [[].into(), [2].into(), [2].into(), [2, 4].into(), [2, 4, 6].into()] as [Vec<u32>; 5]
    );
}

#[test]
fn each_extent_that_is_given_back_is_discarded_once() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let mut space = Space::new(log.geometry);
    space.total = 10;
    [2, 3, 6].into_iter().for_each(|extent| space.release(extent, 1, true));
    log.tail.lock().space = space;
    medium.reset_counts();
    log.give_back(4096);
    assert_eq!(medium.counts().discards, 2);
    log.give_back(4096);
    assert_eq!(medium.counts().discards, 2);
    log.give_back(0);
    assert_eq!(medium.counts().discards, 3);
    core::mem::forget(db);
}

#[test]
fn a_snapshot_at_the_end_moves_down_to_a_run_in_front_of_it_that_is_as_long() {
    let (db, _) = store();
    let log = &db.store().engine.log;
    let could = |free: &[u32], snapshot: &[(u32, u32)]| {
        let mut space = Space::new(log.geometry);
        space.total = 10;
        free.iter().for_each(|&extent| space.release(extent, 1, true));
        let segment = |&(extent, extents): &(u32, u32)| SnapshotSegment { extent, extents, salt: 1, end: 0, own: true };
        let mut tail = log.tail.lock();
        (tail.space, tail.snapshot) = (space, snapshot.iter().map(segment).collect());
        drop(tail);
        log.snapshot_could_move_down()
    };
    assert!(could(&[2, 3], &[(8, 2)]) && could(&[2, 3, 9], &[(7, 2)]) && could(&[2], &[(1, 1), (9, 1)]));
    assert!(!could(&[2], &[(8, 2)]), "too short");
    assert!(!could(&[2, 3], &[(7, 2)]), "something is behind it");
    assert!(!could(&[2, 3], &[]) && !could(&[8, 9], &[(6, 2)]));
    core::mem::forget(db);
}

/// How long the file is behind a trim of so many extents of 4 KiB, without what is in front of them, and how many ranges were discarded.
fn trimmed(total: u32, snapshot: &[(u32, u32, u64)], active: Option<(u32, u32, u64)>) -> (u64, u64) {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let start = |extent: u32| log.geometry.start(extent);
    let mut space = Space::new(log.geometry);
    space.total = total;
    medium.set_len(start(total)).unwrap();
    {
        let mut tail = log.tail.lock();
        let segment = |&(extent, extents, used): &(u32, u32, u64)| SnapshotSegment {
            extent,
            extents,
            salt: 1,
            end: start(extent) + used,
            own: true,
        };
        (tail.space, tail.snapshot) = (space, snapshot.iter().map(segment).collect());
        let mut last = tail.active.unwrap();
        tail.active = active.map(|(extent, extents, used)| {
            (last.segment.extent, last.segment.extents, last.position) = (extent, extents, start(extent) + used);
            last
        });
    }
    medium.reset_counts();
    log.trim().unwrap();
    let result = (medium.len().unwrap() - start(0), medium.counts().discards);
    core::mem::forget(db);
    result
}

#[test]
fn on_closing_the_file_is_cut_behind_the_last_byte_in_its_last_extent() {
    const LAST: u64 = 9 * 4096;
    let len = |snapshot: &[(u32, u32, u64)], active| trimmed(10, snapshot, active).0;
    // A snapshot ends there, with a byte of it or more.
    assert_eq!([1, 100, 4095, 4096].map(|used| len(&[(9, 1, used)], None)), [1, 100, 4095, 4096].map(|used| LAST + used));
    assert_eq!([4096, 4097, 2 * 4096].map(|used| len(&[(8, 2, used)], None)), [10 * 4096, LAST + 1, 10 * 4096]);
    assert_eq!(len(&[(9, 1, 50), (2, 1, 4096)], None), LAST + 50);
    assert_eq!((len(&[(2, 1, 100)], None), len(&[], None)), (10 * 4096, 10 * 4096), "nothing that it has ends there");
    // The log does: at least a byte of the last extent stays.
    assert_eq!([1, 100, 4096].map(|used| len(&[], Some((9, 1, used)))), [1, 100, 4096].map(|used| LAST + used));
    assert_eq!([4000, 4096, 4097, 4098].map(|used| len(&[], Some((8, 2, used)))), [1, 1, 1, 2].map(|used| LAST + used));
    assert_eq!((len(&[], Some((8, 1, 100))), len(&[(9, 1, 70)], Some((8, 1, 100)))), (10 * 4096, LAST + 70));
}

#[test]
fn long_unused_ends_in_front_of_the_last_extent_are_discarded() {
    let least = REST_LEAST / BLOCK;
    let (total, long) = (40, least as u32 + 3);
    let discards = |snapshot: &[(u32, u32, u64)], active| trimmed(total, snapshot, active).1;
    let last = total - long;
    // From the next block on.
    for (used, expected) in [(3 * BLOCK - 1, 1), (3 * BLOCK, 1), (3 * BLOCK + 1, 0)] {
        assert_eq!(discards(&[(2, long, used)], None), expected, "behind {used} bytes of a snapshot");
        assert_eq!(discards(&[], Some((2, long, used))), expected, "behind {used} bytes of the log");
        assert_eq!((discards(&[(last, long, used)], None), discards(&[], Some((last, long, used)))), (0, 0), "that is cut");
    }
    assert_eq!(discards(&[(2, long, 1), (last, long, 1)], Some((2, long, 1))), 2);
}
