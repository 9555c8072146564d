//! What of a segment counts as gain, to the byte.

use super::{OVERHEAD, TAKEN, choose, nine_segments, opened, set};
use crate::Db;
use crate::frame::ORIGIN_LEN_MAX;
use crate::storage::MemoryStorage;

#[test]
fn a_gain_is_at_least_one_part_in_so_many_and_the_room_of_the_retirement() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    let one = &segments[3];
    let padding = TAKEN - engine.log.header(one.first_frame(engine.log.geometry)).unwrap().frame_len() as u64;
    let gain = |live: u64, parts: f64| {
        set(engine, one, live, 0);
        choose::gain(engine, one, 4000, false, parts)
    };
    // Half of it.
    assert_eq!((gain(2000 - padding, 2.0), gain(2001 - padding, 2.0)), (Some(2000), None));
    // Up to 5/8 dead, the padding does not count.
    assert_eq!((gain(1500, 64.0), gain(1499, 64.0)), (Some(2500 - padding), Some(2501)));
    let most = 4000 - choose::SLACK - padding;
    assert_eq!((gain(most, 64.0), gain(most + 1, 64.0)), (Some(choose::SLACK), None));
}

/// The padding of a segment with a dictionary would only move with it.
#[cfg(feature = "compress")]
#[test]
fn the_padding_of_a_segment_with_a_dictionary_is_not_taken() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    let one = &segments[3];
    let padding = TAKEN - engine.log.header(one.first_frame(engine.log.geometry)).unwrap().frame_len() as u64;
    set(engine, one, 100, 0);
    assert_eq!(choose::gain(engine, one, TAKEN, false, 64.0), Some(TAKEN - 100));
    engine.homes.write().insert(one.base);
    assert_eq!(choose::gain(engine, one, TAKEN, false, 64.0), Some(TAKEN - padding - 100));
    assert_eq!(choose::gain(engine, &segments[4], TAKEN, false, 64.0), None);
}

/// Copies need room for what they say of their first versions; how many there will be is known from the mean length of the records.
#[test]
fn the_mean_length_of_records_is_that_of_those_in_the_segment() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    let _snapshot = db.snapshot();
    (0..3_u8).for_each(|key| db.insert([100, key], [key; 3_000]).unwrap());
    let all = engine.log.segments();
    let later = &all[all.len() - 2];
    assert!(later.base > segments[8].base && later.end == later.limit(engine.log.geometry));
    assert!(choose::may_need_origins(engine, later));
    // A record and the padding behind it.
    let used = later.end - later.first_frame(engine.log.geometry);
    assert_eq!(used, 4096 - OVERHEAD);
    for live in [10 * used, 10 * used - 1] {
        set(engine, later, live, 0);
        let copies = live / (used / 2);
        assert_eq!(choose::needed_bytes(engine, later, false), live + copies * ORIGIN_LEN_MAX as u64 + choose::SLACK);
    }
}

/// In longer segments, what is dead must be more than 1/1024 of the longest.
#[test]
fn compaction_that_is_asked_for_leaves_gains_of_less_than_1_in_1024_of_a_long_segment() {
    let builder = Db::builder().segment_size(1 << 20).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
    let db = builder.in_memory().unwrap();
    (0..4_u8).for_each(|key| db.insert([key], alloc::vec![key; 15_000]).unwrap());
    db.checkpoint().unwrap();
    let engine = &db.store().engine;
    let first = &engine.log.segments()[0];
    let geometry = engine.log.geometry;
    let used = first.end - first.first_frame(geometry);
    assert_eq!((used, first.len(geometry)), (choose::taken_bytes(engine, first), 16_384));
    let padding = used - engine.log.header(first.first_frame(geometry)).unwrap().frame_len() as u64;
    let is_worth_it = |gain: u64| {
        set(engine, first, used - padding - gain, 0);
        choose::is_worth_it(engine, first, None, false)
    };
    assert!(!is_worth_it(1024) && is_worth_it(1025));
}

#[test]
fn the_oldest_segment_goes_for_the_tombstones_behind_it_only_if_compaction_is_not_off_and_nothing_speaks_against_it() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    set(engine, &segments[0], 300, 0);
    set(engine, &segments[1], 100, TAKEN - 200);
    let first = |share: f64, is_left: bool| {
        let worst = choose::worst(engine, share, u64::MAX, &|_| false, &|segment| is_left && segment.base == segments[0].base);
        worst.map(|segment| segment.base)
    };
    assert_eq!(first(0.99, false), Some(segments[0].base));
    assert_eq!((first(1.0, false), first(1.01, false)), (Some(segments[0].base), None));
    assert_eq!(first(0.99, true), None);
    let until = |until: u64| choose::worst(engine, 0.99, until, &|_| false, &|_| false).map(|segment| segment.base);
    assert_eq!((until(segments[1].base + 1), until(segments[1].base)), (Some(segments[0].base), None));
    let with_passed = choose::worst(engine, 0.99, u64::MAX, &|segment| segment.base == segments[0].base, &|_| false);
    assert_eq!(with_passed.map(|segment| segment.base), Some(segments[1].base), "it is the oldest of those that are left");
}

#[test]
fn a_store_without_a_checkpoint_has_no_candidates() {
    let db = opened(&MemoryStorage::new());
    (0..9_u8).for_each(|key| db.insert([key], alloc::vec![key; 3_000]).unwrap());
    assert!(choose::candidates(&db.store().engine).is_empty());
}
