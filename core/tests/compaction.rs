//! What a compaction asks of its storage.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, missing_docs, reason = "tests fail by panicking")]

use pipkin::Db;
use pipkin::storage::fault::FaultStorage;
use pipkin::storage::{MemoryStorage, Storage};

#[test]
fn a_compaction_that_was_asked_for_empties_several_segments_for_each_sync_and_grows_the_file_by_few() {
    let storage = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(4096).entropy([7; 16]).auto_compact_dead_share(1.0);
    let db = builder.open_storage(Box::new(storage.clone())).unwrap();
    let key = |number: u32| number.to_be_bytes();
    for number in 0..4_000_u32 {
        db.insert(key(number), [1; 100]).unwrap();
    }
    for number in (0..4_000_u32).filter(|number| number % 4 != 0) {
        db.remove(key(number)).unwrap();
    }
    db.flush().unwrap();
    let before = (storage.counts().syncs, storage.len().unwrap());
    let report = db.compact().unwrap();
    let syncs = storage.counts().syncs - before.0;
    assert!(report.segments_retired > 80, "{report:?}");
    assert!(syncs * 2 < report.segments_retired, "{syncs} syncs for {report:?}");
    // What older segments said of the removed ones is gone with them.
    assert!(report.records_copied < 2 * 1_000, "{report:?}");
    let after = storage.len().unwrap();
    assert!(after * 2 < before.1, "{after} of {} bytes", before.1);
    assert_eq!(db.iter().filter(|record| record.is_ok()).count(), 1_000);
    assert!(db.verify().unwrap().is_ok());
}
