//! Typed views: keys in their order, values that come back as they were, and what is not of the type is an error and stays.
#![cfg(all(feature = "typed", feature = "ordered"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use pipkin::{Db, Error, FixedKey, TypedKey};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Event {
    Login { user: String, at: u64 },
    Numbers(Vec<i32>),
    Nothing,
}

fn bytes<K: TypedKey>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::new();
    K::encode(key.borrow(), &mut bytes);
    bytes
}

fn in_order<K: TypedKey + Ord + Debug>(one: &K, other: &K) {
    assert_eq!(bytes(one).cmp(&bytes(other)), one.cmp(other), "{one:?} and {other:?}");
    assert_eq!(K::decode(&bytes(one)).as_ref(), Some(one));
}

fn fixed<K: FixedKey + Debug>(key: &K) {
    assert_eq!(bytes(key).len(), K::LEN);
    assert!(K::decode(&[bytes(key), vec![0]].concat()).is_none(), "{key:?} and a byte more");
    assert!(K::decode(bytes(key).split_last().unwrap().1).is_none(), "{key:?} without its last byte");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn bytes_compare_as_their_keys(
        numbers in any::<(u32, u64, u128, i64)>(), others in any::<(u32, u64, u128, i64)>(),
        texts in any::<(String, String)>(), lists in any::<(Vec<u8>, Vec<u8>)>(), small in (-3_i64..3, -3_i64..3),
    ) {
        in_order(&numbers.0, &others.0);
        in_order(&numbers.1, &others.1);
        in_order(&numbers.2, &others.2);
        in_order(&numbers.3, &others.3);
        in_order(&small.0, &small.1);
        in_order(&texts.0, &texts.1);
        in_order(&lists.0, &lists.1);
        in_order(&(small.0, texts.0.clone()), &(small.1, texts.1.clone()));
        in_order(&((small.0, numbers.0), lists.0.clone()), &((small.1, others.0), lists.1.clone()));
        fixed(&numbers.0);
        fixed(&numbers.1);
        fixed(&numbers.2);
        fixed(&numbers.3);
        fixed(&(small.0, [7_u8; 3]));
    }
}

/// Ranges of a view and of a map of the standard library are the same, from either end.
#[test]
fn a_view_is_a_sorted_map() {
    let db = Db::builder().ordered(true).in_memory().unwrap();
    let view = db.namespace("events").unwrap().typed::<i64, Event>();
    let mut map = BTreeMap::new();
    for number in 0..500_i64 {
        let key = (number * 7919) % 1009 - 500;
        let event = match number % 3 {
            0 => Event::Login { user: format!("user {number}"), at: number as u64 },
            1 => Event::Numbers((0..number as i32 % 20).collect()),
            _ => Event::Nothing,
        };
        view.insert(&key, &event).unwrap();
        map.insert(key, event);
    }
    view.remove(&map.pop_first().unwrap().0).unwrap();
    let read = |range: Vec<pipkin::Result<(i64, Event)>>| range.into_iter().map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(read(view.range(..).unwrap().collect()), map.clone().into_iter().collect::<Vec<_>>());
    for (from, to) in [(-100, 100), (-500, -1), (0, 600)] {
        let expected: Vec<_> = map.range(from..to).map(|(key, event)| (*key, event.clone())).collect();
        assert_eq!(read(view.range(from..to).unwrap().collect()), expected);
        assert_eq!(read(view.range(from..to).unwrap().rev().collect()), expected.iter().rev().cloned().collect::<Vec<_>>());
        assert_eq!(view.range(from..=to).unwrap().count(), map.range(from..=to).count());
    }
    assert_eq!(view.iter().count(), map.len());
    let mut keys = view.keys().collect::<Result<Vec<_>, _>>().unwrap();
    keys.sort_unstable();
    assert!(keys.iter().eq(map.keys()));
    assert!(view.contains_key(map.keys().next().unwrap()).unwrap() && !view.contains_key(&9999).unwrap());
}

#[test]
fn what_is_not_of_the_type_is_an_error_and_stays() {
    let db = Db::builder().ordered(true).in_memory().unwrap();
    let view = db.typed::<u32, String>();
    view.insert_many([(1, "one".to_string()), (3, "three".to_string())]).unwrap();
    // Longer than it says, shorter, and no text; and a key of another length.
    for wrong in [&b"\x03oneX"[..], b"\x04one", b"\x02\xff\xfe", b""] {
        db.insert(view.key(&2), wrong).unwrap();
        assert!(matches!(view.get(&2), Err(Error::NotOfType { what: "value", .. })), "{wrong:?}");
        let changed = view.modify(&2, |value| value.take());
        assert!(matches!(changed, Err(Error::NotOfType { .. })));
        assert_eq!(db.get(view.key(&2)).unwrap().unwrap(), wrong);
    }
    db.insert("a key of text", view.value(&"value".into()).unwrap()).unwrap();
    let seen: Vec<_> = view.range(..).unwrap().collect();
    assert_eq!((seen.len(), seen.iter().filter(|record| record.is_ok()).count()), (4, 2));
    let error = view.range(..).unwrap().find_map(Result::err).unwrap().to_string();
    assert!(error.contains("String"), "{error}");
}

#[test]
fn steps_of_many_threads_add_up() {
    let db = Db::open_in_memory().unwrap();
    let counts = db.typed::<(u32, String), u64>();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let counts = counts.clone();
            scope.spawn(move || {
                for number in 0..400_u32 {
                    counts.modify(&(number % 5, "visits".into()), |count| *count.get_or_insert(0) += 1).unwrap();
                }
            });
        }
    });
    for number in 0..5 {
        assert_eq!(counts.get(&(number, "visits".into())).unwrap(), Some(320));
    }
}
