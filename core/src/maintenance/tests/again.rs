//! How many records a compaction copies a second time.

use crate::Db;
use alloc::vec::Vec;

const RECORDS: u32 = 40_000;

#[test]
fn a_compaction_copies_few_records_twice_to_shorten_the_file() {
    let builder = Db::builder().segment_size(64 * 1024).entropy([7; 32]).background(false).auto_compact_dead_share(2.0);
    let db = builder.in_memory().unwrap();
    db.insert_many((0..RECORDS).map(|n| (n.to_le_bytes(), [7; 100]))).unwrap();
    let odd: Vec<_> = (0..RECORDS).filter(|n| n % 2 == 1).map(u32::to_le_bytes).collect();
    db.remove_many(&odd).unwrap();
    let before = db.stats().unwrap().file_bytes;
    let report = db.compact().unwrap();
    let after = db.stats().unwrap().file_bytes;
    assert!(after * 3 < before * 2, "from {before} to {after}");
    // All together went to the end of the file before any of their segments was free.
    assert!(report.records_copied < u64::from(RECORDS) / 2 * 5 / 4, "{report:?}");
    assert_eq!(db.len().unwrap(), u64::from(RECORDS) / 2);
}
