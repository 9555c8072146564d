//! What keeps a retired segment from being free, each thing by itself.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
use super::*;
use crate::Db;

const EXTENT: u64 = 4096;

fn store() -> Db {
    let db = Db::builder().segment_size(EXTENT as u32).entropy([7; 32]).background(false).in_memory().unwrap();
    db.insert("a key", "value").unwrap();
    db.flush().unwrap();
    db
}

/// A retired run of two extents, backed, that nothing else uses.
fn retired(db: &Db, durable_at: u64, noted: bool) {
    let engine = &db.store().engine;
    let entry = Retired { backed: true, noted, ..Retired::found(8, 2, durable_at, &engine.pins) };
    engine.log.tail.lock().retired.push(entry);
}

/// Bytes that are freed in as many looks as it takes readers to go.
fn freed(db: &Db) -> u64 {
    let engine = &db.store().engine;
    (0..3).map(|_| engine.log.reclaim(&engine.pins)).sum()
}

fn is_free(db: &Db) -> [bool; 4] {
    let tail = db.store().engine.log.tail.lock();
    [7, 8, 9, 10].map(|extent| tail.space.is_free(extent))
}

#[test]
fn a_retired_run_is_free_once_its_retirement_is_durable() {
    let db = store();
    let log = &db.store().engine.log;
    let synced = log.sync_state.synced();
    retired(&db, synced + 1, false);
    assert_eq!((freed(&db), is_free(&db)), (0, [false; 4]));
    log.sync_state.start_at(synced + 1);
    let before = log.tail.lock().space.backed_bytes();
    assert_eq!((freed(&db), is_free(&db)), (2 * EXTENT, [false, true, true, false]));
    assert_eq!(log.tail.lock().space.backed_bytes() - before, 2 * EXTENT);
    assert_eq!(freed(&db), 0);
}

#[test]
fn a_reader_or_a_value_keeps_a_retired_run() {
    let db = store();
    let engine = &db.store().engine;
    let log = &engine.log;
    let pin = engine.pins.pin();
    retired(&db, 0, false);
    assert_eq!((freed(&db), log.held_bytes()), (0, 0));
    drop(pin);
    log.holds.hold(9);
    assert_eq!((freed(&db), log.held_bytes()), (0, 2 * EXTENT));
    log.holds.release(9);
    log.holds.hold(10);
    assert_eq!((log.held_bytes(), freed(&db)), (0, 2 * EXTENT), "another extent's value");
    log.holds.release(10);
}

#[test]
fn a_note_of_a_snapshot_keeps_a_retired_run_and_those_who_may_have_read_it_do() {
    let db = store();
    let engine = &db.store().engine;
    let log = &engine.log;
    log.segment_stats.enter(
        log.geometry,
        &Segment { base: 1 << 20, extent: 8, extents: 2, end: log.geometry.start(9), salt: 5, linked: false },
    );
    log.segment_stats.add_note(8);
    retired(&db, 0, true);
    assert_eq!((freed(&db), log.noted_bytes()), (0, 2 * EXTENT));
    let pin = engine.pins.pin();
    log.segment_stats.drop_note(8);
    assert_eq!((log.reclaim(&engine.pins), log.noted_bytes()), (0, 0));
    assert_eq!(freed(&db), 0, "who came behind its retirement may have read a note");
    drop(pin);
    assert_eq!(freed(&db), 2 * EXTENT);
}

#[cfg(feature = "compress")]
#[test]
fn segments_are_kept_that_wait_to_be_free_or_are_history_or_named_by_no_list() {
    let db = store();
    let engine = &db.store().engine;
    let log = &engine.log;
    assert!(!log.keeps_segments());
    retired(&db, 0, false);
    assert!(log.keeps_segments());
    let entry = log.tail.lock().retired.pop().unwrap();
    assert!(!log.keeps_segments());
    let active = log.segments().first().copied().unwrap();
    log.tail.lock().unlisted.push(active);
    assert!(log.keeps_segments());
    log.tail.lock().unlisted.clear();
    log.follow(0, u64::MAX);
    let mut tail = log.tail.lock();
    assert!(tail.history.keep(active, log.end() + 1, log.end(), entry).is_none());
    drop(tail);
    assert!(log.keeps_segments());
}
