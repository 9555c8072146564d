//! Records that expire, in transactions and snapshots: each has a time of its own.
#![cfg(all(feature = "ordered", feature = "salvage"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::timed::{MINUTE, START, new};
use pipkin::testing::TestClock;
use pipkin::{Conflict, Db, Error, Namespace, Transaction, Ttl};
use std::time::Duration;

#[test]
fn a_transaction_has_one_time_and_conflicts_with_what_expires_before_its_end() {
    let (_, clock, db) = new();
    db.insert_with_ttl("lock", "ada", MINUTE).unwrap();
    let mut tx = db.begin().unwrap();
    assert!(tx.contains_key("lock").unwrap());
    clock.advance(MINUTE);
    assert!(tx.contains_key("lock").unwrap(), "its time stands still");
    tx.insert("done", "1").unwrap();
    assert!(matches!(tx.commit(), Err(Error::Conflict(Conflict::Expired))));
    assert!(!db.contains_key("done").unwrap());
    // What was gone when it began stays gone, whatever the host's clock says.
    clock.set(START);
    db.transaction(|tx| {
        assert!(!tx.contains_key("lock")?);
        tx.insert("done", "2")
    })
    .unwrap();
    // A closure runs again.
    db.insert_with_ttl("lock", "bob", MINUTE).unwrap();
    let mut seen = Vec::new();
    db.transaction(|tx| {
        seen.push(tx.contains_key("lock")?);
        clock.advance(MINUTE * 2);
        tx.insert("done", "3")
    })
    .unwrap();
    assert_eq!(seen, [true, false]);
}

#[test]
fn what_a_transaction_has_read_in_any_way_must_live_until_its_commit() {
    let clock = TestClock::new(START);
    let db = Db::builder().ordered(true).clock(clock.clone()).in_memory().unwrap();
    let other = db.namespace("other").unwrap();
    // Commits a millisecond before, and at, the expiry of "b", which is the earliest that there is.
    let tries = |read: &dyn Fn(&mut Transaction)| {
        [59_999, 60_000].map(|after| {
            for space in [&*db, &other] {
                for (key, ttl) in [("a", Ttl::Never), ("b", MINUTE.into()), ("c", (2 * MINUTE).into()), ("d", Ttl::Never)] {
                    space.with_ttl(ttl).insert(key, "1").unwrap();
                }
            }
            let mut tx = db.begin().unwrap();
            read(&mut tx);
            clock.advance(Duration::from_millis(after));
            tx.insert("written", "1").unwrap();
            match tx.commit() {
                Ok(()) => false,
                Err(Error::Conflict(Conflict::Expired)) => true,
                Err(error) => panic!("{error:?}"),
            }
        })
    };
    let (never, at_its_time) = ([false, false], [false, true]);
    assert_eq!(tries(&|_| ()), never);
    assert_eq!(tries(&|tx| assert!(tx.get("a").unwrap().is_some() && tx.get("none").unwrap().is_none())), never);
    assert_eq!(tries(&|tx| assert!(tx.get("c").unwrap().is_some())), never, "it lives longer");
    assert_eq!(tries(&|tx| assert!(tx.get("b").unwrap().is_some())), at_its_time);
    assert_eq!(tries(&|tx| assert!(tx.get_zerocopy("b").unwrap().is_some())), at_its_time);
    assert_eq!(tries(&|tx| assert!(tx.contains_key("b").unwrap())), at_its_time);
    assert_eq!(tries(&|tx| assert_eq!(tx.get_many(["c", "b", "a"]).unwrap().len(), 3)), at_its_time);
    assert_eq!(tries(&|tx| assert!(tx.remove("b").unwrap())), at_its_time);
    assert_eq!(tries(&|tx| assert!(tx.get_in(&other, "b").unwrap().is_some())), at_its_time);
    assert_eq!(tries(&|tx| assert!(tx.iter().unwrap().count() >= 4)), at_its_time);
    assert_eq!(tries(&|tx| assert!(tx.namespace(&other).unwrap().keys().count() == 4)), at_its_time);
    assert_eq!(tries(&|tx| assert_eq!(tx.range("a".."c").unwrap().count(), 2)), at_its_time);
    assert_eq!(tries(&|tx| assert_eq!(tx.range_keys(..="c").unwrap().rev().count(), 3)), at_its_time);
    // Of a range, only what it has returned.
    assert_eq!(tries(&|tx| drop(tx.range(..).unwrap().next())), never);
    assert_eq!(tries(&|tx| drop(tx.range("c"..).unwrap().next())), never);
    assert_eq!(tries(&|tx| drop(tx.range(..="c").unwrap().nth_back(1))), at_its_time);
    assert_eq!(tries(&|tx| drop(tx.range(..).unwrap().nth(1))), at_its_time);
    // What it has written itself it does not read in the store.
    let writes = |tx: &mut Transaction| tx.insert_with_ttl("b", "own", MINUTE).unwrap();
    let own = |tx: &mut Transaction| {
        writes(tx);
        assert_eq!(tx.get("b").unwrap().as_deref(), Some(&b"own"[..]));
        assert!(tx.range("a".."c").unwrap().count() == 2 && tx.iter().is_ok());
    };
    assert_eq!(tries(&own), never);
    // What was read first counts, though it is written then.
    let late = |tx: &mut Transaction| {
        assert!(tx.contains_key("b").unwrap());
        writes(tx);
    };
    assert_eq!(tries(&late), at_its_time);
    // Who writes nothing conflicts with nobody.
    db.insert_with_ttl("b", "1", MINUTE).unwrap();
    let tx = db.begin().unwrap();
    assert!(tx.contains_key("b").unwrap());
    clock.advance(MINUTE);
    tx.commit().unwrap();
}

#[test]
fn records_that_a_transaction_writes_live_from_its_commit_on() {
    let (_, clock, db) = new();
    let space = db.namespace("space").unwrap();
    space.set_default_ttl(Some(MINUTE)).unwrap();
    db.insert("past", "1").unwrap();
    let mut tx = db.with_ttl(2 * MINUTE).begin().unwrap();
    tx.insert("handle", "1").unwrap();
    tx.insert_with_ttl("own", "1", 3 * MINUTE).unwrap();
    tx.insert_with_ttl("never", "1", Ttl::Never).unwrap();
    tx.insert_with_ttl("past", "1", Ttl::At(START)).unwrap();
    tx.insert_with_ttl("savepoint", "1", 4 * MINUTE).unwrap();
    tx.insert_in(&space, "default", "1").unwrap();
    tx.insert_in(&space.with_ttl(5 * MINUTE), "handle", "1").unwrap();
    tx.insert_in_with_ttl(&space, "own", "1", Ttl::At(START + 6 * 60_000 + 7)).unwrap();
    let savepoint = tx.savepoint();
    tx.insert_with_ttl("savepoint", "2", 9 * MINUTE).unwrap();
    tx.insert_with_ttl("never", "2", 9 * MINUTE).unwrap();
    tx.rollback_to(&savepoint).unwrap();
    // Its own writes are there for it, however long it takes.
    clock.advance(MINUTE);
    assert!(tx.contains_key("past").unwrap() && tx.contains_key_in(&space, "default").unwrap());
    tx.commit().unwrap();
    let minutes = |space: &Namespace, key: &str| space.expires_at(key).unwrap().map(|at| (at - START) / 60_000);
    let expiries = ["handle", "own", "never", "past", "savepoint"].map(|key| minutes(&db, key));
    assert_eq!(expiries, [Some(3), Some(4), None, None, Some(5)]);
    assert_eq!(["default", "handle"].map(|key| minutes(&space, key)), [Some(2), Some(6)]);
    assert_eq!(space.expires_at("own").unwrap(), Some(START + 6 * 60_000 + 7));
    assert!(db.contains_key("never").unwrap() && !db.contains_key("past").unwrap());
}

#[test]
fn a_snapshot_keeps_its_time() {
    let (_, clock, db) = new();
    for number in 0..50_u8 {
        db.insert_with_ttl([number], "1", Duration::from_secs(u64::from(number) + 1)).unwrap();
        db.insert([100, number], "1").unwrap();
    }
    clock.advance(Duration::from_secs(10));
    let at_10 = db.snapshot();
    clock.advance(Duration::from_secs(10));
    let at_20 = db.snapshot();
    clock.advance(Duration::from_secs(10));
    let check = |what: &str| {
        let counts = |space: &pipkin::SnapshotNamespace| {
            let ranged = space.range(..).unwrap().collect::<pipkin::Result<Vec<_>>>().unwrap().len() as u64;
            let walked = space.iter().collect::<pipkin::Result<Vec<_>>>().unwrap().len() as u64;
            (space.len().unwrap(), ranged, walked)
        };
        assert_eq!(counts(&at_10), (90, 90, 90), "{what}");
        assert_eq!(counts(&at_20), (80, 80, 80), "{what}");
        assert_eq!((db.len().unwrap(), db.iter().count(), db.stats().unwrap().records), (70, 70, 70), "{what}");
        assert!(at_10.contains_key([10]).unwrap() && !at_10.contains_key([9]).unwrap(), "{what}");
    };
    check("before");
    assert_eq!(db.sweep_expired().unwrap(), 0, "counting has swept what no snapshot shows");
    db.checkpoint().unwrap();
    db.compact().unwrap();
    check("compacted");
    for number in 0..50_u8 {
        db.insert([number], "2").unwrap();
    }
    assert_eq!((at_10.len().unwrap(), at_20.len().unwrap(), db.len().unwrap()), (90, 80, 100));
    drop(at_10);
    assert_eq!(at_20.iter().map(|record| record.unwrap()).filter(|(_, value)| value == b"1").count(), 80);
}
