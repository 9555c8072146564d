//! Those who wait for changes: readers, consumers and callbacks, beside writers, closing and failing stores.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{churn, numbers, opened};
use pipkin::storage::MemoryStorage;
use pipkin::{Change, Changes, Error};

const SEGMENT: u32 = 4096;

#[test]
fn reading_changes_inside_of_an_update_is_refused() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let mut changes = db.changes().start().unwrap();
    db.insert("a", "1").unwrap();
    db.flush().unwrap();
    db.update("a", |_| {
        assert!(matches!(changes.try_next(), Err(Error::Nested)));
        None
    })
    .unwrap();
    assert!(changes.try_next().unwrap().is_some());
}

/// Readers in other threads wait for what becomes durable, and end with the store.
#[test]
fn readers_wait_for_commits_and_end_when_the_store_is_closed() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let (durable, early) = (db.changes().start().unwrap(), db.changes().appended(true).start().unwrap());
    let consumer = db.consumer("mirror").start().unwrap();
    let wait = |changes: Changes| std::thread::spawn(move || changes.collect::<Result<Vec<_>, _>>().unwrap());
    let (durable, early) = (wait(durable), wait(early));
    let consumer = std::thread::spawn(move || consumer.map(|commit| commit.unwrap()).collect::<Vec<_>>());
    for round in 0..20 {
        churn(&db, round * 10, round * 10 + 10);
        if round % 4 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
    }
    db.insert("last", [0; 4]).unwrap();
    db.close().unwrap();
    for heard in [durable.join().unwrap(), early.join().unwrap(), consumer.join().unwrap()] {
        assert_eq!(heard.len(), 201);
        assert_eq!(numbers(&heard[..200]), (0..200).collect::<Vec<_>>());
    }
}

#[test]
fn waiting_ends_in_time() {
    use std::time::{Duration, Instant};
    let db = opened(MemoryStorage::new(), SEGMENT);
    let mut changes = db.changes().start().unwrap();
    let mut early = db.changes().appended(true).start().unwrap();
    db.insert("a", "1").unwrap();
    let started = Instant::now();
    assert_eq!(changes.next_timeout(Duration::from_millis(30)).unwrap(), None, "not durable yet");
    assert!(started.elapsed() >= Duration::from_millis(30));
    assert!(early.next_timeout(Duration::from_secs(60)).unwrap().is_some());
    let writer = db.clone();
    let flush = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        writer.flush().unwrap();
    });
    assert!(changes.next_timeout(Duration::from_secs(60)).unwrap().is_some());
    assert!(started.elapsed() < Duration::from_secs(50));
    flush.join().unwrap();
    db.consumer("other").start().unwrap().next_timeout(Duration::from_millis(1)).unwrap();
}

/// A callback may write to the store and drop what calls it; an error is its last call.
#[test]
fn a_callback_runs_in_a_thread_of_its_own_and_may_use_the_store() {
    use std::sync::mpsc;
    let db = opened(MemoryStorage::new(), SEGMENT);
    let (sender, receiver) = mpsc::channel();
    let copies = db.namespace("copies").unwrap();
    let watching = db.watch("").spawn(move |commit| {
        for change in commit.unwrap().into_changes() {
            if let Change::Put { key, value, .. } = change {
                copies.insert(&key, value).unwrap();
                sender.send(key).unwrap();
            }
        }
    });
    let watching = watching.unwrap();
    churn(&db, 0, 50);
    assert_eq!(receiver.iter().take(50).count(), 50);
    drop(watching);
    assert!(receiver.recv().is_err(), "the thread has ended");
    churn(&db, 50, 60);
    assert_eq!(db.namespace("copies").unwrap().len().unwrap(), 5);
}

/// A failed sync ends the session: what was durable is handed out, then the error, once.
#[cfg(feature = "testing")]
#[test]
fn after_a_failed_sync_readers_are_told() {
    use pipkin::storage::crash::CrashStorage;
    let storage = CrashStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let changes = db.changes().start().unwrap();
    let reader = std::thread::spawn(move || changes.collect::<Vec<_>>());
    db.insert("a", "1").unwrap();
    db.flush().unwrap();
    db.insert("b", "2").unwrap();
    storage.fail_sync(Some(0));
    assert!(db.flush().is_err());
    let heard = reader.join().unwrap();
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[0].is_ok() && matches!(heard[1], Err(Error::Poisoned(_))), "{heard:?}");
}
