//! What maintenance does when a write has made it due.

use crate::Db;
use crate::error::Error;
use crate::maintenance::due::unless_full;
use crate::nested::Held;
use crate::storage::MemoryStorage;
use crate::storage::StorageErrorKind;
use crate::storage::fault::{Effect, Fault, FaultStorage, Io};
use crate::sync::Ordering;
use crate::testing::TestClock;
use alloc::boxed::Box;
use core::time::Duration;

/// Records that have expired.
const EXPIRED: u64 = 400;

/// How many of the expired records are still in the index after maintenance has run so often; `rate` of them may go each time.
fn left_after(runs: usize, sweeps: bool, rate: Option<u64>) -> u64 {
    let clock = TestClock::new(1_700_000_000_000);
    let builder = Db::builder().clock(clock.clone()).background(false).auto_sweep(sweeps);
    let builder = rate.into_iter().fold(builder, |builder, rate| builder.auto_sweep_rate(rate));
    let db = builder.in_memory().unwrap();
    for key in 0..EXPIRED {
        db.insert_with_ttl(key.to_le_bytes(), "value", Duration::from_secs(1)).unwrap();
    }
    clock.advance(Duration::from_secs(2));
    (0..runs).for_each(|_| db.store().maintain().unwrap());
    db.sweep_expired().unwrap()
}

#[test]
fn maintenance_forgets_what_has_expired_as_many_at_a_time_as_it_may() {
    assert_eq!(left_after(1, true, None), 0);
    assert_eq!(left_after(3, false, None), EXPIRED);
    let once = EXPIRED - left_after(1, true, Some(50));
    assert!((50..100).contains(&once), "{once} at a time");
    let thrice = EXPIRED - left_after(3, true, Some(50));
    assert!((150..300).contains(&thrice), "{thrice} in three times");
    assert_eq!(left_after(8, true, Some(50)), 0);
}

/// Each names all segments: lists that are close together would soon be most of the file.
#[test]
fn the_next_checkpoint_is_the_further_off_the_more_segments_there_are() {
    let builder = Db::builder().segment_size(4096).replay_debt_max(4096).background(false).auto_compact_dead_share(2.0);
    let db = builder.in_memory().unwrap();
    let store = db.store();
    let off = || {
        db.checkpoint().unwrap();
        store.checkpoint_due.load(Ordering::Relaxed) - store.engine.log.end()
    };
    db.insert("a key", "value").unwrap();
    assert!(off() <= 4096);
    (0..200_u8).for_each(|key| db.insert([key], alloc::vec![key; 3_000]).unwrap());
    let (off, segments) = (off(), store.engine.log.segment_count() as u64);
    assert!(segments > 200 && off > segments * 256 && off < segments * 1024, "{off} bytes off with {segments} segments");
}

#[test]
fn only_a_full_medium_does_not_end_maintenance() {
    assert!(unless_full(Ok(())).is_ok() && unless_full(Err(Error::NoSpace)).is_ok());
    assert!(matches!(unless_full(Err(Error::Closed)), Err(Error::Closed)));
    let storage = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(4096).replay_debt_max(4096).background(false);
    let db = builder.open_storage(Box::new(storage.clone())).unwrap();
    db.insert("a key", "value").unwrap();
    db.store().checkpoint_due.store(0, Ordering::Relaxed);
    storage.arm(Fault::from_nth(1, Io::Write, Effect::Error(StorageErrorKind::Other)));
    assert!(db.store().maintain().is_err());
}

/// A store whose maintenance is due only when a test says so, and what has changed in it when some has run: the place of the newest checkpoint, and when the
/// next compaction is due.
fn quiet() -> Db {
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
    let db = builder.in_memory().unwrap();
    db.insert("a key", "value").unwrap();
    db.checkpoint().unwrap();
    db.store().checkpoint_due.store(u64::MAX, Ordering::Relaxed);
    db.store().compaction_due.store(u64::MAX, Ordering::Relaxed);
    db
}

fn offset_of_checkpoint(db: &Db) -> u64 {
    db.store().engine.log.newest_checkpoint().unwrap().offset
}

#[test]
fn a_write_runs_the_maintenance_that_is_due_where_it_ends() {
    for (less, runs) in [(0, true), (1, false)] {
        let db = quiet();
        let (store, log) = (db.store(), &db.store().engine.log);
        let before = (offset_of_checkpoint(&db), log.end());
        db.insert("a key", "value").unwrap();
        db.insert("a key", "value").unwrap();
        assert_eq!(offset_of_checkpoint(&db), before.0);
        let end = log.end();
        db.insert("a key", "value").unwrap();
        let len = log.end() - end;
        store.checkpoint_due.store(log.end() + len + less, Ordering::Relaxed);
        db.insert("a key", "value").unwrap();
        assert_eq!(offset_of_checkpoint(&db) != before.0, runs, "checkpoint");

        store.checkpoint_due.store(u64::MAX, Ordering::Relaxed);
        db.insert("a key", "value").unwrap();
        let due = log.end() + len + less;
        store.compaction_due.store(due, Ordering::Relaxed);
        db.insert("a key", "value").unwrap();
        let next = if runs { log.end() + 4096 } else { due };
        assert_eq!(store.compaction_due.load(Ordering::Relaxed), next, "compaction");
    }
}

#[test]
fn what_finds_the_maintenance_of_another_thread_running_puts_its_own_off() {
    let db = quiet();
    let store = db.store();
    let turn = store.turn.lock();
    store.maintain().unwrap();
    assert_eq!(store.compaction_due.load(Ordering::Relaxed), store.engine.log.end() + 4096);
    drop(turn);
}

#[test]
fn the_next_checkpoint_is_due_as_far_behind_the_end_as_the_builder_says() {
    let db = Db::builder().replay_debt_max(100_000).background(false).in_memory().unwrap();
    db.insert("a key", "value").unwrap();
    let (store, end) = (db.store(), db.store().engine.log.end());
    store.checkpoint_if_due().unwrap();
    assert!(store.engine.log.newest_checkpoint().is_none());
    store.checkpoint_due.store(end + 1, Ordering::Relaxed);
    store.checkpoint_if_due().unwrap();
    assert!(store.engine.log.newest_checkpoint().is_none());
    store.checkpoint_due.store(end, Ordering::Relaxed);
    store.checkpoint_if_due().unwrap();
    assert!(store.engine.log.newest_checkpoint().is_some());
    assert_eq!(store.checkpoint_due.load(Ordering::Relaxed), end + 100_000);
}

/// Inside of a call that has the turn, or a shard, it would wait for itself.
#[test]
fn what_earlier_sessions_left_is_done_once_and_by_a_write_that_may_wait_for_the_turn() {
    let db = quiet();
    let store = db.store();
    let before = offset_of_checkpoint(&db);
    let catches_up = || {
        store.catch_up_if_possible();
        !store.overdue.load(Ordering::Relaxed)
    };
    store.overdue.store(true, Ordering::Relaxed);
    for held in [Held::Turn, Held::Shard] {
        let _inside = store.engine.inside(held);
        assert!(!catches_up());
    }
    assert_eq!(offset_of_checkpoint(&db), before);
    assert!(catches_up());
    let after = offset_of_checkpoint(&db);
    assert!(after != before);
    store.catch_up_if_possible();
    assert_eq!(offset_of_checkpoint(&db), after);
}
