//! Transactions in careless and hostile hands: left open, dropped half way, mixed up, too large, beside everything else that a store does.
//! What they promise is in `transactions.rs`.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::{Conflict, Db, Error, Result, Transaction};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

fn open(storage: &MemoryStorage) -> Db {
    Db::builder().ordered(true).segment_size(4096).background(false).open_storage(Box::new(storage.clone())).unwrap()
}

fn new() -> Db {
    open(&MemoryStorage::new())
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
}

/// Fails if anything is still kept for a transaction: snapshots, notes, writes of others, segments that cannot be freed.
fn keeps_nothing(db: &Db, after: &str) {
    let stats = db.stats().unwrap();
    assert_eq!((stats.snapshots, stats.snapshot_memory_bytes), (0, 0), "{after}");
    for _ in 0..4 {
        db.compact().unwrap();
    }
    let stats = db.stats().unwrap();
    assert_eq!((stats.held_bytes, stats.snapshot_held_bytes, stats.dead_bytes < 20_000), (0, 0, true), "{after}: {stats:?}");
}

/// Writes everything anew, and something into each namespace, so that a transaction that is still open is kept a lot for.
fn churn(db: &Db) {
    for round in 0..5_u8 {
        db.insert_many((0..100_u8).map(|key| ([key], [round; 100]))).unwrap();
        db.remove([round]).unwrap();
        db.compact().unwrap();
    }
}

#[test]
fn however_a_transaction_ends_nothing_is_kept_for_it() {
    let db = new();
    db.namespace("other").unwrap().insert("1", "1").unwrap();
    churn(&db);
    let ends: [(&str, &dyn Fn(Transaction)); 5] = [
        ("dropped", &drop),
        ("rolled back", &Transaction::rollback),
        ("in conflict", &|tx| assert!(matches!(tx.commit(), Err(Error::Conflict(_))))),
        ("beside walks that stopped half way", &|tx| {
            let (mut walk, mut range) = (tx.iter().unwrap(), tx.range(..).unwrap());
            assert!(walk.next().is_some() && range.next().is_some() && range.next_back().is_some());
            let _value = tx.get_zerocopy([50]).unwrap();
        }),
        ("in a thread that panicked", &|tx| {
            let panics = move || {
                let _tx = tx;
                std::panic::resume_unwind(Box::new("gone"));
            };
            thread::spawn(panics).join().unwrap_err();
        }),
    ];
    for (name, end) in ends {
        let mut tx = db.begin().unwrap();
        assert!(tx.get([50]).unwrap().is_some());
        let savepoint = tx.savepoint();
        tx.insert("written", vec![1; 10_000]).unwrap();
        tx.rollback_to(&savepoint).unwrap();
        tx.insert("written", vec![2; 10_000]).unwrap();
        churn(&db);
        let stats = db.stats().unwrap();
        assert!(stats.snapshots == 1 && stats.snapshot_memory_bytes > 0 && stats.snapshot_held_bytes > 0, "{name}: {stats:?}");
        end(tx);
        // The savepoint outlives its transaction, and keeps nothing, either.
        keeps_nothing(&db, name);
        drop(savepoint);
        assert_eq!(db.get("written").unwrap(), None, "{name}");
    }
    // A closure that panics, one that fails, and one that loses every time.
    let panics = AssertUnwindSafe(|| {
        db.transaction(|tx| {
            tx.insert("written", "1")?;
            churn(&db);
            if tx.contains_key([50])? { std::panic::resume_unwind(Box::new("gone")) } else { Ok(()) }
        })
    });
    assert!(catch_unwind(panics).is_err());
    keeps_nothing(&db, "a closure that panics");
    assert!(db.transaction(|_| db.begin().map(drop)).is_err());
    db.begin().unwrap().commit().unwrap();
    let mut runs = 0_u64;
    let loses = db.transaction(|tx| {
        runs += 1;
        tx.get("counter")?;
        db.insert("counter", runs.to_le_bytes())?;
        tx.insert("written", "1")
    });
    assert!(matches!(loses, Err(Error::Conflict(Conflict::Key))), "{loses:?}");
    assert_eq!((runs, db.get("written").unwrap()), (100, None));
    keeps_nothing(&db, "a closure that loses every time");
}

/// There is always a transaction, and what is kept does not grow, also beside one that stays.
#[test]
fn transactions_that_overlap_without_end_keep_what_the_living_ones_need() {
    for beside in [false, true] {
        // With one segment nothing is maintained meanwhile.
        let db = Db::builder().ordered(true).segment_size(1 << 22).background(false).in_memory().unwrap();
        let fill = || db.insert_many((0..50_u8).map(|key| ([key], [0; 100]))).unwrap();
        fill();
        let stays = beside.then(|| db.snapshot());
        let mut tx = db.begin().unwrap();
        for number in 0..2000_u32 {
            let next = db.begin().unwrap();
            db.insert([(number % 50) as u8], [number as u8; 100]).unwrap();
            assert!(tx.contains_key([7]).unwrap() && next.contains_key([7]).unwrap());
            tx = next;
            let memory = db.stats().unwrap().snapshot_memory_bytes;
            assert!(memory < 20_000, "after {number}: {memory}");
        }
        drop((tx, stays));
        keeps_nothing(&db, "overlapping");
    }
}

/// A range says when it is dropped how far it was read; one that never is counts as a whole.
#[test]
fn a_range_that_is_never_dropped_was_read_to_its_end() {
    let db = new();
    db.insert_many([("a", "1"), ("b", "1"), ("c", "1")]).unwrap();
    for (written, conflicts) in [("bb", true), ("d", false)] {
        let mut tx = db.begin().unwrap();
        let mut range = tx.range("a"..="c").unwrap();
        assert!(range.next().is_some());
        std::mem::forget(range);
        tx.insert("z", "1").unwrap();
        db.insert(written, "1").unwrap();
        assert_eq!(tx.commit().is_err(), conflicts, "{written}");
    }
}

#[test]
fn many_open_transactions_end_in_any_order() {
    let db = new();
    let count = 300_u64;
    let mut open: Vec<(u64, Transaction)> = Vec::new();
    for step in 0..count {
        db.insert("step", step.to_le_bytes()).unwrap();
        db.insert_many((0..20_u8).map(|key| ([key], [step as u8; 60]))).unwrap();
        open.push((step, db.begin().unwrap()));
        if step.is_multiple_of(50) {
            db.compact().unwrap();
        }
    }
    assert_eq!(db.stats().unwrap().snapshots, count);
    let mut random = 1_u64;
    while !open.is_empty() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (step, mut tx) = open.swap_remove((random >> 33) as usize % open.len());
        // Each reads its own moment, until the end.
        assert_eq!(number(tx.get("step").unwrap()), step);
        assert_eq!(tx.get([7]).unwrap(), Some(vec![step as u8; 60]));
        tx.insert(step.to_le_bytes(), "written").unwrap();
        let committed = tx.commit();
        assert_eq!(committed.is_ok(), step + 1 == count, "{step}: {committed:?}");
        if open.len().is_multiple_of(50) {
            db.compact().unwrap();
        }
    }
    keeps_nothing(&db, "all");
}

#[test]
fn a_transaction_keeps_its_store_open_and_reads_on_when_that_is_closed() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    db.insert("a", "1").unwrap();
    let mut tx = db.begin().unwrap();
    drop(db);
    assert_eq!(tx.get("a").unwrap(), Some(b"1".to_vec()));
    tx.insert("a", "2").unwrap();
    tx.commit().unwrap();
    let db = open(&storage);
    assert_eq!(db.get("a").unwrap(), Some(b"2".to_vec()));
    let (mut late, mut blind) = (db.begin().unwrap(), db.begin().unwrap());
    late.insert("a", "3").unwrap();
    blind.insert("b", "3").unwrap();
    assert_eq!(late.get("a").unwrap(), Some(b"3".to_vec()));
    let savepoint = late.savepoint();
    db.close().unwrap();
    // Whatever it answers now, it writes nothing and does not panic.
    let _answers = (late.get("b"), late.range(..).map(Iterator::count), late.iter().map(Iterator::count));
    late.rollback_to(&savepoint).unwrap();
    assert!(matches!(late.insert("c", "3"), Err(Error::Closed)));
    assert!(matches!((late.commit(), blind.commit()), (Err(Error::Closed), Err(Error::Closed))));
    let db = open(&storage);
    assert_eq!((db.get("a").unwrap(), db.get("b").unwrap()), (Some(b"2".to_vec()), None));
}

#[test]
fn a_store_that_only_reads_has_transactions_that_only_read() {
    let storage = MemoryStorage::new();
    let db = open(&storage);
    db.namespace("users").unwrap().insert("7", "Ada").unwrap();
    db.insert("a", "1").unwrap();
    db.close().unwrap();
    let before = storage.to_vec();
    let db = Db::builder().ordered(true).read_only(true).open_storage(Box::new(storage.clone())).unwrap();
    let users = db.namespace("users").unwrap();
    let mut tx = db.begin().unwrap();
    assert_eq!((tx.get("a").unwrap(), tx.get_in(&users, "7").unwrap()), (Some(b"1".to_vec()), Some(b"Ada".to_vec())));
    assert_eq!((tx.range(..).unwrap().count(), tx.iter().unwrap().count()), (1, 1));
    let savepoint = tx.savepoint();
    assert!(matches!(tx.insert("a", "2"), Err(Error::ReadOnly)));
    assert!(matches!(tx.remove("a"), Err(Error::ReadOnly)));
    assert!(!tx.remove("none").unwrap());
    tx.rollback_to(&savepoint).unwrap();
    tx.commit().unwrap();
    assert!(matches!(db.transaction(|tx| tx.insert("a", "2")), Err(Error::ReadOnly)));
    assert_eq!(db.transaction(|tx| tx.get("a")).unwrap(), Some(b"1".to_vec()));
    assert_eq!((db.stats().unwrap().snapshots, db.stats().unwrap().snapshot_memory_bytes), (0, 0));
    db.close().unwrap();
    assert!(before == storage.to_vec(), "the file has changed");
}

/// Two stores with the same names, keys and values: nothing of one gets into the other.
#[test]
fn two_stores_do_not_mix_their_transactions() {
    let (one, other) = (new(), new());
    let (ours, theirs) = (one.namespace("users").unwrap(), other.namespace("users").unwrap());
    for users in [&ours, &theirs] {
        users.insert("7", "Ada").unwrap();
    }
    let (mut tx, mut beside) = (one.begin().unwrap(), other.begin().unwrap());
    let is_refused = |result: Result<()>| assert!(matches!(result, Err(Error::InvalidArgument(_))), "{result:?}");
    is_refused(tx.insert_in(&theirs, "7", "Bob"));
    is_refused(tx.remove_in(&theirs, "7").map(drop));
    is_refused(tx.get_in(&theirs, "7").map(drop));
    is_refused(tx.contains_key_in(&theirs, "7").map(drop));
    is_refused(tx.namespace(&theirs).map(drop));
    let (here, there) = (tx.savepoint(), beside.savepoint());
    is_refused(tx.rollback_to(&there));
    is_refused(beside.rollback_to(&here));
    assert!(tx.get_in(&ours, "7").unwrap().is_some() && beside.get_in(&theirs, "7").unwrap().is_some());
    tx.insert_in(&ours, "8", "Bob").unwrap();
    beside.insert_in(&theirs, "8", "Eve").unwrap();
    // What is written in one store is no conflict in the other.
    theirs.insert("7", "changed").unwrap();
    tx.commit().unwrap();
    assert!(matches!(beside.commit(), Err(Error::Conflict(Conflict::Key))));
    assert_eq!((ours.get("8").unwrap(), theirs.get("8").unwrap()), (Some(b"Bob".to_vec()), None));
    // One inside of the other is no nesting, and each is on its own: the inner one stays when the outer one fails.
    let failed = one.transaction(|tx| {
        tx.insert("outer", "1")?;
        other.transaction(|inner| inner.insert("inner", "1"))?;
        tx.insert_in(&theirs, "9", "1")
    });
    is_refused(failed);
    assert!(!one.contains_key("outer").unwrap() && other.contains_key("inner").unwrap());
    keeps_nothing(&one, "one");
    keeps_nothing(&other, "other");
}

/// What was read counts, also after the transaction has gone back to a savepoint before that; what was written does not.
#[test]
fn going_back_to_a_savepoint_takes_back_the_writes_and_not_the_reads() {
    let db = new();
    db.insert_many([("a", "1"), ("b", "1")]).unwrap();
    let begin = || {
        let mut tx = db.begin().unwrap();
        tx.insert("first", "1").unwrap();
        let savepoint = tx.savepoint();
        assert!(tx.get("a").unwrap().is_some() && tx.range_prefix("p").unwrap().next().is_none());
        assert!(tx.remove("b").unwrap());
        tx.insert("c", "1").unwrap();
        tx.rollback_to(&savepoint).unwrap();
        (tx, savepoint)
    };
    for (key, expected) in [("a", Conflict::Key), ("b", Conflict::Key), ("p/1", Conflict::Range)] {
        let (tx, _) = begin();
        db.insert(key, "other").unwrap();
        assert!(matches!(tx.commit(), Err(Error::Conflict(found)) if found == expected), "{key}");
        db.remove("p/1").unwrap();
    }
    let (mut tx, savepoint) = begin();
    db.insert("c", "other").unwrap();
    // Again and again, and what is written between the same savepoint twice is not there.
    for round in 0..100_u8 {
        tx.insert([round], "1").unwrap();
        tx.insert("first", "2").unwrap();
        tx.rollback_to(&savepoint).unwrap();
    }
    tx.commit().unwrap();
    assert_eq!((db.get("first").unwrap(), db.get("c").unwrap()), (Some(b"1".to_vec()), Some(b"other".to_vec())));
    assert_eq!((db.get("b").unwrap(), db.get([7]).unwrap()), (Some(b"other".to_vec()), None));
    // With all writes taken back it has only read, which is never a conflict.
    let mut tx = db.begin().unwrap();
    let savepoint = tx.savepoint();
    assert!(tx.remove("a").unwrap());
    tx.rollback_to(&savepoint).unwrap();
    db.insert("a", "3").unwrap();
    tx.commit().unwrap();
    assert_eq!(db.get("a").unwrap(), Some(b"3".to_vec()));
    keeps_nothing(&db, "savepoints");
}

/// Many more reads than anything is sized for: single keys, and ranges that do not meet. One write among them is found, wherever it is.
#[test]
fn a_huge_set_of_reads_is_checked_to_the_last_key() {
    let db = new();
    let key = |number: u32| (number * 2).to_be_bytes();
    let count = 30_000_u32;
    db.insert_many((0..count).map(|number| (key(number), []))).unwrap();
    let tries = |ranges: bool, written: Option<[u8; 4]>| {
        let mut tx = db.begin().unwrap();
        for number in 0..count {
            if ranges {
                assert!(tx.range(key(number)..=key(number)).unwrap().count() == 1);
            } else {
                assert!(tx.contains_key(key(number)).unwrap());
            }
        }
        tx.insert("written", "1").unwrap();
        // So many that most are checked before any lock is taken.
        db.insert_many((0..1000_u32).map(|number| ((count * 2 + number).to_be_bytes(), []))).unwrap();
        written.into_iter().for_each(|key| db.insert(key, []).unwrap());
        db.insert("other", "1").unwrap();
        match tx.commit() {
            Ok(()) => None,
            Err(Error::Conflict(conflict)) => Some(conflict),
            Err(error) => panic!("{error:?}"),
        }
    };
    for (ranges, conflict) in [(false, Conflict::Key), (true, Conflict::Range)] {
        assert_eq!(tries(ranges, None), None);
        for number in [0, 1, count / 2, count - 1] {
            assert_eq!(tries(ranges, Some(key(number))), Some(conflict), "{number}");
        }
        // Between two keys that were read.
        assert_eq!(tries(ranges, Some((count + 1).to_be_bytes())), None);
        assert!(db.remove((count + 1).to_be_bytes()).unwrap());
    }
    keeps_nothing(&db, "a huge set of reads");
}

const THREADS: u64 = 4;

/// Has some threads read in a transaction each, and commit it, at once, while compaction goes on; in every second round none commits before all
/// have read. Returns how many were committed; the others were in conflict.
fn race(db: &Db, rounds: u64, read: impl Fn(u64, u64) -> Option<Transaction> + Sync) -> u64 {
    let (all, ended, failed) = (Barrier::new(THREADS as usize), AtomicBool::new(false), AtomicBool::new(false));
    let count = AtomicU64::new(0);
    let commit = |tx: Transaction| match tx.commit() {
        Ok(()) => _ = count.fetch_add(1, Ordering::Relaxed),
        Err(Error::Conflict(_)) => {}
        Err(error) => panic!("{error:?}"),
    };
    // The others must not wait for a thread that has panicked.
    let survives = |step: &mut dyn FnMut()| match catch_unwind(AssertUnwindSafe(step)) {
        Ok(()) => {}
        Err(_) => failed.store(true, Ordering::Relaxed),
    };
    let run = |thread: u64| {
        for round in 0..rounds {
            all.wait();
            let mut tx = None;
            survives(&mut || tx = read(thread, round));
            if round % 2 == 0 {
                all.wait();
            }
            survives(&mut || tx.take().into_iter().for_each(commit));
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || run(number))).collect();
        let compacts = scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                db.compact().unwrap();
                thread::yield_now();
            }
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        ended.store(true, Ordering::Relaxed);
        compacts.join().unwrap();
    });
    assert!(!failed.into_inner(), "a thread has panicked");
    count.into_inner()
}

/// Write skew: one of all must stay on duty, and each goes if it sees another one there.
#[test]
fn of_many_that_go_if_another_stays_one_stays() {
    let db = new();
    let rounds = 300;
    let gone = race(&db, rounds, |thread, round| {
        let key = |doctor: u64| format!("duty/{round}/{doctor}");
        let mut tx = db.begin().unwrap();
        // Half of them by keys, half by a range.
        let away = if thread % 2 == 0 {
            (0..THREADS).filter(|&doctor| tx.contains_key(key(doctor)).unwrap()).count()
        } else {
            tx.range_prefix(format!("duty/{round}/")).unwrap().count()
        };
        if away as u64 + 1 == THREADS {
            return None;
        }
        tx.insert(key(thread), "away").unwrap();
        Some(tx)
    });
    assert!(gone >= rounds, "each round one at least is never in conflict: {gone}");
    for round in 0..rounds {
        let away = db.range_prefix(format!("duty/{round}/")).unwrap().count() as u64;
        assert!((1..THREADS).contains(&away), "round {round}: {away} are away");
    }
    keeps_nothing(&db, "write skew");
}

/// Phantoms: three places, and whoever counts fewer takes one, under a key that nobody else uses.
#[test]
fn more_than_there_is_room_for_never_get_in() {
    let db = new();
    let users = db.namespace("users").unwrap();
    let rounds = 300;
    let taken = race(&db, rounds, |thread, round| {
        let guests = db.namespace(&format!("guests {}", round % 3)).unwrap();
        let mut tx = db.begin().unwrap();
        let view = tx.namespace(&guests).unwrap();
        let inside = if thread % 2 == 0 { view.iter().count() } else { view.range_keys(..).unwrap().count() };
        assert!(inside <= 3, "round {round}: {inside} are inside");
        if inside == 3 {
            if thread == 0 {
                guests.clear().unwrap();
            }
            return None;
        }
        tx.insert_in(&guests, format!("{round}/{thread}"), "1").unwrap();
        users.insert([thread as u8], "beside").unwrap();
        Some(tx)
    });
    for hall in 0..3 {
        let inside = db.namespace(&format!("guests {hall}")).unwrap().len().unwrap();
        assert!(inside <= 3, "{inside}");
    }
    assert!(taken > rounds / 2, "{taken}");
    keeps_nothing(&db, "phantoms");
}

/// A batch sets all amounts back, small ones that lock a few shards and large ones that lock all; transactions move amounts. Every transaction
/// sees the same sum, and what it writes on that ground keeps it.
#[test]
fn a_transaction_sees_all_of_a_batch_or_nothing() {
    for accounts in [8_u64, 200] {
        let db = new();
        let key = |account: u64| (account % accounts).to_be_bytes();
        let set_back = || db.insert_many((0..accounts).map(|account| (key(account), 100_u64.to_le_bytes()))).unwrap();
        set_back();
        let committed = race(&db, 150, |thread, round| {
            if thread == 0 {
                set_back();
                return None;
            }
            let mut tx = db.begin().unwrap();
            let (from, to) = (round * 7 + thread, round * 11 + 3 * thread);
            let (one, two) = (number(tx.get(key(from)).unwrap()), number(tx.get(key(to)).unwrap()));
            let amount = |record: Result<(Vec<u8>, Vec<u8>)>| number(Some(record.unwrap().1));
            let seen: u64 = match round % 4 {
                0 => tx.range(..).unwrap().map(amount).sum(),
                1 => tx.iter().unwrap().map(amount).sum(),
                2 => tx.get_many((0..accounts).map(key)).unwrap().into_iter().map(number).sum(),
                // Nothing but the two.
                _ => accounts * 100,
            };
            assert_eq!(seen, accounts * 100, "a part of a commit was seen");
            if key(from) == key(to) || one == 0 {
                return None;
            }
            tx.insert(key(from), (one - 1).to_le_bytes()).unwrap();
            tx.insert(key(to), (two + 1).to_le_bytes()).unwrap();
            Some(tx)
        });
        assert!(committed > 0);
        keeps_nothing(&db, "batches");
    }
}
