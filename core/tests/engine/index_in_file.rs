//! A store whose index is in the file: what it takes, what it reads, and what a failing or full medium leaves of it.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{contents, killed};
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::testing::TestClock;
use pipkin::{Db, Error, IndexMemory, SegmentUse, SnapshotState, StorageErrorKind, Ttl};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

fn opened(storage: impl Storage + 'static, newer_max: u64) -> Db {
    let builder = Db::builder().segment_size(64 * 1024).replay_debt_max(500_000).background(false);
    builder.index_memory(IndexMemory::InFile { newer_max }).open_storage(Box::new(storage)).unwrap()
}

fn load(db: &Db, keys: std::ops::Range<u32>) {
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

#[test]
fn a_part_that_has_rotted_is_an_error_and_the_next_opening_heals_it() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), 0);
    load(&db, 0..5_000);
    db.checkpoint().unwrap();
    let before = contents(&db);
    rot(&storage, &db);
    unreadable(&db, 5_000);
    assert!(db.iter().any(|record| record.is_err()));
    killed(db);
    let db = opened(storage, 0);
    assert_eq!(db.open_report().snapshot, SnapshotState::Damaged);
    assert!(contents(&db) == before);
}

fn records(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    db.iter().map(Result::unwrap).collect()
}

/// Changes bytes of every part of the index in the file, and of no record.
fn rot(storage: &MemoryStorage, db: &Db) {
    for segment in db.segments().unwrap() {
        if let SegmentUse::Other { offset, len } = segment {
            let mut bytes = vec![0; len as usize];
            if storage.read_at(offset, &mut bytes).is_ok() {
                bytes.iter_mut().skip(2000).step_by(97).for_each(|byte| *byte ^= 1);
                storage.write_at(offset, &[&bytes]).unwrap();
            }
        }
    }
}

/// The keys from [`load`] that answer the damage; the others answer what they have. The seed of the hashes is drawn: which keys lie in bytes that
/// stayed whole differs from run to run.
fn unreadable(db: &Db, keys: u32) -> Vec<u32> {
    let is_damaged = |key: &u32| match db.get(key.to_le_bytes()) {
        Ok(value) => {
            assert_eq!(value.unwrap(), (key / 100 * 100).to_le_bytes());
            false
        }
        Err(Error::IndexDamaged { .. }) => true,
        Err(error) => panic!("{error:?}"),
    };
    let damaged: Vec<u32> = (0..keys).filter(is_damaged).collect();
    assert!(damaged.len() > keys as usize / 2, "{}", damaged.len());
    damaged
}

#[test]
fn a_checkpoint_heals_what_has_rotted_as_often_as_it_does() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), 0);
    load(&db, 0..5_000);
    db.checkpoint().unwrap();
    let mut before = records(&db);
    for round in 0..3_u32 {
        rot(&storage, &db);
        let unreadable = unreadable(&db, 5_000);
        db.checkpoint().unwrap();
        assert!(records(&db) == before, "round {round}");
        assert_eq!(db.len().unwrap(), before.len() as u64);
        let stats = db.stats().unwrap();
        assert!(stats.index_rebuilt > 0 && stats.index_file_bytes > 20_000, "round {round}: {stats:?}");
        let report = db.verify().unwrap();
        assert!(report.is_ok(), "round {round}: {report:?}");
        // Newer than the part that will rot.
        db.insert(unreadable[0].to_le_bytes(), (unreadable[0] / 100 * 100).to_le_bytes()).unwrap();
        db.insert((10_000 + round).to_le_bytes(), "new").unwrap();
        before.insert((10_000 + round).to_le_bytes().to_vec(), b"new".to_vec());
    }
    killed(db);
    let db = opened(storage, 0);
    assert_eq!(db.open_report().snapshot, SnapshotState::Loaded);
    assert!(records(&db) == before);
}

type Write = fn(&Db, [u8; 4]);

#[test]
fn a_write_that_meets_damage_heals_it_and_is_carried_out() {
    let verbs: [(&str, Write); 5] = [
        ("insert", |db, key| db.insert(key, "new").unwrap()),
        ("remove", |db, key| assert!(db.remove(key).unwrap())),
        ("batch", |db, key| db.batch().insert(key, "new").remove("nothing").commit().unwrap()),
        ("update", |db, key| db.update(key, |_| Some(b"new".to_vec())).unwrap()),
        ("transaction", |db, key| {
            let mut transaction = db.begin().unwrap();
            transaction.insert(key, "new").unwrap();
            transaction.commit().unwrap();
        }),
    ];
    for (verb, write) in verbs {
        let storage = MemoryStorage::new();
        let db = opened(storage.clone(), 0);
        load(&db, 0..5_000);
        db.checkpoint().unwrap();
        let mut now = records(&db);
        rot(&storage, &db);
        let key = unreadable(&db, 5_000)[0].to_le_bytes();
        write(&db, key);
        if verb == "remove" {
            now.remove(&key[..])
        } else {
            now.insert(key.to_vec(), b"new".to_vec())
        };
        assert!(records(&db) == now, "{verb}");
        assert!(db.stats().unwrap().index_rebuilt > 0, "{verb}");
        killed(db);
        assert!(records(&opened(storage, 0)) == now, "{verb}, after a kill");
    }
}

#[test]
fn the_thread_heals_what_a_read_has_met() {
    let storage = MemoryStorage::new();
    let builder = Db::builder().segment_size(64 * 1024).background(true);
    let db = builder.index_memory(IndexMemory::InFile { newer_max: 0 }).open_storage(Box::new(storage.clone())).unwrap();
    load(&db, 0..5_000);
    db.checkpoint().unwrap();
    let before = records(&db);
    rot(&storage, &db);
    let until = Instant::now() + Duration::from_secs(60);
    while (0..5_000_u32).any(|key| db.get(key.to_le_bytes()).is_err()) {
        assert!(Instant::now() < until, "not healed");
    }
    assert!(records(&db) == before && db.stats().unwrap().index_rebuilt > 0);
}

/// What the log does not tell: what has expired and was swept, and the records of dropped namespaces.
#[test]
fn what_has_left_the_index_without_a_word_does_not_come_back() {
    for swept in [0, 1_500, 3_000] {
        let (storage, clock) = (MemoryStorage::new(), TestClock::new(1_000_000));
        let builder = Db::builder().segment_size(64 * 1024).background(false).clock(clock.clone());
        let db = builder.index_memory(IndexMemory::InFile { newer_max: 0 }).open_storage(Box::new(storage.clone())).unwrap();
        let (kept, dropped) = (db.namespace("kept").unwrap(), db.namespace("dropped").unwrap());
        load(&db, 0..3_000);
        for key in 0..3_000_u32 {
            let soon = Ttl::After(Duration::from_secs(if key < 1_500 { 10 } else { 30 }));
            kept.insert_with_ttl(key.to_le_bytes(), "expires", soon).unwrap();
            let later = Ttl::After(Duration::from_secs(1_000));
            kept.insert_with_ttl((5_000 + key).to_le_bytes(), "later", later).unwrap();
            dropped.insert(key.to_le_bytes(), "gone").unwrap();
        }
        db.checkpoint().unwrap();
        db.drop_namespace("dropped").unwrap();
        if swept >= 1_500 {
            clock.set(1_000_000 + 20_000);
            assert_eq!(kept.len().unwrap(), 4_500);
        }
        clock.set(1_000_000 + 40_000);
        if swept == 3_000 {
            assert_eq!(kept.len().unwrap(), 3_000);
        }
        rot(&storage, &db);
        unreadable(&db, 3_000);
        db.checkpoint().unwrap();
        assert!(db.stats().unwrap().index_rebuilt > 0);
        assert_eq!((kept.len().unwrap(), db.len().unwrap()), (3_000, 3_000), "{swept} swept");
        let records: Vec<Vec<u8>> = kept.iter().map(|record| record.unwrap().1).collect();
        assert!(records.len() == 3_000 && records.iter().all(|value| value == b"later"));
        let stats = db.stats().unwrap();
        assert_eq!((stats.expiring, stats.records), (3_000, 6_000));
        db.compact().unwrap();
        assert_eq!((kept.len().unwrap(), db.len().unwrap()), (3_000, 3_000), "{swept} swept, compacted");
        let stats = db.stats().unwrap();
        assert!(stats.live_bytes > 90_000 && stats.live_bytes < 140_000, "{swept} swept: {stats:?}");
        clock.advance(Duration::from_secs(2_000));
        assert_eq!(kept.len().unwrap(), 0);
    }
}

#[test]
fn snapshots_and_transactions_go_on_while_the_index_is_healed() {
    let storage = MemoryStorage::new();
    let builder = Db::builder().segment_size(64 * 1024).background(false).ordered(true);
    let db = builder.index_memory(IndexMemory::InFile { newer_max: 0 }).open_storage(Box::new(storage.clone())).unwrap();
    load(&db, 0..5_000);
    let other = db.namespace("other").unwrap();
    other.insert("a", "b").unwrap();
    db.checkpoint().unwrap();
    let before = records(&db);
    let snapshot = db.snapshot();
    for key in (0..5_000_u32).step_by(3) {
        db.insert(key.to_le_bytes(), "new").unwrap();
        db.remove((key + 1).to_le_bytes()).unwrap();
    }
    db.drop_namespace("other").unwrap();
    let now = records(&db);
    let mut transaction = db.begin().unwrap();
    transaction.insert(2_u32.to_le_bytes(), "by a transaction").unwrap();
    db.checkpoint().unwrap();
    rot(&storage, &db);
    assert!((0..5_000_u32).any(|key| db.get(key.to_le_bytes()).is_err()));
    db.checkpoint().unwrap();
    assert!(records(&db) == now);
    for (key, value) in &before {
        assert_eq!(snapshot.get(key).unwrap().as_ref(), Some(value));
    }
    assert_eq!(snapshot.len().unwrap(), before.len() as u64);
    transaction.commit().unwrap();
    assert_eq!(db.get(2_u32.to_le_bytes()).unwrap().unwrap(), b"by a transaction");
    let keys: Vec<Vec<u8>> = db.range(..).unwrap().map(|record| record.unwrap().0).collect();
    assert!(keys.iter().eq(now.keys()), "the keys in order");
    drop(snapshot);
    db.compact().unwrap();
    assert_eq!(db.len().unwrap(), now.len() as u64);
}

#[test]
fn where_the_log_is_damaged_too_nothing_is_guessed() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), 0);
    load(&db, 0..5_000);
    db.checkpoint().unwrap();
    let before = records(&db);
    rot(&storage, &db);
    let unreadable = unreadable(&db, 5_000);
    let mut bytes = storage.to_vec();
    // One record: whose it was, only its slot could tell.
    let value = [2_500_u32.to_le_bytes(), 2_500_u32.to_le_bytes()].concat();
    let at = bytes.windows(8).position(|window| window == value).unwrap();
    bytes[at + 1] ^= 0x40;
    storage.write_at(at as u64, &[&bytes[at..at + 8]]).unwrap();
    for _ in 0..2 {
        assert!(matches!(db.checkpoint(), Err(Error::Corrupt { .. })));
    }
    assert_eq!(db.stats().unwrap().index_rebuilt, 0);
    let one = unreadable[0].to_le_bytes();
    assert!(matches!(db.get(one), Err(Error::IndexDamaged { .. })), "{:?}", db.get(one));
    // A write that can do without what is damaged is carried out.
    let written: Vec<u32> = (20_000..20_500_u32).filter(|key| db.insert(key.to_le_bytes(), "new").is_ok()).collect();
    for key in 0..5_000_u32 {
        match db.get(key.to_le_bytes()) {
            Ok(value) => assert_eq!(value.as_ref(), before.get(&key.to_le_bytes()[..]), "key {key}"),
            Err(Error::IndexDamaged { .. } | Error::Corrupt { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    bytes[at + 1] ^= 0x40;
    storage.write_at(at as u64, &[&bytes[at..at + 8]]).unwrap();
    db.checkpoint().unwrap();
    let mut after = before;
    after.extend(written.iter().map(|key| (key.to_le_bytes().to_vec(), b"new".to_vec())));
    assert!(records(&db) == after, "healed once the record could be read again");
}

#[test]
fn a_backup_needs_nothing_of_what_has_rotted() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), 0);
    load(&db, 0..5_000);
    db.checkpoint().unwrap();
    let before = records(&db);
    rot(&storage, &db);
    let copy = MemoryStorage::new();
    db.backup_to_storage(&copy).unwrap();
    assert!(records(&opened(copy, 0)) == before);
}

/// Without room for a snapshot what was healed stays in memory.
#[test]
fn a_full_medium_keeps_nothing_from_being_healed() {
    let storage = MemoryStorage::new();
    let full = FaultStorage::new(storage.clone());
    let db = opened(full.clone(), 0);
    load(&db, 0..5_000);
    db.checkpoint().unwrap();
    let before = records(&db);
    full.set_capacity(Some(storage.len().unwrap()));
    while db.insert("filler", vec![1; 3000]).is_ok() {}
    rot(&storage, &db);
    unreadable(&db, 5_000);
    let _ = db.checkpoint();
    let mut now = records(&db);
    now.remove(&b"filler"[..]);
    assert!(now == before && db.stats().unwrap().index_rebuilt > 0);
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
