//! When the segments that were emptied together are retired.

use super::{choose, nine_segments, opened, set};
use crate::engine::Engine;
use crate::log::Segment;
use crate::maintenance::emptying::Emptying;
use crate::storage::MemoryStorage;
use alloc::vec::Vec;

/// Empties one of the segments of a record each, and returns how many bytes were copied.
fn empty(emptying: &mut Emptying<'_>, segment: &Segment) -> u64 {
    let report = emptying.empty(segment, &mut |_| {}).unwrap();
    assert_eq!((report.segments_retired, report.records_copied), (1, 1));
    report.bytes_copied
}

fn copied_of(engine: &Engine, segment: &Segment) -> u64 {
    engine.log.header(segment.first_frame(engine.log.geometry)).unwrap().frame_len() as u64
}

#[test]
fn a_group_is_full_once_it_has_copied_so_many_bytes() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    let one = copied_of(engine, &segments[0]);
    for (first, (limit, is_full)) in [(one + 1, false), (one, true)].into_iter().enumerate() {
        let mut emptying = Emptying::new(engine, limit);
        assert!(emptying.is_none() && !emptying.is_full_for(&segments[5]));
        assert_eq!(empty(&mut emptying, &segments[first]), one);
        assert!(!emptying.is_none() && emptying.holds(&segments[first]) && !emptying.holds(&segments[5]));
        assert_eq!(emptying.is_full_for(&segments[5]), is_full);
        emptying.retire().unwrap();
        assert!(emptying.is_none() && !emptying.holds(&segments[first]) && !emptying.is_full_for(&segments[5]));
    }
}

#[test]
fn each_group_may_copy_twice_as_much_as_the_one_before_up_to_the_limit() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    let one = copied_of(engine, &segments[0]);
    let mut emptying = Emptying::new(engine, 3 * one).with_first_sync_after(one);
    let mut left = segments[..7].iter();
    for count in [1, 2, 3] {
        for number in 1..=count {
            empty(&mut emptying, left.next().unwrap());
            assert_eq!(emptying.is_full_for(&segments[7]), number == count, "{number} of {count}");
        }
        emptying.retire().unwrap();
    }
    let mut emptying = Emptying::new(engine, one).with_first_sync_after(2 * one);
    empty(&mut emptying, left.next().unwrap());
    assert!(emptying.is_full_for(&segments[7]), "the limit holds from the beginning");
}

#[test]
fn a_group_is_full_with_64_segments_and_where_the_next_one_has_no_room() {
    let db = opened(&MemoryStorage::new());
    (0..70_u8).for_each(|key| db.insert([key], alloc::vec![key; 3_000]).unwrap());
    (0..70_u8).for_each(|key| assert!(db.remove([key]).unwrap()));
    db.checkpoint().unwrap();
    let engine = &db.store().engine;
    let segments: Vec<Segment> = choose::candidates(engine).into_iter().take(70).collect();
    let mut emptying = Emptying::new(engine, 1);
    for (number, segment) in segments[..64].iter().enumerate() {
        assert!(!emptying.is_full_for(&segments[65]), "{number} segments");
        assert_eq!(emptying.empty(segment, &mut |_| {}).unwrap().bytes_copied, 0);
    }
    assert!(emptying.is_full_for(&segments[65]));

    let mut emptying = Emptying::new(engine, 1);
    emptying.empty(&segments[64], &mut |_| {}).unwrap();
    let most = (0..1_000_000).find(|&bytes| !engine.log.has_room(bytes)).unwrap() - 1;
    for (live, is_full) in [(most - choose::SLACK, false), (most - choose::SLACK + 1, true)] {
        set(engine, &segments[65], live, 0);
        assert_eq!(emptying.is_full_for(&segments[65]), is_full);
    }
}
