//! What a transaction sees, what makes it conflict and what does not. The anomalies are in `isolation.rs`, concurrent histories in
//! `tests/tests/serializable.rs`.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use pipkin::limits::RECENT_BYTES_MAX;
use pipkin::{Conflict, Db, Error, Result, Transaction};
use std::collections::BTreeMap;
use std::ops::Bound;

const fn is_shared<T: Send + Sync>() {}
const _: () = is_shared::<Transaction>();

fn ordered() -> Db {
    Db::builder().ordered(true).segment_size(4096).background(false).in_memory().unwrap()
}

fn conflict(result: Result<()>) -> Option<Conflict> {
    match result {
        Ok(()) => None,
        Err(Error::Conflict(conflict)) => Some(conflict),
        Err(other) => panic!("{other:?}"),
    }
}

/// What a transaction makes of two stores of letters: the records of the store, and then its own, in every way of reading.
#[test]
fn a_transaction_reads_its_own_writes_over_the_store_in_every_way() {
    let mut rng = 1_u64;
    let mut random = |below: u64| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (rng >> 33) % below
    };
    for _ in 0..100 {
        let db = ordered();
        let users = db.namespace("users").unwrap();
        let mut expected: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        for _ in 0..random(12) {
            let (key, value) = (vec![b'a' + random(20) as u8], vec![random(200) as u8]);
            users.insert(&key, &value).unwrap();
            expected.insert(key, value);
        }
        let mut tx = db.begin().unwrap();
        users.clear().unwrap();
        users.insert("m", "of another").unwrap();
        for _ in 0..random(12) {
            let key = vec![b'a' + random(20) as u8];
            if random(3) == 0 {
                assert_eq!(tx.remove_in(&users, &key).unwrap(), expected.remove(&key).is_some());
            } else {
                let value = vec![random(200) as u8; 3];
                tx.insert_in(&users, &key, &value).unwrap();
                expected.insert(key, value);
            }
        }
        let view = tx.namespace(&users).unwrap();
        for key in b'a'..=b'u' {
            let value = expected.get(&vec![key]);
            assert_eq!(view.get([key]).unwrap().as_ref(), value);
            assert_eq!(view.get_zerocopy([key]).unwrap().map(|value| value.to_vec()).as_ref(), value);
            assert_eq!(view.contains_key([key]).unwrap(), value.is_some());
        }
        let mut walked: Vec<_> = view.iter().collect::<Result<_>>().unwrap();
        walked.sort();
        assert!(walked.iter().map(|(key, value)| (key, value)).eq(&expected));
        assert_eq!(view.keys().count(), expected.len());
        for _ in 0..30 {
            let bound = |kind: u64, key: u64| match kind {
                0 => Bound::Unbounded,
                1 => Bound::Included(vec![b'a' + key as u8]),
                _ => Bound::Excluded(vec![b'a' + key as u8]),
            };
            let (start, end) = (bound(random(3), random(20)), bound(random(3), random(20)));
            let mut from_both = Vec::new();
            let mut range = view.range((start.clone(), end.clone())).unwrap();
            let mut at_back = Vec::new();
            loop {
                let (is_back, next) = match random(2) {
                    0 => (false, range.next()),
                    _ => (true, range.next_back()),
                };
                let Some(record) = next else { break };
                if is_back { at_back.push(record.unwrap()) } else { from_both.push(record.unwrap()) }
            }
            assert!(range.next().is_none() && range.next_back().is_none());
            from_both.extend(at_back.into_iter().rev());
            let is_in = |key: &Vec<u8>| {
                (match &start {
                    Bound::Unbounded => true,
                    Bound::Included(start) => start <= key,
                    Bound::Excluded(start) => start < key,
                }) && (match &end {
                    Bound::Unbounded => true,
                    Bound::Included(end) => key <= end,
                    Bound::Excluded(end) => key < end,
                })
            };
            let inside: Vec<_> = expected.clone().into_iter().filter(|(key, _)| is_in(key)).collect();
            assert_eq!(from_both, inside);
            let keys: Vec<_> = view.range_keys((start.clone(), end.clone())).unwrap().collect::<Result<_>>().unwrap();
            assert!(keys.iter().eq(inside.iter().map(|(key, _)| key)));
        }
    }
}

/// Only what a range has returned counts as read.
#[test]
fn a_range_conflicts_with_what_lies_in_the_part_that_was_read() {
    let tries = |writes: &str, read: &dyn Fn(&Transaction)| {
        let db = ordered();
        db.insert_many([("b", "1"), ("d", "2"), ("f", "3"), ("h", "4")]).unwrap();
        let mut tx = db.begin().unwrap();
        tx.insert("e", "own").unwrap();
        read(&tx);
        if !db.remove(writes).unwrap() {
            db.insert(writes, "other").unwrap();
        }
        conflict(tx.commit()).is_some()
    };
    let first = |tx: &Transaction| drop(tx.range(..).unwrap().next());
    assert!(tries("a", &first) && tries("b", &first) && !tries("c", &first));
    let three = |tx: &Transaction| assert_eq!(tx.range("b"..).unwrap().take(3).last().unwrap().unwrap().0, b"e");
    assert!(!tries("a", &three) && tries("d", &three) && tries("dd", &three) && !tries("f", &three));
    let last = |tx: &Transaction| drop(tx.range(..).unwrap().next_back());
    assert!(tries("z", &last) && tries("h", &last) && !tries("g", &last));
    let both = |tx: &Transaction| {
        let mut range = tx.range("b"..="h").unwrap();
        range.next();
        range.next_back();
    };
    assert!(tries("b", &both) && tries("h", &both) && !tries("d", &both) && !tries("z", &both));
    let all = |tx: &Transaction| assert_eq!(tx.range_keys("c".."g").unwrap().count(), 3);
    assert!(tries("c", &all) && tries("ff", &all) && !tries("g", &all) && !tries("b", &all));
    let none = |tx: &Transaction| assert_eq!(tx.range_prefix("x").unwrap().count(), 0);
    assert!(tries("x", &none) && tries("xyz", &none) && !tries("y", &none));
    let never = |tx: &Transaction| drop(tx.range(..).unwrap());
    assert!(!tries("a", &never));
    let walk = |tx: &Transaction| drop(tx.iter().unwrap().next());
    assert!(tries("z", &walk));
}

#[test]
fn a_key_conflicts_only_if_it_was_read_and_written_since() {
    let db = Db::open_in_memory().unwrap();
    let users = db.namespace("users").unwrap();
    db.insert("a", "1").unwrap();
    let tries = |read: &dyn Fn(&mut Transaction), write: &dyn Fn()| {
        let mut tx = db.begin().unwrap();
        read(&mut tx);
        write();
        tx.insert("written", "1").unwrap();
        conflict(tx.commit())
    };
    let reads_a = |tx: &mut Transaction| drop(tx.get("a").unwrap());
    assert_eq!(tries(&reads_a, &|| ()), None);
    assert_eq!(tries(&reads_a, &|| db.insert("a", "1").unwrap()), Some(Conflict::Key));
    assert_eq!(tries(&reads_a, &|| db.insert("b", "1").unwrap()), None);
    assert_eq!(tries(&reads_a, &|| users.insert("a", "1").unwrap()), None);
    assert_eq!(tries(&|tx| drop(tx.get("none").unwrap()), &|| db.insert("none", "1").unwrap()), Some(Conflict::Key));
    assert_eq!(tries(&|tx| assert!(tx.remove("none").unwrap()), &|| assert!(db.remove("none").unwrap())), Some(Conflict::Key));
    // A removal of nothing writes nothing.
    assert_eq!(tries(&|tx| assert!(!tx.remove("none").unwrap()), &|| assert!(!db.remove("none").unwrap())), None);
    let batch = || db.batch().insert("x", "1").insert("a", "2").commit().unwrap();
    assert_eq!(tries(&reads_a, &batch), Some(Conflict::Key));
    assert_eq!(tries(&reads_a, &|| db.update("a", |old| old.map(<[u8]>::to_vec)).unwrap()), Some(Conflict::Key));
    // Who writes without reading conflicts with nobody, and the own write is no read.
    let writes_a = |tx: &mut Transaction| {
        tx.insert("a", "3").unwrap();
        assert_eq!(tx.get("a").unwrap(), Some(b"3".to_vec()));
    };
    assert_eq!(tries(&writes_a, &|| db.insert("a", "other").unwrap()), None);
    assert_eq!(db.get("a").unwrap(), Some(b"3".to_vec()));
    // Who only reads conflicts with nobody.
    let tx = db.begin().unwrap();
    assert_eq!(tx.get("a").unwrap(), Some(b"3".to_vec()));
    db.insert("a", "4").unwrap();
    assert_eq!(tx.get("a").unwrap(), Some(b"3".to_vec()));
    tx.commit().unwrap();
}

#[test]
fn a_namespace_that_is_cleared_dropped_or_made_conflicts_where_it_was_read() {
    let db = Db::open_in_memory().unwrap();
    let users = db.namespace("users").unwrap();
    users.insert("7", "Ada").unwrap();
    let begin = || {
        let mut tx = db.begin().unwrap();
        assert_eq!(tx.get_in(&users, "8").unwrap(), None);
        tx.insert("written", "1").unwrap();
        tx
    };
    let tx = begin();
    users.clear().unwrap();
    assert_eq!(tx.get_in(&users, "7").unwrap(), Some(b"Ada".to_vec()));
    assert_eq!(conflict(tx.commit()), Some(Conflict::Namespace));
    // Who has only written there comes after the clear.
    users.insert("7", "Ada").unwrap();
    let mut tx = db.begin().unwrap();
    tx.insert_in(&users, "9", "Eve").unwrap();
    users.clear().unwrap();
    tx.commit().unwrap();
    assert_eq!((users.get("7").unwrap(), users.get("9").unwrap()), (None, Some(b"Eve".to_vec())));
    // The default namespace, too.
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.get("written").unwrap(), None);
    tx.insert_in(&users, "8", "1").unwrap();
    db.insert("other", "1").unwrap();
    db.clear().unwrap();
    assert_eq!(conflict(tx.commit()), Some(Conflict::Namespace));
    let (tx, mut blind) = (begin(), db.begin().unwrap());
    blind.insert_in(&users, "8", "1").unwrap();
    assert!(db.drop_namespace("users").unwrap());
    assert_eq!(tx.get_in(&users, "9").unwrap(), Some(b"Eve".to_vec()));
    assert_eq!(conflict(tx.commit()), Some(Conflict::Namespace));
    assert!(matches!(blind.commit(), Err(Error::NamespaceDropped)));
    let mut late = db.begin().unwrap();
    assert!(matches!(late.insert_in(&users, "8", "1"), Err(Error::NamespaceDropped)));
    // One that is made while the transaction runs was not there for it; a closure finds it when it runs again.
    let mut runs = 0;
    db.transaction(|tx| {
        runs += 1;
        let made = db.namespace("made")?;
        assert_eq!(tx.get_in(&made, "1")?, None);
        tx.insert_in(&made, "1", "one")
    })
    .unwrap();
    assert_eq!((runs, db.namespace("made").unwrap().len().unwrap()), (2, 1));
}

#[test]
fn a_savepoint_takes_back_what_was_written_since() {
    let db = Db::open_in_memory().unwrap();
    let users = db.namespace("users").unwrap();
    db.insert_many([("a", "1"), ("b", "1")]).unwrap();
    let mut tx = db.begin().unwrap();
    tx.insert("a", "2").unwrap();
    let first = tx.savepoint();
    tx.insert("a", "3").unwrap();
    assert!(tx.remove("b").unwrap());
    let second = tx.savepoint();
    tx.insert("b", "3").unwrap();
    tx.insert_in(&users, "c", "3").unwrap();
    tx.rollback_to(&second).unwrap();
    assert_eq!((tx.get("b").unwrap(), tx.get_in(&users, "c").unwrap()), (None, None));
    tx.insert("b", "4").unwrap();
    tx.rollback_to(&second).unwrap();
    tx.rollback_to(&first).unwrap();
    assert_eq!((tx.get("a").unwrap(), tx.get("b").unwrap()), (Some(b"2".to_vec()), Some(b"1".to_vec())));
    assert!(matches!(tx.rollback_to(&second), Err(Error::InvalidArgument(_))));
    tx.insert("d", "5").unwrap();
    tx.rollback_to(&first).unwrap();
    let mut other = db.begin().unwrap();
    other.savepoint();
    assert!(matches!(other.rollback_to(&first), Err(Error::InvalidArgument(_))));
    tx.commit().unwrap();
    assert_eq!((db.get("a").unwrap(), db.get("b").unwrap(), db.len().unwrap()), (Some(b"2".to_vec()), Some(b"1".to_vec()), 2));
}

/// The copies of compaction are no writes, also where a snapshot makes them carry their origin; segments are freed and used again meanwhile.
#[test]
fn compaction_conflicts_with_nothing() {
    let db = ordered();
    for number in 0..40_u8 {
        db.insert([number], [number; 300]).unwrap();
        db.insert("dead", [number; 900]).unwrap();
    }
    let _older = db.snapshot();
    db.insert([7], "young").unwrap();
    let mut tx = db.begin().unwrap();
    assert_eq!((tx.get([7]).unwrap().as_deref(), tx.range([3]..[9]).unwrap().count()), (Some(&b"young"[..]), 6));
    let mut copied = 0;
    for number in 0..40_u8 {
        db.insert("dead", [number; 900]).unwrap();
        copied += db.compact().unwrap().records_copied;
    }
    assert!(copied > 40, "{copied}");
    assert_eq!(tx.get([8]).unwrap(), Some(vec![8; 300]));
    tx.insert("written", "1").unwrap();
    tx.commit().unwrap();
}

#[test]
fn more_writes_than_are_remembered_are_a_conflict() {
    let db = ordered();
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.get("a").unwrap(), None);
    tx.insert("written", "1").unwrap();
    let mut blind = db.begin().unwrap();
    blind.insert("also written", "1").unwrap();
    let key = vec![7; 60_000];
    let writes = RECENT_BYTES_MAX / key.len() + 200;
    for _ in 0..writes {
        db.insert(&key, "").unwrap();
    }
    let memory = db.stats().unwrap().snapshot_memory_bytes;
    assert!((RECENT_BYTES_MAX as u64 / 2..RECENT_BYTES_MAX as u64 + 5_000_000).contains(&memory), "{memory}");
    assert_eq!(conflict(tx.commit()), Some(Conflict::TooManyWrites));
    blind.commit().unwrap();
    assert_eq!(db.stats().unwrap().snapshot_memory_bytes, 0);
}

#[test]
fn a_transaction_whose_snapshot_was_ended_is_told_so_and_one_that_has_read_enough_commits() {
    let db = Db::builder().segment_size(4096).snapshot_limit(10_000).background(false).in_memory().unwrap();
    db.insert_many((0..20_u8).map(|number| ([number], [number; 1000]))).unwrap();
    let (mut reads, mut done) = (db.begin().unwrap(), db.begin().unwrap());
    reads.insert("reads", "1").unwrap();
    assert_eq!(done.get("none").unwrap(), None);
    done.insert("done", "1").unwrap();
    for _ in 0..10 {
        db.insert_many((0..20_u8).map(|number| ([number], [number; 1000]))).unwrap();
        db.compact().unwrap();
    }
    let failed = reads.get([3]).map(drop);
    assert_eq!(conflict(failed), Some(Conflict::SnapshotEnded));
    done.commit().unwrap();
    assert!(db.contains_key("done").unwrap());
}

#[test]
fn a_transaction_ends_with_its_store_and_refuses_to_nest() {
    let db = Db::open_in_memory().unwrap();
    assert!(matches!(db.transaction(|_| db.begin().map(drop)), Err(Error::Nested)));
    let mut nested = None;
    let mut open = db.begin().unwrap();
    open.insert("a", "1").unwrap();
    let mut open = Some(open);
    db.update("key", |_| {
        nested = Some((db.begin().map(drop), open.take().map(Transaction::commit)));
        None
    })
    .unwrap();
    assert!(matches!(nested, Some((Err(Error::Nested), Some(Err(Error::Nested))))), "{nested:?}");
    assert!(!db.contains_key("a").unwrap());
    let mut late = db.begin().unwrap();
    late.insert("a", "1").unwrap();
    db.clone().close().unwrap();
    assert!(matches!(late.commit(), Err(Error::Closed)));
}

/// What a transaction has left over when it ended does not keep a segment from whoever needs the space, though others live.
#[test]
fn compaction_frees_what_only_ended_transactions_needed() {
    let db = ordered();
    let fill = |round: u8| db.insert_many((0..20_u8).map(|key| ([key], [round; 900]))).unwrap();
    fill(0);
    let short = db.begin().unwrap();
    fill(1);
    let stays = db.begin().unwrap();
    fill(2);
    for _ in 0..3 {
        db.compact().unwrap();
    }
    let both = db.stats().unwrap().snapshot_held_bytes;
    drop(short);
    for _ in 0..3 {
        db.compact().unwrap();
    }
    let one = db.stats().unwrap().snapshot_held_bytes;
    assert!(one > 15_000 && one + 15_000 < both, "{one} of {both}");
    assert_eq!(stays.get([7]).unwrap(), Some(vec![1; 900]));
}
