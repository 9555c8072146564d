//! What a checkpoint says in the superblock, and which extents of snapshots become free.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::super::Space;
use super::*;
use crate::Db;
use crate::storage::fault::FaultStorage;
use crate::storage::{MemoryStorage, Storage};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A store of three full segments and one that takes appends, and its medium.
fn store() -> (Db, FaultStorage<MemoryStorage>) {
    let medium = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(medium.clone())).unwrap();
    (0..3_u8).for_each(|key| db.insert([key], alloc::vec![key; 3_000]).unwrap());
    db.flush().unwrap();
    (db, medium)
}

#[test]
fn a_checkpoint_names_the_list_in_both_superblocks_and_how_far_the_log_is_synced() {
    let (db, _medium) = store();
    let log = &db.store().engine.log;
    let before = log.superblock();
    assert!(before.synced < log.sync_state.synced());
    let cut = log.cut(9).unwrap();
    let used = [SnapshotSegment { extent: 8, extents: 2, salt: 7, end: 0, own: true }];
    log.publish_checkpoint(&cut, None, &used, &[], &[]).unwrap();
    let place = CheckpointPlace { base: cut.segment.base, salt: cut.segment.salt, offset: cut.offset, directory: None };
    let expected = Superblock {
        generation: before.generation + 2,
        checkpoint: Some(place),
        synced: log.sync_state.synced(),
        headers: log.headers_so_far(),
        ..before
    };
    assert_eq!((log.superblock(), log.listed()), (expected, cut.listed));
    assert_eq!(log.snapshot_segments(), used);
    assert_eq!(log.replay_debt(), log.end() - cut.segment.lsn(log.geometry, cut.offset));
    core::mem::forget(db);
}

#[test]
fn the_floor_in_the_superblock_is_that_of_the_list_or_one_that_was_recorded_since() {
    let published = |in_front: &[usize], behind: Option<usize>| {
        let (db, _medium) = store();
        let log = &db.store().engine.log;
        let segments = log.segments();
        let set = |at: usize| {
            let floor = segments.get(at).map_or((0, 0), |segment| (segment.next_base(log.geometry), segment.salt));
            log.set_floor(floor, false).unwrap();
            floor.0
        };
        in_front.iter().for_each(|&at| _ = set(at));
        let cut = log.cut(9).unwrap();
        behind.into_iter().for_each(|at| _ = set(at));
        log.publish_checkpoint(&cut, None, &[], &[], &[]).unwrap();
        let floor = log.superblock().floor;
        core::mem::forget(db);
        segments.iter().position(|segment| segment.next_base(log_geometry()) == floor).ok_or(floor)
    };
    const NONE: usize = 99;
    assert_eq!((published(&[], None), published(&[0], None), published(&[0, 1], None)), (Err(0), Ok(0), Ok(1)));
    assert_eq!((published(&[0, NONE], None), published(&[0, NONE], Some(1))), (Err(0), Ok(1)));
    assert_eq!(published(&[0], Some(1)), Ok(0), "the next list names that one");
}

fn log_geometry() -> super::super::Geometry {
    super::super::Geometry::new(4096, 4096)
}

/// Which extents are free, each backed or not, behind a checkpoint whose snapshot is in `used`, and how many reservations that took.
fn freed(
    used: &[SnapshotSegment],
    before: &[SnapshotSegment],
    taken: &[SnapshotSegment],
    is_full: bool,
) -> (Vec<(u32, bool)>, u64) {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let cut = log.cut(9).unwrap();
    log.tail.lock().space = Space::new(log.geometry);
    if is_full {
        medium.set_capacity(Some(medium.len().unwrap()));
    }
    medium.reset_counts();
    log.publish_checkpoint(&cut, None, used, before, taken).unwrap();
    let free = log.tail.lock().space.all_free();
    core::mem::forget(db);
    (free, medium.counts().reserves)
}

#[test]
fn extents_that_the_snapshot_does_not_use_become_free_and_found_ones_are_reserved_again() {
    let segment = |extent, extents, own| SnapshotSegment { extent, extents, salt: u64::from(extent), end: 0, own };
    // Of the one that is used, what was taken behind it.
    let (used, taken) = ([segment(20, 2, true)], [segment(20, 3, true), segment(24, 1, true)]);
    for is_full in [false, true] {
        assert_eq!(freed(&used, &[], &taken, is_full), ([(22, true), (24, true)].into(), 0));
        let (found, own) = ([segment(28, 2, false)], [segment(28, 2, true)]);
        assert_eq!(freed(&[], &found, &[], is_full), ([(28, !is_full), (29, !is_full)].into(), 1));
        assert_eq!(freed(&[], &own, &[], is_full), ([(28, true), (29, true)].into(), 0));
    }
    assert_eq!(freed(&used, &used, &[], false), ([].into(), 0), "all of it is used");
}

#[test]
fn a_segment_that_was_kept_for_a_snapshot_becomes_free_and_a_found_one_is_reserved_again() {
    for (own, is_full, is_backed) in [(true, true, true), (false, false, true), (false, true, false)] {
        let (db, medium) = store();
        let log = &db.store().engine.log;
        log.tail.lock().space = Space::new(log.geometry);
        if is_full {
            medium.set_capacity(Some(medium.len().unwrap()));
        }
        log.free_snapshot_segment(&SnapshotSegment { extent: 28, extents: 2, salt: 1, end: 0, own });
        assert_eq!(log.tail.lock().space.all_free(), [(28, is_backed), (29, is_backed)]);
        core::mem::forget(db);
    }
}

#[test]
fn a_snapshot_has_as_much_as_it_wants_or_as_it_needs_and_the_host_is_asked_once_for_each() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    assert!(log.secure_free(3).unwrap());
    medium.set_capacity(Some(medium.len().unwrap()));
    let take = |wanted: u64, needed: u64| {
        medium.reset_counts();
        let taken = log.take_snapshot_segment(wanted, needed, false, log.new_snapshot_seal().unwrap());
        (taken.map_or_else(|error| Err(matches!(error, Error::NoSpace)), |segment| Ok(segment.extents)), medium.counts().reserves)
    };
    assert_eq!(take(100_000, 100_000), (Err(true), 1));
    assert_eq!(take(100_000, 100_001), (Err(true), 1));
    assert_eq!(take(100_001, 100_000), (Err(true), 2));
    assert_eq!(take(100_000, 1000), (Ok(1), 1));
    medium.set_capacity(None);
    assert_eq!((take(10_000, 1000).0, take(1000, 10_000).0), (Ok(3), Ok(3)));
}

#[test]
fn the_header_of_a_snapshots_segment_says_when_it_was_begun() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let next_base = log.tail.lock().next_base;
    let number = log.tail.lock().next_header;
    let segment = log.take_snapshot_segment(1000, 1000, false, log.new_snapshot_seal().unwrap()).unwrap();
    let start = log.geometry.start(segment.extent);
    assert_eq!((segment.end, segment.own, segment.extents), (start + SEGMENT_HEADER_LEN as u64, true, 1));
    let header = SegmentHeader::read(&medium, log.store_id, start).unwrap().unwrap();
    assert_eq!((header.salt, header.kind, header.base), (segment.salt, SegmentKind::Snapshot, next_base));
    assert_eq!((header.number, header.session, header.synced), (number, log.session(), log.sync_state.synced()));
    assert_eq!((header.extents, header.carried_over, header.previous_base, header.linked), (1, 0, 0, false));
    assert_eq!((log.tail.lock().next_header, log.headers_so_far()), (number + 1, number));
}
