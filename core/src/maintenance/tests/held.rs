//! What is kept for those who follow the log, and when it goes.

use super::{nine_segments, nine_segments_in, opened};
use crate::Db;
use crate::limits::LOG_POSITION_FIRST;
use crate::log::{Contained, Segment};
use crate::storage::MemoryStorage;
use alloc::vec::Vec;

const SEGMENT: u64 = 4096;

/// The log position at which each of the segments ends.
fn ends(db: &Db, segments: &[Segment]) -> Vec<u64> {
    segments.iter().map(|segment| segment.next_base(db.store().engine.log.geometry)).collect()
}

/// Retires the segments of two records.
fn retire_3_and_4(db: &Db, segments: &[Segment]) {
    remove_3_and_4(db);
    compact_3_and_4(db, segments);
}

/// Before a floor is set: without a consumer, the maintenance behind a write lets go of it.
fn remove_3_and_4(db: &Db) {
    assert!(db.remove([3]).unwrap() && db.remove([4]).unwrap());
}

fn compact_3_and_4(db: &Db, segments: &[Segment]) {
    for segment in &segments[3..5] {
        assert_eq!(db.store().compact_one(segment, &mut |_| {}).unwrap().segments_retired, 1);
    }
}

#[test]
fn a_follower_holds_what_ends_behind_its_position_as_long_as_that_is_within_its_limit() {
    let (db, segments) = nine_segments();
    let (log, end) = (&db.store().engine.log, ends(&db, &segments));
    let held = || segments.iter().filter(|segment| log.is_held_as_history(segment)).count();
    assert_eq!(held(), 0);
    let follower = log.follow(end[5], u64::MAX);
    assert_eq!(held(), 3, "what ends where it stands has been read");
    log.followed(follower, end[6] - 1);
    assert_eq!(held(), 3);
    log.followed(follower, end[6]);
    assert_eq!((held(), log.history_figures().followers), (2, 1));
    log.unfollow(follower);
    assert_eq!((held(), log.history_figures().followers), (0, 0));
    let unread = log.end() - end[5];
    for (limit, count) in [(unread, 3), (unread - 1, 0)] {
        let follower = log.follow(end[5], limit);
        assert_eq!(held(), count, "of {unread} bytes it may hold {limit}");
        log.unfollow(follower);
    }
}

#[test]
fn the_floor_holds_what_ends_behind_it_and_stands_in_the_superblock_at_once() {
    let (db, segments) = nine_segments();
    let (log, end) = (&db.store().engine.log, ends(&db, &segments));
    assert!(!log.floor_would_let_go(u64::MAX));
    log.set_floor((end[5], segments[5].salt), false).unwrap();
    // A build that keeps no history must not take the store for one without it.
    assert_eq!((log.floor(), log.superblock().floor), (end[5], end[5]));
    assert_eq!(segments.iter().filter(|segment| log.is_held_as_history(segment)).count(), 3);
    let lets_go = [end[5], end[6] - 1, end[6]].map(|floor| log.floor_would_let_go(floor));
    assert_eq!(lets_go, [false, false, true]);
}

/// History that only a follower of this process holds, then the floor as well, then nobody any more.
#[test]
fn a_retired_segment_is_history_until_neither_floor_nor_follower_holds_it() {
    for gives_up in [false, true] {
        let (db, segments) = nine_segments();
        let (engine, end) = (&db.store().engine, ends(&db, &segments));
        let log = &engine.log;
        let follower = log.follow(end[2], u64::MAX);
        retire_3_and_4(&db, &segments);
        let kept = || (log.history_figures().bytes / SEGMENT, log.history_figures().given_up / SEGMENT);
        assert_eq!(kept(), (2, 0));
        assert_eq!(log.end_of_history(), Some((end[4], segments[4].salt)));
        assert!(!log.floor_would_free(0) && !log.floor_would_free(u64::MAX) && !log.has_unrecorded_history());

        log.set_floor((end[3], segments[3].salt), false).unwrap();
        assert!(log.has_unrecorded_history() && !log.floor_would_free(u64::MAX), "no list names it yet");
        db.checkpoint().unwrap();
        assert!(!log.has_unrecorded_history());
        let frees = [0, end[3], end[4] - 1, end[4]].map(|floor| log.floor_would_free(floor));
        assert_eq!(frees, [true, false, false, true]);

        log.followed(follower, end[3]);
        log.reclaim(&engine.pins);
        assert_eq!(kept(), (1, 0), "read to its end by all who held it");
        log.followed(follower, end[4]);
        log.set_floor((end[4], segments[4].salt), gives_up).unwrap();
        assert_eq!(kept(), (1, u64::from(gives_up)));
        db.flush().unwrap();
        log.reclaim(&engine.pins);
        assert_eq!((kept(), log.end_of_history()), ((0, u64::from(gives_up)), None));
    }
}

#[test]
fn what_a_follower_has_not_read_counts_as_given_up_when_it_is() {
    let (db, segments) = nine_segments();
    let (engine, end) = (&db.store().engine, ends(&db, &segments));
    engine.log.follow(end[3], u64::MAX);
    retire_3_and_4(&db, &segments);
    assert_eq!(engine.log.history_figures().bytes, SEGMENT, "the first one was read to its end");
    engine.log.give_up_followed();
    engine.log.reclaim(&engine.pins);
    let figures = engine.log.history_figures();
    assert_eq!((figures.bytes, figures.given_up), (0, SEGMENT));
}

#[test]
fn whoever_reads_on_finds_live_segments_and_history_in_the_order_of_the_log() {
    let (db, segments) = nine_segments();
    let (log, end) = (&db.store().engine.log, ends(&db, &segments));
    log.follow(end[3], u64::MAX);
    retire_3_and_4(&db, &segments);
    // Number 3 is gone, 4 is history, all others live.
    let behind = |base: u64| log.segment_behind(base).map(|(segment, is_active)| (segment.base, is_active));
    let next: Vec<_> = (0..6).map(|number| behind(segments[number].base)).collect();
    assert_eq!(next, [1, 2, 4, 4, 5, 6].map(|number| Some((segments[number].base, false))));
    let last = log.segments().pop().unwrap();
    assert_eq!((behind(last.base - 1), behind(last.base)), (Some((last.base, true)), None));

    let of = |lsn: u64, salt: u64| log.segment_of(lsn, salt).map(|segment| segment.base);
    assert_eq!(of(end[4], segments[4].salt), Some(segments[4].base));
    assert_eq!((of(end[4], segments[5].salt), of(end[3], segments[2].salt)), (None, None));
    assert_eq!(of(end[2], segments[2].salt), Some(segments[2].base));
}

#[test]
fn the_log_knows_positions_of_live_segments_and_history_and_which_are_gone() {
    let (db, segments) = nine_segments();
    let (log, end) = (&db.store().engine.log, ends(&db, &segments));
    log.follow(end[3], u64::MAX);
    retire_3_and_4(&db, &segments);
    assert_eq!(log.contains(LOG_POSITION_FIRST, 0), Contained::Yes);
    let within = |number: usize| log.contains(segments[number].base + 1000, segments[number].salt);
    assert_eq!([within(2), within(3), within(4), within(5)], [Contained::Yes, Contained::Gone, Contained::Yes, Contained::Yes]);
    let other = |number: usize| log.contains(segments[number].base + 1000, 7);
    assert_eq!([other(2), other(3), other(4)], [Contained::No, Contained::Gone, Contained::No]);
    let last = log.segments().pop().unwrap();
    let at_end = log.at_the_end(|end| (end.lsn, end.salt));
    assert_eq!(at_end, (log.end(), last.salt));
    assert_eq!(log.contains(log.end(), last.salt), Contained::Yes);
    assert_eq!(log.contains(log.end() + 100 * SEGMENT, last.salt), Contained::No);
}

/// The process ends without a close, and another one opens the store. Returns the floor, and which of these segments are history.
fn after_a_kill(db: Db, storage: &MemoryStorage, segments: &[Segment]) -> (Db, u64, Vec<usize>) {
    core::mem::forget(db);
    let db = opened(&MemoryStorage::from_vec(storage.to_vec()));
    let log = &db.store().engine.log;
    let live: Vec<u64> = log.segments().iter().map(|segment| segment.base).collect();
    let is_history =
        |segment: &Segment| !live.contains(&segment.base) && log.contains(segment.base + 1000, segment.salt) == Contained::Yes;
    let history = (0..segments.len()).filter(|&number| is_history(&segments[number])).collect();
    let floor = log.floor();
    (db, floor, history)
}

#[test]
fn the_next_session_keeps_the_history_that_the_floor_holds_and_no_other() {
    for checkpoint in [false, true] {
        let storage = MemoryStorage::new();
        let (db, segments) = nine_segments_in(&storage);
        let (log, end) = (&db.store().engine.log, ends(&db, &segments));
        remove_3_and_4(&db);
        log.set_floor((end[3], segments[3].salt), false).unwrap();
        compact_3_and_4(&db, &segments);
        if checkpoint {
            db.checkpoint().unwrap();
        }
        db.flush().unwrap();
        let (db, floor, history) = after_a_kill(db, &storage, &segments);
        assert_eq!((floor, history), (end[3], [4].to_vec()), "checkpoint {checkpoint}");
        assert_eq!(db.store().engine.log.history_figures().bytes, SEGMENT);
        assert!(db.verify().unwrap().is_ok());
    }
}

#[test]
fn what_a_floor_frame_has_let_go_is_free_for_the_next_session_even_if_the_floor_falls_again() {
    // The floors in their order, and what is history then.
    let cases: [(&[usize], &[usize]); 5] = [(&[4], &[]), (&[3, 4], &[]), (&[4, 2], &[]), (&[2, 3], &[4]), (&[2], &[3, 4])];
    for checkpoint in [false, true] {
        for (floors, expected) in cases {
            let storage = MemoryStorage::new();
            let (db, segments) = nine_segments_in(&storage);
            let (log, end) = (&db.store().engine.log, ends(&db, &segments));
            remove_3_and_4(&db);
            log.set_floor((end[2], segments[2].salt), false).unwrap();
            compact_3_and_4(&db, &segments);
            if checkpoint {
                db.checkpoint().unwrap();
            }
            for &floor in floors {
                log.set_floor((end[floor], segments[floor].salt), false).unwrap();
            }
            db.flush().unwrap();
            let (_db, floor, history) = after_a_kill(db, &storage, &segments);
            assert_eq!(
                (floor, history),
                (end[floors[floors.len() - 1]], expected.to_vec()),
                "{floors:?}, checkpoint {checkpoint}"
            );
        }
    }
    // Without a floor there is no history.
    let storage = MemoryStorage::new();
    let (db, segments) = nine_segments_in(&storage);
    remove_3_and_4(&db);
    db.store().engine.log.set_floor((ends(&db, &segments)[2], segments[2].salt), false).unwrap();
    compact_3_and_4(&db, &segments);
    db.store().engine.log.set_floor((0, 0), false).unwrap();
    db.flush().unwrap();
    let (_db, floor, history) = after_a_kill(db, &storage, &segments);
    assert_eq!((floor, history), (0, Vec::new()));
}
