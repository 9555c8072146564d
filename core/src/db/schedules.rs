//! Handles under a scheduler that tries different thread interleavings; see `core/tests/schedules.rs`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use super::Db;
use super::snapshot::Taken;
use crate::names::DEFAULT;
use alloc::vec::Vec;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

fn check(body: impl Fn() + Send + Sync + Clone + 'static) {
    let mut config = Config::new();
    // Opening a store takes more than the threads of the scheduler have.
    config.stack_size = 1 << 18;
    Runner::new(RandomScheduler::new(300), config.clone()).run(body.clone());
    Runner::new(PctScheduler::new(3, 300), config).run(body);
}

/// The bug: a compaction that copied a record of a namespace while it was being dropped recreated its map of keys, which was never removed.
#[test]
fn nothing_is_left_in_memory_of_a_namespace_that_was_dropped_during_a_compaction() {
    let body = || {
        let db = Db::builder().segment_size(4096).ordered(true).background(false).entropy([7; 32]).in_memory().unwrap();
        let users = db.namespace("users").unwrap();
        for version in 0..4_u8 {
            users.insert([version % 2], [version; 900]).unwrap();
            db.insert([version], [version; 900]).unwrap();
        }
        let number = users.name.number().unwrap();
        let keeper = db.clone();
        let compacting = shuttle::thread::spawn(move || keeper.compact().map(drop));
        assert!(db.drop_namespace("users").unwrap());
        compacting.join().unwrap().unwrap();
        assert!(!db.store.engine.ordered(number).unwrap().knows(number));
    };
    check(body);
}

/// Compaction tells the ordered index later than the hash index where a record is: a group that is deleted meanwhile goes as a whole, all else
/// stays, and a snapshot from before has all.
#[test]
fn a_group_that_is_deleted_during_a_compaction_is_gone() {
    for with_snapshot in [false, true] {
        check(move || {
            let db = Db::builder().segment_size(4096).ordered(true).background(false).entropy([7; 32]).in_memory().unwrap();
            for version in 0..3_u8 {
                for key in ["a.1", "a.2", "b"] {
                    db.insert(key, [version; 900]).unwrap();
                }
            }
            let before = with_snapshot.then(|| db.snapshot());
            let keeper = db.clone();
            let compacting = shuttle::thread::spawn(move || keeper.compact().map(drop));
            assert_eq!(db.delete_group("a").unwrap(), 2);
            compacting.join().unwrap().unwrap();
            for _ in 0..2 {
                let found: Vec<_> = db.range(..).unwrap().map(|record| record.unwrap()).collect();
                assert_eq!(found, [(b"b".to_vec(), alloc::vec![2; 900])]);
                assert_eq!(db.keys().count(), 1);
                if let Some(before) = &before {
                    assert_eq!(before.range(..).unwrap().filter(|record| record.as_ref().unwrap().1 == [2; 900]).count(), 3);
                }
                db.compact().unwrap();
            }
        });
    }
}

/// The number of the default namespace is looked up only where it may have changed: it is always the one that would be found.
#[test]
fn a_moment_during_a_clear_has_the_number_that_the_namespace_had() {
    check(|| {
        let db = Db::builder().segment_size(4096).background(false).entropy([7; 32]).in_memory().unwrap();
        db.insert("a", "1").unwrap();
        let other = db.clone();
        let clearing = shuttle::thread::spawn(move || other.clear());
        for _ in 0..2 {
            let (moment, end) = db.store.engine.begin_moment();
            let taken = Taken::new(moment, end, db.store.clone());
            let known = taken.default_number().unwrap();
            assert_eq!(known, taken.number_of(DEFAULT.as_bytes()).unwrap().unwrap_or(0));
        }
        clearing.join().unwrap().unwrap();
        assert_eq!(db.len().unwrap(), 0);
    });
}
