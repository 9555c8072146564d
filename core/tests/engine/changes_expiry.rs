//! Following what changes in a store whose records expire.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::opened;
use pipkin::storage::MemoryStorage;
use pipkin::testing::TestClock;
use pipkin::{Change, Clock, Commit, Consumer, Db};
use std::collections::BTreeMap;
use std::time::Duration;

const SEGMENT: u32 = 4096;

fn changes_of(commits: Vec<Commit>) -> Vec<Vec<Change>> {
    commits.into_iter().map(Commit::into_changes).collect()
}

fn rest(consumer: &mut Consumer) -> Vec<Commit> {
    std::iter::from_fn(|| consumer.try_next().unwrap()).collect()
}

/// A mirror of the namespace `users`, as commits make it; with the expiry of each record.
fn follow(mirror: &mut BTreeMap<Vec<u8>, Option<u64>>, commits: Vec<Commit>) {
    for change in commits.into_iter().flat_map(Commit::into_changes) {
        match change {
            Change::Put { key, expires_at, .. } => drop(mirror.insert(key, expires_at)),
            Change::Remove { key, .. } => drop(mirror.remove(&key)),
            _ => mirror.clear(),
        }
    }
}

/// Another default of how long records live rewrites the record of the name: no record has ended, wherever a reader begins.
#[test]
fn a_namespace_whose_default_ttl_changes_is_not_cleared() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let users = db.namespace("users").unwrap();
    users.insert("u", "1").unwrap();
    let (state, mut changes) = db.changes().with_state().unwrap();
    drop(state);
    users.set_default_ttl(Some(Duration::from_secs(60))).unwrap();
    db.set_default_ttl(Some(Duration::from_secs(60))).unwrap();
    users.set_default_ttl(None).unwrap();
    db.flush().unwrap();
    assert_eq!(changes.drain().unwrap(), []);
    let middle = db.insert_with_position("a", "1").unwrap();
    users.set_default_ttl(Some(Duration::from_secs(3600))).unwrap();
    drop(db.consumer("mirror").from(middle).start().unwrap());
    db.close().unwrap();

    let db = opened(storage, SEGMENT);
    let users = db.namespace("users").unwrap();
    assert_eq!(users.default_ttl(), Some(Duration::from_secs(3600)));
    users.set_default_ttl(Some(Duration::from_secs(7200))).unwrap();
    db.flush().unwrap();
    let mut mirror = db.consumer("mirror").start().unwrap();
    assert_eq!(rest(&mut mirror), [], "no commit has changed a record");
    // It gets a new number, and keeps its options.
    users.clear().unwrap();
    users.set_default_ttl(None).unwrap();
    db.flush().unwrap();
    assert_eq!(changes_of(rest(&mut mirror)), [vec![Change::Clear { namespace: "users".into() }]]);
    users.insert("v", "1").unwrap();
    users.clear().unwrap();
    db.flush().unwrap();
    let heard = changes_of(rest(&mut mirror)).concat();
    assert!(matches!(&heard[..], [Change::Put { expires_at: None, .. }, Change::Clear { .. }]), "{heard:?}");
}

/// Whoever follows knows when records expire; that they do is no commit, and what compaction leaves of them is none either.
#[test]
fn commits_say_when_their_records_expire() {
    let clock = TestClock::new(1_000_000);
    let builder = Db::builder().clock(clock.clone()).segment_size(SEGMENT).background(false);
    let db = builder.open_storage(Box::new(MemoryStorage::new())).unwrap();
    let users = db.namespace("users").unwrap();
    let mut changes = db.changes().start().unwrap();
    users.insert_with_ttl("a", "1", Duration::from_secs(5)).unwrap();
    users.insert("b", "1").unwrap();
    let short = users.with_ttl(Duration::from_secs(1));
    db.batch().insert_in(&short, "c", "1").insert_in(&users, "d", "1").commit().unwrap();
    assert!(users.persist("a").unwrap());
    db.flush().unwrap();
    let mut mirror = BTreeMap::new();
    let commits = changes.drain().unwrap();
    assert_eq!(commits.len(), 4);
    assert!(matches!(commits[0].changes(), [Change::Put { expires_at: Some(1_005_000), .. }]), "{commits:?}");
    follow(&mut mirror, commits);
    let expected = [("a", None), ("b", None), ("c", Some(1_001_000)), ("d", None)];
    assert_eq!(mirror, expected.map(|(key, expiry)| (key.into(), expiry)).into());
    clock.advance(Duration::from_secs(2));
    assert_eq!(db.sweep_expired().unwrap(), 1);
    db.compact().unwrap();
    db.flush().unwrap();
    assert_eq!(changes.drain().unwrap(), []);
    mirror.retain(|_, expiry| expiry.is_none_or(|expiry| expiry > clock.now_ms()));
    assert_eq!(mirror.into_keys().collect::<Vec<_>>(), [b"a", b"b", b"d"]);
    assert_eq!(users.len().unwrap(), 3);
}

/// A store all of whose records expire keeps its consumers all the same.
#[test]
fn consumers_do_not_expire() {
    let (storage, clock) = (MemoryStorage::new(), TestClock::new(1_000_000));
    let open = || {
        let builder = Db::builder().clock(clock.clone()).default_ttl(Duration::from_secs(1)).background(false);
        builder.open_storage(Box::new(storage.clone())).unwrap()
    };
    let db = open();
    let mut mailer = db.consumer("mailer").start().unwrap();
    let position = db.insert_with_position("a", "1").unwrap();
    db.flush().unwrap();
    assert!(mailer.try_next().unwrap().is_some());
    mailer.ack(position).unwrap();
    drop(mailer);
    clock.advance(Duration::from_secs(60));
    db.insert("b", "1").unwrap();
    db.close().unwrap();
    let db = open();
    assert_eq!(db.consumers().unwrap().len(), 1);
    let heard = rest(&mut db.consumer("mailer").start().unwrap());
    assert_eq!(heard.iter().map(|commit| commit.changes()[0].key().unwrap().to_vec()).collect::<Vec<_>>(), [b"b"]);
}
