//! Which segments are chosen, by figures that the tests set.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

mod again;
#[cfg(all(feature = "std", not(shuttle)))]
mod ahead;
#[cfg(feature = "events")]
mod carried;
mod checkpoint;
mod dated;
#[cfg(feature = "testing")]
mod due;
mod dying;
mod emptying;
#[cfg(feature = "testing")]
mod expired;
mod filled;
mod gain;
#[cfg(feature = "std")]
mod healed;
mod held;
#[cfg(feature = "testing")]
mod kept;
#[cfg(feature = "testing")]
mod making_room;
mod named;
#[cfg(feature = "compress")]
mod recoded;
#[cfg(all(feature = "encrypt", feature = "compress"))]
mod resealed;
#[cfg(feature = "events")]
mod retained;
#[cfg(feature = "testing")]
mod room;
mod sifting;
mod steps;
#[cfg(feature = "testing")]
mod stranded;
#[cfg(all(feature = "std", not(shuttle)))]
mod unasked;

use super::choose;
use crate::Db;
use crate::engine::Engine;
use crate::frame::ORIGIN_LEN_MAX;
use crate::log::{SEGMENT_HEADER_LEN, Segment, TRAILER_LEN};
use crate::storage::MemoryStorage;
use alloc::boxed::Box;
use alloc::vec::Vec;

const OVERHEAD: u64 = SEGMENT_HEADER_LEN as u64 + TRAILER_LEN;
const TAKEN: u64 = 4096 - OVERHEAD;
const TAKEN_LONG: u64 = 2 * 4096 - OVERHEAD;

/// Eight segments of one record each, and then one of twice their length, all before the newest checkpoint; each counts as fully alive.
fn nine_segments() -> (Db, Vec<Segment>) {
    nine_segments_in(&MemoryStorage::new())
}

fn opened(storage: &MemoryStorage) -> Db {
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
    builder.open_storage(Box::new(storage.clone())).unwrap()
}

fn nine_segments_in(storage: &MemoryStorage) -> (Db, Vec<Segment>) {
    let db = opened(storage);
    for key in 0..9_u8 {
        db.insert([key], alloc::vec![key; if key < 8 { 3_000 } else { 7_400 }]).unwrap();
    }
    db.checkpoint().unwrap();
    let engine = &db.store().engine;
    let segments = choose::candidates(engine);
    assert_eq!(segments.len(), 9);
    assert_eq!(segments.iter().map(|segment| segment.extents).collect::<Vec<_>>(), [1, 1, 1, 1, 1, 1, 1, 1, 2]);
    for segment in &segments {
        set(engine, segment, choose::taken_bytes(engine, segment), 0);
    }
    (db, segments)
}

fn set(engine: &Engine, segment: &Segment, live: u64, tombstones: u64) {
    engine.log.segment_stats.set(segment.extent, live, tombstones);
}

#[test]
fn a_segment_is_worth_what_its_dead_bytes_and_in_front_of_all_its_tombstones_take() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    let (one, long) = (&segments[3], &segments[8]);
    assert_eq!((choose::taken_bytes(engine, one), choose::taken_bytes(engine, long)), (TAKEN, TAKEN_LONG));
    set(engine, one, 1000, 200);
    assert_eq!((choose::kept_bytes(engine, one, false), choose::kept_bytes(engine, one, true)), (1200, 1000));
    assert_eq!(choose::needed_bytes(engine, one, false), 1200 + choose::SLACK);
    assert_eq!(choose::gain(engine, one, TAKEN, false, 64.0), Some(TAKEN - 1200));
    assert_eq!(choose::gain(engine, one, TAKEN, true, 64.0), Some(TAKEN - 1000));
    // At least one part in so many of what is taken, and never less than what the retirement takes.
    set(engine, one, TAKEN / 2, 0);
    assert!(choose::gain(engine, one, TAKEN, false, 2.6).is_some() && choose::gain(engine, one, TAKEN, false, 1.9).is_none());
    set(engine, one, TAKEN - choose::SLACK + 1, 0);
    assert_eq!(choose::gain(engine, one, TAKEN, false, 64.0), None);
    // Up to 5/8 dead, the padding behind the record does not count as gain: copies would leave as much.
    let padding = TAKEN - engine.log.header(one.first_frame(engine.log.geometry)).unwrap().frame_len() as u64;
    assert!(padding > 0);
    for (live, gain) in
        [(TAKEN * 3 / 8 - 1, TAKEN - (TAKEN * 3 / 8 - 1)), (TAKEN * 3 / 8 + 1, TAKEN - (TAKEN * 3 / 8 + 1) - padding)]
    {
        set(engine, one, live, 0);
        assert_eq!(choose::gain(engine, one, TAKEN, false, 64.0), Some(gain), "{live} bytes alive");
    }
}

#[test]
fn of_many_segments_the_one_with_the_largest_dead_share_is_chosen() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    let worst = |until: u64, passed: &[u64]| {
        choose::worst(engine, 0.1, until, &|segment| passed.contains(&segment.base), &|_| false).map(|segment| segment.base)
    };
    let that_fits = |until: u64, tried: &[u64]| choose::worst_that_fits(engine, until, tried).map(|segment| segment.base);
    let for_a_write =
        |until: u64, aside: &[u64]| choose::worst_for_a_write(engine, &segments, until, aside).map(|segment| segment.base);
    let base = |number: usize| Some(segments[number].base);
    assert_eq!((worst(u64::MAX, &[]), that_fits(u64::MAX, &[]), for_a_write(u64::MAX, &[])), (None, None, None));
    set(engine, &segments[1], 1200, 0);
    set(engine, &segments[2], 1000, 0);
    set(engine, &segments[4], 1000, 0);
    // More dead bytes than any other, but a smaller share.
    set(engine, &segments[8], 2700, 0);
    // Room for copies wherever they may come from.
    db.store().engine.log.secure(32 * 1024, &|| Ok(8_000)).unwrap();
    for choose in [&worst as &dyn Fn(u64, &[u64]) -> Option<u64>, &that_fits, &for_a_write] {
        assert_eq!(choose(u64::MAX, &[]), base(2), "of two with one share the older");
        assert_eq!(choose(u64::MAX, &[segments[2].base]), base(4));
        assert_eq!(choose(u64::MAX, &[segments[2].base, segments[4].base]), base(1));
        assert_eq!(choose(u64::MAX, &[segments[1].base, segments[2].base, segments[4].base]), base(8));
        assert_eq!(choose(segments[2].base, &[]), base(1), "only what begins in front of that");
        assert_eq!(choose(segments[1].base, &[]), None);
    }
    // A write leaves 1/8 to removals, and unasked compaction what it is told to leave.
    set(engine, &segments[2], TAKEN, 0);
    set(engine, &segments[4], TAKEN, 0);
    set(engine, &segments[1], TAKEN - TAKEN / 10, 0);
    set(engine, &segments[8], TAKEN_LONG, 0);
    assert_eq!((for_a_write(u64::MAX, &[]), worst(u64::MAX, &[])), (None, None));
    // With nothing dead, the oldest goes if tombstones behind it wait for that.
    set(engine, &segments[0], 300, 0);
    for segment in &segments[1..] {
        set(engine, segment, TAKEN / 3 * 2, 700);
    }
    assert_eq!(choose::worst(engine, 0.99, u64::MAX, &|_| false, &|_| false), None);
    set(engine, &segments[1], 100, TAKEN - 200);
    assert_eq!(choose::worst(engine, 0.99, u64::MAX, &|_| false, &|_| false).map(|segment| segment.base), base(0));
}

#[test]
fn segments_in_front_of_tombstones_go_while_these_are_enough() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    for (segment, (live, tombstones)) in segments.iter().zip([(100, 0), (0, 50), (300, 0), (0, 1), (2_000, 0)]) {
        set(engine, segment, live, tombstones);
    }
    let front = |parts: f64| choose::front_of_tombstones(engine, &segments, parts);
    assert_eq!((front(1.0), front(2.0), front(7.0), front(8.0)), (0, 2, 2, 4));
    assert_eq!(choose::front_of_tombstones(engine, &segments[2..], 300.0), 2);
    assert!(
        choose::begins_with_oldest(engine, &segments, &|_| false)
            && !choose::begins_with_oldest(engine, &segments[1..], &|_| false)
    );
    assert!(choose::begins_with_oldest(engine, &segments[1..], &|segment| segment.base == segments[0].base));
    assert!(
        choose::candidates_below(engine, segments[5].base).len() == 5 && choose::candidates_below(engine, u64::MAX).len() > 9
    );
}

/// A copy says when its record was first written only if a snapshot is older than that.
#[test]
fn what_a_snapshot_has_seen_needs_no_more_room_in_a_copy_and_what_came_later_does() {
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
    let db = builder.open_storage(Box::new(MemoryStorage::new())).unwrap();
    let fill = |from: u8| (from..from + 100).for_each(|key| db.insert([key], [key; 60]).unwrap());
    fill(0);
    let engine = &db.store().engine;
    let snapshot = db.snapshot();
    fill(100);
    db.checkpoint().unwrap();
    let segments = choose::candidates(engine);
    let (older, newer) = (segments[0], segments[segments.len() - 2]);
    let record = engine.log.header(newer.first_frame(engine.log.geometry)).unwrap().frame_len() as u64;
    for segment in [&older, &newer] {
        set(engine, segment, record * 9, record);
    }
    let kept = record * 10 + choose::SLACK;
    let needed = |segment: &Segment| choose::needed_bytes(engine, segment, false);
    assert_eq!((choose::may_need_origins(engine, &older), choose::may_need_origins(engine, &newer)), (false, true));
    assert_eq!((needed(&older), needed(&newer)), (kept, kept + 10 * ORIGIN_LEN_MAX as u64));
    drop(snapshot);
    assert_eq!((needed(&older), needed(&newer)), (kept, kept));
}

#[test]
fn where_space_is_short_a_segment_that_can_be_the_reserve_or_is_all_dead_goes_first() {
    let builder = Db::builder().segment_size(16_384).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
    let db = builder.open_storage(Box::new(MemoryStorage::new())).unwrap();
    for (key, len) in (0_u8..).zip([3_000, 7_000, 15_000, 15_000, 15_000]) {
        db.insert([key], alloc::vec![key; len]).unwrap();
    }
    db.checkpoint().unwrap();
    let engine = &db.store().engine;
    let segments = choose::candidates(engine);
    assert_eq!(segments.iter().map(|segment| segment.extent).collect::<Vec<_>>(), [0, 1, 2, 3]);
    db.store().engine.log.secure(64 * 1024, &|| Ok(16_000)).unwrap();
    let goes_first = |shares: [u64; 4]| {
        for (segment, share) in segments.iter().zip(shares) {
            set(engine, segment, choose::taken_bytes(engine, segment) * share / 100, 0);
        }
        choose::worst_that_fits(engine, u64::MAX, &[]).map(|segment| segment.extent)
    };
    assert_eq!(goes_first([10, 20, 30, 100]), Some(2), "short ones are no reserve");
    assert_eq!(goes_first([10, 0, 30, 100]), Some(1), "but what is all dead needs no room");
    assert_eq!(goes_first([10, 20, 100, 100]), Some(0));
}

#[test]
fn a_segment_is_worth_a_compaction_if_it_is_mostly_dead_and_not_for_the_unused_rest_of_an_active_one() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    let one = &segments[3];
    let used = one.end - one.first_frame(engine.log.geometry);
    let is_worth_it = |active: Option<u64>| choose::is_worth_it(engine, one, active, false);
    set(engine, one, used / 4, 0);
    assert!(is_worth_it(None) && is_worth_it(Some(one.base)));
    set(engine, one, used, 0);
    assert!(!is_worth_it(None) && !is_worth_it(Some(one.base)));
}

#[test]
fn for_a_write_the_tombstones_of_the_oldest_segment_are_dead_and_those_of_others_are_kept() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    let for_a_write = || choose::worst_for_a_write(engine, &segments, u64::MAX, &[]).map(|segment| segment.base);
    for segment in &segments[..2] {
        set(engine, segment, 100, TAKEN - 100);
    }
    assert_eq!(for_a_write(), Some(segments[0].base));
    set(engine, &segments[0], TAKEN, 0);
    assert_eq!(for_a_write(), None);
}

#[test]
fn free_extents_at_the_end_of_the_file_are_no_gaps() {
    let (db, _) = nine_segments();
    let engine = &db.store().engine;
    assert!(engine.log.secure_free(8).unwrap());
    let usage = engine.log.usage();
    assert!(usage.free_extents >= 8 && usage.free_extents * 2 < usage.extents + 8, "{} of {}", usage.free_extents, usage.extents);
    assert!(!choose::has_gaps(engine));
}

/// So many segments, of which the first `removed` have become free, and behind them the active one, the reserve, and what checkpoints took.
fn with_gaps(segments: u8, removed: u8) -> Db {
    let db = opened(&MemoryStorage::new());
    (0..segments).for_each(|key| db.insert([key], alloc::vec![key; 3_000]).unwrap());
    (0..removed).for_each(|key| assert!(db.remove([key]).unwrap()));
    db.checkpoint().unwrap();
    while db.compact_step().unwrap().is_some() {}
    db.flush().unwrap();
    db.store().engine.log.reclaim(&db.store().engine.pins);
    db
}

#[test]
fn free_extents_in_front_of_segments_in_use_are_gaps_if_they_are_more_than_an_eighth_of_the_file() {
    // Of 32 extents, six are free at the end of the file. One that is free in front of the last segment does not shorten it.
    let has_gaps = |removed: u8| choose::has_gaps(&with_gaps(24, removed).store().engine);
    assert_eq!([0, 1, 2, 3, 8].map(has_gaps), [false, false, false, true, true]);
    let mut seen = [0; 2];
    for (segments, removed) in
        [88, 96, 104, 112, 120].into_iter().flat_map(|segments| (3..12).map(move |removed| (segments, removed)))
    {
        let db = with_gaps(segments, removed);
        let usage = db.store().engine.log.usage();
        let are_many = usage.free_extents * 8 > usage.extents;
        assert_eq!(choose::has_gaps(&db.store().engine), are_many, "{} of {} are free", usage.free_extents, usage.extents);
        seen[usize::from(are_many)] += 1;
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}
