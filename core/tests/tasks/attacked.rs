//! Closures and tasks that wait for each other, that panic, and handles that go while others wait.

use super::{Gated, at_once, in_a_file, opened, until};
use futures_lite::future::block_on;
use pipkin::{AsyncDb, Db, Error};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use tokio::task::JoinSet;

/// More closures than the pool has threads, each of which waits for futures of the same store: they are carried out where they are awaited.
#[test]
fn closures_that_wait_for_futures_of_their_store_never_wait_for_each_other() {
    let (_folder, db) = in_a_file();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let all = async {
        let mut tasks = JoinSet::new();
        for task in 0..200_u32 {
            let db = db.clone();
            tasks.spawn(async move {
                let inner = db.clone();
                db.with(move |_| {
                    block_on(async {
                        inner.durable().insert(task.to_le_bytes(), "1").await?;
                        inner.update(task.to_le_bytes(), |_| Some(b"2".to_vec())).await?;
                        inner.transaction(move |tx| tx.insert(b"last", "1")).await?;
                        inner.flush().await?;
                        inner.len().await?;
                        inner.with(|db| db.get(b"last")).await?;
                        inner.batch().insert("b", "1").commit().await?;
                        inner.get(task.to_le_bytes()).await
                    })
                })
                .await
            });
        }
        while let Some(ended) = tasks.join_next().await {
            assert_eq!(ended.unwrap().unwrap(), Some(b"2".to_vec()));
        }
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), all).await.expect("they wait for each other") });
}

/// Closures on all threads of their pool wait for other tasks, which need the store: calls of the engine have threads of their own.
#[test]
fn closures_that_wait_for_other_tasks_do_not_keep_those_from_the_store() {
    let storage = Gated::default();
    let db = opened(storage.clone());
    block_on(db.insert("a", "1")).unwrap();
    storage.state().is_cold = true;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let handle = runtime.handle().clone();
    let all = async {
        let mut tasks = JoinSet::new();
        for task in 0..50_u32 {
            let (db, inner, handle) = (db.clone(), db.clone(), handle.clone());
            tasks.spawn(async move {
                db.with(move |_| {
                    let asked = handle.spawn(async move {
                        inner.durable().insert(task.to_le_bytes(), "1").await?;
                        inner.get("a").await
                    });
                    block_on(asked).unwrap()
                })
                .await
            });
        }
        while let Some(ended) = tasks.join_next().await {
            assert_eq!(ended.unwrap().unwrap(), Some(b"1".to_vec()));
        }
    };
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), all).await.expect("they wait for each other") });
}

/// As in the face that blocks: the closure's call holds what these would wait for.
#[test]
fn futures_of_the_same_store_inside_of_an_update_are_refused() {
    let db = opened(Gated::default());
    block_on(db.insert("a", "1")).unwrap();
    let (blocking, inner) = (db.to_sync(), db.clone());
    blocking
        .update("a", |_| {
            assert!(matches!(block_on(inner.insert("a", "2")), Err(Error::Nested)));
            assert!(matches!(block_on(inner.insert_many([("a", "2")])), Err(Error::Nested)));
            assert!(matches!(block_on(inner.update("b", |_| None)), Err(Error::Nested)));
            assert!(matches!(block_on(inner.len()), Err(Error::Nested)));
            Some(b"3".to_vec())
        })
        .unwrap();
    let inner = db.clone();
    let nested = db.update("a", move |_| {
        assert!(matches!(block_on(inner.remove("a")), Err(Error::Nested)));
        None
    });
    block_on(nested).unwrap();
    assert!(block_on(db.is_empty()).unwrap());
}

#[test]
fn a_panic_of_a_closure_goes_on_where_it_is_awaited_and_the_store_too() {
    let db = opened(Gated::default());
    for _ in 0..20 {
        let update = catch_unwind(AssertUnwindSafe(|| block_on(db.update("a", |_| panic!("the closure")))));
        assert_eq!(update.unwrap_err().downcast_ref::<&str>(), Some(&"the closure"));
        let with = catch_unwind(AssertUnwindSafe(|| block_on(db.with(|_| panic!("the closure")))));
        assert!(with.is_err());
        let transaction = catch_unwind(AssertUnwindSafe(|| {
            block_on(db.transaction(|tx| {
                tx.insert("a", "1")?;
                if tx.get("a")?.is_some() { panic!("the closure") } else { Ok(()) }
            }))
        }));
        assert!(transaction.is_err());
    }
    assert!(block_on(db.is_empty()).unwrap());
    block_on(db.durable().insert("a", "1")).unwrap();
    assert_eq!(block_on(db.get("a")).unwrap(), Some(b"1".to_vec()));
}

/// A panic of a storage's sync is everybody's error.
#[test]
fn a_sync_that_panics_leaves_no_task_waiting() {
    use pipkin::storage::{MemoryStorage, fault::FaultStorage};
    let storage = std::sync::Arc::new(FaultStorage::new(MemoryStorage::new()));
    let db = opened(storage.clone());
    block_on(db.insert("a", "1")).unwrap();
    storage.before_sync(|| panic!("a storage"));
    assert!(matches!(block_on(db.flush()), Err(Error::Bug(_))));
    storage.before_sync(|| {});
    block_on(db.insert("b", "1")).unwrap();
    block_on(db.flush()).unwrap();
}

/// The last handle goes on a thread that must not wait: closing syncs, and that sync is at the gate.
#[test]
fn dropping_the_last_handle_does_not_wait_for_the_close() {
    let storage = Gated::default();
    let db = opened(storage.clone());
    block_on(db.insert("a", "1")).unwrap();
    storage.shut();
    let syncs = storage.state().syncs;
    drop(db);
    until("the close syncs", || storage.state().syncs > syncs);
    storage.open();
    let again = || Db::builder().open_storage(Box::new(storage.clone()));
    until("it is closed", || again().is_ok_and(|db| db.open_report().clean));
}

#[test]
fn handles_are_shared_by_tasks() {
    fn sent<T: Send>(value: T) -> T {
        value
    }
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let db = opened(Gated::default());
    shared::<AsyncDb>(&db);
    shared(&db.default_namespace());
    // Each of them can be spawned.
    block_on(sent(db.insert("a", "1"))).unwrap();
    block_on(sent(db.get("a"))).unwrap();
    block_on(sent(db.get_many(["a"]))).unwrap();
    block_on(sent(db.batch().insert("a", "1").commit())).unwrap();
    block_on(sent(db.transaction(|tx| tx.insert("a", "1")))).unwrap();
    block_on(sent(db.flush())).unwrap();
    block_on(sent(db.namespace("b"))).unwrap();
    assert!(at_once(sent(db.get("a"))).unwrap().unwrap().is_some());
}
