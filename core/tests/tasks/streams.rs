//! Walks, changes and events as streams: complete, in order, no further ahead than they were asked, and never asleep beside something to hear.

use super::{Gated, at_once, in_a_file, opened};
use futures_lite::StreamExt;
use futures_lite::future::block_on;
use pipkin::{Change, Db, Error, Expected, NewEvent};
use std::time::Duration;

fn number(key: &[u8]) -> u32 {
    u32::from_be_bytes(key.try_into().unwrap())
}

#[test]
fn walks_hand_out_what_the_iterators_do() {
    let db = Db::builder().ordered(true).in_memory().unwrap().to_async();
    block_on(async {
        db.insert_many((0..2000_u32).map(|n| (n.to_be_bytes(), vec![7; 300]))).await?;
        let keys: Vec<u32> = db.range(..)?.map(|record| number(&record.unwrap().0)).collect().await;
        assert_eq!(keys, (0..2000).collect::<Vec<_>>());
        let falling: Vec<u32> = db.range_rev(10_u32.to_be_bytes()..)?.map(|record| number(&record.unwrap().0)).collect().await;
        assert_eq!(falling, (10..2000).rev().collect::<Vec<_>>());
        let from: Vec<u32> = db.iter_from(1998_u32.to_be_bytes())?.map(|record| number(&record.unwrap().0)).collect().await;
        let after: Vec<u32> = db.iter_after(1998_u32.to_be_bytes())?.map(|record| number(&record.unwrap().0)).collect().await;
        assert_eq!((from, after), (vec![1998, 1999], vec![1999]));
        assert_eq!(db.range_prefix([0, 0, 1])?.count().await, 256);
        assert_eq!(db.range_keys(..)?.map(|key| number(&key.unwrap())).collect::<Vec<u32>>().await, keys);
        let mut any: Vec<u32> = db.iter().map(|record| number(&record.unwrap().0)).collect().await;
        let mut any_keys: Vec<u32> = db.keys().map(|key| number(&key.unwrap())).collect().await;
        any.sort_unstable();
        any_keys.sort_unstable();
        assert_eq!((&any, &any_keys), (&keys, &keys));
        assert_eq!((db.first_key_value().await?.unwrap().0, db.last_key_value().await?.unwrap().0.len()), (vec![0; 4], 4));
        let ends = (db.pop_first().await?.unwrap().0, db.pop_last().await?.unwrap().0);
        assert_eq!((number(&ends.0), number(&ends.1)), (0, 1999));
        db.insert_many([(ends.0, "1"), (ends.1, "1")]).await?;
        let before = db.snapshot().await?;
        db.clear().await?;
        assert_eq!((before.range(..)?.count().await, before.iter().count().await, db.iter().count().await), (2000, 2000, 0));
        assert_eq!((before.len().await?, before.is_empty().await?), (2000, false));
        Ok::<_, Error>(())
    })
    .unwrap();
    let plain = Db::open_in_memory().unwrap().to_async();
    assert!(plain.range(..).is_err() && block_on(plain.group("a")).unwrap().is_empty());
}

/// Back-pressure: what nobody asks for is not read.
#[test]
fn a_stream_reads_only_when_it_is_polled() {
    let storage = Gated::default();
    let db = opened(storage.clone());
    block_on(db.insert_many((0..5000_u32).map(|n| (n.to_be_bytes(), vec![7; 100])))).unwrap();
    let read = || storage.state().threads.len();
    let before = read();
    let mut walk = db.iter();
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(read(), before, "it was never polled");
    block_on(walk.next()).unwrap().unwrap();
    let first = read();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(read(), first, "it has one group, and nobody has asked for another");
    assert!(first - before < 2000, "a small part of it: {} reads", first - before);
    assert_eq!(block_on(walk.count()), 4999);
}

#[test]
fn snapshots_and_transactions_show_one_moment() {
    let (_folder, db) = in_a_file();
    block_on(async {
        let users = db.namespace("users").await?;
        db.insert("a", "1").await?;
        users.insert("7", "Ada").await?;
        let before = db.snapshot().await?;
        assert_eq!(at_once(before.get("a")).expect("it is in memory")?, Some(b"1".to_vec()));
        db.insert("a", "2").await?;
        db.insert("b", "2").await?;
        users.remove("7").await?;
        assert_eq!(before.get_many(["a", "b"]).await?, [Some(b"1".to_vec()), None]);
        assert!(before.contains_key("a").await? && !before.contains_key("b").await? && before.expires_at("a").await?.is_none());
        assert_eq!(before.namespace("users").await?.unwrap().get("7").await?, Some(b"Ada".to_vec()));
        assert_eq!((before.list_namespaces().await?, before.namespace("no").await?.is_none()), (vec!["users".to_owned()], true));
        let (one, other) = (db.begin().await?, db.begin().await?);
        assert_eq!((one.get("a").await?, other.get("a").await?), (Some(b"2".to_vec()), Some(b"2".to_vec())));
        one.insert("a", "3").await?;
        one.insert_in(&users, "8", "Bob").await?;
        one.insert_with_ttl("c", "1", Duration::from_secs(60)).await?;
        assert!(one.remove("b").await? && !one.remove_in(&users, "9").await? && !one.contains_key("b").await?);
        assert_eq!(one.get_in(&users, "8").await?, Some(b"Bob".to_vec()));
        assert_eq!(one.get_many(["a", "b"]).await?, [Some(b"3".to_vec()), None]);
        other.insert("a", "4").await?;
        one.commit_durably().await?;
        assert!(matches!(other.commit().await, Err(Error::Conflict(_))));
        assert!(matches!(other.get("a").await, Err(Error::InvalidArgument(_))));
        assert_eq!((db.get("a").await?, users.get("8").await?), (Some(b"3".to_vec()), Some(b"Bob".to_vec())));
        let gone = db.begin().await?;
        gone.insert("a", "5").await?;
        gone.rollback().await;
        assert!(gone.commit().await.is_err());
        let tx = db.begin().await?;
        tx.with(|tx| tx.insert("a", "6")).await?;
        assert_eq!(tx.commit_with_position().await?, db.position().await?);
        Ok::<_, Error>(())
    })
    .unwrap();
    assert_eq!(block_on(db.get("a")).unwrap(), Some(b"6".to_vec()));
}

#[test]
fn a_body_runs_again_when_others_were_faster() {
    let (_folder, db) = in_a_file();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let db = db.clone();
            tasks.spawn(async move {
                for _ in 0..25 {
                    let add = |tx: pipkin::AsyncTransaction| async move {
                        let count = tx.get("count").await?.map_or(0, |count| number(&count));
                        tx.insert("count", (count + 1).to_be_bytes()).await
                    };
                    db.transact(add).await.unwrap();
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    });
    assert_eq!(block_on(db.get("count")).unwrap().map(|count| number(&count)), Some(200));
}

/// Tasks on two threads of tokio hear every commit once, in order, and the end of the store.
#[test]
fn streams_of_changes_miss_nothing_and_end_with_the_store() {
    const COMMITS: u32 = 2000;
    let (_folder, db) = in_a_file();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    let heard = runtime.block_on(async {
        let late = db.follow(db.watch("key")).await.unwrap();
        let early = db.follow(db.changes().appended(true)).await.unwrap();
        let mut mirror = db.consume(db.consumer("mirror").prefix("key")).await.unwrap();
        let count = |mut stream: pipkin::ChangeStream| async move {
            let mut heard = Vec::new();
            while let Some(commit) = stream.try_next().await.unwrap() {
                for change in commit.changes() {
                    if let Change::Put { value, .. } = change {
                        heard.push(number(value));
                    }
                }
            }
            heard
        };
        let mirrored = async move {
            let mut heard = 0;
            while let Some(commit) = mirror.try_next().await.unwrap() {
                heard += commit.changes().len();
                if heard == 1000 {
                    mirror.ack(commit.position()).await.unwrap();
                }
            }
            heard
        };
        let tasks = (runtime.spawn(count(late)), runtime.spawn(count(early)), runtime.spawn(mirrored));
        for n in 0..COMMITS {
            db.insert("key", n.to_be_bytes()).await.unwrap();
            if n % 7 == 0 {
                db.flush().await.unwrap();
            }
            if n % 500 == 0 {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        db.flush().await.unwrap();
        // The tasks hold the store open: only a close ends them.
        db.to_sync().close().unwrap();
        let all = async { (tasks.0.await.unwrap(), tasks.1.await.unwrap(), tasks.2.await.unwrap()) };
        tokio::time::timeout(Duration::from_secs(60), all).await.expect("a stream sleeps beside the end of its store")
    });
    let whole: Vec<u32> = (0..COMMITS).collect();
    assert_eq!((heard.0, heard.1, heard.2), (whole.clone(), whole, COMMITS as usize));
}

#[test]
fn a_state_and_what_comes_after_it_are_everything() {
    let (_folder, db) = in_a_file();
    block_on(async {
        db.insert("a", "1").await?;
        let (state, mut changes) = db.follow_with_state(db.changes()).await?;
        let (named, mut consumer) = db.consume_with_state(db.consumer("mirror")).await?;
        db.durable().insert("b", "2").await?;
        assert_eq!((state.len().await?, named.len().await?), (1, 1));
        let commit = changes.try_next().await?.unwrap();
        assert_eq!(commit.changes()[0].key(), Some(&b"b"[..]));
        assert!(at_once(changes.next()).is_none());
        let commit = consumer.try_next().await?.unwrap();
        consumer.ack(commit.position()).await?;
        drop(consumer);
        let mut again = db.consume(db.consumer("mirror")).await?;
        db.durable().insert("c", "3").await?;
        assert_eq!(again.try_next().await?.unwrap().changes()[0].key(), Some(&b"c"[..]));
        Ok::<_, Error>(())
    })
    .unwrap();
}

#[test]
fn events_are_appended_read_and_followed() {
    let (_folder, db) = in_a_file();
    block_on(async {
        let orders = db.events("orders").await?;
        assert_eq!((orders.name(), db.list_events().await), ("orders", vec!["orders".to_owned()]));
        let placed = (0..200_u8).map(|part| NewEvent::new("Packed", vec![part]).tag("all"));
        orders.append("order-7", Expected::NoStream, placed).await?;
        let wrong = orders.append("order-7", Expected::Version(3), [NewEvent::new("Packed", "")]).await;
        assert!(matches!(wrong, Err(Error::AppendRefused { .. })));
        assert_eq!((orders.version("order-7").await?, orders.last_number().await?), (200, 200));
        let versions: Vec<u64> =
            orders.read(&orders.stream("order-7")).await?.map(|event| event.unwrap().version()).collect().await;
        assert_eq!(versions, (1..=200).collect::<Vec<_>>());
        let last: Vec<u64> =
            orders.read(&orders.all().backwards(true).limit(2)).await?.map(|event| event.unwrap().number()).collect().await;
        assert_eq!(last, [200, 199]);
        assert_eq!(orders.get("order-7", 3).await?.unwrap().payload(), [2]);
        assert_eq!(orders.get_by_number(4).await?.unwrap().payload(), [3]);
        let mut following = orders.follow(&orders.tagged("all")).await?;
        let mut projection = orders.cursor(&orders.all(), "count").await?;
        db.flush().await?;
        for number in 1..=200 {
            assert_eq!(following.try_next().await?.unwrap().number(), number);
        }
        let event = projection.try_next().await?.unwrap();
        let at = projection.at(&event);
        db.transaction(move |tx| {
            tx.insert("count", [1])?;
            tx.ack(&at, event.number())
        })
        .await?;
        let event = projection.try_next().await?.unwrap();
        projection.ack(&event).await?;
        assert_eq!(orders.cursor(&orders.all(), "count").await?.try_next().await?.unwrap().number(), 3);
        assert!(orders.cursors().await?.len() == 1 && !orders.remove_cursor("nobody").await?);
        // What comes while nobody polls, and what comes while somebody waits.
        assert!(at_once(following.next()).is_none());
        let durable = orders.durable();
        let waits = std::thread::spawn(move || block_on(async move { (following.try_next().await, following.next().await) }));
        std::thread::sleep(Duration::from_millis(30));
        durable.append("order-8", Expected::Any, [NewEvent::new("Placed", "").tag("all")]).await?;
        std::thread::sleep(Duration::from_millis(30));
        assert_eq!(orders.truncate("order-7", 10).await?, 9);
        db.to_sync().close()?;
        let (heard, end) = waits.join().unwrap();
        assert_eq!(heard?.unwrap().stream(), "order-8");
        assert!(end.is_none(), "{end:?}");
        Ok::<_, Error>(())
    })
    .unwrap();
}

/// What another process writes wakes nobody: streams of a follower look again, and end when it is closed.
#[test]
fn streams_of_a_follower_go_on_with_what_its_writer_appends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.pipkin");
    let writer = Db::open(&path).unwrap();
    let log = writer.events("log").unwrap();
    log.append("a", Expected::Any, [NewEvent::new("T", "")]).unwrap();
    writer.flush().unwrap();
    let db = Db::builder().path(&path).follow(true).open().unwrap().to_async();
    block_on(async {
        let events = db.events("log").await?;
        let mut following = events.follow(&events.all()).await?;
        let mut changes = db.follow(db.watch("key")).await?;
        assert_eq!(following.try_next().await?.unwrap().number(), 1);
        for number in 2..5 {
            assert!(at_once(following.next()).is_none() && at_once(changes.next()).is_none());
            let (writer, log) = (writer.clone(), log.clone());
            let writes = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                log.append("a", Expected::Any, [NewEvent::new("T", "")])?;
                writer.insert("key", "value")?;
                writer.flush()
            });
            assert_eq!(following.try_next().await?.unwrap().number(), number);
            assert_eq!(changes.try_next().await?.unwrap().changes().len(), 1);
            writes.join().unwrap()?;
        }
        let follower = db.to_sync();
        let ends = std::thread::spawn(move || block_on(async move { (following.next().await, changes.next().await) }));
        std::thread::sleep(Duration::from_millis(50));
        follower.close()?;
        let (event, commit) = ends.join().unwrap();
        assert!(event.is_none() && commit.is_none(), "{event:?}, {commit:?}");
        Ok::<_, Error>(())
    })
    .unwrap();
}

/// Streams that are dropped while a thread reads for them leave nothing behind: no task is woken, and the file is free.
#[test]
fn streams_that_are_dropped_in_the_middle_let_the_store_go() {
    let (folder, db) = in_a_file();
    block_on(db.insert_many((0..1000_u32).map(|n| (n.to_be_bytes(), "1")))).unwrap();
    for _ in 0..50 {
        let (mut walk, mut changes) = (db.iter(), block_on(db.follow(db.changes())).unwrap());
        block_on(db.durable().insert("a", "1")).unwrap();
        drop((at_once(walk.next()), at_once(changes.next())));
    }
    block_on(db.close()).unwrap();
    super::until("the file is free", || Db::open(folder.path().join("app.pipkin")).is_ok());
}
