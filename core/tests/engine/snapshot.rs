//! The index snapshot: a checkpoint writes what has changed, and an open puts the parts together again.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::killed;
use pipkin::storage::fault::FaultStorage;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Db, SnapshotState};
use std::collections::BTreeMap;

fn opened(storage: impl Storage + 'static) -> Db {
    Db::builder().segment_size(64 * 1024).replay_debt_max(u64::MAX).background(false).open_storage(Box::new(storage)).unwrap()
}

/// Each checkpoint wrote the whole index: as much as nine tenths of the log while a large store was loaded.
#[test]
fn a_checkpoint_writes_what_has_changed() {
    let storage = FaultStorage::new(MemoryStorage::new());
    let db = opened(storage.clone());
    db.insert_many((0..100_000_u32).map(|key| (key.to_le_bytes(), [1; 20]))).unwrap();
    let cost = || {
        let before = storage.counts().bytes_written;
        db.checkpoint().unwrap();
        storage.counts().bytes_written - before
    };
    let whole = cost();
    assert!(whole > 500_000, "{whole} bytes for the whole index");
    let mut changes = 0;
    for round in 0..20_u32 {
        db.insert_many((0..500_u32).map(|key| ((round * 5000 + key).to_le_bytes(), [2; 20]))).unwrap();
        db.remove((round * 5000 + 600).to_le_bytes()).unwrap();
        changes += cost();
    }
    // Everything is written now and then, so that the parts do not take ever more space.
    assert!(changes < 20 * whole / 4, "{changes} bytes for 20 times 501 changes, {whole} for everything");
    // One key of one shard.
    db.insert(7_u32.to_le_bytes(), [3; 20]).unwrap();
    let one = cost();
    assert!(one < 16 * 1024, "{one} bytes for one change");
    // What is asked to take no more than it must does not.
    db.compact().unwrap();
    killed(db);
    let db = opened(storage);
    assert_eq!(db.open_report().snapshot, SnapshotState::Loaded);
    assert_eq!(db.len().unwrap(), 99_980);
    assert_eq!(db.get(7_u32.to_le_bytes()).unwrap().unwrap(), [3; 20]);
    assert!(db.verify().unwrap().is_ok());
}

/// Parts of many checkpoints, of sessions that were killed in between, with places that are used again: the index that comes out of them
/// is that of a map.
#[test]
fn the_parts_of_many_checkpoints_make_the_index_of_a_map() {
    let storage = MemoryStorage::new();
    let mut db = opened(storage.clone());
    let mut model: BTreeMap<(bool, u32), u32> = BTreeMap::new();
    let mut random = 99_u64;
    let mut next = |below: u32| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((random >> 33) % u64::from(below)) as u32
    };
    let mut loaded = 0;
    for step in 0..40_000_u32 {
        let named = next(3) == 0;
        let space = if named { db.namespace("named").unwrap() } else { db.default_namespace() };
        let key = next(4000);
        match next(400) {
            0 => db.checkpoint().unwrap(),
            1 => drop(db.compact_step().unwrap()),
            2 if next(20) == 0 => {
                space.clear().unwrap();
                model.retain(|&(of, _), _| of != named);
            }
            3 => {
                // The process ends here: nothing is closed.
                killed(db);
                db = opened(storage.clone());
                loaded += u32::from(db.open_report().snapshot == SnapshotState::Loaded);
                assert_eq!(db.len().unwrap(), model.keys().filter(|(named, _)| !named).count() as u64, "step {step}");
            }
            4 if next(10) == 0 => {
                db.close().unwrap();
                db = opened(storage.clone());
            }
            kind if kind % 4 == 0 => {
                space.remove(key.to_le_bytes()).unwrap();
                model.remove(&(named, key));
            }
            _ => {
                space.insert(key.to_le_bytes(), [step.to_le_bytes(); 30].concat()).unwrap();
                model.insert((named, key), step);
            }
        }
    }
    assert!(loaded > 50, "{loaded} snapshots were loaded");
    killed(db);
    let db = opened(storage);
    for (named, space) in [(false, db.default_namespace()), (true, db.namespace("named").unwrap())] {
        assert_eq!(space.len().unwrap(), model.keys().filter(|(of, _)| *of == named).count() as u64);
        for key in 0..4000_u32 {
            let value = space.get(key.to_le_bytes()).unwrap();
            let expected = model.get(&(named, key)).map(|step| [step.to_le_bytes(); 30].concat());
            assert_eq!(value, expected, "named {named}, key {key}");
        }
    }
    assert!(db.verify().unwrap().is_ok());
}

/// An open looked at the header of each extent of the file: of 20 GB, at five thousand places.
#[test]
fn a_closed_store_opens_with_as_many_reads_however_many_extents_it_has() {
    let reads_of = |values: u32, len: usize| {
        let storage = FaultStorage::new(MemoryStorage::new());
        let db = opened(storage.clone());
        for key in 0..values {
            db.insert(key.to_le_bytes(), vec![7; len]).unwrap();
        }
        db.close().unwrap();
        let extents = storage.len().unwrap() / (64 * 1024);
        let before = storage.counts().reads;
        let db = opened(storage.clone());
        assert!(db.open_report().clean);
        (extents, storage.counts().reads - before)
    };
    let (few, reads_of_few) = reads_of(20, 60_000);
    let (many, reads_of_many) = reads_of(2000, 60_000);
    let (runs, reads_of_runs) = reads_of(40, 2_000_000);
    assert!(few < 30 && many > 1500 && runs > 1000, "{few}, {many} and {runs} extents");
    let most = reads_of_few + 10;
    assert!(reads_of_many <= most && reads_of_runs <= most, "{reads_of_few}, {reads_of_many} and {reads_of_runs} reads");
}
