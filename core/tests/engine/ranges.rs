//! Ranges from either end are what a map in memory says.
#![cfg(feature = "ordered")]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use crate::common::find;
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Storage};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

fn key() -> impl Strategy<Value = Vec<u8>> {
    vec(b'a'..=b'h', 1..4)
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let bound = || prop_oneof![key().prop_map(Bound::Included), key().prop_map(Bound::Excluded), Just(Bound::Unbounded)];
    (bound(), bound())
}

/// Records, in the order of their keys: from none to more than a few leaves hold.
fn records() -> impl Strategy<Value = BTreeMap<Vec<u8>, Vec<u8>>> {
    (0_usize..400).prop_flat_map(|len| btree_map(key(), vec(any::<u8>(), 0..20), 0..=len))
}

fn filled(records: &BTreeMap<Vec<u8>, Vec<u8>>) -> Db {
    let db = Db::builder().ordered(true).in_memory().unwrap();
    db.insert_many(records).unwrap();
    db
}

/// The records inside the bounds. A map in memory would panic at some bounds.
fn inside(records: BTreeMap<Vec<u8>, Vec<u8>>, (start, end): &Bounds) -> VecDeque<(Vec<u8>, Vec<u8>)> {
    let is_above = |key: &Vec<u8>| match start {
        Bound::Included(start) => key >= start,
        Bound::Excluded(start) => key > start,
        Bound::Unbounded => true,
    };
    let is_below = |key: &Vec<u8>| match end {
        Bound::Included(end) => key <= end,
        Bound::Excluded(end) => key < end,
        Bound::Unbounded => true,
    };
    records.into_iter().filter(|(key, _)| is_above(key) && is_below(key)).collect()
}

proptest! {
    #[test]
    fn both_ends_of_a_range_meet_in_the_middle(
        records in records(),
        bounds in bounds(),
        // Runs longer than what is fetched at once, at one end and at the other.
        runs in vec((any::<bool>(), 1_usize..50), 1..20),
    ) {
        let db = filled(&records);
        let mut expected = inside(records, &bounds);
        let mut range = db.range(bounds).unwrap();
        for (from_back, steps) in runs {
            for _ in 0..steps {
                let (got, wanted) =
                    if from_back { (range.next_back(), expected.pop_back()) } else { (range.next(), expected.pop_front()) };
                prop_assert_eq!(got.transpose().unwrap(), wanted);
            }
        }
    }

    #[test]
    fn the_last_records_come_first_until_that_is_enough(records in records(), bounds in bounds(), enough in 1_usize..200) {
        let db = filled(&records);
        let mut got = Vec::new();
        db.range_rev_with(bounds.clone(), |key, value| {
            got.push((key.to_vec(), value.to_vec()));
            got.len() < enough
        })
        .unwrap();
        let expected: Vec<_> = inside(records, &bounds).into_iter().rev().take(enough).collect();
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn the_newest_of_a_prefix_is_one_step_away() {
    let db = Db::builder().ordered(true).in_memory().unwrap();
    let users = db.namespace("users").unwrap();
    users.insert_many([("a1", "1"), ("a2", "2"), ("b", "3")]).unwrap();
    let newest = users.range_prefix("a").unwrap().next_back().transpose().unwrap();
    assert_eq!(newest, Some((b"a2".to_vec(), b"2".to_vec())));
}

/// A store of `count` records, and the storage that it is in.
fn stored(count: u8) -> (Db, MemoryStorage) {
    let storage = MemoryStorage::new();
    let db = Db::builder().ordered(true).open_storage(Box::new(storage.clone())).unwrap();
    db.insert_many((0..count).map(|n| ([n], [&[n; 4][..], b"value of it"].concat()))).unwrap();
    (db, storage)
}

/// Changes a byte in the value of record `n` in the file.
fn damage(storage: &MemoryStorage, n: u8) {
    let value = [&[n; 4][..], b"value of it"].concat();
    let place = find(&storage.to_vec(), &value);
    storage.write_at(place as u64 + 6, &[b"#"]).unwrap();
}

/// A range ended at the first record that was damaged, from either end, and nobody could tell which one that was: what stood behind it
/// could not be reached.
#[test]
fn a_range_goes_on_behind_damage_and_names_its_key() {
    let (db, storage) = stored(100);
    let damaged = [0, 7, 8, 60, 99];
    damaged.iter().for_each(|&n| damage(&storage, n));
    let named = |result: Result<(Vec<u8>, Vec<u8>), Error>| match result {
        Ok((key, _)) => (key[0], false),
        Err(error) => {
            assert!(error.to_string().contains("in the record of the key"), "{error}");
            let Some(key) = error.damaged_key() else { panic!("{error:?}") };
            (key[0], true)
        }
    };
    let expected: Vec<(u8, bool)> = (0..100).map(|n| (n, damaged.contains(&n))).collect();
    assert_eq!(db.range(..).unwrap().map(named).collect::<Vec<_>>(), expected);
    let back: Vec<_> = db.range(..).unwrap().rev().map(named).collect();
    assert!(back.iter().rev().eq(&expected), "{back:?}");
    // From both ends at once.
    for steps in [1_usize, 3, 50] {
        let (mut front, mut back) = (Vec::new(), Vec::new());
        let mut range = db.range(..).unwrap();
        while front.len() + back.len() < expected.len() {
            front.extend(range.by_ref().take(steps).map(named));
            back.extend(range.by_ref().rev().take(steps).map(named));
        }
        assert!(range.next().is_none() && range.next_back().is_none());
        back.reverse();
        assert_eq!([front, back].concat(), expected, "{steps} steps");
    }
    // With a closure: whoever has the key goes on behind it, or in front of it.
    let (mut seen, mut start) = (Vec::new(), Bound::Unbounded);
    while let Err(error) = db.range_with((start.clone(), Bound::Unbounded), |key, _| {
        seen.push((key[0], false));
        true
    }) {
        let Some(key) = error.damaged_key() else { panic!("{error:?}") };
        seen.push((key[0], true));
        start = Bound::Excluded(key.to_vec());
    }
    assert_eq!(seen, expected);
}
