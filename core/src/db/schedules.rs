//! Handles under a scheduler that tries different thread interleavings; see `core/tests/schedules.rs`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use super::Db;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

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
    let mut config = Config::new();
    // Opening a store takes more than the threads of the scheduler have.
    config.stack_size = 1 << 18;
    Runner::new(RandomScheduler::new(300), config.clone()).run(body);
    Runner::new(PctScheduler::new(3, 300), config).run(body);
}
