//! What compaction leaves of records that have expired, and which of them live again when the clock is set back.

use crate::Db;
use crate::frame::Kind;
use crate::log::Segment;
use crate::maintenance::sift::whole;
use crate::scan::{Found, scan};
use crate::storage::MemoryStorage;
use crate::testing::TestClock;
use crate::ttl::Ttl;
use alloc::boxed::Box;
use alloc::vec::Vec;

const START: u64 = 1_700_000_000_000;
const EXPIRY: u64 = START + 10_000;

fn opened(storage: &MemoryStorage, clock: &TestClock) -> Db {
    let builder = Db::builder().clock(clock.clone()).segment_size(4096).background(false).auto_compact_dead_share(1.0);
    builder.open_storage(Box::new(storage.clone())).unwrap()
}

/// A record that never expires, its successor that does, and a record behind both, each in a segment of its own.
fn three_segments(clock: &TestClock) -> (Db, Vec<Segment>) {
    let db = opened(&MemoryStorage::new(), clock);
    let log = &db.store().engine.log;
    db.insert("key", "old").unwrap();
    log.seal_active().unwrap();
    db.insert_with_ttl("key", "new", Ttl::At(EXPIRY)).unwrap();
    log.seal_active().unwrap();
    db.insert("behind", "value").unwrap();
    let segments = log.segments();
    assert_eq!(segments.len(), 3);
    (db, segments)
}

/// The lengths of all tombstones in the log.
fn tombstones(db: &Db) -> Vec<u64> {
    let (engine, mut found) = (&db.store().engine, Vec::new());
    for segment in engine.log.segments() {
        scan(&*engine.log.storage, whole(engine, &segment), &mut |one| {
            match one {
                Found::Frame { header, .. } if header.kind == Kind::Tombstone => found.push(header.frame_len() as u64),
                _ => {}
            }
            Ok(())
        })
        .unwrap();
    }
    found
}

/// Bytes that count as tombstones.
fn noted_tombstones(db: &Db) -> u64 {
    let log = &db.store().engine.log;
    log.segments().iter().map(|segment| log.segment_stats.tombstones(segment.extent)).sum()
}

#[test]
fn a_record_that_has_expired_leaves_a_tombstone_in_front_of_what_it_had_replaced() {
    for (time, expired) in [(EXPIRY - 1, false), (EXPIRY, true)] {
        let clock = TestClock::new(START);
        let (db, segments) = three_segments(&clock);
        clock.set(time);
        let report = db.store().compact_one(&segments[1], &mut |_| {}).unwrap();
        assert_eq!((report.segments_retired, report.records_copied), (1, 1));
        let expected = if expired { Vec::from([report.bytes_copied]) } else { Vec::new() };
        assert_eq!((tombstones(&db), db.get("key").unwrap().is_none()), (expected, expired));
        assert_eq!(noted_tombstones(&db), if expired { report.bytes_copied } else { 0 });
    }
}

#[test]
fn a_record_that_has_expired_leaves_nothing_where_nothing_older_is_left_or_it_was_replaced() {
    let clock = TestClock::new(START);
    let (db, segments) = three_segments(&clock);
    assert_eq!(db.store().compact_one(&segments[0], &mut |_| {}).unwrap().records_copied, 0);
    clock.set(EXPIRY);
    let report = db.store().compact_one(&segments[1], &mut |_| {}).unwrap();
    assert_eq!((report.segments_retired, report.records_copied, report.bytes_copied), (1, 0, 0));
    assert_eq!((tombstones(&db), db.len().unwrap()), (Vec::new(), 1));

    let clock = TestClock::new(START);
    let (db, segments) = three_segments(&clock);
    db.insert("key", "newest").unwrap();
    clock.set(EXPIRY);
    assert_eq!(db.store().compact_one(&segments[1], &mut |_| {}).unwrap().records_copied, 0);
    assert_eq!((tombstones(&db), db.get("key").unwrap().unwrap()), (Vec::new(), b"newest".to_vec()));
}

/// The record is in the index no more, whether the latest expiry that was acted on is its own or a later one.
#[test]
fn a_record_that_was_swept_leaves_a_tombstone_in_front_of_what_it_had_replaced() {
    for latest in [EXPIRY, EXPIRY + 5] {
        let clock = TestClock::new(START);
        let (db, segments) = three_segments(&clock);
        db.insert_with_ttl("another", "value", Ttl::At(latest)).unwrap();
        clock.set(latest);
        assert_eq!((db.sweep_expired().unwrap(), db.store().engine.log.clock.floor()), (2, latest));
        let report = db.store().compact_one(&segments[1], &mut |_| {}).unwrap();
        assert_eq!((report.records_copied, tombstones(&db)), (1, Vec::from([report.bytes_copied])));
        assert_eq!(db.get("key").unwrap(), None);
    }
}

#[test]
fn a_record_that_was_removed_before_it_expired_leaves_nothing_but_the_tombstone_of_that() {
    let clock = TestClock::new(START);
    let (db, segments) = three_segments(&clock);
    assert!(db.remove("key").unwrap());
    clock.set(EXPIRY + 1);
    let report = db.store().compact_one(&segments[1], &mut |_| {}).unwrap();
    assert_eq!((report.segments_retired, report.records_copied, tombstones(&db).len()), (1, 0, 1));
}

#[test]
fn a_record_that_has_expired_is_copied_for_a_snapshot_that_shows_it() {
    let clock = TestClock::new(START);
    let (db, segments) = three_segments(&clock);
    let snapshot = db.snapshot();
    clock.set(EXPIRY);
    let report = db.store().compact_one(&segments[1], &mut |_| {}).unwrap();
    assert_eq!((report.records_copied, tombstones(&db)), (1, Vec::new()));
    assert_eq!((snapshot.get("key").unwrap().unwrap(), db.get("key").unwrap()), (b"new".to_vec(), None));
}

/// Ten records that expire one millisecond after the other, all of which have.
fn ten_expired(storage: &MemoryStorage, clock: &TestClock) -> Db {
    let db = opened(storage, clock);
    for key in 1..=10_u8 {
        db.insert_with_ttl([key], "value", Ttl::At(EXPIRY + u64::from(key))).unwrap();
    }
    db.insert_with_ttl([7], "another", Ttl::At(EXPIRY + 7)).unwrap();
    clock.set(EXPIRY + 10);
    assert_eq!(db.get([10]).unwrap(), None);
    db
}

fn living(db: &Db) -> Vec<u8> {
    (1..=10_u8).filter(|key| db.get([*key]).unwrap().is_some()).collect()
}

#[test]
fn what_expires_behind_the_time_that_the_clock_is_set_back_to_lives_again() {
    let (storage, clock) = (MemoryStorage::new(), TestClock::new(START));
    let db = ten_expired(&storage, &clock);
    assert_eq!(db.reset_clock().unwrap(), 0, "it has not been set back");
    clock.set(EXPIRY + 4);
    assert_eq!(living(&db), []);
    assert_eq!((db.reset_clock().unwrap(), living(&db)), (6, Vec::from([5, 6, 7, 8, 9, 10])));
    assert_eq!((db.reset_clock().unwrap(), db.store().engine.log.clock.floor()), (0, EXPIRY + 4));
    assert_eq!(tombstones(&db), [0_u64; 0]);
}

#[test]
fn what_was_swept_stays_away_when_the_clock_is_set_back_and_when_the_store_is_opened_again() {
    let (storage, clock) = (MemoryStorage::new(), TestClock::new(START));
    let db = ten_expired(&storage, &clock);
    assert_eq!(db.sweep_expired().unwrap(), 10);
    let swept = noted_tombstones(&db);
    clock.set(EXPIRY + 4);
    assert_eq!((db.reset_clock().unwrap(), living(&db)), (0, Vec::new()));
    // One for each key, however often it was written; the others have still expired.
    let found = tombstones(&db);
    assert_eq!(found.len(), 6);
    assert_eq!(noted_tombstones(&db) - swept, found.iter().sum::<u64>());
    drop(db);
    let db = opened(&storage, &clock);
    assert_eq!((living(&db), db.len().unwrap()), (Vec::new(), 0));
}
