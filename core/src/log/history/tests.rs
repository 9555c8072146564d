//! What holds history, by figures that the tests set: every border with what lies on it, and on each side of it.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
use super::*;
use crate::Db;

const EXTENT: u64 = 4096;

fn store() -> Db {
    let db = Db::builder().segment_size(EXTENT as u32).entropy([7; 32]).background(false).in_memory().unwrap();
    db.insert("a key", "value").unwrap();
    db
}

fn segment(base: u64, extent: u32) -> Segment {
    Segment { base, extent, extents: 1, end: 0, salt: base * 3, linked: false }
}

/// Makes a retired segment out of nothing.
fn keep(db: &Db, segment: Segment, is_recorded: bool) {
    let engine = &db.store().engine;
    let retired = Retired::found(segment.extent, segment.extents, 0, &engine.pins);
    engine.log.tail.lock().history.kept.insert(segment.base, Kept { segment, retired, is_recorded });
}

fn kept(log: &Log) -> Vec<(u64, bool)> {
    log.tail.lock().history.kept.values().map(|kept| (kept.segment.base, kept.is_recorded)).collect()
}

#[test]
fn followers_and_those_who_wait_have_names_of_their_own() {
    let db = store();
    let log = &db.store().engine.log;
    let mut names = alloc::vec![log.follow(0, 10)];
    #[cfg(all(feature = "async", feature = "events"))]
    names.extend([log.waiter(), log.waiter()]);
    names.push(log.follow(0, 10));
    assert_eq!(names, (0..names.len() as u64).map(FollowerId).collect::<Vec<_>>());
    assert_eq!(log.history_figures().followers, 2, "who only waits holds nothing");
    log.unfollow(*names.first().unwrap());
    assert_eq!(log.history_figures().followers, 1);
}

#[test]
fn a_follower_holds_what_it_has_not_read_up_to_its_limit() {
    let db = store();
    let log = &db.store().engine.log;
    let id = log.follow(1000, 500);
    let is_followed = |end: u64, now: u64| log.tail.lock().history.is_followed(end, now);
    assert_eq!([999, 1000, 1001].map(|end| is_followed(end, 1200)), [false, false, true]);
    assert_eq!([900, 1499, 1500, 1501].map(|now| is_followed(1001, now)), [true, true, true, false]);
    log.followed(id, 1001);
    assert!(!is_followed(1001, 1200) && is_followed(1002, 1501) && !is_followed(1002, 1502));
    log.give_up_followed();
    assert!(is_followed(1002, 1001) && !is_followed(1002, 1002));
    log.unfollow(id);
    assert!(!is_followed(1002, 1001));
    log.followed(id, 5);
    assert_eq!(log.history_figures().followers, 0, "who follows no longer has no place");
}

#[test]
fn a_segment_that_is_retired_is_kept_for_the_floor_or_for_a_follower() {
    let db = store();
    let pins = &db.store().engine.pins;
    let one = segment(EXTENT, 1);
    let keep = |floor: u64, follower: Option<u64>, end: u64| {
        let mut history = History { floor, ..History::default() };
        if let Some(position) = follower {
            history.followers.insert(0, Follower { position, limit: 100 });
        }
        let retired = Retired::found(one.extent, 1, 0, pins);
        let is_free = history.keep(one, end, 5000, retired).is_some();
        let kept = history.kept.values().next().map(|kept| (kept.segment.base, kept.is_recorded));
        assert_eq!(is_free, kept.is_none());
        kept
    };
    let (recorded, loose) = (Some((EXTENT, true)), Some((EXTENT, false)));
    assert_eq!([keep(0, None, 5000), keep(5000, None, 5000), keep(4999, None, 5000)], [None, None, recorded]);
    assert_eq!([keep(0, Some(5000), 5000), keep(0, Some(4999), 5000), keep(0, Some(4899), 5000)], [None, loose, None]);
    assert_eq!(keep(4999, Some(4999), 5000), recorded);
}

#[test]
fn what_a_floor_would_free_and_let_go_ends_at_it_or_in_front_of_it() {
    let db = store();
    let log = &db.store().engine.log;
    let (one, end) = (segment(EXTENT, 1), 2 * EXTENT);
    let none = |floor: u64| (log.floor_would_free(floor), log.floor_would_let_go(floor));
    assert_eq!([0, 1, u64::MAX].map(none), [(false, false); 3], "nothing but the active segment is there");
    keep(&db, one, true);
    let at = |present: u64, floor: u64| {
        log.tail.lock().history.floor = present;
        none(floor)
    };
    // The present floor is in front of its end.
    assert_eq!([end - 1, end, end + 1].map(|floor| at(1, floor)), [(false, false), (true, true), (true, true)]);
    assert_eq!(at(1, 0), (true, false));
    // It does not hold it now.
    assert_eq!([at(end, end + 1), at(0, end), at(end - 1, end)], [(true, false), (true, false), (true, true)]);
    log.tail.lock().history.kept.get_mut(EXTENT).unwrap().is_recorded = false;
    assert_eq!([at(1, 0), at(1, end - 1), at(1, end)], [(false, false), (false, false), (false, true)]);
    // A live segment that is full would be kept with the present one.
    log.tail.lock().history.kept.remove(EXTENT);
    log.seal_active().unwrap();
    let end = log.segments().first().unwrap().next_base(log.geometry);
    assert_eq!([end - 1, end].map(|floor| at(1, floor)), [(false, false), (false, true)]);
    assert_eq!(at(end, end + 1), (false, false));
}

#[test]
fn what_is_held_and_what_no_list_records_lies_behind_the_floor() {
    let db = store();
    let log = &db.store().engine.log;
    let (one, end) = (segment(EXTENT, 1), 2 * EXTENT);
    let with_floor = |floor: u64| {
        log.tail.lock().history.floor = floor;
        (log.is_held_as_history(&one), log.has_unrecorded_history())
    };
    assert_eq!([0, end - 1, end].map(with_floor), [(false, false), (true, false), (false, false)]);
    keep(&db, one, false);
    assert_eq!([0, end - 1, end].map(with_floor), [(false, false), (true, true), (false, false)]);
    keep(&db, one, true);
    assert_eq!(with_floor(end - 1), (true, false));
    let id = log.follow(end - 1, u64::MAX);
    assert_eq!(with_floor(0), (true, false));
    log.followed(id, end);
    assert_eq!(with_floor(0), (false, false));
}

#[test]
fn the_end_of_history_is_that_of_its_last_segment() {
    let db = store();
    let log = &db.store().engine.log;
    assert_eq!(log.end_of_history(), None);
    keep(&db, segment(EXTENT, 1), true);
    keep(&db, segment(3 * EXTENT, 2), false);
    assert_eq!(log.end_of_history(), Some((4 * EXTENT, 9 * EXTENT)));
    assert_eq!(log.history_figures().bytes, 2 * EXTENT);
}

#[test]
fn a_list_names_the_history_behind_the_floor_and_records_it() {
    let db = store();
    let log = &db.store().engine.log;
    keep(&db, segment(EXTENT, 1), true);
    keep(&db, segment(3 * EXTENT, 2), false);
    let listed = |floor: u64| {
        let mut tail = log.tail.lock();
        tail.history.floor = floor;
        let named = tail.recorded_history(log.geometry);
        log.listed_history(&mut tail);
        drop(tail);
        (named.iter().map(|segment| segment.base).collect::<Vec<_>>(), kept(log))
    };
    let (first, second) = (EXTENT, 3 * EXTENT);
    assert_eq!(listed(2 * EXTENT - 1), ([first, second].into(), [(first, true), (second, true)].into()));
    assert_eq!(listed(2 * EXTENT), ([second].into(), [(first, false), (second, true)].into()));
    assert_eq!(listed(4 * EXTENT), ([].into(), [(first, false), (second, false)].into()));
    assert_eq!(listed(2 * EXTENT - 1), ([first, second].into(), [(first, true), (second, true)].into()));
    assert_eq!(listed(0), ([].into(), [(first, false), (second, false)].into()));
}

#[test]
fn a_floor_lets_go_what_ends_at_it_and_counts_what_nobody_had_read() {
    let ends = [2 * EXTENT, 4 * EXTENT];
    let after = |floor: (u64, u64), gives_up: bool| {
        let db = store();
        let log = &db.store().engine.log;
        log.set_floor((1, 7), false).unwrap();
        assert_eq!((log.floor(), log.superblock().floor), (1, 1));
        keep(&db, segment(EXTENT, 1), true);
        keep(&db, segment(3 * EXTENT, 2), true);
        keep(&db, segment(5 * EXTENT, 3), false);
        let before = log.end();
        log.set_floor(floor, gives_up).unwrap();
        assert!(log.end() > before && log.tail.lock().history.recorded_at == log.end());
        assert_eq!((log.floor(), log.superblock().floor), (floor.0, 1), "the superblock says that there has been one");
        (kept(log).into_iter().map(|(_, is_recorded)| is_recorded).collect::<Vec<_>>(), log.history_figures().given_up)
    };
    let [first, second] = ends;
    assert_eq!(after((first - 1, 7), true), ([true, true, false].into(), 0));
    assert_eq!(after((first, 7), true), ([false, true, false].into(), EXTENT));
    assert_eq!(after((first, 7), false), ([false, true, false].into(), 0));
    assert_eq!(after((second - 1, 7), true), ([false, true, false].into(), EXTENT));
    assert_eq!(after((second, 7), true), ([false, false, false].into(), 2 * EXTENT));
    assert_eq!(after((0, 0), true), ([false, false, false].into(), 2 * EXTENT));
}

#[test]
fn the_first_floor_is_in_the_superblock_before_it_is_in_the_log() {
    let db = store();
    let log = &db.store().engine.log;
    let generation = log.superblock().generation;
    log.set_floor((0, 0), false).unwrap();
    assert_eq!((log.superblock().floor, log.superblock().generation), (0, generation), "none is no floor");
    log.set_floor((5, 7), false).unwrap();
    log.set_floor((6, 7), false).unwrap();
    assert_eq!((log.superblock().floor, log.superblock().generation), (5, generation + 1));
}

#[test]
fn history_goes_once_no_floor_and_no_follower_holds_it() {
    let db = store();
    let (log, pins) = (&db.store().engine.log, &db.store().engine.pins);
    let end = 2 * EXTENT;
    let go = |is_recorded: bool, floor: u64, follower: Option<u64>| {
        keep(&db, segment(EXTENT, 1), is_recorded);
        let mut tail = log.tail.lock();
        (tail.history.floor, tail.history.recorded_at, tail.history.given_up) = (floor, 77, 0);
        tail.history.followers = Map::default();
        if let Some(position) = follower {
            // What it may hold is used up.
            tail.history.followers.insert(0, Follower { position, limit: 0 });
        }
        log.let_history_go(&mut tail, pins);
        let gone: Vec<u64> = tail.retired.drain(..).map(|retired| retired.durable_at).collect();
        assert_eq!((tail.history.kept.len() == 0), !gone.is_empty());
        (gone, tail.history.given_up)
    };
    let (stays, goes) = (([].into(), 0), ([77].into(), 0));
    assert_eq!(go(true, 0, None), stays, "only a floor frame frees what a list names");
    assert_eq!([go(false, end - 1, None), go(false, end, None), go(false, 0, None)], [stays.clone(), goes.clone(), goes.clone()]);
    assert_eq!([go(false, 0, Some(end)), go(false, 0, Some(end - 1))], [goes, ([77].into(), EXTENT)]);
    let mut tail = log.tail.lock();
    let retired = Retired::found(1, 1, 99, pins);
    tail.history.followers = Map::default();
    tail.history.kept.insert(EXTENT, Kept { segment: segment(EXTENT, 1), retired, is_recorded: false });
    log.let_history_go(&mut tail, pins);
    assert_eq!(tail.retired.drain(..).map(|retired| retired.durable_at).collect::<Vec<_>>(), [99], "the later of both");
}

#[test]
fn the_next_segment_is_the_nearest_one_behind_live_or_history() {
    let db = store();
    let log = &db.store().engine.log;
    let active = *log.segments().first().unwrap();
    let behind = |base: u64| log.segment_behind(base).map(|(segment, is_active)| (segment.base, is_active));
    assert_eq!((behind(active.base), behind(active.base - 1)), (None, Some((active.base, true))));
    assert_eq!(log.segment_behind(0).unwrap().0.end, active.end, "up to its last record");
    let (earlier, later) = (active.base - EXTENT, active.base + EXTENT);
    keep(&db, segment(earlier, 1), true);
    keep(&db, segment(later, 2), true);
    assert_eq!((behind(earlier - 1), behind(earlier)), (Some((earlier, false)), Some((active.base, true))));
    assert_eq!((behind(active.base), behind(later)), (Some((later, false)), None));
    // A segment that no list names is none of the log's.
    log.tail.lock().unlisted.push(active);
    assert_eq!(behind(earlier), Some((later, false)));
    log.tail.lock().unlisted.clear();
    log.seal_active().unwrap();
    assert_eq!(behind(earlier), Some((active.base, false)));
}

#[test]
fn a_position_is_in_the_segment_of_its_salt_up_to_where_the_next_one_begins() {
    let db = store();
    let log = &db.store().engine.log;
    let active = *log.segments().first().unwrap();
    let base_of = |lsn: u64, salt: u64| log.segment_of(lsn, salt).map(|segment| segment.base);
    let next = active.next_base(log.geometry);
    let of = |lsn: u64| (base_of(lsn, active.salt), base_of(lsn, active.salt + 1));
    assert_eq!(of(active.base), (None, None), "no frame ends where a segment begins");
    assert_eq!([active.base + 1, next, next + 1].map(of), [(Some(active.base), None), (Some(active.base), None), (None, None)]);
}

#[test]
fn only_what_this_session_has_written_into_a_segment_from_before_could_be_in_a_copy_too() {
    let db = store();
    let log = &db.store().engine.log;
    let active = *log.segments().first().unwrap();
    let set = |found_end: u64, first_own_base: u64| {
        let mut tail = log.tail.lock();
        (tail.found_end, tail.first_own_base) = (found_end, first_own_base);
    };
    let found = active.base + 1000;
    set(found, active.base + 1);
    assert_eq!([found, found + 1].map(|lsn| log.unique_before(lsn, 3)), [(found, 3), (found, 3)]);
    assert_eq!(log.unique_before(found - 1, 3), (found - 1, 3));
    set(found, active.base);
    assert_eq!(log.unique_before(found + 1, 3), (found + 1, 3));
}
