//! `get_many`: up to 128 keys as of one moment, whatever kind of records they are and however the storage hands them over.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{find, flipped};
use pipkin::limits::KEYS_OF_ONE_MOMENT;
use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::CrashStorage;
use pipkin::{Clock, Db, Error, Ttl};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that goes on by a millisecond whenever it is asked.
struct Hasty(AtomicU64);

impl Clock for Hasty {
    fn now_ms(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}

#[test]
fn one_call_judges_all_its_keys_by_one_time() {
    let clock = Arc::new(Hasty(AtomicU64::new(1000)));
    let db = Db::builder().clock(clock.clone()).background(false).in_memory().unwrap();
    let keys: Vec<[u8; 1]> = (0..100).map(|key| [key]).collect();
    for expiry in (10_000..).step_by(1000).take(20) {
        for key in &keys {
            db.insert_with_ttl(key, "v", Ttl::At(expiry)).unwrap();
        }
        // So that the time comes in the middle of the keys.
        clock.0.store(expiry - 50, Ordering::SeqCst);
        for _ in 0..60 {
            let there = db.get_many(&keys).unwrap().iter().flatten().count();
            assert!(there == 0 || there == keys.len(), "{there} of {} were there", keys.len());
            let mut there = 0;
            db.get_many_with(&keys, |_, value| there += usize::from(value.is_some())).unwrap();
            assert!(there == 0 || there == keys.len(), "{there} of {} were there", keys.len());
        }
        assert_eq!(db.get_many(&keys).unwrap().iter().flatten().count(), 0);
        clock.0.store(expiry, Ordering::SeqCst);
    }
}

#[test]
fn values_that_are_copied_come_whole_and_in_order_however_long_they_are() {
    let open = || Db::builder().segment_size(1024 * 1024).background(false).open_storage(Box::new(CrashStorage::new())).unwrap();
    let db = open();
    let value = |key: u16| vec![key as u8; if key.is_multiple_of(3) { 100_000 } else { 10 }];
    for key in 0..3 * KEYS_OF_ONE_MOMENT as u16 {
        if !key.is_multiple_of(5) {
            db.insert(key.to_le_bytes(), value(key)).unwrap();
        }
    }
    // Some twice, and some that are not there.
    let keys: Vec<u16> = (0..3 * KEYS_OF_ONE_MOMENT as u16 + 10).chain(0..50).collect();
    let expected = |key: u16| (!key.is_multiple_of(5) && key < 3 * KEYS_OF_ONE_MOMENT as u16).then(|| value(key));
    let found = db.get_many(keys.iter().map(|key| key.to_le_bytes())).unwrap();
    assert_eq!(found.len(), keys.len());
    for (&key, found) in keys.iter().zip(&found) {
        assert!(*found == expected(key), "key {key}");
    }
    let mut next = keys.iter();
    let mut each = |key: [u8; 2], found: Option<&[u8]>| {
        assert_eq!(u16::from_le_bytes(key), *next.next().unwrap());
        assert!(found == expected(u16::from_le_bytes(key)).as_deref());
    };
    db.get_many_with(keys.iter().map(|key| key.to_le_bytes()), &mut each).unwrap();
    assert_eq!(next.len(), 0);
}

#[test]
fn an_error_of_a_damaged_record_names_its_key() {
    let storage = MemoryStorage::new();
    let open = |storage: &MemoryStorage| Db::builder().background(false).open_storage(Box::new(storage.clone())).unwrap();
    let db = open(&storage);
    for key in 0..200_u8 {
        db.insert([b'k', key], [b"value".as_slice(), &[key; 20]].concat()).unwrap();
    }
    // Opening does not read what is in front of it.
    db.checkpoint().unwrap();
    db.close().unwrap();
    let bytes = storage.to_vec();
    let db = open(&flipped(&bytes, find(&bytes, &[&[b'k', 77][..], b"value", &[77; 20]].concat()) + 10));
    let keys = (0..200_u8).map(|key| [b'k', key]);
    let error = db.get_many(keys.clone()).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error:?}");
    assert_eq!(error.damaged_key(), Some(&[b'k', 77][..]));
    assert_eq!(db.get_many(keys.filter(|key| key[1] != 77)).unwrap().iter().flatten().count(), 199);
}

#[test]
fn it_may_be_called_inside_the_closure_of_an_update() {
    let db = Db::open_in_memory().unwrap();
    db.insert_many([("a", "1"), ("b", "2")]).unwrap();
    db.update("a", |_| Some(db.get_many(["a", "b", "c"]).unwrap().into_iter().flatten().flatten().collect())).unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"12");
}
