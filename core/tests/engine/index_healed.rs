//! An index in the file whose bytes rot while the store is open: who notices it, who builds it anew, and what is never guessed.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use super::index_in_file::{load, opened};
use crate::common::killed;
use pipkin::storage::fault::FaultStorage;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::testing::TestClock;
use pipkin::{Db, Error, IndexMemory, SegmentUse, SnapshotState, Ttl};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A store of 5,000 records whose index is in the file.
fn stored() -> (MemoryStorage, Db, BTreeMap<Vec<u8>, Vec<u8>>) {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), 0);
    load(&db, 0..5_000);
    db.checkpoint().unwrap();
    let records = records(&db);
    (storage, db, records)
}

#[test]
fn a_part_that_has_rotted_is_an_error_and_the_next_opening_heals_it() {
    let (storage, db, before) = stored();
    rot(&storage, &db);
    unreadable(&db, 5_000);
    assert!(db.iter().any(|record| record.is_err()));
    killed(db);
    let db = opened(storage, 0);
    assert_eq!(db.open_report().snapshot, SnapshotState::Damaged);
    assert!(records(&db) == before);
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
    let (storage, db, mut before) = stored();
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
        let (storage, db, mut now) = stored();
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
    let (storage, db, before) = stored();
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
    let (storage, db, before) = stored();
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
