//! Transactions as closures, beside writers that never pause: they are let through, and nobody waits for ever.
#![allow(clippy::unwrap_used, missing_docs, reason = "a test fails by panicking")]

use pipkin::{Db, Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()))
}

fn add(old: Option<&[u8]>) -> Option<Vec<u8>> {
    Some((number(old.map(<[u8]>::to_vec)) + 1).to_le_bytes().into())
}

/// Runs `act` while another thread runs `write` without pause.
fn beside(write: impl Fn(u64) + Sync, act: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        scope.spawn(|| (0..).take_while(|_| !ended.load(Ordering::Relaxed)).for_each(&write));
        // If it panics, the other thread must end all the same.
        let done = catch_unwind(AssertUnwindSafe(act));
        ended.store(true, Ordering::Relaxed);
        done
    });
    done.unwrap_or_else(|panic| resume_unwind(panic));
}

#[test]
fn a_closure_ends_though_another_thread_writes_without_pause_what_it_reads() -> Result<()> {
    let db = Db::open_in_memory()?;
    let others = db.namespace("others")?;
    let one = |_| db.update("count", add).unwrap();
    let many = |number: u64| others.insert_many([("both", number.to_le_bytes()), ("new", number.to_le_bytes())]).unwrap();
    let clear = |_| others.clear().unwrap();
    let writers: [&(dyn Fn(u64) + Sync); 3] = [&one, &many, &clear];
    for write in writers {
        beside(write, || {
            for _ in 0..1_000 {
                let moved = db.transaction(|tx| {
                    let both = tx.get_in(&others, "both")?;
                    let sum = number(tx.get("count")?) + 1;
                    tx.insert("count", sum.to_le_bytes())?;
                    tx.insert("both", both.unwrap_or_default())
                });
                moved.unwrap();
            }
        });
    }
    Ok(())
}

/// Those that go first must not keep each other from it.
#[test]
fn of_many_closures_that_want_to_go_first_each_does() -> Result<()> {
    let db = Db::open_in_memory()?;
    let added = AtomicUsize::new(0);
    let adds = || {
        for _ in 0..200 {
            db.transaction(|tx| tx.insert("sum", (number(tx.get("sum")?) + number(tx.get("count")?).min(1)).to_le_bytes()))
                .unwrap();
            added.fetch_add(1, Ordering::Relaxed);
        }
    };
    db.update("count", add)?;
    let write = |_| db.update("count", add).unwrap();
    beside(write, || {
        thread::scope(|scope| {
            (0..3).for_each(|_| drop(scope.spawn(adds)));
        });
    });
    assert_eq!((added.into_inner(), number(db.get("sum")?)), (600, 600));
    Ok(())
}

#[test]
fn a_closure_that_panics_or_writes_by_itself_lets_the_others_go_on() -> Result<()> {
    let db = Db::open_in_memory()?;
    let mut runs = 0;
    // Each run is in conflict with what it has written itself.
    let result = db.transaction(|tx| {
        runs += 1;
        let _ = tx.get("count")?;
        db.update("count", add)?;
        tx.insert("sum", "1")
    });
    assert!(matches!(result, Err(Error::Conflict(_))), "{result:?}");
    assert_eq!((runs, number(db.get("count")?)), (100, 100));

    let mut runs = 0;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        db.transaction(|tx| {
            runs += 1;
            assert!(runs < 50, "as planned");
            let _ = tx.get("count")?;
            db.update("count", add)?;
            tx.insert("sum", "1")
        })
    }));
    assert!(panicked.is_err());
    thread::scope(|scope| scope.spawn(|| db.insert("count", "1")).join().unwrap())
}

/// The write that it waits for waits for its end: for a while.
#[test]
fn a_closure_that_waits_for_another_writer_does_not_deadlock() -> Result<()> {
    let db = Db::open_in_memory()?;
    let (asks, asked) = mpsc::channel::<mpsc::Sender<()>>();
    thread::scope(|scope| {
        let db = &db;
        scope.spawn(move || {
            for answer in asked {
                db.update("count", add).unwrap();
                answer.send(()).unwrap();
            }
        });
        let result = db.transaction(|tx| {
            let _ = tx.get("count")?;
            let (answer, answered) = mpsc::channel();
            asks.send(answer).unwrap();
            answered.recv().unwrap();
            tx.insert("sum", "1")
        });
        drop(asks);
        assert!(matches!(result, Err(Error::Conflict(_))), "{result:?}");
    });
    assert_eq!(number(db.get("count")?), 100);
    Ok(())
}
