//! Calls as a user writes them first: no type is named, nothing is cast, and they compile.
#![cfg(feature = "ordered")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use pipkin::{Db, Error};
use std::ops::Bound;

fn ordered() -> Db {
    let db = Db::builder().ordered(true).in_memory().unwrap();
    db.insert_many([("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]).unwrap();
    db
}

fn text(keys: impl Iterator<Item = pipkin::Result<Vec<u8>>>) -> String {
    keys.map(|key| String::from_utf8(key.unwrap()).unwrap()).collect()
}

/// `range(..)` needed the type of a key that it does not have: `range::<&str>(..)`.
#[test]
fn a_range_is_written_as_it_is_for_a_slice() {
    let db = ordered();
    let (from, to) = ("b".to_string(), vec![b'd']);
    assert_eq!(text(db.range_keys(..).unwrap()), "abcd");
    assert_eq!(text(db.range_keys(b"a"..b"c").unwrap()), "ab");
    assert_eq!(text(db.range_keys("a"..="c").unwrap()), "abc");
    assert_eq!(text(db.range_keys(.."c").unwrap()), "ab");
    assert_eq!(text(db.range_keys(..="c").unwrap()), "abc");
    assert_eq!(text(db.range_keys(&from..).unwrap()), "bcd");
    assert_eq!(text(db.range_keys(from.as_bytes()..&to).unwrap()), "bc");
    assert_eq!(text(db.range_keys((Bound::Excluded("a"), Bound::Included("c"))).unwrap()), "bc");
    assert_eq!(db.range(..).unwrap().count(), 4);
    let mut seen = Vec::new();
    db.range_with(.., |key, _| {
        seen.extend_from_slice(key);
        true
    })
    .unwrap();
    db.range_rev_with("c".., |key, _| {
        seen.extend_from_slice(key);
        true
    })
    .unwrap();
    assert_eq!(seen, b"abcddc");
}

#[test]
fn keys_alone_come_from_either_end_and_name_what_is_damaged() {
    let db = ordered();
    let mut keys = db.range_keys(..).unwrap();
    assert_eq!(keys.next_back().unwrap().unwrap(), b"d");
    assert_eq!(keys.next().unwrap().unwrap(), b"a");
    assert_eq!(text(keys), "bc");
    assert_eq!(text(db.range_keys(..).unwrap().rev()), "dcba");
    assert!(matches!(Db::open_in_memory().unwrap().range_keys(..).err(), Some(Error::NotOrdered)));
}

#[test]
fn a_store_can_be_walked_by_a_for_loop() {
    let db = ordered();
    let users = db.namespace("users").unwrap();
    users.insert("ada", "1815").unwrap();
    let mut keys = Vec::new();
    for record in &db {
        keys.push(record.unwrap().0);
    }
    keys.sort();
    assert_eq!(keys, [b"a", b"b", b"c", b"d"]);
    for record in &users {
        assert_eq!(record.unwrap(), (b"ada".to_vec(), b"1815".to_vec()));
    }
}

#[test]
fn a_comparison_takes_whatever_is_at_hand() {
    let db = Db::open_in_memory().unwrap();
    assert!(db.compare_and_swap("key", None, Some(b"x")).unwrap());
    assert!(db.compare_and_swap("key", Some(b"x"), Some(&1_u64.to_be_bytes())).unwrap());
    let old = db.get("key").unwrap();
    let new = vec![7];
    assert!(db.compare_and_swap("key", old.as_deref(), Some(&new)).unwrap());
    assert!(db.compare_and_swap(b"key", Some(&new), None).unwrap());
    assert!(db.compare_version_and_swap("key", None, Some(b"x")).unwrap());
}

#[test]
fn a_value_compares_with_anything_that_is_bytes() {
    let db = Db::open_in_memory().unwrap();
    db.insert("color", "green").unwrap();
    let value = || db.get_zerocopy("color").unwrap().unwrap();
    assert!(value() == "green" && value() == b"green" && value() == *b"green" && value() == b"green".to_vec());
    assert!(value() == b"green"[..] && value() == value() && value() != "red");
    assert_eq!(value().into_vec(), b"green");
    let owned = || db.get_zerocopy_owned("color").unwrap().unwrap();
    assert!(owned() == "green" && owned() == value() && owned() == owned() && owned() != "red");
    assert_eq!(owned().into_vec(), b"green");
}

/// A batch borrowed what it was given, so that a loop could not fill it from what the loop makes.
#[test]
fn a_batch_is_filled_by_a_loop_that_keeps_nothing() {
    let db = Db::open_in_memory().unwrap();
    let spaces = ["of 0", "of 1", "of 2"].map(|name| db.namespace(name).unwrap());
    let mut batch = db.batch();
    for (number, space) in (0..200_u32).zip(spaces.iter().cycle()) {
        let key = format!("key {number}");
        batch = batch.insert(key.clone(), number.to_be_bytes()).insert_in(space, key, vec![1; number as usize]);
    }
    batch = batch.remove(String::from("key 7")).insert("borrowed", "by reference").remove_in(&spaces[0], "key 0");
    // Of several writes of a key the last one counts, owned or borrowed.
    batch =
        batch.insert("key 8", "borrowed").insert(String::from("key 8"), "owned").insert("key 9", vec![9]).insert("key 9", "last");
    batch.commit().unwrap();
    assert_eq!(db.len().unwrap(), 200);
    assert_eq!(db.get("key 8").unwrap().unwrap(), b"owned");
    assert_eq!(db.get("key 9").unwrap().unwrap(), b"last");
    assert_eq!(db.get("key 199").unwrap().unwrap(), 199_u32.to_be_bytes());
    assert_eq!(db.get("borrowed").unwrap().unwrap(), b"by reference");
    assert_eq!(spaces.each_ref().map(|space| space.len().unwrap()), [66, 67, 66]);
    let other = Db::open_in_memory().unwrap();
    let foreign = db.batch().insert("key", "value").remove_in(&other, "key").commit();
    assert!(matches!(foreign, Err(Error::InvalidArgument(_))));
}
