//! What a write or a removal without room has compacted, and when a segment list is written for that.

use super::filled::{append_dead, fill};
use super::{choose, nine_segments, set};
use crate::engine::Engine;
use crate::log::Segment;
use crate::maintenance::checkpoint::{self, Extent};
use crate::storage::fault::FaultStorage;
use crate::storage::{MemoryStorage, Storage};
use crate::sync::Ordering;
use crate::{Db, Error};
use alloc::boxed::Box;
use alloc::vec::Vec;

const SEGMENT: u64 = 16_384;

fn set_alive(engine: &Engine, segment: &Segment) {
    set(engine, segment, choose::taken_bytes(engine, segment), 0);
}

fn base_of_checkpoint(db: &Db) -> u64 {
    db.store().engine.log.newest_checkpoint().unwrap().base
}

fn is_there(db: &Db, segment: &Segment) -> bool {
    db.store().engine.log.segments().iter().any(|other| other.base == segment.base)
}

/// A full medium whose last free segment is in use. The record of the first segment, which is a short one, has been removed; all other segments count as fully
/// alive. Returns those that the newest list names, and the ones behind it but for the active one, which hold no record that lives.
fn without_reserve() -> (Db, Vec<Segment>, Vec<Segment>) {
    let medium = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(SEGMENT as u32).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
    let db = builder.open_storage(Box::new(medium.clone())).unwrap();
    for (key, len) in (0_u8..).zip([3_000, 7_000, 15_000, 15_000, 15_000]) {
        db.insert([key], alloc::vec![key; len]).unwrap();
    }
    assert!(db.remove([0]).unwrap());
    db.checkpoint().unwrap();
    let engine = &db.store().engine;
    let listed = choose::candidates(engine);
    assert_eq!(listed.iter().map(|segment| segment.extent).collect::<Vec<_>>(), [0, 1, 2, 3]);
    medium.set_capacity(Some(medium.inner().len().unwrap()));
    while engine.log.secure_free(1).unwrap() {
        append_dead(&engine.log, 1_000).unwrap();
    }
    assert!(!engine.log.has_reserve() && engine.log.replay_debt() > SEGMENT / 2);
    let (all, active) = engine.log.segments_and_active();
    let behind: Vec<Segment> = all.into_iter().skip(4).filter(|segment| Some(segment.base) != active).collect();
    listed[1..].iter().chain(&behind).for_each(|segment| set_alive(engine, segment));
    (db, listed, behind)
}

#[test]
fn a_short_segment_that_is_all_dead_makes_room_also_while_the_reserve_is_in_use() {
    let (db, listed, _) = without_reserve();
    assert!(db.store().make_room_once(db.store().engine.log.end()).unwrap());
    assert!(!is_there(&db, &listed[0]));
    // A short one of which something must be copied takes room and brings no reserve.
    set(&db.store().engine, &listed[1], 100, 0);
    assert!(!db.store().make_room_once(db.store().engine.log.end()).unwrap());
}

/// It says that it does not fit once it is tried.
#[test]
fn while_the_reserve_is_in_use_only_what_fits_into_the_active_segment_is_tried() {
    let (db, listed, _) = without_reserve();
    let (store, log) = (db.store(), &db.store().engine.log);
    assert!(store.make_room_once(log.end()).unwrap());
    fill(log, &|| log.room_of_active() - 8_000);
    assert!(log.room_at_most() > 10_000);
    set(&store.engine, &listed[2], 8_000 - choose::SLACK, 0);
    assert!(matches!(store.make_room_once(log.end()), Err(Error::NoSpace)));
    set(&store.engine, &listed[2], 8_000 - choose::SLACK + 1, 0);
    assert!(matches!(store.make_room_once(log.end()), Ok(false)));
}

#[test]
fn a_segment_that_is_all_dead_and_that_no_list_names_is_worth_a_list() {
    let (db, listed, behind) = without_reserve();
    let (store, log) = (db.store(), &db.store().engine.log);
    set_alive(&store.engine, &listed[0]);
    let before = base_of_checkpoint(&db);
    assert!(!store.make_room_once(log.end()).unwrap());
    assert_eq!(base_of_checkpoint(&db), before);
    set(&store.engine, &behind[0], 0, 0);
    assert!(store.make_room_once(log.end()).unwrap());
    assert!(!is_there(&db, &behind[0]) && log.has_reserve());
    assert!(base_of_checkpoint(&db) != before);
}

/// The removals of a store that is full go on because of that.
#[test]
fn behind_more_than_half_a_segment_of_log_a_list_is_written_to_get_the_reserve_back() {
    let (db, listed, behind) = without_reserve();
    let (store, log) = (db.store(), &db.store().engine.log);
    set_alive(&store.engine, &listed[0]);
    set(&store.engine, &behind[0], 0, 0);
    assert!(log.space_low.load(Ordering::Relaxed));
    store.free_a_segment().unwrap();
    assert!(log.has_reserve() && !log.space_low.load(Ordering::Relaxed));
}

#[test]
fn on_a_full_medium_a_checkpoint_needs_more_than_half_a_segment_of_log_behind_the_last_one() {
    let (db, _, _) = without_reserve();
    let (store, log) = (db.store(), &db.store().engine.log);
    // The first list frees the snapshot of the index, for which there is no room any more.
    for _ in 0..2 {
        store.write_checkpoint(Extent::Changes).unwrap();
        while log.secure_free(1).unwrap() {
            append_dead(log, 1_000).unwrap();
        }
    }
    fill(log, &|| SEGMENT / 2 - log.replay_debt());
    let write = || checkpoint::write(&store.engine, &store.names, Extent::Changes);
    assert!(matches!(write(), Err(Error::NoSpace)));
    append_dead(log, 1).unwrap();
    // There is no room for the index.
    assert!(matches!(write(), Ok(false)));
    assert!(log.replay_debt() < SEGMENT / 2);
}

#[test]
fn with_a_reserve_a_write_has_the_segment_compacted_that_gains_most_and_no_list_written_if_one_names_it() {
    let (db, segments) = nine_segments();
    let (store, log) = (db.store(), &db.store().engine.log);
    let before = base_of_checkpoint(&db);
    assert!(!store.make_room_once(log.end()).unwrap());
    set(&store.engine, &segments[3], 100, 0);
    assert!(!store.make_room_once(segments[3].base).unwrap(), "it begins at that position");
    assert!(store.make_room_once(segments[3].base + 1).unwrap());
    assert!(!is_there(&db, &segments[3]));
    assert_eq!(base_of_checkpoint(&db), before);
}

/// Whether a list is written for the segment that holds the newest one, where the active segment has so many bytes less than a list needs, and that segment so
/// many more alive than would be freed with a list.
fn list_is_written(less: u64, more: u64) -> bool {
    let (db, segments) = nine_segments();
    let (store, log) = (db.store(), &db.store().engine.log);
    // Little padding, which would be no gain.
    fill(log, &|| log.room_of_active() - 50);
    db.insert("more", [1; 2_000]).unwrap();
    let before = base_of_checkpoint(&db);
    let (all, active) = log.segments_and_active();
    let behind = all.iter().filter(|segment| segment.base > segments[8].base && Some(segment.base) != active);
    behind.for_each(|segment| set_alive(&store.engine, segment));
    let list = log.list_len(log.segment_count());
    fill(log, &|| log.room_of_active() + less - list);
    let victim = all.iter().find(|segment| segment.base == before).unwrap();
    assert!(Some(victim.base) != active);
    set(&store.engine, victim, choose::taken_bytes(&store.engine, victim) - list - choose::SLACK + more, 0);
    let made = store.make_room_once(log.end());
    let is_written = base_of_checkpoint(&db) != before;
    assert!(is_written || matches!(made, Ok(false)), "{made:?}");
    is_written
}

#[test]
fn a_list_is_written_if_the_active_segment_has_room_for_it_or_a_segment_is_freed_with_it() {
    assert!(list_is_written(0, 1));
    assert!(!list_is_written(1, 1));
    assert!(list_is_written(1, 0));
}
