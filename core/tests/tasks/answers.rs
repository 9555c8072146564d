//! Every verb answers what the face that blocks answers.

use super::{Gated, at_once, in_a_file, opened};
use futures_lite::future::block_on;
use pipkin::storage::{CacheOptions, CachedStorage, MemoryStorage};
use pipkin::{Db, Error, PositionState, Ttl, merge};
use std::time::Duration;

#[test]
fn records_are_written_and_read_as_by_the_face_that_blocks() {
    let (_folder, db) = in_a_file();
    block_on(async {
        db.insert("a", "1").await?;
        db.insert_many([("b", "2"), ("c", "3")]).await?;
        assert_eq!(db.get("a").await?, Some(b"1".to_vec()));
        assert_eq!(db.get_many(["c", "x", "b"]).await?, [Some(b"3".to_vec()), None, Some(b"2".to_vec())]);
        assert_eq!(db.get_zerocopy_owned("b").await?.as_deref(), Some(&b"2"[..]));
        assert!(db.contains_key("a").await? && !db.contains_key("x").await?);
        assert_eq!((db.len().await?, db.is_empty().await?), (3, false));
        assert!(db.remove("a").await? && !db.remove("a").await?);
        assert_eq!(db.remove_many(["b", "x"]).await?, 1);
        assert_eq!(db.swap("c", "4").await?, Some(b"3".to_vec()));
        assert_eq!(db.take("c").await?, Some(b"4".to_vec()));
        assert!(db.compare_and_swap("c", None, Some(b"5")).await?);
        assert!(!db.compare_and_swap("c", Some(b"6"), None).await?);
        let (value, version) = db.get_versioned("c").await?.unwrap();
        assert_eq!(value, b"5");
        assert!(db.compare_version_and_swap("c", Some(version), Some(b"7")).await?);
        assert!(!db.compare_version_and_swap("c", Some(version), Some(b"8")).await?);
        assert_eq!(db.get_or_insert_with("d", || "9").await?, b"9");
        db.update("d", |old| old.map(|old| [old, b"!"].concat())).await?;
        assert_eq!(db.try_update("d", |_| Err("no")).await?, Err("no"));
        assert_eq!(db.modify("d", |value| Ok::<_, ()>(value.take())).await?, Ok(Some(b"9!".to_vec())));
        assert_eq!(db.to_sync().len()?, 1);
        db.clear().await?;
        assert!(db.is_empty().await?);
        db.close().await
    })
    .unwrap();
}

#[test]
fn what_is_about_the_whole_store_answers_as_there() {
    let (folder, db) = in_a_file();
    let copy = folder.path().join("copy.pipkin");
    block_on(async {
        let users = db.namespace("users").await?;
        users.insert("7", "Ada").await?;
        assert!(db.find_namespace("nobody").await.is_none());
        assert_eq!(db.find_namespace("users").await.unwrap().get("7").await?, Some(b"Ada".to_vec()));
        assert_eq!((users.name(), db.list_namespaces().await), ("users", vec!["users".to_owned()]));
        let position = users.insert_with_position("8", "Bob").await?;
        assert_eq!(db.state_of(position).await, PositionState::Appended);
        db.flush_to(position).await?;
        assert_eq!(db.state_of(position).await, PositionState::Durable);
        assert_eq!(db.flush_to(position).await?, db.flush().await?);
        assert!(users.remove_with_position("8").await?.is_some());
        assert_ne!(db.position().await?, position);
        db.checkpoint().await?;
        db.compact().await?;
        db.compact_with(|_| {}).await?;
        db.compact_step().await?;
        db.drop_stranded().await?;
        assert!(db.verify().await?.damage.is_empty());
        assert_eq!(db.stats().await?.records, 1);
        assert!(!db.segments().await?.is_empty());
        db.backup_to(&copy).await?;
        assert!(db.consumers().await?.is_empty() && !db.remove_consumer("nobody").await?);
        assert_eq!((db.sweep_expired().await?, db.reset_clock().await?), (0, 0));
        assert!(db.drop_namespace("users").await?);
        assert!(matches!(users.get("7").await, Ok(None)));
        assert!(db.path().is_some() && !db.is_poisoned() && db.open_report().created && !db.may_expire());
        db.close().await
    })
    .unwrap();
    assert_eq!(Db::open(&copy).unwrap().namespace("users").unwrap().len().unwrap(), 1);
}

#[test]
fn records_expire() {
    let db = Db::open_in_memory().unwrap().to_async();
    block_on(async {
        db.insert_with_ttl("code", "1234", Duration::from_secs(60)).await?;
        assert!(db.ttl("code").await?.unwrap() > Duration::from_secs(50));
        assert!(db.expires_at("code").await?.is_some() && db.persist("code").await?);
        assert!(db.expires_at("code").await?.is_none());
        let gone = db.with_ttl(Ttl::At(1));
        gone.insert("gone", "1").await?;
        assert_eq!(db.get("gone").await?, None);
        db.set_default_ttl(Some(Duration::from_secs(9))).await?;
        assert_eq!(db.default_ttl(), Some(Duration::from_secs(9)));
        db.insert("default", "1").await?;
        assert!(db.expires_at("default").await?.is_some());
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn closures_batches_groups_and_operators() {
    let db = Db::builder().merge_operator("", "add", merge::add).in_memory().unwrap().to_async();
    block_on(async {
        assert_eq!(db.merge("n", 1_u64.to_be_bytes()).await?, 1_u64.to_be_bytes());
        let log = db.namespace("log").await?;
        let batch = db.batch().insert("g.1", "a").insert_in(&log, "1", vec![1]).remove("n").remove_in(&log, "0");
        batch.insert_with_ttl("g.2", "b", Ttl::Never).insert_in_with_ttl(&log, "2", "c", Ttl::Never).commit().await?;
        assert_eq!((db.len().await?, log.len().await?), (2, 2));
        assert_eq!(db.delete_group("g").await?, 2);
        let sum = db.transaction(|tx| {
            tx.insert("x", "1")?;
            Ok(tx.get("x")?.map(|value| value.len()))
        });
        assert_eq!(sum.await?, Some(1));
        assert_eq!(db.transaction_with_position(|tx| tx.insert("y", "2")).await?.1, db.position().await?);
        let refused: Result<(), Error> = db.try_transaction(|_| Err(Error::NoSpace)).await;
        assert!(matches!(refused, Err(Error::NoSpace)));
        let other = Db::open_in_memory()?.to_async();
        let foreign = db.batch().insert("z", "1").insert_in(&other, "z", "1").commit().await;
        assert!(matches!(foreign, Err(Error::InvalidArgument(_))) && !db.contains_key("z").await?);
        assert_eq!(db.batch().insert("z", "1").commit_with_position().await?, db.position().await?);
        Ok::<_, Error>(())
    })
    .unwrap();
}

/// What is in memory needs no second poll, and a record that is not needs another thread.
#[test]
fn what_is_in_memory_is_answered_by_the_first_poll() {
    let storage = Gated::default();
    let db = opened(storage.clone());
    block_on(db.insert("a", "1")).unwrap();
    assert!(at_once(db.insert("b", "2")).unwrap().is_ok());
    assert_eq!(at_once(db.get("a")).unwrap().unwrap(), Some(b"1".to_vec()));
    assert_eq!(at_once(db.get("none")).unwrap().unwrap(), None);
    assert!(at_once(db.remove("b")).unwrap().unwrap());
    // A long copy keeps the task from others.
    block_on(db.insert("longer", vec![7; 70_000])).unwrap();
    let by_others = |key: &str| {
        storage.state().threads.clear();
        assert!(block_on(db.get(key)).unwrap().is_some());
        let threads = core::mem::take(&mut storage.state().threads);
        assert!(!threads.is_empty());
        threads.iter().any(|name| name == "pipkin calls")
    };
    assert_eq!(["a", "longer"].map(by_others), [false, true]);
    storage.state().is_cold = true;
    assert_eq!(["a", "longer"].map(by_others), [true, true]);
    assert_eq!(at_once(db.get("none")).unwrap().unwrap(), None, "the index is in memory");
    storage.state().threads.clear();
    block_on(db.insert("a", "2")).unwrap();
    let threads = core::mem::take(&mut storage.state().threads);
    assert!(threads.iter().all(|name| name == "pipkin calls"), "a write looks at what it replaces: {threads:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_system_has_in_its_cache_is_in_memory() {
    let (_folder, db) = in_a_file();
    block_on(db.insert("a", "1")).unwrap();
    assert_eq!(at_once(db.get("a")).unwrap().unwrap(), Some(b"1".to_vec()));
    block_on(db.insert("long", vec![7; 60_000])).unwrap();
    assert_eq!(at_once(db.get("long")).unwrap().unwrap().map(|value| value.len()), Some(60_000));
}

/// A poll never waits for a sync: not that of a flush, nor one that somebody else has begun.
#[test]
fn while_a_sync_runs_no_poll_waits_for_it() {
    let storage = Gated::default();
    let db = opened(storage.clone());
    block_on(db.insert("a", "1")).unwrap();
    let blocking = db.to_sync();
    storage.shut();
    let before = storage.state().syncs;
    let flush = std::thread::spawn(move || blocking.flush());
    super::until("the sync has begun", || storage.state().syncs > before);
    assert_eq!(at_once(db.get("a")).unwrap().unwrap(), Some(b"1".to_vec()));
    assert!(at_once(db.flush()).is_none() && at_once(db.durable().insert("b", "2")).is_none());
    block_on(db.insert("c", "3")).unwrap();
    assert_eq!(at_once(db.get("c")).unwrap().unwrap(), Some(b"3".to_vec()), "an append does not wait for the sync");
    storage.open();
    flush.join().unwrap().unwrap();
    block_on(db.flush()).unwrap();
}

#[test]
fn a_closed_store_answers_so_and_the_file_is_free() {
    let (folder, db) = in_a_file();
    let path = folder.path().join("app.pipkin");
    let other = db.clone();
    block_on(db.insert("a", "1")).unwrap();
    block_on(db.close()).unwrap();
    assert!(matches!(block_on(other.insert("b", "2")), Err(Error::Closed)));
    assert!(matches!(block_on(other.durable().insert("b", "2")), Err(Error::Closed)));
    assert!(matches!(block_on(other.flush()), Err(Error::Closed)));
    drop(other);
    super::until("the last handle has let the file go", || Db::open(&path).is_ok());
    let again = block_on(pipkin::AsyncDb::open(&path)).unwrap();
    assert_eq!(block_on(again.get("a")).unwrap(), Some(b"1".to_vec()));
    block_on(again.close()).unwrap();
    let again = block_on(Db::builder().path(&path).open_async()).expect("`close` has waited");
    block_on(again.close()).unwrap();
}

#[test]
fn a_store_over_any_storage_works() {
    // No storage but those of files and of memory says what is at hand.
    let db = opened(CachedStorage::<_, 0>::new(MemoryStorage::new(), CacheOptions::default()).unwrap());
    block_on(db.durable().insert("a", "1")).unwrap();
    assert_eq!(block_on(db.get("a")).unwrap(), Some(b"1".to_vec()));
}
