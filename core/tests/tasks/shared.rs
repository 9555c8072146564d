//! Tasks share syncs and threads.

use super::{Gated, in_a_file, opened, until};
use futures_lite::future::block_on;
use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::{Db, Error, FlushPolicy, PositionState};
use std::sync::Arc;
use tokio::task::JoinSet;

fn tokio_of_two() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap()
}

const TASKS: u32 = 10_000;

#[test]
fn ten_thousand_tasks_share_a_sync() {
    let storage = Gated::default();
    let db = opened(storage.clone());
    block_on(db.durable().insert("first", "1")).unwrap();
    storage.shut();
    let before = storage.state().syncs;
    let runtime = tokio_of_two();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let db = db.durable();
        tasks.spawn_on(async move { db.insert(task.to_le_bytes(), "1").await }, runtime.handle());
    }
    until("all of them have written", || db.to_sync().len().unwrap() == u64::from(TASKS) + 1);
    // Those that have written after the sync of the first began wait for the next.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(tasks.try_join_next().is_none(), "nobody has an answer before the sync ends");
    storage.open();
    runtime.block_on(async {
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap().unwrap();
        }
    });
    let syncs = storage.state().syncs - before;
    assert!((1..=40).contains(&syncs), "{syncs} syncs for {TASKS} tasks");
}

/// Each task reads its writes and those of others, and what it was told is durable is.
#[test]
fn ten_thousand_tasks_on_two_threads_of_tokio_read_and_write_durably() {
    let (folder, db) = in_a_file();
    let runtime = tokio_of_two();
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (db, durable) = (db.clone(), db.durable());
            tasks.spawn(async move {
                durable.insert(task.to_le_bytes(), (task ^ 7).to_le_bytes()).await?;
                assert_eq!(db.get(task.to_le_bytes()).await?.as_deref(), Some(&(task ^ 7).to_le_bytes()[..]));
                if task % 100 == 0 {
                    let position = durable.insert_with_position(task.to_le_bytes(), (task ^ 7).to_le_bytes()).await?;
                    assert_eq!(db.state_of(position).await, PositionState::Durable);
                }
                Ok::<_, Error>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap().unwrap();
        }
    });
    #[cfg(target_os = "linux")]
    {
        let own = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let names: Vec<String> = std::fs::read_dir("/proc/self/task").unwrap().flatten().map(own).collect();
        let of = |pool: &str| names.iter().filter(|name| name.trim_end() == pool).count();
        // Other tests of this process use the pools at the same time: these are their bounds.
        assert!(of("pipkin calls") <= 8 && of("pipkin long") <= 8 && of("pipkin syncs") <= 4, "{names:?}");
    }
    block_on(db.close()).unwrap();
    assert_eq!(Db::open(folder.path().join("app.pipkin")).unwrap().len().unwrap(), u64::from(TASKS));
}

#[test]
fn policies_hold_for_tasks_too() {
    // How often each of them syncs at most and at least; without sharing, once for each write or flush: 1000, 20 and 500 times.
    for (policy, tasks, most, least) in [
        (FlushPolicy::WriteThrough, 500, 999, 1),
        (FlushPolicy::OnEachFlush, 20, usize::MAX, 20),
        (FlushPolicy::Group, 500, 499, 1),
    ] {
        let storage = Gated::default();
        let db = Db::builder().flush_policy(policy).open_storage(Box::new(storage.clone())).unwrap().to_async();
        block_on(db.insert("first", "1")).unwrap();
        let before = storage.state().syncs;
        let runtime = tokio_of_two();
        runtime.block_on(async {
            let mut all = JoinSet::new();
            for task in 0..tasks {
                let db = db.clone();
                all.spawn(async move {
                    if policy == FlushPolicy::WriteThrough {
                        let position = db.insert_with_position(i32::to_le_bytes(task), "1").await?;
                        assert_eq!(db.state_of(position).await, PositionState::Durable, "{policy:?}");
                        return db.insert(i32::to_le_bytes(task), "2").await;
                    }
                    db.insert(i32::to_le_bytes(task), "1").await?;
                    db.flush().await.map(drop)
                });
            }
            while let Some(ended) = all.join_next().await {
                ended.unwrap().unwrap();
            }
        });
        let syncs = storage.state().syncs - before;
        assert!((least..=most).contains(&syncs), "{policy:?}: {syncs} syncs for {tasks} tasks");
    }
}

/// Nobody is left waiting, and nobody is told that anything is durable.
#[test]
fn a_sync_that_fails_fails_for_every_task_that_shares_it() {
    let storage = Arc::new(FaultStorage::new(MemoryStorage::new()));
    let db = opened(storage.clone());
    block_on(db.insert("first", "1")).unwrap();
    storage.arm(Fault::from_nth(1, Io::Sync, Effect::LostSync));
    let runtime = tokio_of_two();
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for task in 0..1000_u32 {
            let db = db.clone();
            tasks.spawn(async move {
                let written = db.insert(task.to_le_bytes(), "1").await;
                (written, db.flush().await)
            });
        }
        while let Some(ended) = tasks.join_next().await {
            let (_, flushed) = ended.unwrap();
            flushed.expect_err("its sync has failed");
        }
    });
    assert!(db.is_poisoned());
    assert!(matches!(block_on(db.insert("late", "1")), Err(Error::Poisoned(_))));
    assert!(matches!(block_on(db.flush()), Err(Error::Poisoned(_))));
    assert_eq!(block_on(db.get("first")).unwrap(), Some(b"1".to_vec()));
}

/// A runtime whose wakers panic keeps the tasks of others asleep for no longer.
#[test]
fn a_waker_that_panics_keeps_nobody_asleep() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker of a broken runtime");
        }
    }
    let storage = Gated::default();
    let db = opened(storage.clone());
    block_on(db.insert("a", "1")).unwrap();
    storage.shut();
    let mut broken = Box::pin(db.flush());
    let waker = Arc::new(Panics).into();
    assert!(broken.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    let other = db.clone();
    let waits = std::thread::spawn(move || block_on(other.flush()));
    std::thread::sleep(std::time::Duration::from_millis(20));
    storage.open();
    waits.join().unwrap().unwrap();
    block_on(db.insert("b", "1")).unwrap();
    block_on(db.flush()).unwrap();
}
