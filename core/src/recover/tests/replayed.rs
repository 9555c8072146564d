//! What opening remembers for later: which keys are settled behind damage, and which shards know what of them expires.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

use super::*;
use crate::index::SHARDS;
use crate::{SnapshotState, Ttl};

#[test]
fn only_keys_that_were_removed_behind_damage_are_settled() {
    let (db, storage) = open(&[]).unwrap();
    for key in ["early", "stays"] {
        db.insert(key, "1").unwrap();
    }
    db.remove("early").unwrap();
    db.insert("lost", "1").unwrap();
    for key in ["late", "gone"] {
        db.insert(key, "1").unwrap();
    }
    db.remove("gone").unwrap();
    db.checkpoint().unwrap();
    let mut bytes = storage.to_vec();
    drop(db);
    drop_snapshot(&mut bytes);
    let at = find(&bytes, b"lost1");
    bytes[at + 4] ^= 1;
    let (db, _) = open(&bytes).unwrap();
    assert_eq!(db.open_report().unsure_at, Some(at as u64 - 7));
    let engine = &db.store().engine;
    let settled = engine.doubt.get().unwrap().settled.lock().clone();
    let is_settled = |key: &str| settled.contains(&engine.full_key(0, key.as_bytes()).hash.bits());
    assert_eq!(["early", "stays", "lost", "late", "gone"].map(is_settled), [false, false, false, false, true]);
    assert_eq!(settled.len(), 1);
    let answer = |key: &str| match db.get(key) {
        Ok(value) => Ok(value.is_some()),
        Err(Error::Corrupt { offset, .. }) => Err(offset),
        Err(error) => panic!("{error}"),
    };
    let unsure = Err(at as u64 - 7);
    assert_eq!(
        ["early", "stays", "lost", "late", "gone", "never"].map(answer),
        [unsure, unsure, unsure, Ok(true), Ok(false), unsure]
    );
}

#[test]
fn shards_without_a_record_in_the_snapshot_know_at_once_what_expires() {
    for expires in [true, false] {
        let (db, storage) = open(&[]).unwrap();
        db.insert_with_ttl("a", "1", if expires { Ttl::At(1 << 45) } else { Ttl::Never }).unwrap();
        db.insert("b", "2").unwrap();
        db.checkpoint().unwrap();
        let bytes = storage.to_vec();
        drop(db);
        let (db, _) = open(&bytes).unwrap();
        assert_eq!(db.open_report().snapshot, SnapshotState::Loaded);
        let index = &db.store().engine.index;
        let with = |is: &dyn Fn(usize) -> bool| (0..SHARDS).filter(|&shard| is(shard)).count();
        assert_eq!(with(&|shard| index.is_parked_at(shard)), 2);
        let knows = |shard: usize| index.lock_shard(shard).knows_expiring();
        assert_eq!(with(&|shard| knows(shard) == (expires && !index.is_parked_at(shard))), SHARDS);
        assert!(db.get("a").unwrap().is_some() && db.get("b").unwrap().is_some());
        assert_eq!(with(&knows), if expires { SHARDS } else { 0 });
    }
}

/// Records of the segments in front of the checkpoint, and those behind it.
#[test]
fn what_was_replayed_is_reported_to_the_byte() {
    let (db, storage) = open(&[]).unwrap();
    db.insert_many([("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
    db.checkpoint().unwrap();
    db.insert("d", "4").unwrap();
    db.remove("a").unwrap();
    let with = storage.to_vec();
    drop(db);
    let mut without = with.clone();
    drop_snapshot(&mut without);
    let replayed = |bytes: &[u8]| {
        let (db, _) = open(bytes).unwrap();
        assert_eq!(keys(&db), [b"b", b"c", b"d"]);
        let report = db.open_report();
        (report.snapshot, report.replayed_records, report.replayed_bytes)
    };
    let (with, behind) = (replayed(&with), replayed(&without));
    let front = (list_of(&without) - FIRST) as u64;
    assert_eq!((with.0, with.1, behind.0, behind.1), (SnapshotState::Loaded, 2, SnapshotState::None, 5));
    assert!(front >= 3 * 9 && with.2 >= 9 + 8);
    assert_eq!(behind.2, front + with.2);
}
