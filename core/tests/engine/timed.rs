//! An ordered store with a clock that a test sets, for the tests of records that expire.
#![allow(clippy::unwrap_used, dead_code, reason = "each set of features uses a part, and a test fails by panicking")]

use pipkin::Db;
use pipkin::storage::MemoryStorage;
use pipkin::testing::TestClock;
use std::time::Duration;

pub(crate) const START: u64 = 1_700_000_000_000;
pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn open_with(storage: &MemoryStorage, clock: &TestClock) -> Db {
    let builder = Db::builder().clock(clock.clone()).segment_size(4096).ordered(true).auto_compact_dead_share(2.0);
    builder.open_storage(Box::new(storage.clone())).unwrap()
}

pub(crate) fn new() -> (MemoryStorage, TestClock, Db) {
    let (storage, clock) = (MemoryStorage::new(), TestClock::new(START));
    let db = open_with(&storage, &clock);
    (storage, clock, db)
}
