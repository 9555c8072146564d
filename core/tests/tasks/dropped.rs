//! Futures that are dropped at every point where they wait.

use super::{Gated, at_once, in_a_file, opened, until};
use futures_lite::future::block_on;
use pipkin::{AsyncDb, Db, Error, Result};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future so many times, each after it was woken, and drops it. Returns true if it has ended before.
fn dropped_after<T>(polls: usize, future: impl Future<Output = T>) -> bool {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = Box::pin(future);
    for _ in 0..polls {
        if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            return true;
        }
        std::thread::park_timeout(Duration::from_millis(200));
    }
    false
}

/// Calls `one` with a future of each kind, dropped after 0, 1, 2 ... polls, until one has ended by itself.
fn at_every_wait<F: Future>(one: impl Fn(u32) -> F, whole: impl Fn(u32)) {
    let mut round = 0;
    for polls in 0.. {
        // Several times: whether the work has begun when the future is dropped is a matter of time.
        for _ in 0..8 {
            let ended = dropped_after(polls, one(round));
            whole(round);
            round += 1;
            if ended {
                return;
            }
        }
        assert!(polls < 16, "a future that never ends");
    }
}

const PARTS: u32 = 50;

fn part(round: u32, part: u32) -> Vec<u8> {
    format!("{round}/{part}").into_bytes()
}

/// All of a commit is there, or nothing: at once, and after what was begun has come to its end.
fn is_whole(db: &Db, round: u32) -> bool {
    let snapshot = db.snapshot();
    let there = (0..PARTS).filter(|of| snapshot.contains_key(part(round, *of)).unwrap()).count();
    assert!(there == 0 || there == PARTS as usize, "{there} of {PARTS} records of a commit");
    there > 0
}

fn check_commits<F: Future>(cold: bool, commit: impl Fn(&AsyncDb, u32) -> F) {
    let storage = Gated::default();
    let db = opened(storage.clone());
    storage.state().is_cold = cold;
    let blocking = db.to_sync();
    at_every_wait(
        |round| commit(&db, round),
        |round| {
            is_whole(&blocking, round);
        },
    );
    // One more, to its end: what was queued before it is through.
    block_on(db.insert("end", "1")).unwrap();
    let rounds = (0..).take_while(|round| *round < 200);
    let whole = rounds.filter(|round| is_whole(&blocking, *round)).count();
    assert!(whole >= 1, "the last one has ended");
    drop(db);
    blocking.close().unwrap();
    let again = Db::builder().open_storage(Box::new(storage)).unwrap();
    assert_eq!((0..200).filter(|round| is_whole(&again, *round)).count(), whole);
}

#[test]
fn a_batch_that_is_dropped_is_whole_or_not_there() {
    for cold in [false, true] {
        check_commits(cold, |db, round| {
            let batch = (0..PARTS).fold(db.durable().batch(), |batch, of| batch.insert(part(round, of), "1"));
            batch.commit()
        });
    }
}

#[test]
fn inserts_of_many_that_are_dropped_are_whole_or_not_there() {
    check_commits(true, |db, round| {
        let db = db.durable();
        async move { db.insert_many((0..PARTS).map(|of| (part(round, of), "1"))).await }
    });
}

#[test]
fn a_transaction_that_is_dropped_is_whole_or_not_there() {
    check_commits(true, |db, round| {
        let db = db.durable();
        async move {
            db.transaction(move |tx| {
                std::thread::sleep(Duration::from_millis(1));
                (0..PARTS).try_for_each(|of| tx.insert(part(round, of), "1"))
            })
            .await
        }
    });
}

#[test]
fn a_future_that_is_never_polled_does_nothing() {
    let db = opened(Gated::default());
    block_on(db.insert("a", "1")).unwrap();
    drop((db.insert("a", "2"), db.remove("a"), db.clear(), db.update("a", |_| None), db.batch().insert("b", "1").commit()));
    assert_eq!(block_on(db.get("a")).unwrap(), Some(b"1".to_vec()));
    assert_eq!(block_on(db.len()).unwrap(), 1);
}

/// What has not begun never does, and what others wait for does not suffer.
#[test]
fn a_write_that_is_dropped_in_the_lane_is_never_made() {
    let (_folder, db) = in_a_file();
    block_on(db.insert("a", "1")).unwrap();
    let blocking = db.to_sync();
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let (said, begun) = std::sync::mpsc::channel();
    // Holds the shard of `a`, so that a write of it waits in the lane, and all behind it.
    let holder = std::thread::spawn(move || {
        blocking.update("a", |old| {
            said.send(()).unwrap();
            held.recv().unwrap();
            old.map(<[u8]>::to_vec)
        })
    });
    begun.recv().unwrap();
    let mut first = Box::pin(db.insert("a", "2"));
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    std::thread::sleep(Duration::from_millis(20));
    // Both are behind it: neither has begun.
    let behind = db.batch().insert("b", "1").insert("c", "1");
    assert!(at_once(behind.commit()).is_none() && at_once(db.insert_many([("d", "1")])).is_none());
    hold.send(()).unwrap();
    holder.join().unwrap().unwrap();
    block_on(first).unwrap();
    block_on(db.insert_many([("e", "1")])).unwrap();
    let there = block_on(db.get_many(["a", "b", "c", "d", "e"])).unwrap();
    assert_eq!(there, [Some(b"2".to_vec()), None, None, None, Some(b"1".to_vec())]);
}

/// A write that has begun comes to its end, though its future is gone.
#[test]
fn a_write_that_is_dropped_after_it_has_begun_is_made() {
    let db = opened(Gated::default());
    let (said, begun) = std::sync::mpsc::channel();
    let update = db.update("a", move |_| {
        said.send(()).unwrap();
        std::thread::sleep(Duration::from_millis(30));
        Some(b"made".to_vec())
    });
    let mut update = Box::pin(update);
    assert!(update.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    begun.recv().unwrap();
    drop(update);
    until("it has come to its end", || db.to_sync().contains_key("a").unwrap());
}

#[test]
fn waiting_flushes_that_are_dropped_disturb_no_other() {
    let storage = Gated::default();
    let db = opened(storage.clone());
    block_on(db.insert("a", "1")).unwrap();
    storage.shut();
    for _ in 0..1000 {
        assert!(at_once(db.flush()).is_none());
    }
    let other = db.clone();
    let waits = std::thread::spawn(move || block_on(other.flush()));
    std::thread::sleep(Duration::from_millis(10));
    storage.open();
    waits.join().unwrap().unwrap();
}

/// The runtime is shut down in the middle of everything; the store is as whole as after any other end.
#[test]
fn a_runtime_that_shuts_down_in_the_middle_tears_nothing() {
    let (folder, db) = in_a_file();
    for round in 0..5 {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        for task in 0..200 {
            let db = db.durable();
            runtime.spawn(async move {
                let id = round * 200 + task;
                let batch = (0..PARTS).fold(db.batch(), |batch, of| batch.insert(part(id, of), "1"));
                batch.commit().await?;
                db.transaction(move |tx| tx.insert("last", id.to_le_bytes())).await
            });
        }
        std::thread::sleep(Duration::from_millis(u64::from(round)));
        runtime.shutdown_timeout(Duration::from_millis(1));
    }
    let blocking = db.to_sync();
    assert!((0..1000).filter(|id| is_whole(&blocking, *id)).count() > 0);
    block_on(db.insert("end", "1")).unwrap();
    drop(blocking);
    block_on(db.close()).unwrap();
    let path = folder.path().join("app.pipkin");
    let opened = || -> Result<Db> { Db::open(&path) };
    until("what was begun has let the file go", || !matches!(opened(), Err(Error::Locked { .. })));
    let again = opened().unwrap();
    assert!((0..1000).filter(|id| is_whole(&again, *id)).count() > 0 && again.contains_key("end").unwrap());
}
