//! Calls from inside of another call of the same store, which would wait for what their own thread holds.
#![cfg(feature = "std")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error};
use std::sync::mpsc;
use std::time::Duration;

/// Runs `body` in a thread of its own, so that waiting for ever is a failure.
fn ends<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    std::thread::spawn(move || done.send(body()));
    result.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("it waits for ever, or has failed"))
}

/// Whatever `call` says, as words.
fn said<T>(calls: &mut Vec<(&'static str, String)>, call: &'static str, result: Result<T, Error>) {
    calls.push((call, result.map_or_else(|error| format!("{error:?}"), |_| "it worked".into())));
}

fn all_nested(calls: &[(&str, String)], count: usize) {
    assert_eq!(calls.len(), count);
    for (call, said) in calls {
        assert!(said.starts_with("Nested"), "{call}: {said}");
    }
}

/// The closure of `update` holds the shard of its key: a call on the same store waited for it, and so for itself.
#[test]
fn what_would_wait_for_the_update_that_it_is_made_in_is_an_error() {
    let (calls, store) = ends(|| {
        let db = Db::builder().merge_operator("", "append", pipkin::merge::append).in_memory().unwrap();
        let users = db.namespace("users").unwrap();
        db.insert("key", "old").unwrap();
        let mut calls = Vec::new();
        db.update("key", |_| {
            said(&mut calls, "insert", db.insert("key", "inside"));
            said(&mut calls, "insert of another key", db.insert("other", "inside"));
            said(&mut calls, "insert elsewhere", users.insert("key", "inside"));
            said(&mut calls, "remove", db.remove("key"));
            said(&mut calls, "insert_many", db.insert_many([("key", "inside")]));
            said(&mut calls, "remove_many", db.remove_many(["key"]));
            said(&mut calls, "batch", db.batch().insert("key", "inside").commit());
            said(&mut calls, "update", db.update("key", |_| None));
            said(&mut calls, "compare_and_swap", db.compare_and_swap("key", None, None));
            said(&mut calls, "transaction", db.transaction(|_| Ok(())));
            said(&mut calls, "begin", db.begin());
            said(&mut calls, "try_transaction", db.try_transaction(|_| Ok::<_, Error>(())));
            said(&mut calls, "modify", db.modify("key", |value| Ok::<_, ()>(value.take())));
            said(&mut calls, "take", db.take("key"));
            said(&mut calls, "swap", db.swap("key", "inside"));
            said(&mut calls, "get_or_insert_with", db.get_or_insert_with("other", || "inside"));
            said(&mut calls, "merge", db.merge("key", "inside"));
            said(&mut calls, "clear", db.clear());
            said(&mut calls, "namespace", db.namespace("new"));
            said(&mut calls, "drop_namespace", db.drop_namespace("users"));
            said(&mut calls, "len", db.len());
            said(&mut calls, "iter", db.iter().next().unwrap());
            said(&mut calls, "page", db.page(pipkin::Cursor::default(), |_, _| true));
            said(&mut calls, "stats", db.stats());
            said(&mut calls, "segments", db.segments());
            said(&mut calls, "verify", db.verify());
            said(&mut calls, "checkpoint", db.checkpoint());
            said(&mut calls, "compact", db.compact());
            said(&mut calls, "compact_step", db.compact_step());
            said(&mut calls, "backup", db.backup_to_storage(&pipkin::storage::MemoryStorage::new()));
            said(&mut calls, "close", db.clone().close());
            Some(b"new".to_vec())
        })
        .unwrap();
        (calls, db)
    });
    all_nested(&calls, 31);
    // Nothing of it was done, and the store goes on.
    assert_eq!((store.get("key").unwrap(), store.len().unwrap()), (Some(b"new".to_vec()), 1));
    assert_eq!(store.list_namespaces(), ["users"]);
    store.insert("key", "later").unwrap();
    store.close().unwrap();
}

/// An update that panicked would have left its mark, and no later call of the thread would have worked.
#[test]
fn a_panic_in_an_update_leaves_the_store_to_later_calls() {
    let fails = |_: Option<&[u8]>, _: &[u8]| -> Result<Vec<u8>, String> { panic!("the operator of the test") };
    let db = Db::builder().merge_operator("", "fails", fails).in_memory().unwrap();
    let panics = |call: &dyn Fn()| assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    panics(&|| db.update("key", |_| panic!("the closure of the test")).unwrap());
    panics(&|| drop(db.modify("key", |_| -> Result<(), ()> { panic!("the closure of the test") })));
    panics(&|| drop(db.get_or_insert_with("key", || -> &str { panic!("the closure of the test") })));
    panics(&|| drop(db.merge("key", "operand")));
    assert_eq!(db.len().unwrap(), 0);
    db.insert("key", "value").unwrap();
    db.transaction(|tx| tx.insert("other", "value")).unwrap();
    assert_eq!(db.len().unwrap(), 2);
}

/// The same of the closures of the other atomic steps.
#[test]
fn what_would_wait_for_the_step_that_it_is_made_in_is_an_error() {
    let (calls, db) = ends(|| {
        let open = std::sync::Arc::new(std::sync::OnceLock::<Db>::new());
        let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let operator = {
            let (open, seen) = (open.clone(), seen.clone());
            move |_: Option<&[u8]>, operand: &[u8]| {
                let db = open.get().unwrap();
                said(&mut seen.lock().unwrap(), "inside of merge", db.insert("inside", "merge"));
                Ok(operand.to_vec())
            }
        };
        let db = Db::builder().merge_operator("", "calls", operator).in_memory().unwrap();
        open.set(db.clone()).unwrap();
        db.merge("key", "merged").unwrap();
        let mut calls = std::mem::take(&mut *seen.lock().unwrap());
        let outer = db.modify("key", |_| {
            said(&mut calls, "inside of modify", db.insert("inside", "modify"));
            Ok::<_, ()>(())
        });
        outer.unwrap().unwrap();
        db.get_or_insert_with("other", || {
            said(&mut calls, "inside of get_or_insert_with", db.insert("inside", "get_or_insert_with"));
            "made"
        })
        .unwrap();
        (calls, db)
    });
    all_nested(&calls, 3);
    assert_eq!((db.get("key").unwrap(), db.len().unwrap()), (Some(b"merged".to_vec()), 2));
}

/// A transaction inside of another would not see what that has written.
#[test]
fn a_transaction_inside_of_a_transaction_is_an_error() {
    let said = ends(|| {
        let db = Db::open_in_memory().unwrap();
        let inside = db.transaction(|tx| {
            tx.insert("key", "outer")?;
            Ok(db.transaction(|tx| tx.insert("key", "inner")))
        });
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"outer"[..]));
        // Other calls, and those on another store, work as ever.
        let other = Db::open_in_memory().unwrap();
        db.transaction(|_| {
            db.insert("plain", "write")?;
            other.transaction(|tx| tx.insert("key", "value"))
        })
        .unwrap();
        db.update("key", |_| other.update("key", |_| None).map(|()| b"done".to_vec()).ok()).unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"done"[..]));
        inside.unwrap()
    });
    assert!(format!("{said:?}").starts_with("Err(Nested"), "{said:?}");
}

/// Whoever hears how far a compaction has come is in its turn: what needs the turn waited for ever.
#[test]
fn what_needs_the_turn_of_the_compaction_that_it_is_called_from_is_an_error() {
    let calls = ends(|| {
        let db = Db::builder().segment_size(4096).in_memory().unwrap();
        for round in 0..40_u8 {
            db.insert("key", [round; 1000]).unwrap();
        }
        let mut calls = Vec::new();
        db.compact_with(|_| {
            if calls.is_empty() {
                said(&mut calls, "verify", db.verify());
                said(&mut calls, "checkpoint", db.checkpoint());
                said(&mut calls, "compact", db.compact());
                said(&mut calls, "compact_step", db.compact_step());
                said(&mut calls, "close", db.clone().close());
                db.insert("written", "meanwhile").unwrap();
            }
        })
        .unwrap();
        assert_eq!((db.len().unwrap(), db.verify().unwrap().is_ok()), (2, true));
        calls
    });
    all_nested(&calls, 5);
}

/// The first write of a session does the maintenance that a killed one has left: not in a call that has the turn already.
#[test]
fn what_a_killed_session_has_left_does_not_wait_for_the_compaction_that_it_is_called_from() {
    let record = ends(|| {
        let killed = MemoryStorage::new();
        let db = Db::builder().segment_size(65536).auto_compact_dead_share(2.0).open_storage(Box::new(killed.clone())).unwrap();
        for round in 0..2000_u32 {
            db.insert("key", [round as u8; 1000]).unwrap();
        }
        let file = MemoryStorage::from_vec(killed.to_vec());
        let db = Db::builder().segment_size(65536).replay_debt_max(65536).open_storage(Box::new(file)).unwrap();
        assert!(!db.open_report().clean);
        let mut written = Vec::new();
        db.compact_with(|_| written.push(db.insert("written", "meanwhile"))).unwrap();
        assert!(!written.is_empty() && written.iter().all(Result::is_ok), "{written:?}");
        db.get("written").unwrap()
    });
    assert_eq!(record.as_deref(), Some(&b"meanwhile"[..]));
}

/// While a compaction runs, the thread cannot write the checkpoint that is due. Writers go on nevertheless.
#[cfg(feature = "native")]
#[test]
fn writers_do_not_wait_for_the_end_of_a_compaction() {
    let count = ends(|| {
        let folder = tempfile::tempdir().unwrap();
        let db = Db::builder().path(folder.path().join("store")).segment_size(65536).replay_debt_max(65536).open().unwrap();
        for round in 0..400_u32 {
            db.insert("key", [round as u8; 1000]).unwrap();
        }
        let mut count = 0;
        db.compact_with(|_| {
            if count == 0 {
                let write = || (0..2000_u32).for_each(|number| db.insert(number.to_be_bytes(), [1; 1000]).unwrap());
                std::thread::scope(|scope| scope.spawn(write).join().unwrap());
                count = db.len().unwrap();
            }
        })
        .unwrap();
        assert!(db.verify().unwrap().is_ok());
        count
    });
    assert_eq!(count, 2001);
}
