//! Which segment a step takes, and when it writes a checkpoint for that.

use super::filled::{append_dead, fill};
use super::{choose, nine_segments, set};
use crate::Db;
use crate::log::CheckpointPlace;
use crate::maintenance::checkpoint::Extent;

fn place(db: &Db) -> CheckpointPlace {
    db.store().engine.log.newest_checkpoint().unwrap()
}

#[test]
fn a_step_takes_what_the_newest_checkpoint_names_and_writes_no_other_one() {
    let (db, segments) = nine_segments();
    (0..8_u8).for_each(|key| db.insert([100, key], [key; 3_000]).unwrap());
    let before = place(&db);
    set(&db.store().engine, &segments[3], 100, 0);
    let report = db.compact_step().unwrap().unwrap();
    assert_eq!((report.segments_retired, report.records_copied), (1, 1));
    assert_eq!(place(&db), before);
    assert!(choose::candidates(&db.store().engine).iter().all(|segment| segment.base != segments[3].base));
}

#[test]
fn without_a_victim_a_step_writes_a_checkpoint_if_the_last_one_is_far_enough_back() {
    let (db, _) = nine_segments();
    let log = &db.store().engine.log;
    let apart = || 2 * 4096 + 4 * log.list_len(log.segment_count());
    append_dead(log, 700).unwrap();
    db.store().write_checkpoint(Extent::Changes).unwrap();
    let before = place(&db);
    // The segments that this fills are dead as a whole, but no list names them.
    fill(log, &|| apart() - log.replay_debt());
    assert_eq!(db.compact_step().unwrap(), None);
    assert_eq!(place(&db), before);
    append_dead(log, 1).unwrap();
    assert_eq!(db.compact_step().unwrap().unwrap().segments_retired, 1);
    assert!(place(&db) != before);
}

#[cfg(feature = "compress")]
#[test]
fn the_first_step_trains_a_dictionary_and_each_compresses_a_segment() {
    let builder = Db::builder().entropy([9; 32]).segment_size(64 * 1024).background(false);
    let db = builder.compression(crate::Compression::OnCompaction).in_memory().unwrap();
    for number in 0..500_u32 {
        let mixed = number.wrapping_mul(0x9e37_79b9);
        let value = alloc::format!(
            r#"{{"feature":"api.Interface{}.method{mixed:x}","browser":"firefox","support":{{"version_added":"{}"}},"status":{{"deprecated":false,"standard_track":true}}}}"#,
            number % 97,
            number % 50
        );
        db.insert(number.to_le_bytes(), value).unwrap();
    }
    let log = &db.store().engine.log;
    assert!(log.newest_checkpoint().is_none() && log.replay_debt() < 2 * 64 * 1024, "{} bytes of debt", log.replay_debt());
    let before = log.usage().live;
    let report = db.compact_step().unwrap().unwrap();
    assert_eq!(report.segments_retired, 1);
    assert_eq!(db.compression_stats().unwrap().dictionaries, 1);
    assert!(report.records_copied > 0 && report.bytes_copied < report.records_copied * 120, "{report:?}");
    while db.compact_step().unwrap().is_some() {}
    assert!(log.usage().live * 4 < before * 3, "{} of {before} bytes", log.usage().live);
}
