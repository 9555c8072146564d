//! Following what changes: commits from a position on, whole, in order, none twice; consumers with a cursor in the store.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{churn, killed, numbers, opened};
use pipkin::storage::MemoryStorage;
use pipkin::{Change, Changes, Commit, Consumer, Db, Error, Position, PositionState};
use std::collections::BTreeSet;

const SEGMENT: u32 = 4096;

const fn is_sent<T: Send>() {}
const _: () = is_sent::<Changes>();
const _: () = is_sent::<Consumer>();

fn put(namespace: &str, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Change {
    Change::Put { namespace: namespace.into(), key: key.as_ref().to_vec(), value: value.as_ref().to_vec(), expires_at: None }
}

fn remove(namespace: &str, key: impl AsRef<[u8]>) -> Change {
    Change::Remove { namespace: namespace.into(), key: key.as_ref().to_vec() }
}

fn changes_of(commits: Vec<Commit>) -> Vec<Vec<Change>> {
    commits.into_iter().map(Commit::into_changes).collect()
}

fn rest(consumer: &mut Consumer) -> Vec<Commit> {
    let mut commits = Vec::new();
    while let Some(commit) = consumer.try_next().unwrap() {
        commits.push(commit);
    }
    commits
}

#[test]
fn every_commit_comes_once_whole_and_in_order_once_it_is_durable() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let mut changes = db.changes().start().unwrap();
    let mut early = db.changes().appended(true).start().unwrap();
    let users = db.namespace("users").unwrap();
    db.insert("a", "1").unwrap();
    db.batch().insert("b", "2").remove("a").insert_in(&users, "u", "3").commit().unwrap();
    db.transaction(|tx| tx.insert("c", "4").and_then(|()| tx.insert("c", "5"))).unwrap();
    db.remove("b").unwrap();
    users.clear().unwrap();
    db.drop_namespace("users").unwrap();
    db.clear().unwrap();
    assert_eq!(changes.drain().unwrap(), [], "nothing is durable");
    let expected = vec![
        vec![Change::Clear { namespace: "users".into() }],
        vec![put("", "a", "1")],
        vec![put("", "b", "2"), remove("", "a"), put("users", "u", "3")],
        vec![put("", "c", "5")],
        vec![remove("", "b")],
        vec![Change::Clear { namespace: "users".into() }],
        vec![Change::Drop { namespace: "users".into() }],
        vec![Change::Clear { namespace: "".into() }],
    ];
    assert_eq!(changes_of(early.drain().unwrap()), expected);
    db.flush().unwrap();
    let commits = changes.drain().unwrap();
    for commit in &commits {
        let mut again = db.changes().from(commit.position()).start().unwrap();
        let after: Vec<Commit> = commits.iter().skip_while(|other| *other != commit).skip(1).cloned().collect();
        assert_eq!(again.drain().unwrap(), after);
        assert_eq!(db.state_of(commit.position()), PositionState::Durable);
    }
    assert_eq!(changes_of(commits), expected);
    assert_eq!((changes.drain().unwrap(), early.drain().unwrap()), (vec![], vec![]));
    assert_eq!(changes_of(db.changes().from(Position::START).start().unwrap().drain().unwrap()), expected);
}

#[test]
fn a_watcher_hears_only_what_it_asked_for() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let users = db.namespace("users").unwrap();
    let mut watcher = users.watch("user:").start().unwrap();
    let mut all = db.changes().prefix("user:").start().unwrap();
    db.batch().insert("user:1", "x").insert_in(&users, "user:2", "y").insert_in(&users, "group", "z").commit().unwrap();
    db.insert("other", "1").unwrap();
    users.insert("group", "2").unwrap();
    users.clear().unwrap();
    db.flush().unwrap();
    let clear = vec![Change::Clear { namespace: "users".into() }];
    assert_eq!(changes_of(watcher.drain().unwrap()), [vec![put("users", "user:2", "y")], clear.clone()]);
    assert_eq!(changes_of(all.drain().unwrap()), [vec![put("", "user:1", "x"), put("users", "user:2", "y")], clear]);
}

/// Values longer than a segment, and commits over many of them.
#[test]
fn a_commit_over_many_segments_comes_whole() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let mut changes = db.changes().start().unwrap();
    let long = vec![7; 30_000];
    for round in 0..5_u32 {
        let mut batch = db.batch();
        for key in 0..40_u32 {
            batch = batch.insert((round * 100 + key).to_le_bytes(), if key % 20 == 0 { long.clone() } else { vec![1; 500] });
        }
        batch.commit().unwrap();
        db.insert("between", round.to_le_bytes()).unwrap();
    }
    db.flush().unwrap();
    let sizes: Vec<usize> = changes.drain().unwrap().iter().map(|commit| commit.changes().len()).collect();
    assert_eq!(sizes, [40, 1, 40, 1, 40, 1, 40, 1, 40, 1]);
}

/// What a reader in this process has not read stays, through any compaction, and is free afterwards.
#[test]
fn compaction_keeps_what_is_not_read_yet_and_shows_no_copies() {
    let storage = MemoryStorage::new();
    let db = opened(storage, SEGMENT);
    db.insert_many((0..50_u8).map(|key| ([key, 1], [key; 60]))).unwrap();
    let mut changes = db.changes().start().unwrap();
    for round in 0..10 {
        churn(&db, round * 40, round * 40 + 40);
        db.compact().unwrap();
    }
    assert!(db.stats().unwrap().history_bytes > 30_000);
    assert_eq!(numbers(&changes.drain().unwrap()), (0..400).collect::<Vec<_>>());
    db.compact().unwrap();
    let held = db.stats().unwrap().history_bytes;
    assert!(held <= 2 * u64::from(SEGMENT), "{held} bytes of history are left");
    drop(changes);
    churn(&db, 0, 60);
    db.compact().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().unwrap().history_bytes, 0);
}

/// Nobody holds it: whoever comes later is told, and told from where on all is there.
#[test]
fn without_a_holder_history_goes_and_its_reader_is_told() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let first = db.insert_with_position("first", "1").unwrap();
    let check = |db: &Db| {
        let Err(Error::Compacted { oldest }) = db.changes().from(first).start().and_then(|mut changes| changes.drain()) else {
            panic!("the log has a gap")
        };
        let mut changes = db.changes().from(oldest).start().unwrap();
        let found = numbers(&changes.drain().unwrap());
        let last: Vec<u32> = (0..400).skip(400 - found.len()).collect();
        assert_eq!(found, last);
        found.len()
    };
    for round in 0..10 {
        churn(&db, round * 40, round * 40 + 40);
        db.compact().unwrap();
    }
    check(&db);
    db.close().unwrap();
    check(&opened(storage, SEGMENT));
}

/// A consumer goes on where it has acknowledged, through compaction, closing and kills; what it has acknowledged is used again.
#[test]
fn a_consumer_misses_nothing_over_sessions_and_compactions() {
    let storage = MemoryStorage::new();
    let mut db = opened(storage.clone(), SEGMENT);
    drop(db.consumer("mirror").start().unwrap());
    let (mut heard, mut longest) = (Vec::new(), 0);
    for round in 0..40_u32 {
        churn(&db, round * 40, round * 40 + 40);
        db.compact().unwrap();
        if round % 3 == 0 {
            killed(db);
            db = opened(storage.clone(), SEGMENT);
            db.insert("one more", [0; 4]).unwrap();
            db.flush().unwrap();
            db.compact().unwrap();
        } else if round % 3 == 1 {
            db.close().unwrap();
            db = opened(storage.clone(), SEGMENT);
        }
        if round % 2 == 0 {
            let mut consumer = db.consumer("mirror").start().unwrap();
            let commits = rest(&mut consumer);
            let half = commits.len() / 2;
            consumer.ack(commits[half].position()).unwrap();
            heard.extend(commits.into_iter().take(half + 1));
        }
        longest = longest.max(db.stats().unwrap().file_bytes);
    }
    let mut consumer = db.consumer("mirror").start().unwrap();
    heard.extend(rest(&mut consumer));
    heard.retain(|commit| commit.changes()[0].key() != Some(b"one more"));
    assert_eq!(numbers(&heard), (0..1600).collect::<Vec<_>>());
    assert!(db.verify().unwrap().is_ok());
    let file = db.stats().unwrap().file_bytes;
    assert!(longest < 400_000 && file <= longest, "{longest} bytes at most, {file} at the end");
}

/// The floor moves, stays and falls in the tail behind a checkpoint; the store is killed at each step.
#[test]
fn what_the_floor_holds_survives_kills_between_checkpoints() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let start = db.position().unwrap();
    let one = db.consumer("one").from(start).start().unwrap();
    for round in 0..6 {
        churn(&db, round * 30, round * 30 + 30);
        db.compact().unwrap();
        let image = MemoryStorage::from_vec(storage.to_vec());
        let copy = opened(image, SEGMENT);
        copy.insert("more", [0; 4]).unwrap();
        copy.compact().unwrap();
        copy.flush().unwrap();
        let mut all = rest(&mut copy.consumer("one").start().unwrap());
        all.pop();
        assert_eq!(numbers(&all), (0..round * 30 + 30).collect::<Vec<_>>(), "round {round}");
    }
    drop(one);
    assert!(db.remove_consumer("one").unwrap());
    churn(&db, 0, 30);
    db.compact().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().unwrap().history_bytes, 0);
    killed(db);
    let db = opened(storage, SEGMENT);
    assert_eq!((db.consumers().unwrap(), db.len().unwrap()), (vec![], 5));
}

/// A slow consumer holds no more than it said, and begins again with the present state.
#[test]
fn a_consumer_beyond_its_limit_is_told_and_begins_again() {
    let storage = MemoryStorage::new();
    let db = opened(storage, SEGMENT);
    drop(db.consumer("slow").retain(20_000).start().unwrap());
    for round in 0..20 {
        churn(&db, round * 40, round * 40 + 40);
        db.compact().unwrap();
    }
    db.compact().unwrap();
    let stats = db.stats().unwrap();
    assert!(stats.history_bytes < 40_000 && stats.history_given_up_bytes > 0, "{stats:?}");
    assert!(db.consumers().unwrap()[0].is_too_far_behind);
    let told = db.consumer("slow").start().and_then(|mut slow| slow.try_next());
    assert!(matches!(told, Err(Error::Compacted { .. })), "{told:?}");
    let (state, mut slow) = db.consumer("slow").with_state().unwrap();
    assert_eq!(state.len().unwrap(), 5);
    drop(state);
    assert!(!db.consumers().unwrap()[0].is_too_far_behind && db.consumers().unwrap()[0].retain == 20_000);
    churn(&db, 800, 840);
    assert_eq!(numbers(&rest(&mut slow)), (800..840).collect::<Vec<_>>());
}

/// A snapshot and everything after it make the present state, however the two are taken.
#[test]
fn the_state_and_what_comes_after_it_are_the_present_state() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    for round in 0..20_u32 {
        churn(&db, round * 7, round * 7 + 9);
        let (state, mut changes) = db.changes().with_state().unwrap();
        let mut mirror: std::collections::BTreeMap<_, _> = state.iter().map(Result::unwrap).collect();
        churn(&db, round * 7, round * 7 + 9);
        db.remove((round % 5).to_le_bytes()).unwrap();
        db.flush().unwrap();
        db.compact().unwrap();
        for change in changes.drain().unwrap().into_iter().flat_map(Commit::into_changes) {
            match change {
                Change::Put { key, value, .. } => drop(mirror.insert(key, value)),
                Change::Remove { key, .. } => drop(mirror.remove(&key)),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(mirror, db.iter().map(Result::unwrap).collect());
    }
}

/// Records of a namespace that was cleared or dropped since are still read under its name, by a consumer in a later session, too.
#[test]
fn records_of_namespaces_that_are_gone_keep_their_names() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    drop(db.consumer("mirror").start().unwrap());
    for round in 0..3_u8 {
        let users = db.namespace("users").unwrap();
        users.insert([round], "1").unwrap();
        db.insert([round], "2").unwrap();
        users.clear().unwrap();
        db.clear().unwrap();
        users.insert([round], "3").unwrap();
        db.drop_namespace("users").unwrap();
    }
    db.close().unwrap();
    let db = opened(storage, SEGMENT);
    db.checkpoint().unwrap();
    let clear = |name: &str| vec![Change::Clear { namespace: name.into() }];
    let mut expected = Vec::new();
    for round in 0..3_u8 {
        expected.extend([clear("users"), vec![put("users", [round], "1")], vec![put("", [round], "2")]]);
        expected.extend([clear("users"), clear(""), vec![put("users", [round], "3")]]);
        expected.push(vec![Change::Drop { namespace: "users".into() }]);
    }
    assert_eq!(changes_of(rest(&mut db.consumer("mirror").start().unwrap())), expected);
}

/// Without a consumer nobody has kept those names: that is said, not skipped.
#[test]
fn a_reader_of_records_without_a_name_is_told() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let before = db.position().unwrap();
    db.namespace("users").unwrap().insert("u", "1").unwrap();
    db.drop_namespace("users").unwrap();
    db.insert("a", "1").unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let db = opened(storage, SEGMENT);
    let mut changes = db.changes().from(before).start().unwrap();
    assert_eq!(changes_of(vec![changes.try_next().unwrap().unwrap()]), [[Change::Clear { namespace: "users".into() }]]);
    let Err(Error::Compacted { oldest }) = changes.try_next() else { panic!("the name of the namespace is unknown") };
    assert_eq!(db.changes().from(oldest).start().unwrap().drain().unwrap(), []);
}

/// Two copies are written on: each answers `Unknown` for what only the other one has, and for bytes that nobody has handed out.
#[test]
fn positions_of_another_copy_and_forged_ones_are_unknown() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    churn(&db, 0, 20);
    db.close().unwrap();
    let sibling = MemoryStorage::from_vec(storage.to_vec());
    let stores = [opened(storage, SEGMENT), opened(sibling, SEGMENT)];
    let heard: Vec<Vec<Commit>> = stores
        .iter()
        .map(|db| {
            let mut changes = db.changes().start().unwrap();
            churn(db, 20, 60);
            changes.drain().unwrap()
        })
        .collect();
    for (own, other) in [(0, 1), (1, 0)] {
        assert_eq!(heard[own].len(), 40);
        for commit in &heard[own] {
            assert!(matches!(stores[other].changes().from(commit.position()).start(), Err(Error::UnknownPosition)));
            assert!(stores[own].changes().from(commit.position()).start().is_ok());
        }
    }
    let good = heard[0][20].position().to_bytes();
    for bit in 0..128 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        let found = stores[0].changes().from(Position::from_bytes(bad)).start();
        let is_refused = matches!(found, Err(Error::UnknownPosition | Error::Compacted { .. }));
        let is_one = heard[0].iter().any(|commit| commit.position().to_bytes() == bad);
        assert!(is_refused || is_one, "bit {bit}: {found:?}");
    }
}

/// What a session wrote before anybody asked for a position has none of its own: it comes again, rather than being passed over in a copy.
#[test]
fn commits_without_a_position_of_their_own_come_again_and_are_never_skipped() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    churn(&db, 0, 3);
    db.close().unwrap();
    let sibling = MemoryStorage::from_vec(storage.to_vec());
    let (db, other) = (opened(storage, SEGMENT), opened(sibling, SEGMENT));
    churn(&db, 3, 6);
    churn(&other, 13, 16);
    let mut changes = db.changes().from(Position::START).start().unwrap();
    let heard = changes.drain().unwrap();
    assert_eq!(numbers(&heard), [0, 1, 2, 3, 4, 5]);
    let come_again = |heard: &[Commit]| -> Vec<bool> { heard.iter().map(Commit::comes_again).collect() };
    assert_eq!(come_again(&heard), [false, false, false, true, true, true]);
    let from = |store: &Db| numbers(&store.changes().from(heard[4].position()).start().unwrap().drain().unwrap());
    assert_eq!((from(&db), from(&other)), (vec![3, 4, 5], vec![13, 14, 15]));
    churn(&db, 6, 8);
    let heard = changes.drain().unwrap();
    assert_eq!(come_again(&heard), [false, false]);
    assert!(matches!(other.changes().from(heard[0].position()).start(), Err(Error::UnknownPosition)));
}

/// A full medium: removals go on, and take the history for it.
#[cfg(feature = "testing")]
#[test]
fn on_a_full_medium_removals_come_before_history() {
    use pipkin::storage::fault::FaultStorage;
    let medium = FaultStorage::new(MemoryStorage::new());
    medium.set_capacity(Some(40 * u64::from(SEGMENT)));
    let db = opened(medium, SEGMENT);
    let mut consumer = db.consumer("slow").start().unwrap();
    for round in 0..6 {
        churn(&db, round * 30, round * 30 + 30);
        db.compact().unwrap();
    }
    assert!(db.stats().unwrap().history_bytes > 0);
    let mut count = 0_u32;
    while db.insert(count.to_be_bytes(), [1; 300]).is_ok() {
        count += 1;
    }
    for number in 0..count {
        assert!(db.remove(number.to_be_bytes()).unwrap(), "{number} of {count}");
    }
    assert!(!db.is_poisoned());
    let heard = rest_or_error(&mut consumer);
    let stats = db.stats().unwrap();
    assert_eq!(stats.history_given_up_bytes > 0, matches!(heard, Err(Error::Compacted { .. })), "{heard:?}, {stats:?}");
    assert!(db.insert("more", "1").is_ok());
}

#[cfg(feature = "testing")]
fn rest_or_error(consumer: &mut Consumer) -> Result<usize, Error> {
    let mut count = 0;
    while consumer.try_next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// A backup has the history and the consumers of its store; a store that is opened for reading only can be read, and registers nobody.
#[test]
fn backups_and_readers_have_the_history_too() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    drop(db.consumer("mirror").start().unwrap());
    for round in 0..5 {
        churn(&db, round * 40, round * 40 + 40);
        db.compact().unwrap();
    }
    let target = MemoryStorage::new();
    db.backup_to_storage(&target).unwrap();
    let restored = opened(target, SEGMENT);
    let heard = rest(&mut restored.consumer("mirror").start().unwrap());
    assert_eq!(numbers(&heard), (0..200).collect::<Vec<_>>());
    restored.compact().unwrap();
    assert!(restored.verify().unwrap().is_ok());
    db.close().unwrap();
    let db = Db::builder().read_only(true).open_storage(Box::new(storage)).unwrap();
    let cursor = db.consumers().unwrap()[0].cursor;
    let heard = db.changes().from(cursor).start().unwrap().drain().unwrap();
    assert_eq!(numbers(&heard), (0..200).collect::<Vec<_>>());
    assert!(matches!(db.consumer("other").start(), Err(Error::ReadOnly)));
    assert!(matches!(db.consumer("").start(), Err(Error::InvalidArgument(_))));
}

/// A call from inside an update would wait for itself.
/// Commits that wait come as one, of each key its last change.
#[test]
fn coalesced_commits_say_what_counts_at_the_end() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let mut changes = db.changes().coalesced(true).start().unwrap();
    churn(&db, 0, 100);
    let commits = changes.drain().unwrap();
    assert_eq!(commits.len(), 1);
    assert_eq!(commits[0].changes().len(), 5);
    assert_eq!(commits[0].position(), db.position().unwrap());
}

/// However many records and segments a group has, its end is one commit.
#[test]
fn a_deleted_group_is_one_commit() {
    let db = opened(MemoryStorage::new(), SEGMENT);
    let users = db.namespace("users").unwrap();
    let keys: BTreeSet<Vec<u8>> = (0..300).map(|number| format!("7.{number}").into_bytes()).collect();
    users.insert_many(keys.iter().map(|key| (key, "1"))).unwrap();
    users.insert("8.1", "1").unwrap();
    let mut changes = db.changes().start().unwrap();
    assert_eq!(users.delete_group("7").unwrap(), 300);
    users.insert("7.0", "2").unwrap();
    db.flush().unwrap();
    let commits = changes.drain().unwrap();
    assert_eq!(commits.len(), 2);
    assert_eq!(commits[0].changes().len(), 300);
    let removed: BTreeSet<Vec<u8>> = commits[0].changes().iter().map(|change| change.key().unwrap().to_vec()).collect();
    assert_eq!(removed, keys);
    assert!(commits[0].changes().iter().all(|change| *change == remove("users", change.key().unwrap())));
    assert_eq!(commits[1].changes(), [put("users", "7.0", "2")]);
}
