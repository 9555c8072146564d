//! A transaction that walks by pages and writes between them, and how much memory it says it takes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "a test fails by panicking")]

use crate::common::{find, opened};
use pipkin::storage::MemoryStorage;
use pipkin::testing::TestClock;
use pipkin::{Conflict, Cursor, Db, Error, Namespace, Storage, Transaction};
use std::collections::BTreeMap;
use std::time::Duration;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;
type List = Vec<(Vec<u8>, Vec<u8>)>;

/// The records of a page of `size`, and where the next one begins.
fn page(tx: &Transaction, records: &Namespace, from: Cursor, size: usize) -> (List, Option<Cursor>) {
    let mut found = Vec::new();
    let next = tx.namespace(records).unwrap().page(from, |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        found.len() < size
    });
    (found, next.unwrap())
}

/// Whatever is written between two pages, what is there during the whole walk comes once, and as it is then.
#[test]
fn a_walk_shows_each_record_once_while_the_transaction_writes() {
    let mut rng = 7_u64;
    let mut random = |below: u64| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (rng >> 33) % below
    };
    for round in 0..120 {
        let db = Db::builder().segment_size(4096).background(false).in_memory().unwrap();
        let users = db.namespace("users").unwrap();
        let mut now = Records::new();
        let (stored, own) = [(300, 40), (40, 300), (300, 0), (0, 300)][round % 4];
        for key in 0..stored {
            users.insert(u64::to_le_bytes(key), "stored").unwrap();
            now.insert(u64::to_le_bytes(key).into(), b"stored".into());
        }
        let mut tx = db.begin().unwrap();
        users.clear().unwrap();
        let write = |tx: &mut Transaction, now: &mut Records, random: &mut dyn FnMut(u64) -> u64| {
            let key = random(500).to_le_bytes();
            if random(3) == 0 {
                tx.remove_in(&users, key).unwrap();
                now.remove(&key[..]);
            } else {
                tx.insert_in(&users, key, "own").unwrap();
                now.insert(key.into(), b"own".into());
            }
        };
        (0..own).for_each(|_| write(&mut tx, &mut now, &mut random));
        let size = 1 + random(40) as usize;
        let mut all_the_time = now.clone();
        let (mut seen, mut cursor) = (Records::new(), Some(Cursor::default()));
        while let Some(from) = cursor {
            let (found, next) = page(&tx, &users, from, size);
            assert!(next.is_none_or(|next| next > from), "every page goes on");
            assert!(found.len() <= size + 2, "{} of {size}", found.len());
            for (key, value) in found {
                assert_eq!(now.get(&key), Some(&value), "as it is when the page is read");
                assert!(seen.insert(key, value).is_none(), "once");
            }
            cursor = next;
            (0..random(4)).for_each(|_| write(&mut tx, &mut now, &mut random));
            all_the_time.retain(|key, _| now.contains_key(key));
        }
        let missing: Vec<_> = all_the_time.keys().filter(|key| !seen.contains_key(*key)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}

#[test]
fn what_was_walked_through_was_read() {
    let clock = TestClock::new(1_000_000);
    let db = Db::builder().clock(clock.clone()).in_memory().unwrap();
    let walked = |tx: &Transaction| page(tx, &db, Cursor::default(), usize::MAX).0.len();
    let conflict = |mut tx: Transaction| {
        tx.insert("own", "").unwrap();
        match tx.commit() {
            Err(Error::Conflict(conflict)) => Some(conflict),
            other => other.map(|()| None).unwrap(),
        }
    };
    let tx = db.begin().unwrap();
    assert_eq!(walked(&tx), 0);
    db.insert("phantom", "").unwrap();
    assert_eq!(conflict(tx), Some(Conflict::Range));

    db.insert_with_ttl("short", "", Duration::from_secs(1)).unwrap();
    let tx = db.begin().unwrap();
    assert_eq!(walked(&tx), 2);
    clock.advance(Duration::from_secs(1));
    assert_eq!(conflict(tx), Some(Conflict::Expired));

    let tx = db.begin().unwrap();
    assert_eq!((walked(&tx), walked(&tx)), (1, 1));
    assert_eq!(conflict(tx), None);
}

/// A walk goes on behind damage, with the own writes before and after it. Regression: an own write between the damaged record and the next stored
/// one made a page end in front of it, without a word of the damage. Hashes decide what lies between, so many stores are tried.
#[test]
fn damage_costs_a_walk_only_the_damaged_record() {
    (0..60).for_each(|_| damage_costs_one_record());
}

fn damage_costs_one_record() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), 64 * 1024);
    db.insert_many((0..200_u8).map(|key| ([key], [key; 40]))).unwrap();
    let at = find(&storage.to_vec(), &[77; 40]);
    storage.write_at(at as u64, &[b"T"]).unwrap();
    for size in [1, 7, 300] {
        let mut tx = db.begin().unwrap();
        (150..=255_u8).for_each(|key| tx.insert([key], "own").unwrap());
        let (mut seen, mut errors, mut cursor) = (Vec::new(), 0, Some(Cursor::default()));
        while let Some(from) = cursor {
            let full = seen.len() + size;
            let next = tx.namespace(&db).unwrap().page(from, |key, _| {
                seen.push(key[0]);
                seen.len() < full
            });
            cursor = next.unwrap_or_else(|error| {
                assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
                errors += 1;
                error.next_page()
            });
        }
        seen.sort_unstable();
        let expected: Vec<u8> = (0..=255).filter(|key| *key != 77).collect();
        assert_eq!((seen, errors), (expected, 1), "pages of {size}");
    }
}

#[test]
fn the_memory_of_a_transaction_grows_with_what_it_holds_and_shrinks_with_it() {
    const LEN: usize = 10_000;
    let db = Db::open_in_memory().unwrap();
    let mut tx = db.begin().unwrap();
    let empty = tx.memory_bytes();
    (0..100).for_each(|_| tx.insert("again", [1; LEN]).unwrap());
    let one = tx.memory_bytes();
    assert!(one > LEN && one < 2 * LEN, "the same key takes what its last value takes: {one}");
    let before = tx.savepoint();
    (0..100).for_each(|_| tx.insert("again", [2; LEN]).unwrap());
    let kept = tx.memory_bytes();
    assert!(kept > 100 * LEN, "what a savepoint may bring back is kept: {kept}");
    tx.insert("other", [3; LEN]).unwrap();
    tx.rollback_to(&before).unwrap();
    let back = tx.memory_bytes();
    assert!(back.abs_diff(one) < 100, "{back} {one}");
    (0..1_000_u32).for_each(|key| drop(tx.get(key.to_le_bytes()).unwrap()));
    assert!(tx.memory_bytes() >= back + 8_000, "what was read is remembered");
    let reads = tx.memory_bytes();
    (0..1_000_u32).for_each(|key| drop(tx.get(key.to_le_bytes()).unwrap()));
    assert_eq!(tx.memory_bytes(), reads, "once");
    let mut fresh = db.begin().unwrap();
    (0..1_000).for_each(|_| drop(fresh.savepoint()));
    assert!(fresh.memory_bytes() > empty + 1_000, "savepoints count");
}
