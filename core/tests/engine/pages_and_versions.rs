//! Walks in pages, versions of records, and commits over namespaces.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a failed step is a failed test")]

use crate::common::{find, opened};
use pipkin::storage::MemoryStorage;
use pipkin::{Cursor, Db, Error, Storage, Version};
use std::collections::BTreeMap;

/// Walks a store in pages of `size` records, hands the store to `between` after each, and counts how often each key came.
fn walk(db: &Db, size: usize, mut between: impl FnMut(&Db)) -> BTreeMap<Vec<u8>, usize> {
    let mut seen = BTreeMap::new();
    let mut cursor = Some(Cursor::default());
    while let Some(from) = cursor {
        let mut count = 0;
        cursor = db
            .page(Cursor::from_bits(from.to_bits()), |key, _| {
                *seen.entry(key.to_vec()).or_default() += 1;
                count += 1;
                count < size
            })
            .unwrap();
        assert!(count > 0 || cursor.is_none(), "a page without records is the last one");
        between(db);
    }
    seen
}

fn filled(records: u32) -> Db {
    let db = Db::builder().segment_size(64 * 1024).in_memory().unwrap();
    db.insert_many((0..records).map(|n| (format!("kept {n}"), n.to_le_bytes()))).unwrap();
    db
}

#[test]
fn pages_of_any_size_hold_every_record_once() {
    let db = filled(10_000);
    for size in [1, 7, 1000, 100_000] {
        let seen = walk(&db, size, |_| {});
        assert_eq!(seen.len(), 10_000, "pages of {size}");
        assert!(seen.values().all(|count| *count == 1), "pages of {size}");
    }
}

#[test]
fn a_shard_that_is_longer_than_a_batch_is_walked_whole() {
    let db = Db::builder().segment_size(4 << 20).in_memory().unwrap();
    // More than 256 shards of 4096 slots.
    let records = 1_200_000_u32;
    db.insert_many((0..records).map(|n| (n.to_le_bytes(), []))).unwrap();
    let (mut count, mut sum, mut cursor) = (0_u32, 0_u64, Some(Cursor::default()));
    while let Some(from) = cursor {
        let full = count + 30_000;
        cursor = db
            .page(from, |key, _| {
                count += 1;
                sum += u64::from(u32::from_le_bytes(key.try_into().unwrap()));
                count < full
            })
            .unwrap();
    }
    assert_eq!((count, sum), (records, u64::from(records) * u64::from(records - 1) / 2));
}

#[test]
fn writes_removals_and_compaction_between_pages_hide_nothing() {
    let db = filled(3000);
    let mut round = 0_u32;
    let seen = walk(&db, 50, |db| {
        round += 1;
        for n in 0..100 {
            db.insert(format!("other {round} {n}"), [0; 100]).unwrap();
            db.insert(format!("kept {}", (round * 31 + n) % 3000), [1; 40]).unwrap();
            db.remove(format!("other {} {n}", round.wrapping_sub(1))).unwrap();
        }
        db.compact_step().unwrap();
    });
    assert!((0..3000).all(|n| seen.get(format!("kept {n}").as_bytes()) == Some(&1)));
    assert!(seen.values().all(|count| *count == 1));
    assert!(round >= 60, "{round} pages");
}

#[test]
fn a_cursor_outlives_the_handle() {
    let storage = pipkin::storage::MemoryStorage::new();
    let open = || Db::builder().entropy([3; 32]).open_storage(Box::new(storage.clone())).unwrap();
    let db = open();
    db.insert_many((0..1000_u32).map(|n| (n.to_le_bytes(), []))).unwrap();
    let mut keys = Vec::new();
    let cursor = db
        .page(Cursor::default(), |key, _| {
            keys.push(key.to_vec());
            keys.len() < 500
        })
        .unwrap();
    db.close().unwrap();
    let end = open()
        .page(cursor.unwrap(), |key, _| {
            keys.push(key.to_vec());
            true
        })
        .unwrap();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!((end, keys.len()), (None, 1000));
}

#[test]
fn any_number_is_a_cursor() {
    let db = filled(100);
    for bits in [0, 1, u64::from(u32::MAX), 255 << 32, 256 << 32, u64::MAX, u64::MAX >> 1, 0x0000_00ff_ffff_ffff] {
        let mut count = 0;
        let next = db.page(Cursor::from_bits(bits), |_, _| {
            count += 1;
            true
        });
        assert_eq!(next.unwrap(), None, "{bits:#x}");
        assert!(count <= 100);
    }
}

#[test]
fn pages_of_a_namespace_hold_nothing_of_another() {
    let db = filled(500);
    let space = db.namespace("space").unwrap();
    space.insert("alone", "here").unwrap();
    let mut found = Vec::new();
    let next = space.page(Cursor::default(), |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        true
    });
    assert_eq!((next.unwrap(), found), (None, vec![(b"alone".to_vec(), b"here".to_vec())]));
}

#[test]
fn a_version_notices_a_value_that_came_back() {
    let db = Db::open_in_memory().unwrap();
    db.insert("key", "a").unwrap();
    let (value, seen) = db.get_versioned("key").unwrap().unwrap();
    assert_eq!(value, b"a");
    db.insert("key", "b").unwrap();
    db.insert("key", "a").unwrap();
    assert!(db.compare_and_swap("key", Some(b"a"), Some(b"a")).unwrap(), "by value the change cannot be seen");
    assert!(!db.compare_version_and_swap("key", Some(seen), Some(b"c")).unwrap());
    assert_eq!(db.get("key").unwrap().unwrap(), b"a");

    let (_, seen) = db.get_versioned("key").unwrap().unwrap();
    assert!(db.compare_version_and_swap("key", Some(Version::from_parts(seen.to_parts())), Some(b"c")).unwrap());
    assert!(!db.compare_version_and_swap("key", Some(seen), Some(b"d")).unwrap(), "a version serves once");
    let (value, seen) = db.get_versioned("key").unwrap().unwrap();
    assert_eq!(value, b"c");
    assert!(db.compare_version_and_swap("key", Some(seen), None).unwrap());
    assert_eq!(db.get_versioned("key").unwrap(), None);
}

#[test]
fn no_version_expects_no_record() {
    let db = Db::open_in_memory().unwrap();
    assert!(!db.compare_version_and_swap("key", Some(Version::from_parts((20_000, 1))), Some(b"a")).unwrap());
    assert!(db.compare_version_and_swap("key", None, Some(b"a")).unwrap());
    assert!(!db.compare_version_and_swap("key", None, Some(b"b")).unwrap());
    assert_eq!(db.get("key").unwrap().unwrap(), b"a");
}

/// A segment that is used again holds records where others stood before: the place comes back, the version must not.
#[test]
fn versions_do_not_come_back_with_reused_space() {
    let db = Db::builder().segment_size(4096).replay_debt_max(16 * 1024).in_memory().unwrap();
    let (mut versions, mut places) = (std::collections::HashSet::new(), std::collections::HashSet::new());
    for round in 0..3000_u32 {
        db.insert("key", [7; 300]).unwrap();
        let (_, version) = db.get_versioned("key").unwrap().unwrap();
        assert!(versions.insert(version), "the version of round {round} was there before");
        places.insert(version.to_parts().0);
    }
    assert!(places.len() * 2 < versions.len(), "space was hardly reused: {} places", places.len());
}

#[test]
fn versions_survive_a_reopening() {
    let storage = pipkin::storage::MemoryStorage::new();
    let open = || Db::builder().entropy([4; 32]).open_storage(Box::new(storage.clone())).unwrap();
    let db = open();
    db.insert("key", "a").unwrap();
    let (_, seen) = db.get_versioned("key").unwrap().unwrap();
    db.close().unwrap();
    assert!(open().compare_version_and_swap("key", Some(seen), Some(b"b")).unwrap());
}

/// A page that met a damaged record failed, and so did the next one from the same place: nothing behind it could be reached.
#[test]
fn a_walk_in_pages_goes_on_behind_damage() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), 64 * 1024);
    let value = |n: u32| format!("the value of {n}.");
    db.insert_many((0..3_000_u32).map(|n| (n.to_le_bytes(), value(n)))).unwrap();
    let damaged = [3, 4, 5, 1_000, 2_999];
    let bytes = storage.to_vec();
    for n in damaged {
        let place = find(&bytes, value(n).as_bytes());
        storage.write_at(place as u64, &[b"T"]).unwrap();
    }
    for size in [1, 7, 500, 10_000] {
        let (mut seen, mut errors) = (BTreeMap::new(), 0);
        let mut cursor = Some(Cursor::default());
        while let Some(from) = cursor {
            let mut count = 0;
            let page = db.page(from, |key, _| {
                *seen.entry(u32::from_le_bytes(key.try_into().unwrap())).or_insert(0) += 1;
                count += 1;
                count < size
            });
            cursor = page.unwrap_or_else(|error| {
                errors += 1;
                assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
                let next = error.next_page();
                assert!(next.is_none_or(|next| next > from), "it goes back");
                next
            });
        }
        assert!(errors <= damaged.len() && errors > 0, "pages of {size}: {errors} errors");
        assert!((0..3_000).all(|n| seen.get(&n).copied().unwrap_or(0) == i32::from(!damaged.contains(&n))), "pages of {size}");
    }
}
