//! The ordered index out of the index snapshot: the same keys as a model, whatever sessions, crashes and damage came between.
#![cfg(feature = "ordered")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::{Builder, Db, Namespace, OrderState};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn builder() -> Builder {
    Db::builder().ordered(true).segment_size(64 * 1024).background(false).auto_compact_dead_share(2.0)
}

fn open(storage: &MemoryStorage) -> Db {
    builder().open_storage(Box::new(storage.clone())).unwrap()
}

/// Of one of 16 groups.
fn key(number: u64) -> Vec<u8> {
    let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{:x}.{hash:016x}", hash >> 60).into_bytes()
}

/// Numbers below the argument, the same for the same seed.
fn dice(mut seed: u64) -> impl FnMut(u64) -> u64 {
    move |below| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (seed >> 33) % below
    }
}

fn assert_same(space: &Namespace, model: &Model, what: &str) {
    let rising: Vec<_> = space.range(..).unwrap().map(Result::unwrap).collect();
    assert!(rising.iter().map(|(key, value)| (key, value)).eq(model), "{what}: {} and {}", rising.len(), model.len());
    let falling: Vec<_> = space.range(..).unwrap().rev().map(Result::unwrap).collect();
    assert!(falling.iter().rev().eq(&rising), "{what}");
}

#[test]
fn a_closed_store_opens_with_its_order_and_reads_the_keys_when_they_are_needed() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    assert_eq!(db.open_report().order, OrderState::Built);
    let model: Model = (0..20_000).map(|number| (key(number), number.to_le_bytes().to_vec())).collect();
    db.insert_many(model.iter().map(|(key, value)| (key.clone(), value.clone()))).unwrap();
    db.close().unwrap();
    let db = open(&storage);
    assert_eq!(db.open_report().order, OrderState::Loaded);
    let middle = model.keys().nth(9_000).unwrap();
    let ten: Vec<_> = db.range(middle.clone()..).unwrap().take(10).map(Result::unwrap).collect();
    assert!(ten.iter().map(|(key, value)| (key, value)).eq(model.range(middle.clone()..).take(10)));
    assert_same(&db.default_namespace(), &model, "all");
    assert_eq!(db.stats().unwrap().orders_rebuilt, 0);
    drop(db);
    // Without the order in between: the keys that are written then are in it later.
    let db = builder().ordered(false).open_storage(Box::new(storage.clone())).unwrap();
    db.insert("between", "1").unwrap();
    db.close().unwrap();
    let db = open(&storage);
    assert!(db.range("between"..="between").unwrap().next().is_some());
    assert_eq!(db.range(..).unwrap().count(), 20_001);
}

/// Puts, removals, groups, namespaces, compaction and checkpoints, over sessions that are closed or die.
#[test]
fn whatever_sessions_do_the_order_is_that_of_a_model() {
    let rounds = if cfg!(debug_assertions) { 6 } else { 40 };
    let mut loaded = 0;
    for seed in 0..rounds {
        let mut below = dice(seed);
        let storage = MemoryStorage::new();
        let mut models = [Model::new(), Model::new()];
        for session in 0..12 {
            let db = open(&storage);
            loaded += u64::from(db.open_report().order == OrderState::Loaded);
            let spaces = [db.default_namespace(), db.namespace("second").unwrap()];
            for _ in 0..below(8) {
                let at = below(2) as usize;
                let (space, model) = (&spaces[at], &mut models[at]);
                let from = below(9_000);
                match below(10) {
                    0..=3 => {
                        let records: Vec<_> =
                            (from..from + below(2_500)).map(|number| (key(number), vec![session; 20])).collect();
                        space.insert_many(records.clone()).unwrap();
                        model.extend(records);
                    }
                    4 | 5 => (from..from + below(1_500)).for_each(|number| {
                        assert_eq!(space.remove(key(number)).unwrap(), model.remove(&key(number)).is_some());
                    }),
                    6 => {
                        let group = format!("{:x}.", below(16));
                        space.delete_group(&group[..1]).unwrap();
                        model.retain(|key, _| !key.starts_with(group.as_bytes()));
                    }
                    7 if below(4) == 0 => {
                        space.clear().unwrap();
                        model.clear();
                    }
                    7 => drop(db.compact().unwrap()),
                    8 => db.checkpoint().unwrap(),
                    _ => assert_same(space, model, "in the middle"),
                }
            }
            if below(3) == 0 {
                for (space, model) in spaces.iter().zip(&models) {
                    assert_same(space, model, &format!("seed {seed}, session {session}"));
                }
            }
            if below(2) == 0 {
                db.close().unwrap();
            } else {
                db.flush().unwrap();
                // Dies without a close: what follows opens the file as it is.
                let copy = MemoryStorage::from_vec(storage.to_vec());
                let after = open(&copy);
                for (name, model) in ["", "second"].iter().zip(&models) {
                    let space = if name.is_empty() { after.default_namespace() } else { after.namespace(name).unwrap() };
                    assert_same(&space, model, &format!("seed {seed}, killed in session {session}"));
                }
            }
        }
    }
    assert!(loaded > rounds, "{loaded} sessions began with an order from the snapshot");
}

/// Where the parts of the order begin, in a file below 64 KiB, whose offsets take 2 bytes.
fn parts_of_order(file: &[u8], records: usize) -> Vec<usize> {
    let len = (1 + 2 * records) as u32;
    file.windows(4).enumerate().filter(|(_, bytes)| *bytes == len.to_le_bytes()).map(|(place, _)| place).collect()
}

/// A damaged part of the order costs time, and no key: the order is built anew, and the next snapshot has a whole one.
#[test]
fn a_damaged_part_of_the_order_costs_no_key() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let model: Model = (0..1000).map(|number| (key(number), number.to_le_bytes().to_vec())).collect();
    db.insert_many(model.iter().map(|(key, value)| (key.clone(), value.clone()))).unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let bytes = storage.to_vec();
    let places = parts_of_order(&bytes, 1000);
    assert_eq!(places.len(), 1, "{places:?}");
    for (at, calls) in [(4, 0), (8, 1), (9, 2), (100, 3), (1500, 4), (10, 5)] {
        let mut damaged = bytes.clone();
        damaged[places[0] + at] ^= 1;
        let storage = MemoryStorage::from_vec(damaged);
        let db = open(&storage);
        let mut model = model.clone();
        match calls {
            0 => {}
            // Writers meet the damage first, and are not stopped by it.
            1 => {
                db.insert(key(5), "new").unwrap();
                model.insert(key(5), b"new".to_vec());
            }
            2 => {
                db.remove(key(7)).unwrap();
                model.remove(&key(7));
            }
            3 => drop(db.compact().unwrap()),
            4 => db.checkpoint().unwrap(),
            _ => {
                let group = key(3)[..1].to_vec();
                db.delete_group(&group).unwrap();
                model.retain(|key, _| !key.starts_with(&group));
            }
        }
        let what = format!("byte {at}, call {calls}");
        assert_same(&db.default_namespace(), &model, &what);
        let rebuilt = db.stats().unwrap().orders_rebuilt;
        assert_eq!(rebuilt, 1, "{what}");
        db.checkpoint().unwrap();
        db.close().unwrap();
        let db = open(&storage);
        assert_same(&db.default_namespace(), &model, &what);
        assert_eq!((db.open_report().order, db.stats().unwrap().orders_rebuilt), (OrderState::Loaded, 0), "{what}");
    }
}

/// A bit of a key that rots: removed by its right name, it must not stay in the order under the other one, where its space is used again.
#[test]
fn a_rotten_key_does_not_stay_in_the_order() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    let name = |number: u64| format!("key/{number:04}");
    db.insert_many((0..500).map(|number| (name(number), [1; 40]))).unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let mut bytes = storage.to_vec();
    let at = bytes.windows(8).position(|window| window == b"key/0250").unwrap();
    // Below the one behind it, and above the one in front: the order of the keys stays as it was.
    bytes[at + 6..at + 8].copy_from_slice(b"4~");
    let storage = MemoryStorage::from_vec(bytes);
    let db = open(&storage);
    let _ = db.range("key/0200".."key/0210").unwrap().count();
    db.remove(name(250)).unwrap();
    db.remove_many((0..250).map(name)).unwrap();
    for _ in 0..3 {
        db.compact().unwrap();
        db.insert_many((1000..1400).map(|number| (name(number), [2; 40]))).unwrap();
    }
    let keys: Vec<_> = db.range(..).unwrap().map(|record| record.unwrap().0).collect();
    let expected: Vec<_> = (251..500).chain(1000..1400).map(|number| name(number).into_bytes()).collect();
    assert_eq!(keys, expected);
}

/// A namespace that is kept in order because it says so, and one that is not although the store is: over closes, clears, compaction and snapshots.
#[test]
fn a_namespace_says_itself_whether_it_is_kept_in_order() {
    let storage = MemoryStorage::new();
    let reopened = |by_default: bool| builder().ordered(by_default).open_storage(Box::new(storage.clone())).unwrap();
    let db = reopened(false);
    let (kept, plain) = (db.namespace("kept").unwrap(), db.namespace("plain").unwrap());
    kept.set_ordered(Some(true)).unwrap();
    assert_eq!((kept.ordered(), plain.ordered()), (Some(true), None));
    assert!(!kept.is_ordered() && matches!(kept.range(..), Err(pipkin::Error::NotOrdered)), "from the next opening on");
    let model: Model = (0..9000).map(|number| (key(number), number.to_le_bytes().to_vec())).collect();
    kept.insert_many(model.iter().map(|(key, value)| (key.clone(), value.clone()))).unwrap();
    plain.insert_many(model.iter().map(|(key, value)| (key.clone(), value.clone()))).unwrap();
    db.close().unwrap();

    for (session, expected) in [OrderState::Built, OrderState::Loaded, OrderState::Loaded].into_iter().enumerate() {
        let db = reopened(false);
        assert_eq!(db.open_report().order, expected, "{session}");
        let (kept, plain) = (db.namespace("kept").unwrap(), db.namespace("plain").unwrap());
        assert!(kept.is_ordered() && !plain.is_ordered() && !db.is_ordered());
        assert_same(&kept, &model, "kept");
        assert!(matches!(plain.range(..), Err(pipkin::Error::NotOrdered)));
        assert!(matches!(db.snapshot().namespace("plain").unwrap().unwrap().range(..), Err(pipkin::Error::NotOrdered)));
        assert_eq!(db.snapshot().namespace("kept").unwrap().unwrap().range(..).unwrap().count(), model.len());
        assert_eq!((kept.group("7").unwrap().count(), plain.group("7").unwrap().count()), {
            let group = model.keys().filter(|key| key.starts_with(b"7.")).count();
            (group, group)
        });
        match session {
            // A close after little was written leaves the snapshot as it is.
            0 => db.checkpoint().unwrap(),
            _ => drop(db.compact().unwrap()),
        }
        kept.insert("written", [session as u8]).unwrap();
        kept.remove("written").unwrap();
        db.close().unwrap();
    }

    // All but one: what the snapshot has is too little, and what it has then is more than is wanted later.
    let db = reopened(true);
    assert_eq!(db.open_report().order, OrderState::Built);
    let plain = db.namespace("plain").unwrap();
    assert_same(&plain, &model, "plain");
    plain.set_ordered(Some(false)).unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = reopened(true);
    assert_eq!(db.open_report().order, OrderState::Loaded);
    let (kept, plain) = (db.namespace("kept").unwrap(), db.namespace("plain").unwrap());
    assert!(kept.is_ordered() && !plain.is_ordered() && db.is_ordered());
    assert_same(&kept, &model, "kept");

    // A cleared namespace has another number, and says the same.
    kept.clear().unwrap();
    plain.clear().unwrap();
    kept.insert("a", "1").unwrap();
    plain.insert("a", "1").unwrap();
    assert_eq!(kept.range(..).unwrap().count(), 1);
    assert!(matches!(plain.range(..), Err(pipkin::Error::NotOrdered)));
    assert_eq!(plain.delete_group("7").unwrap(), 0);
    drop(db);
    let db = reopened(false);
    let kept = db.namespace("kept").unwrap();
    assert_eq!(kept.range(..).unwrap().count(), 1);
    kept.set_ordered(None).unwrap();
    db.close().unwrap();
    assert_eq!(reopened(false).open_report().order, OrderState::None);
}

/// The numbers of a namespace that is cleared change under whoever follows.
#[test]
#[cfg(unix)]
fn a_follower_keeps_the_order_of_a_namespace_that_is_cleared_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("order.pipkin");
    let open = || Db::builder().segment_size(64 * 1024).background(false).path(&path).open().unwrap();
    let db = open();
    db.namespace("kept").unwrap().set_ordered(Some(true)).unwrap();
    db.close().unwrap();
    let db = open();
    let kept = db.namespace("kept").unwrap();
    let follower = Db::builder().path(&path).follow(true).open().unwrap();
    for round in 0..20_u64 {
        kept.clear().unwrap();
        kept.insert_many((0..50 + round).map(|number| (key(number), round.to_le_bytes()))).unwrap();
        db.insert("plain", round.to_le_bytes()).unwrap();
        if round % 7 == 6 {
            db.compact().unwrap();
        }
        db.flush().unwrap();
        follower.refresh().unwrap();
        let shown = follower.find_namespace("kept").unwrap();
        assert!(shown.is_ordered() && !follower.is_ordered(), "{round}");
        assert_eq!(shown.range(..).unwrap().map(Result::unwrap).count() as u64, 50 + round);
        assert_eq!(shown.group("7").unwrap().count(), kept.group("7").unwrap().count());
        assert!(matches!(follower.range(..), Err(pipkin::Error::NotOrdered)));
    }
}
