//! Hosts that cannot lock the file: several sessions may have it open.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::killed;
use pipkin::Db;
use pipkin::storage::fault::FaultStorage;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::testing::TestClock;
use std::time::Duration;

/// Where nothing locks the file, a session leaves places alone to which an earlier one may still write: for four sessions. The count began anew
/// as long as the log said anything older of a place, and places of snapshots that were finished were left alone, too: as each extent is
/// twice as long as the one before it, 60 short programs left 16.8 MB.
#[test]
fn sessions_that_are_forgotten_leave_a_small_file_where_no_host_locks() {
    // It was 2,098,078: of seven extents, five are of this session and of those before it, two of the snapshot and the one before it.
    let longest = longest_of(60, Duration::from_secs(20));
    assert!(longest < 9 << 18, "{longest} bytes");
    // As many within ten seconds, for which one of them may be asleep: 12,583,828.
    let longest = longest_of(60, Duration::from_millis(100));
    assert!(longest < 13 << 20, "{longest} bytes in a crowd");
}

/// The longest file that so many sessions leave, each so long behind the one before.
fn longest_of(sessions: u32, apart: Duration) -> u64 {
    let storage = FaultStorage::new(MemoryStorage::new());
    storage.set_shared(true);
    let mut longest = 0;
    let clock = TestClock::new(1_700_000_000_000);
    for session in 0..sessions {
        clock.advance(apart);
        let db = Db::builder().clock(clock.clone()).background(false).open_storage(Box::new(storage.clone())).unwrap();
        db.insert(format!("key {}", session % 5), "a value").unwrap();
        db.flush().unwrap();
        killed(db);
        longest = longest.max(storage.len().unwrap());
    }
    println!("{longest} bytes of file at most where sessions are {apart:?} apart");
    let db = Db::builder().background(false).open_storage(Box::new(storage)).unwrap();
    assert_eq!(db.len().unwrap(), 5);
    assert!(db.verify().unwrap().is_ok());
    longest
}
