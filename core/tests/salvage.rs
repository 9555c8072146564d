//! What salvage gets out, beyond single damaged records: nothing that was given up, no half commits, and no silence about what is gone.
#![cfg(feature = "salvage")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::{Db, SalvageReport, Storage};
use std::collections::BTreeMap;

fn opened(storage: &MemoryStorage) -> Db {
    Db::builder().segment_size(8192).background(false).open_storage(Box::new(storage.clone())).unwrap()
}

fn salvaged(source: &dyn Storage) -> (Db, SalvageReport) {
    let target = Db::open_in_memory().unwrap();
    let report = pipkin::salvage(source, &target, &mut |_, _| {}).unwrap();
    (target, report)
}

/// Every namespace with its records; the default one is the empty name.
fn contents(db: &Db) -> BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut all = BTreeMap::from([(String::new(), db.iter().map(Result::unwrap).collect())]);
    for name in db.list_namespaces() {
        all.insert(name.clone(), db.namespace(&name).unwrap().iter().map(Result::unwrap).collect());
    }
    all
}

/// Namespaces that were cleared, dropped and emptied, and compactions that forget the records of their names.
fn with_a_past(storage: &MemoryStorage) -> Db {
    let db = opened(storage);
    let cache = db.namespace("cache").unwrap();
    db.namespace("empty").unwrap();
    for round in 0..6_u32 {
        let gone = db.namespace(&format!("gone {round}")).unwrap();
        for i in 0..100_u32 {
            db.insert((i * 7 % 60).to_le_bytes(), [round as u8; 90]).unwrap();
            cache.insert(i.to_le_bytes(), b"a secret of some length").unwrap();
            gone.insert(i.to_le_bytes(), b"dropped").unwrap();
        }
        if round < 5 {
            cache.clear().unwrap();
        }
        db.drop_namespace(&format!("gone {round}")).unwrap();
        if round % 2 == 1 {
            db.compact().unwrap();
        }
    }
    db
}

#[test]
fn what_was_cleared_or_dropped_does_not_come_back() {
    let storage = MemoryStorage::new();
    let db = with_a_past(&storage);
    let right = contents(&db);
    for close in [false, true] {
        if close {
            db.clone().close().unwrap();
        }
        let copy = MemoryStorage::from_vec(storage.to_vec());
        let (target, report) = salvaged(&copy);
        assert_eq!((contents(&target), &report.damage[..]), (right.clone(), &[][..]), "closed: {close}");
    }
}

#[test]
fn a_namespace_keeps_its_name_when_the_record_of_it_is_damaged() {
    let storage = MemoryStorage::new();
    let db = with_a_past(&storage);
    db.checkpoint().unwrap();
    let right = contents(&db);
    db.close().unwrap();
    let bytes = storage.to_vec();
    let mut flipped = 0;
    for at in (16_384..bytes.len() - 5).filter(|at| &bytes[*at..*at + 5] == b"cache") {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        let (target, _) = salvaged(&MemoryStorage::from_vec(bytes));
        assert_eq!(contents(&target), right, "byte {at}");
        flipped += 1;
    }
    assert!(flipped > 1, "the record of the name, and the snapshot");
}

#[test]
fn a_commit_without_an_end_is_left_out_as_opening_leaves_it_out() {
    let storage = MemoryStorage::new();
    let db = opened(&storage);
    db.insert_many([("alice", "100"), ("bob", "0")]).unwrap();
    db.flush().unwrap();
    let before = contents(&db);
    let start = storage.to_vec();
    db.insert_many([("alice", "0"), ("bob", "100")]).unwrap();
    let whole = storage.to_vec();
    let end = whole.iter().zip(&start).rposition(|(now, then)| now != then).unwrap() + 1;
    assert_eq!(contents(&salvaged(&MemoryStorage::from_vec(whole.clone())).0), contents(&db));
    // As a killed process leaves it: the first record is whole, the second is not.
    for torn in 1..8 {
        let mut bytes = whole.clone();
        bytes[end - torn..end].fill(0);
        let (target, report) = salvaged(&MemoryStorage::from_vec(bytes.clone()));
        assert_eq!((contents(&target), report.damage.len()), (before.clone(), 0), "{torn} bytes");
        assert_eq!(contents(&opened(&MemoryStorage::from_vec(bytes))), before);
    }
}

#[test]
fn a_store_that_was_cut_short_is_never_salvaged_without_a_word() {
    let storage = MemoryStorage::new();
    let db = opened(&storage);
    for i in 0..500_u32 {
        db.insert(i.to_le_bytes(), [7; 100]).unwrap();
    }
    db.close().unwrap();
    let bytes = storage.to_vec();
    for len in (16_384..bytes.len()).step_by(997) {
        let cut = MemoryStorage::from_vec(bytes[..len].to_vec());
        let (target, report) = salvaged(&cut);
        assert!(
            target.len().unwrap() < 500 && !report.damage.is_empty() || Db::builder().open_storage(Box::new(cut)).is_ok(),
            "cut at {len}"
        );
    }
}

#[test]
fn a_damaged_record_beside_a_dropped_namespace_costs_itself_alone() {
    let storage = MemoryStorage::new();
    let db = opened(&storage);
    let gone = db.namespace("gone").unwrap();
    for i in 0..3000_u32 {
        db.insert(i.to_le_bytes(), format!("value {i:05}")).unwrap();
        gone.insert(i.to_le_bytes(), b"x").unwrap();
    }
    db.checkpoint().unwrap();
    db.drop_namespace("gone").unwrap();
    db.flush().unwrap();
    drop((gone, db));
    let mut bytes = storage.to_vec();
    let at = bytes.windows(11).position(|window| window == b"value 00123").unwrap();
    bytes[at + 8] ^= 1;
    let storage = MemoryStorage::from_vec(bytes);
    let db = opened(&storage);
    assert_eq!((db.len().unwrap(), db.stats().unwrap().namespaces), (3000, 0));
    let unreadable: Vec<u32> = (0..3000_u32).filter(|i| db.get(i.to_le_bytes()).is_err()).collect();
    assert_eq!(unreadable, [123]);
    db.insert(123_u32.to_le_bytes(), "mended").unwrap();
    db.namespace("another").unwrap().insert("a", "b").unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    assert!(opened(&storage).get(123_u32.to_le_bytes()).is_ok_and(|value| value.as_deref() == Some(b"mended")));
}
