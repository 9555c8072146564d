//! What one damaged record costs: itself. Its key answers `Corrupt` until it is written again or removed, every other call goes on, and no
//! older version comes in its place.
#![cfg(feature = "ordered")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{find, flipped};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error};
use std::collections::BTreeMap;

fn opened(storage: &MemoryStorage, ordered: bool) -> Result<Db, Error> {
    let builder = Db::builder().segment_size(16 * 1024).replay_debt_max(u64::MAX).auto_compact_dead_share(2.0).background(false);
    builder.ordered(ordered).open_storage(Box::new(storage.clone()))
}

fn key(i: u32) -> Vec<u8> {
    format!("key {i:05}").into_bytes()
}

/// Where the key of a record begins that has this value.
fn place(bytes: &[u8], i: u32, value: &str) -> usize {
    find(bytes, &[&key(i), value.as_bytes()].concat())
}

/// 3000 records in the snapshot, of which some have been written again or removed since, and a namespace that was dropped.
fn closed() -> (Vec<u8>, BTreeMap<Vec<u8>, Vec<u8>>) {
    let storage = MemoryStorage::new();
    let db = opened(&storage, false).unwrap();
    let mut all = BTreeMap::new();
    let other = db.namespace("other").unwrap();
    let gone = db.namespace("gone").unwrap();
    for i in 0..3000 {
        db.insert(key(i), format!("old value {i}")).unwrap();
        other.insert(key(i), format!("of the other {i}")).unwrap();
        gone.insert(key(i), "x").unwrap();
        all.insert(key(i), format!("old value {i}").into_bytes());
    }
    db.checkpoint().unwrap();
    for i in (0..3000).step_by(10) {
        db.insert(key(i), format!("new value {i}")).unwrap();
        all.insert(key(i), format!("new value {i}").into_bytes());
        db.remove(key(i + 1)).unwrap();
        all.remove(&key(i + 1));
    }
    db.drop_namespace("gone").unwrap();
    db.close().unwrap();
    (storage.to_vec(), all)
}

/// Every key gives what it should, but for `lost`, which answers `Corrupt`; and everything else that one can ask of a store goes on.
fn only(db: &Db, all: &BTreeMap<Vec<u8>, Vec<u8>>, lost: Option<&[u8]>, ordered: bool) {
    for i in 0..3000 {
        let key = key(i);
        match db.get(&key) {
            Err(Error::Corrupt { .. }) => assert_eq!(lost, Some(&key[..]), "{i}"),
            found => assert_eq!((found.unwrap().as_ref(), lost == Some(&key)), (all.get(&key), false), "{i}"),
        }
    }
    assert_eq!(db.len().unwrap(), all.len() as u64);
    let mut good = 0;
    let mut bad = 0;
    for record in db.iter() {
        match record {
            Ok((key, value)) => {
                assert_eq!(all.get(&key), Some(&value));
                good += 1;
            }
            Err(Error::Corrupt { .. }) => bad += 1,
            Err(error) => panic!("{error}"),
        }
    }
    let expected = (all.len() - usize::from(lost.is_some()), usize::from(lost.is_some()));
    assert_eq!((good, bad), expected, "iter");
    let other = db.namespace("other").unwrap();
    assert_eq!(other.iter().filter(Result::is_ok).count(), 3000);
    if ordered {
        let (mut good, mut bad) = (Vec::new(), 0);
        for record in db.range(..).unwrap() {
            match record {
                Ok((key, value)) => {
                    assert_eq!(all.get(&key), Some(&value));
                    good.push(key);
                }
                Err(Error::Corrupt { .. }) => bad += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(good.is_sorted());
        assert_eq!((good.len(), bad), expected, "range");
    }
}

/// Writes, and asks for everything that goes through the whole store.
fn goes_on(db: &Db) {
    db.insert_many((5000..5300).map(|i| (key(i), "x"))).unwrap();
    db.remove_many((5000..5300).map(key)).unwrap();
    db.namespace("another").unwrap().insert("a", "b").unwrap();
    db.drop_namespace("another").unwrap();
    db.stats().unwrap();
    db.checkpoint().unwrap();
    db.compact().unwrap();
    db.checkpoint().unwrap();
}

/// One bit in the key of a dead record of a cleanly closed store: 21 keys of its shard could not be read, `insert_many`, `namespace`, `len`,
/// `compact`, `checkpoint` and `close` were all refused, and with the ordered index the open itself was.
#[test]
fn a_dead_record_costs_nothing() {
    let (bytes, all) = closed();
    for (i, value) in [(10, "old value 10"), (11, "old value 11"), (20, "old value 20")] {
        for at in [0, 4, 12] {
            for ordered in [false, true] {
                let storage = flipped(&bytes, place(&bytes, i, value) + at);
                let db = opened(&storage, ordered).unwrap();
                only(&db, &all, None, ordered);
                goes_on(&db);
                only(&db, &all, None, ordered);
                db.close().unwrap();
                only(&opened(&storage, ordered).unwrap(), &all, None, ordered);
            }
        }
    }
}

/// The same for a record that lives: its key answers `Corrupt`, and nothing else does.
#[test]
fn a_live_record_costs_its_own_key() {
    let (bytes, all) = closed();
    // In its checksum, its head, its lengths, its key and its value.
    for at in [-7, -3, -2, -1, 0, 4, 8, 9, 15_isize] {
        for ordered in [false, true] {
            let storage = flipped(&bytes, place(&bytes, 12, "old value 12").checked_add_signed(at).unwrap());
            let db = opened(&storage, ordered).unwrap();
            only(&db, &all, Some(&key(12)), ordered);
            goes_on(&db);
            only(&db, &all, Some(&key(12)), ordered);
            db.close().unwrap();
            let db = opened(&storage, ordered).unwrap();
            only(&db, &all, Some(&key(12)), ordered);
        }
    }
}

/// A record whose key had rotted refused `insert` and `remove` of that key for ever.
#[test]
fn a_damaged_record_is_written_over_and_removed() {
    let (bytes, mut all) = closed();
    for at in [-3, -2, 0, 4, 15_isize] {
        for ordered in [false, true] {
            let storage = flipped(&bytes, place(&bytes, 12, "old value 12").checked_add_signed(at).unwrap());
            let db = opened(&storage, ordered).unwrap();
            db.insert(key(12), "mended").unwrap();
            all.insert(key(12), b"mended".to_vec());
            only(&db, &all, None, ordered);
            goes_on(&db);
            db.close().unwrap();
            only(&opened(&storage, ordered).unwrap(), &all, None, ordered);

            let storage = flipped(&bytes, place(&bytes, 12, "old value 12").checked_add_signed(at).unwrap());
            let db = opened(&storage, ordered).unwrap();
            if ordered {
                assert_eq!(db.remove_many([key(12)]).unwrap(), 1);
            } else {
                assert!(db.remove(key(12)).unwrap());
            }
            all.remove(&key(12));
            only(&db, &all, None, ordered);
            goes_on(&db);
            db.close().unwrap();
            only(&opened(&storage, ordered).unwrap(), &all, None, ordered);
        }
    }
}

/// Compaction that nobody asked for picked the same damaged segment again and again without a word: 43 MB of file for 0.4 MB that lived.
#[test]
fn damage_does_not_end_reclamation() {
    for lives in [false, true] {
        let storage = MemoryStorage::new();
        let db = opened(&storage, false).unwrap();
        for i in 0..200 {
            db.insert(key(i), format!("{i} {}", "cold ".repeat(40))).unwrap();
        }
        db.checkpoint().unwrap();
        db.close().unwrap();
        let bytes = storage.to_vec();
        let storage = flipped(&bytes, find(&bytes, b"key 0007777 cold") + 20);
        let db = Db::builder().segment_size(16 * 1024).replay_debt_max(64 * 1024).background(false);
        let db = db.open_storage(Box::new(storage.clone())).unwrap();
        if !lives {
            db.insert(key(77), "mended").unwrap();
        }
        for round in 0..40 {
            for i in (0..200).filter(|i| *i != 77 && (*i != 3 || round == 0)) {
                db.insert(key(i), format!("{round} {}", "hot ".repeat(50))).unwrap();
            }
        }
        let len = storage.to_vec().len();
        assert!(len < 600_000, "{len} bytes of file for 50 kB that live; lives: {lives}");
        assert_eq!(db.get(key(77)).is_err(), lives);
        assert!(db.get(key(3)).unwrap().is_some_and(|value| value.starts_with(b"0 ")));
        db.compact().unwrap();
        let (len, stats) = (storage.to_vec().len(), db.stats().unwrap());
        assert!(len < 300_000, "{len} bytes of file behind a compaction; lives: {lives}, {stats:?}");
        assert_eq!(db.get(key(77)).is_err(), lives);
        assert_eq!(db.verify().unwrap().is_ok(), !lives, "{:?}", db.verify());
        if lives {
            db.insert(key(77), "mended").unwrap();
            db.compact().unwrap();
            assert!(db.verify().unwrap().is_ok());
        }
    }
}

/// A backup failed for a record that was dead.
#[test]
fn a_backup_goes_around_dead_damage() {
    let (bytes, all) = closed();
    let storage = flipped(&bytes, place(&bytes, 10, "old value 10") + 3);
    for read_only in [false, true] {
        let db = Db::builder().segment_size(16 * 1024).background(false).read_only(read_only);
        let db = db.open_storage(Box::new(storage.clone())).unwrap();
        let target = MemoryStorage::new();
        db.backup_to_storage(&target).unwrap();
        let copy = opened(&target, true).unwrap();
        only(&copy, &all, None, true);
        goes_on(&copy);
        only(&copy, &all, None, true);
    }
    let storage = flipped(&bytes, place(&bytes, 12, "old value 12") + 3);
    let db = opened(&storage, false).unwrap();
    assert!(matches!(db.backup_to_storage(&MemoryStorage::new()), Err(Error::Corrupt { .. })));
}

/// Without its snapshot a store is rebuilt from its log. A record there that fails may have been any key's, and an open was refused; going
/// around it would have given older versions.
#[test]
fn where_the_index_is_rebuilt_across_damage_no_older_version_comes() {
    let storage = MemoryStorage::new();
    let db = opened(&storage, false).unwrap();
    for i in 0..300 {
        db.insert(key(i), format!("first value {i}")).unwrap();
    }
    for i in 0..100 {
        db.insert(key(i), format!("second value {i}")).unwrap();
    }
    for i in 50..250 {
        db.insert(key(i), format!("third value {i}")).unwrap();
    }
    for i in 240..250 {
        db.remove(key(i)).unwrap();
    }
    db.checkpoint().unwrap();
    db.insert("behind", "it").unwrap();
    db.close().unwrap();
    let mut bytes = storage.to_vec();
    let directory = u64::from_le_bytes(bytes[4096 + 96..4096 + 104].try_into().unwrap()) as usize;
    bytes[directory + 20] ^= 1;
    for ordered in [false, true] {
        let storage = flipped(&bytes, place(&bytes, 20, "second value 20") + 3);
        let mut removed = false;
        for round in 0..3 {
            let db = opened(&storage, ordered).unwrap();
            for i in 0..300 {
                let found = db.get(key(i));
                match i {
                    60 if removed => assert_eq!(found.unwrap(), None),
                    61 if removed => assert_eq!(found.unwrap().unwrap(), b"written again"),
                    5 if removed => assert_eq!(found.unwrap(), None, "removed behind the damage"),
                    // What stands behind the damage is certain.
                    21..50 => assert_eq!(found.unwrap().unwrap(), format!("second value {i}").as_bytes()),
                    50..240 => assert_eq!(found.unwrap().unwrap(), format!("third value {i}").as_bytes()),
                    240..250 => assert_eq!(found.unwrap(), None),
                    _ => assert!(matches!(found, Err(Error::Corrupt { .. })), "{i}: {found:?}"),
                }
            }
            assert_eq!(db.get("behind").unwrap().unwrap(), b"it");
            assert!(db.get("never there").is_err(), "it may have been");
            let values: Vec<_> = db.iter().collect();
            assert!(values.iter().any(Result::is_err));
            assert!(values.iter().flatten().all(|(_, value)| !value.starts_with(b"first")));
            if ordered {
                let values: Vec<_> = db.range(..).unwrap().collect();
                assert!(values.iter().any(Result::is_err));
                assert!(values.iter().flatten().all(|(_, value)| !value.starts_with(b"first")));
            }
            db.remove(key(60)).unwrap();
            db.remove(key(5)).unwrap();
            assert_eq!(db.get(key(5)).unwrap(), None, "removed behind the damage");
            db.insert(key(61), "written again").unwrap();
            removed = true;
            match round {
                0 => {}
                1 => db.checkpoint().unwrap(),
                _ => drop(db.compact().unwrap()),
            }
            db.close().unwrap();
        }
    }
}
