//! When automatic compaction stops, and for what it hurries.

use super::opened;
use crate::Db;
use crate::log::Segment;
use crate::storage::MemoryStorage;
use crate::sync::Ordering;
use alloc::boxed::Box;
use alloc::vec::Vec;
use std::time::{Duration, Instant};

/// A segment all of whose records are dead, in front of others.
fn with_a_dead_segment() -> (Db, Segment) {
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false).auto_compact_dead_share(0.5);
    let db = builder.open_storage(Box::new(MemoryStorage::new())).unwrap();
    (0..9_u8).for_each(|key| db.insert([key], alloc::vec![key; 3_000]).unwrap());
    db.checkpoint().unwrap();
    let dead = db.store().engine.log.segments()[3];
    db.store().put_compaction_off();
    assert!(db.remove([3]).unwrap());
    (db, dead)
}

fn bases(db: &Db) -> Vec<u64> {
    db.store().engine.log.segments().iter().map(|segment| segment.base).collect()
}

#[test]
fn automatic_compaction_empties_nothing_more_once_a_caller_waits_for_its_lock() {
    let (db, dead) = with_a_dead_segment();
    let (store, before) = (db.store(), bases(&db));
    assert!(before.contains(&dead.base));
    let turn = store.turn.lock();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| drop(store.turn.lock()));
        while !store.turn.is_wanted() {
            std::thread::yield_now();
        }
        store.compact_unasked(|| |_| {}).unwrap();
        assert_eq!(bases(&db), before);
        drop(turn);
        other.join().unwrap();
    });
    store.compaction_due.store(0, Ordering::Relaxed);
    store.compact_unasked(|| |_| {}).unwrap();
    assert!(!bases(&db).contains(&dead.base));
    let (due, end) = (store.compaction_due.load(Ordering::Relaxed), store.engine.log.end());
    assert!((end + 1..=end + 4096).contains(&due), "{due} at {end}");
}

/// How long a compaction waits that has copied so many bytes, of which it may copy 1000 in a second.
fn waits(db: &Db, copied: u64) -> Duration {
    let started = Instant::now();
    db.store().pace()(copied);
    started.elapsed()
}

#[test]
fn a_compaction_with_a_rate_waits_as_long_as_nothing_is_due() {
    let builder = Db::builder().segment_size(4096).background(false).auto_compact_rate(1000);
    let db = builder.open_storage(Box::new(MemoryStorage::new())).unwrap();
    db.insert("key", "value").unwrap();
    let (store, end) = (db.store(), db.store().engine.log.end());
    let (long, short) = (Duration::from_secs(10), Duration::from_millis(18));
    store.checkpoint_due.store(end + 1, Ordering::Relaxed);
    assert!(waits(&db, 20) >= short, "a pause may end 2 ms early");
    // Nobody waits for these ten seconds.
    store.checkpoint_due.store(end, Ordering::Relaxed);
    assert!(waits(&db, 10_000) < long);
    store.checkpoint_due.store(end - 1, Ordering::Relaxed);
    assert!(waits(&db, 10_000) < long);
    store.checkpoint_due.store(u64::MAX, Ordering::Relaxed);
    store.engine.log.medium_full.store(true, Ordering::Relaxed);
    assert!(waits(&db, 10_000) < long);
    store.engine.log.medium_full.store(false, Ordering::Relaxed);
    assert!(waits(&db, 20) >= short);
    store.closed.store(true, Ordering::Release);
    assert!(waits(&db, 10_000) < long);
    store.closed.store(false, Ordering::Release);
}

#[test]
fn a_compaction_without_a_rate_does_not_wait() {
    let db = opened(&MemoryStorage::new());
    assert!(waits(&db, u64::MAX) < Duration::from_secs(10));
}
