//! Atomic steps that answer: the old value, the closure's result, the merged value.
#![cfg(feature = "native")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{find, flipped, opened};
use pipkin::limits::VALUE_LEN_MAX;
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, merge};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const THREADS: u64 = 4;
const STEPS: u64 = 500;

#[test]
fn the_old_value_is_handed_back() {
    let db = Db::open_in_memory().unwrap();
    assert_eq!(db.swap("key", "one").unwrap(), None);
    assert_eq!(db.swap("key", "two").unwrap(), Some(b"one".to_vec()));
    assert_eq!(db.swap("key", "").unwrap(), Some(b"two".to_vec()));
    assert_eq!(db.take("key").unwrap(), Some(Vec::new()), "an empty value is a value");
    assert_eq!(db.take("key").unwrap(), None);
    assert_eq!((db.len().unwrap(), db.get("key").unwrap()), (0, None));
    let users = db.namespace("users").unwrap();
    users.swap("key", "elsewhere").unwrap();
    assert_eq!((db.take("key").unwrap(), users.take("key").unwrap()), (None, Some(b"elsewhere".to_vec())));
    db.drop_namespace("users").unwrap();
    assert!(matches!(users.swap("key", "value"), Err(Error::NamespaceDropped)));
    assert!(matches!(users.take("key"), Err(Error::NamespaceDropped)));
}

/// Of many threads each number is taken by one, and each swap hands on what another has put.
#[test]
fn what_is_taken_is_taken_once() {
    let db = Db::open_in_memory().unwrap();
    db.insert_many((0..STEPS).map(|number| (number.to_be_bytes(), number.to_be_bytes()))).unwrap();
    db.insert("hot", 0_u64.to_be_bytes()).unwrap();
    let (taken, swapped) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, taken, swapped) = (&db, &taken, &swapped);
            scope.spawn(move || {
                for number in 0..STEPS {
                    if let Some(value) = db.take(number.to_be_bytes()).unwrap() {
                        assert_eq!(value, number.to_be_bytes());
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                    let mine = 1 + thread * STEPS + number;
                    let old = db.swap("hot", mine.to_be_bytes()).unwrap().unwrap();
                    swapped.fetch_add(u64::from_be_bytes(old.try_into().unwrap()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(taken.into_inner(), STEPS);
    let last = u64::from_be_bytes(db.get("hot").unwrap().unwrap().try_into().unwrap());
    let all = THREADS * STEPS;
    assert_eq!(swapped.into_inner() + last, all * (all + 1) / 2, "a value was handed on twice, or not at all");
}

#[test]
fn a_value_is_made_once() {
    let db = Db::open_in_memory().unwrap();
    let made = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, made) = (&db, &made);
            scope.spawn(move || {
                for number in 0..STEPS {
                    let make = || {
                        made.fetch_add(1, Ordering::Relaxed);
                        thread.to_be_bytes()
                    };
                    let value = db.get_or_insert_with(number.to_be_bytes(), make).unwrap();
                    assert_eq!(db.get(number.to_be_bytes()).unwrap(), Some(value));
                }
            });
        }
    });
    assert_eq!((made.into_inner(), db.len().unwrap()), (STEPS, STEPS));
}

#[test]
fn a_step_that_fails_or_changes_nothing_writes_nothing() {
    let db = Db::open_in_memory().unwrap();
    db.insert("key", "value").unwrap();
    let (_, version) = db.get_versioned("key").unwrap().unwrap();
    let refused = db.modify("key", |value| {
        *value = None;
        Err::<(), _>("not today")
    });
    assert_eq!(refused.unwrap(), Err("not today"));
    let same = db.modify("key", |value| Ok::<_, ()>(value.replace(b"value".to_vec())));
    assert_eq!(same.unwrap(), Ok(Some(b"value".to_vec())));
    assert_eq!(db.get_versioned("key").unwrap(), Some((b"value".to_vec(), version)));
    assert_eq!(db.modify("key", |value| Ok::<_, ()>(value.take().map(|value| value.len()))).unwrap(), Ok(Some(5)));
    assert_eq!(db.get("key").unwrap(), None);
    assert_eq!(db.modify("key", |value| Ok::<_, ()>(value.is_none())).unwrap(), Ok(true));
    assert_eq!(db.len().unwrap(), 0);
}

#[test]
fn limits_and_rights_are_those_of_other_writes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let builder = || Db::builder().path(&path).merge_operator("", "append", merge::append);
    let db = builder().open().unwrap();
    let (long, too_long) = ([0; 70_000], vec![0; VALUE_LEN_MAX + 1]);
    assert!(matches!(db.swap(long, "value"), Err(Error::KeyTooLong { .. })));
    assert!(matches!(db.take(long), Err(Error::KeyTooLong { .. })));
    assert!(matches!(db.modify(long, |_| Ok::<_, ()>(())), Err(Error::KeyTooLong { .. })));
    assert!(matches!(db.get_or_insert_with(long, || "value"), Err(Error::KeyTooLong { .. })));
    assert!(matches!(db.merge(long, "value"), Err(Error::KeyTooLong { .. })));
    assert!(matches!(db.swap("key", &too_long), Err(Error::ValueTooLong { .. })));
    assert!(matches!(db.merge("key", &too_long), Err(Error::ValueTooLong { .. })));
    assert_eq!(db.len().unwrap(), 0);
    db.insert("key", "value").unwrap();
    db.close().unwrap();
    let db = builder().read_only(true).open().unwrap();
    assert!(matches!(db.swap("key", "value"), Err(Error::ReadOnly)));
    assert!(matches!(db.take("key"), Err(Error::ReadOnly)));
    assert!(matches!(db.merge("key", "value"), Err(Error::ReadOnly)));
    assert!(matches!(db.modify("key", |_| Ok::<_, ()>(())), Err(Error::ReadOnly)));
    assert_eq!(db.get_or_insert_with("key", || "other").unwrap(), b"value", "what is there needs no right to write");
}

/// A step on a damaged record must not take it for a missing one: it would store over what salvage could still ask about.
#[test]
fn a_damaged_value_is_an_error_and_stays() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), 64 * 1024);
    db.insert_many([("key", "the value of the key"), ("other", "value")]).unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let bytes = storage.to_vec();
    let damaged = flipped(&bytes, find(&bytes, b"the value of the key"));
    let db = Db::builder().merge_operator("", "append", merge::append).open_storage(Box::new(damaged)).unwrap();
    assert!(matches!(db.take("key"), Err(Error::Corrupt { .. })));
    assert!(matches!(db.swap("key", "new"), Err(Error::Corrupt { .. })));
    assert!(matches!(db.merge("key", "new"), Err(Error::Corrupt { .. })));
    assert!(matches!(db.get_or_insert_with("key", || "new"), Err(Error::Corrupt { .. })));
    assert!(matches!(db.modify("key", |value| Ok::<_, ()>(value.take())), Err(Error::Corrupt { .. })));
    assert!(matches!(db.get("key"), Err(Error::Corrupt { .. })));
    assert!(db.remove("key").unwrap());
    assert_eq!(db.swap("key", "new").unwrap(), None);
}

#[test]
fn counters_of_many_threads_add_up_and_survive_a_reopen() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let builder = Db::builder().path(&path).merge_operator("counters", "add", merge::add).merge_operator("", "max", merge::max);
    let db = builder.clone().open().unwrap();
    let counters = db.namespace("counters").unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, counters) = (&db, &counters);
            scope.spawn(move || {
                for number in 0..STEPS {
                    counters.merge("visits", 2_u64.to_be_bytes()).unwrap();
                    db.merge("newest", (number * THREADS + thread).to_be_bytes()).unwrap();
                }
            });
        }
    });
    db.compact().unwrap();
    drop(counters);
    db.close().unwrap();
    // The file holds results: no operator is needed to read it.
    let db = Db::open(&path).unwrap();
    let counters = db.namespace("counters").unwrap();
    assert_eq!(counters.get("visits").unwrap().unwrap(), (2 * THREADS * STEPS).to_be_bytes());
    assert_eq!(db.get("newest").unwrap().unwrap(), (THREADS * STEPS - 1).to_be_bytes());
    assert!(
        matches!(counters.merge("visits", 2_u64.to_be_bytes()), Err(Error::NoMergeOperator { namespace }) if namespace == "counters")
    );
}

#[test]
fn an_operator_that_refuses_says_why_and_writes_nothing() {
    let db = Db::builder().merge_operator("", "append", merge::append).merge_operator("", "add", merge::add).in_memory().unwrap();
    db.insert("text", "value").unwrap();
    let refused = db.merge("text", 1_u64.to_be_bytes()).unwrap_err();
    assert!(
        matches!(&refused, Error::MergeRefused { operator, .. } if **operator == *"add"),
        "the later one replaces the earlier: {refused:?}"
    );
    assert!(refused.to_string().contains("8 bytes"), "{refused}");
    assert!(matches!(db.merge("counter", "text"), Err(Error::MergeRefused { .. })));
    db.insert("full", u64::MAX.to_be_bytes()).unwrap();
    assert!(matches!(db.merge("full", 1_u64.to_be_bytes()), Err(Error::MergeRefused { .. })));
    assert_eq!(db.get("text").unwrap().unwrap(), b"value");
    assert_eq!(db.get("full").unwrap().unwrap(), u64::MAX.to_be_bytes());
    assert_eq!(db.len().unwrap(), 2);
}

#[derive(Debug, PartialEq)]
enum Failed {
    Store(String),
    Empty,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Store(format!("{error:?}"))
    }
}

/// The body could return nothing but errors of pipkin, and every caller wrote the loop around a conflict anew.
#[test]
fn a_transaction_runs_again_when_others_were_faster_and_hands_on_the_callers_error() {
    let db = Db::open_in_memory().unwrap();
    db.insert("a", [3]).unwrap();
    let mut runs = 0;
    let moved = db.try_transaction(|tx| {
        runs += 1;
        let coins = tx.get("a")?.and_then(|coins| coins.first().copied()).ok_or(Failed::Empty)?;
        if runs < 4 {
            db.insert("a", [3 + runs])?;
        }
        tx.insert("b", [coins])?;
        Ok::<_, Failed>(coins)
    });
    assert_eq!((moved, runs), (Ok(6), 4));
    assert_eq!((db.get("a").unwrap(), db.get("b").unwrap()), (Some(vec![6]), Some(vec![6])));

    let mut runs = 0;
    let refused: Result<(), Failed> = db.try_transaction(|tx| {
        runs += 1;
        tx.insert("b", "not written")?;
        Err(Failed::Empty)
    });
    assert_eq!((refused, runs), (Err(Failed::Empty), 1));
    assert_eq!(db.get("b").unwrap(), Some(vec![6]));

    let mut runs = 0_u32;
    let beaten = db.try_transaction(|tx| {
        runs += 1;
        tx.get("a")?;
        db.insert("a", runs.to_be_bytes())?;
        tx.insert("b", "never")?;
        Ok::<_, Failed>(())
    });
    assert_eq!((beaten, runs), (Err(Failed::Store("Conflict(Key)".into())), 100));
    assert_eq!(db.get("b").unwrap(), Some(vec![6]));
}
