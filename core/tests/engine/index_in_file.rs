//! A store whose index is in the file: what it takes, what it reads, and what a failing or full medium leaves of it.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{contents, killed};
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Db, Error, IndexMemory, StorageErrorKind};
use std::time::Duration;

pub(super) fn opened(storage: impl Storage + 'static, newer_max: u64) -> Db {
    let builder = Db::builder().segment_size(64 * 1024).replay_debt_max(500_000).background(false);
    builder.index_memory(IndexMemory::InFile { newer_max }).open_storage(Box::new(storage)).unwrap()
}

pub(super) fn load(db: &Db, keys: std::ops::Range<u32>) {
    for from in keys.clone().step_by(100) {
        db.insert_many((from..keys.end.min(from + 100)).map(|key| (key.to_le_bytes(), from.to_le_bytes()))).unwrap();
    }
}

#[test]
fn the_slots_are_in_the_file_and_not_in_memory() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), 100_000);
    let mut most = 0;
    for from in (0..200_000).step_by(5_000) {
        load(&db, from..from + 5_000);
        most = most.max(db.stats().unwrap().index_bytes);
    }
    // What a load writes between two checkpoints, the fences, and 256 shards.
    assert!(most < 700_000, "{most} bytes of memory while records were loaded");
    db.close().unwrap();
    let db = opened(storage.clone(), 100_000);
    let stats = db.stats().unwrap();
    assert!(stats.index_bytes < 200_000 && stats.index_file_bytes > 800_000, "{stats:?}");
    db.close().unwrap();
    let resident = Db::builder().background(false).open_storage(Box::new(storage)).unwrap().stats().unwrap();
    assert!(resident.index_bytes > 1_800_000 && resident.index_file_bytes == 0, "{resident:?}");
}

/// A storage that maps nothing, so that each read is seen.
#[test]
fn a_get_reads_one_group_of_the_index_and_its_record() {
    let storage = FaultStorage::new(MemoryStorage::new());
    let db = opened(storage.clone(), 0);
    load(&db, 0..50_000);
    db.checkpoint().unwrap();
    storage.reset_counts();
    for key in (0..50_000_u32).step_by(50) {
        assert!(db.get(key.to_le_bytes()).unwrap().is_some());
    }
    let reads = storage.counts().reads;
    for key in 50_000..51_000_u32 {
        assert!(db.get(key.to_le_bytes()).unwrap().is_none());
    }
    let missing = storage.counts().reads - reads;
    // A record may be read in two pieces; two groups where a tag could be in either.
    assert!(reads < 3_300 && missing < 1_100, "{reads} reads for 1,000 records, {missing} for 1,000 that are not there");
}

#[test]
fn earlier_snapshots_become_free_and_a_reader_keeps_only_its_own() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), 0);
    load(&db, 0..20_000);
    db.checkpoint().unwrap();
    let other = |db: &Db| {
        let other = |segment: &pipkin::SegmentUse| if let pipkin::SegmentUse::Other { len, .. } = segment { *len } else { 0 };
        db.segments().unwrap().iter().map(other).sum::<u64>()
    };
    let one = other(&db);
    let value = db.get_zerocopy(7_u32.to_le_bytes()).unwrap();
    for round in 0..6_u32 {
        db.insert(round.to_le_bytes(), "x").unwrap();
        db.checkpoint().unwrap();
    }
    let held = other(&db);
    assert!(held > 5 * one, "{held} bytes while a reader may read there, {one} of one snapshot");
    drop(value);
    for _ in 0..2 {
        db.insert(9_u32.to_le_bytes(), "x").unwrap();
        db.checkpoint().unwrap();
    }
    let left = other(&db);
    assert!(left < 2 * one, "{left} bytes behind the reader, {one} of one snapshot");
    assert_eq!(db.get(7_u32.to_le_bytes()).unwrap().unwrap(), 0_u32.to_le_bytes());
}

/// The superblock names no snapshot then, and the one before is still read.
#[test]
fn without_room_for_a_snapshot_the_one_before_is_read_on() {
    let storage = FaultStorage::new(MemoryStorage::new());
    let db = opened(storage.clone(), 0);
    load(&db, 0..30_000);
    db.checkpoint().unwrap();
    let before = contents(&db);
    storage.set_capacity(Some(storage.len().unwrap()));
    let mut written = 50_000_u32;
    while db.insert(written.to_le_bytes(), vec![1; 3000]).is_ok() {
        written += 1;
        assert!(written < 60_000, "the medium never becomes full");
    }
    let full = (0..4).filter(|_| matches!(db.checkpoint(), Err(Error::NoSpace))).count();
    assert!(full > 0, "there was room for a snapshot");
    for key in 50_000..written {
        assert!(db.remove(key.to_le_bytes()).unwrap());
    }
    assert!(contents(&db) == before, "other records without a snapshot");
    storage.set_capacity(None);
    db.checkpoint().unwrap();
    assert!(contents(&db) == before, "other records behind the next snapshot");
    killed(db);
    assert!(contents(&opened(storage, 0)) == before);
}

#[test]
fn a_checkpoint_that_fails_leaves_what_reads_need() {
    for nth in 1..12 {
        let storage = FaultStorage::new(MemoryStorage::new());
        let db = opened(storage.clone(), 0);
        load(&db, 0..5_000);
        db.checkpoint().unwrap();
        db.insert(3_u32.to_le_bytes(), "new").unwrap();
        storage.arm(Fault::from_nth(nth, Io::Write | Io::Sync, Effect::Error(StorageErrorKind::Other)));
        let failed = db.checkpoint().is_err();
        storage.disarm();
        assert_eq!(db.get(3_u32.to_le_bytes()).unwrap().unwrap(), b"new");
        for key in (5..5_000_u32).step_by(7) {
            assert_eq!(
                db.get(key.to_le_bytes()).unwrap().unwrap(),
                (key / 100 * 100).to_le_bytes(),
                "write {nth}, failed: {failed}"
            );
        }
    }
}

#[cfg(feature = "encrypt")]
#[test]
fn a_sealed_store_has_its_index_in_memory_and_a_plain_one_is_not_sealed_meanwhile() {
    let builder = || Db::builder().background(false).index_memory(IndexMemory::in_file());
    let db = builder().encryption_key([7; 32]).in_memory().unwrap();
    load(&db, 0..1000);
    db.checkpoint().unwrap();
    let stats = db.stats().unwrap();
    assert!(stats.index_file_bytes == 0 && stats.index_bytes > 9_000, "{stats:?}");
    let db = builder().in_memory().unwrap();
    db.insert("a", "b").unwrap();
    assert!(matches!(db.enable_encryption([7; 32]), Err(Error::InvalidArgument(_))));
    assert_eq!(db.get("a").unwrap().unwrap(), b"b");
}

/// A follower keeps its own index in memory; what it reads has been moved by checkpoints and compactions of a writer that reads its index in the file.
#[test]
fn a_follower_reads_beside_a_writer_whose_index_is_in_the_file() {
    let storage = MemoryStorage::new();
    let writer = opened(storage.clone(), 0);
    load(&writer, 0..20_000);
    writer.checkpoint().unwrap();
    let reader = Db::builder().follow(true).open_storage(Box::new(storage)).unwrap();
    for round in 0..8_u32 {
        for key in (round..20_000).step_by(3) {
            writer.insert(key.to_le_bytes(), round.to_le_bytes()).unwrap();
        }
        for key in (round * 100..20_000).step_by(1_000) {
            writer.remove(key.to_le_bytes()).unwrap();
        }
        writer.checkpoint().unwrap();
        if round % 2 == 1 {
            writer.compact().unwrap();
        }
        reader.refresh().unwrap();
        assert_eq!(contents(&reader), contents(&writer), "round {round}");
        assert_eq!(reader.len().unwrap(), writer.len().unwrap(), "round {round}");
    }
}

/// Unclean ends one after the other, with the index now in the file and now in memory.
#[test]
fn unclean_ends_leave_the_same_store_whichever_way_it_is_opened() {
    let storage = MemoryStorage::new();
    load(&opened(storage.clone(), 0), 0..10_000);
    let mut before = None;
    for round in 0..12_u32 {
        let db = if round % 3 == 2 {
            Db::builder().segment_size(64 * 1024).background(false).open_storage(Box::new(storage.clone())).unwrap()
        } else {
            opened(storage.clone(), 0)
        };
        assert!(before.is_none_or(|before| before == contents(&db)), "round {round}");
        for key in (round * 7..10_000).step_by(11) {
            if key % 5 == 0 {
                db.remove(key.to_le_bytes()).unwrap();
            } else {
                db.insert(key.to_le_bytes(), round.to_le_bytes()).unwrap();
            }
        }
        if round % 2 == 0 {
            db.checkpoint().unwrap();
        }
        db.insert(round.to_le_bytes(), "behind the checkpoint").unwrap();
        before = Some(contents(&db));
        assert!(db.verify().unwrap().is_ok(), "round {round}");
        killed(db);
    }
}

/// The bound of what is newer than the file is asked of the shards, the size of the names of the namespaces: held together, the two waited for a drop that
/// held them the other way round.
#[test]
fn checkpoints_and_the_dropping_of_namespaces_do_not_wait_for_each_other() {
    let db = opened(MemoryStorage::new(), 0);
    let (done, ended) = std::sync::mpsc::channel();
    for thread in 0..3_u8 {
        let (db, done) = (db.clone(), done.clone());
        std::thread::spawn(move || {
            for round in 0..1_500_u32 {
                match thread {
                    0 => db.checkpoint().unwrap(),
                    1 => {
                        db.namespace("dropped").unwrap().insert(round.to_le_bytes(), "value").unwrap();
                        assert!(db.drop_namespace("dropped").unwrap());
                    }
                    _ => db.batch().insert(round.to_le_bytes(), "value").remove("nothing").commit().unwrap(),
                }
            }
            done.send(()).unwrap();
        });
    }
    (0..3).for_each(|_| ended.recv_timeout(Duration::from_secs(60)).unwrap());
    assert_eq!(db.len().unwrap(), 1_500);
}

/// A storage that maps nothing, so that each read is seen.
#[test]
fn a_compaction_reads_the_index_once_for_many_segments() {
    let storage = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(64 * 1024).background(false).auto_compact_dead_share(2.0);
    let db = builder.index_memory(IndexMemory::InFile { newer_max: 0 }).open_storage(Box::new(storage.clone())).unwrap();
    load(&db, 0..50_000);
    for key in (0..50_000_u32).step_by(2) {
        db.insert(key.to_le_bytes(), "new").unwrap();
    }
    db.checkpoint().unwrap();
    let before = contents(&db);
    storage.reset_counts();
    let report = db.compact().unwrap();
    let reads = storage.counts().reads;
    assert!(report.records_copied >= 25_000, "{report:?}");
    // 163,000 where each record is looked up in the index.
    assert!(reads < 90_000, "{reads} reads for {} records that were copied", report.records_copied);
    assert!(contents(&db) == before && db.verify().unwrap().is_ok());
}

/// Between the segments of a compaction records are replaced and removed, and checkpoints give the shards other bases.
#[test]
fn what_was_read_of_the_index_stays_true_while_a_compaction_is_overtaken() {
    let storage = MemoryStorage::new();
    let builder = Db::builder().segment_size(16 * 1024).replay_debt_max(30_000).background(false);
    let db = builder.index_memory(IndexMemory::InFile { newer_max: 0 }).open_storage(Box::new(storage.clone())).unwrap();
    load(&db, 0..20_000);
    for key in (0..20_000_u32).step_by(3) {
        db.insert(key.to_le_bytes(), "new").unwrap();
    }
    db.checkpoint().unwrap();
    let mut expected = contents(&db).remove("").unwrap();
    let (mut calls, mut next) = (0, 0_u32);
    db.compact_with(|_| {
        calls += 1;
        for _ in 0..60 {
            next = (next + 7_919) % 20_000;
            let key = next.to_le_bytes();
            if next % 4 == 0 {
                db.remove(key).unwrap();
                expected.remove(&key[..]);
            } else {
                db.insert(key, calls.to_string()).unwrap();
                expected.insert(key.to_vec(), calls.to_string().into_bytes());
            }
        }
    })
    .unwrap();
    assert!(calls > 20, "{calls} segments");
    assert!(contents(&db).remove("").unwrap() == expected && db.verify().unwrap().is_ok());
    killed(db);
    let db = opened(storage, 0);
    assert!(contents(&db).remove("").unwrap() == expected && db.len().unwrap() == expected.len() as u64);
}
