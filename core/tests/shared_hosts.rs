//! Hosts that cannot lock the file: several sessions may have it open.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::killed;
use pipkin::Db;
use pipkin::storage::fault::FaultStorage;
use pipkin::storage::{MemoryStorage, Storage};

/// Where nothing locks the file, a session leaves places alone to which an earlier one may still write: for four sessions. The count began anew
/// as long as the log said anything older of a place, and places of snapshots that were finished were left alone, too: as each extent is
/// twice as long as the one before it, 60 short programs left 16.8 MB.
#[test]
fn sessions_that_are_forgotten_leave_a_small_file_where_no_host_locks() {
    let storage = FaultStorage::new(MemoryStorage::new());
    storage.set_shared(true);
    let mut longest = 0;
    for session in 0..60_u32 {
        let db = Db::builder().background(false).open_storage(Box::new(storage.clone())).unwrap();
        db.insert(format!("key {}", session % 5), "a value").unwrap();
        db.flush().unwrap();
        killed(db);
        longest = longest.max(storage.len().unwrap());
    }
    println!("{longest} bytes of file at most");
    // It was 2,098,078: of seven extents, five are of this session and of those before it, two of the snapshot and the one before it.
    assert!(longest < 9 << 18, "{longest} bytes");
    let db = Db::builder().background(false).open_storage(Box::new(storage)).unwrap();
    assert_eq!(db.len().unwrap(), 5);
    assert!(db.verify().unwrap().is_ok());
}
