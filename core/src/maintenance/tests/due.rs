//! What maintenance does when a write has made it due.

use crate::Db;
use crate::error::Error;
use crate::maintenance::due::unless_full;
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
