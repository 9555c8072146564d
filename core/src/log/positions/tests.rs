//! Which positions a log contains, at the borders of its segments, and figures of the segments.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use crate::log::Occupant;
use alloc::vec::Vec;

/// A store of two segments, of which the second one takes appends.
fn store() -> Db {
    let db = Db::builder().segment_size(4096).entropy([7; 32]).background(false).in_memory().unwrap();
    db.insert("a", "value").unwrap();
    db.store().engine.log.seal_active().unwrap();
    db.insert("b", "value").unwrap();
    db
}

#[test]
fn a_position_is_contained_behind_a_frame_of_the_segment_of_its_salt() {
    let db = store();
    let log = &db.store().engine.log;
    let [one, two]: [Segment; 2] = log.segments().try_into().unwrap();
    use Contained::{Gone, No, Yes};
    let end_of = |segment: &Segment| segment.lsn(log.geometry, segment.end);
    let both = |lsn: u64| [one.salt, two.salt].map(|salt| log.contains(lsn, salt));
    assert_eq!([0, LOG_POSITION_FIRST, LOG_POSITION_FIRST + 1].map(|lsn| log.contains(lsn, 0)), [Yes, Yes, No]);
    assert_eq!((log.contains(LOG_POSITION_FIRST, one.salt), log.contains(one.base, one.salt)), (Gone, Gone));
    assert_eq!([one.base + 1, end_of(&one), end_of(&one) + 1].map(both), [[Yes, No], [Yes, No], [No, No]]);
    assert_eq!([two.base, two.base + 1, end_of(&two), end_of(&two) + 1].map(both), [[No, No], [No, Yes], [No, Yes], [No, No]]);
    assert_eq!(both(two.next_base(log.geometry) + 1), [No, No]);
    log.tail.lock().unlisted.push(two);
    assert_eq!(both(two.base + 1), [No, No]);
    log.tail.lock().unlisted.clear();
    log.tail.lock().segments.remove(one.base);
    assert_eq!(both(one.base + 1), [Gone, Gone]);
}

#[test]
fn a_segment_covers_what_lies_behind_its_base_and_history_does_so_too() {
    let db = store();
    let log = &db.store().engine.log;
    let [one, two]: [Segment; 2] = log.segments().try_into().unwrap();
    let covering = |lsn: u64| log.tail.lock().covering(lsn);
    assert_eq!([one.base, one.base + 1, two.base, two.base + 1].map(covering), [None, Some(one), Some(one), Some(two)]);
    log.follow(0, u64::MAX);
    let engine = &db.store().engine;
    log.retire(&engine.pins, one).unwrap();
    let now = covering(u64::MAX).unwrap();
    assert_eq!((now.base, log.segment_count()), (two.base, 1));
    assert_eq!([one.base, two.base].map(covering), [None, Some(one)], "it is history now");
    assert_eq!(covering(two.base + 1), Some(now));
}

#[test]
fn an_end_is_unique_in_a_segment_of_this_session_and_where_the_store_was_found() {
    let db = store();
    let log = &db.store().engine.log;
    let two = log.segments()[1];
    let with = |found_end: u64, first_own_base: u64| {
        let mut tail = log.tail.lock();
        (tail.found_end, tail.first_own_base) = (found_end, first_own_base);
        drop(tail);
        log.at_the_end(|end| {
            assert_eq!((end.lsn, end.salt), (log.end(), two.salt));
            end.is_unique
        })
    };
    let (end, other) = (log.end(), two.base + 1);
    assert_eq!([with(end - 1, two.base), with(end - 1, other), with(end, other)], [true, false, true]);
}

#[test]
fn the_end_of_a_frame_is_named_by_its_log_position_and_the_salt_of_its_segment() {
    let db = store();
    let log = &db.store().engine.log;
    for segment in log.segments() {
        let offset = segment.first_frame(log.geometry);
        let header = super::super::SEGMENT_HEADER_LEN as u64;
        assert_eq!(log.end_of(Placed { offset, len: 30 }), (segment.base + header + 30, segment.salt));
    }
}

#[test]
fn what_segments_hold_and_leave_unused_is_summed_up() {
    let db = store();
    let log = &db.store().engine.log;
    let [one, two]: [Segment; 2] = log.segments().try_into().unwrap();
    let (first, limit) = (one.first_frame(log.geometry), one.limit(log.geometry));
    // As if a crash had cut it.
    log.tail.lock().segments.get_mut(one.base).unwrap().end = first + 100;
    let usage = log.usage();
    let active = two.end - two.first_frame(log.geometry);
    assert_eq!((usage.written, usage.kept), (100 + active, limit - first + active));
    assert_eq!((usage.segments, usage.last_extent), (2, two.extent.max(one.extent)));
    assert_eq!((usage.extents, usage.free_extents, usage.free_bytes), (3, 1, 4096));
    assert_eq!(usage.live, log.segment_stats.live(one.extent) + log.segment_stats.live(two.extent));
    assert!(usage.live > 0);
    let layout = |log: &Log| -> Vec<(u32, char)> {
        let kind = |occupant| match occupant {
            Occupant::Segment(_) => 's',
            Occupant::Free => 'f',
            Occupant::Other => 'o',
        };
        log.layout().into_iter().map(|(extent, occupant)| (extent, kind(occupant))).collect()
    };
    assert_eq!(layout(log), [(0, 's'), (1, 's'), (2, 'f')]);
    log.tail.lock().space.take(4096).unwrap();
    assert_eq!(layout(log), [(0, 's'), (1, 's'), (2, 'o')]);
    log.tail.lock().segments.get_mut(two.base).unwrap().extents = 2;
    assert_eq!(layout(log), [(0, 's'), (1, 's')], "one of two extents is listed at its first one");
    core::mem::forget(db);
}

#[test]
fn lists_are_as_far_apart_as_was_asked_for_within_what_one_can_name() {
    let db = store();
    let log = &db.store().engine.log;
    assert_eq!([0, 1, 9].map(|segments| log.list_len(segments)), [128, 192, 64 + 640]);
    // Two segments of 512 bytes each; 64 can be listed in one.
    assert_eq!([0, 1023, 1024, 1025].map(|wanted| log.between_lists(wanted)), [1024, 1024, 1024, 1025]);
    assert_eq!(
        [64 * 4096 - 1, 64 * 4096, u64::MAX].map(|wanted| log.between_lists(wanted)),
        [64 * 4096 - 1, 64 * 4096, 64 * 4096]
    );
}
