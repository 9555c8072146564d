//! Every I/O of 150 workloads fails, once and for good; full disks. See `pipkin_tests::suite::{errors, full}`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::{Db, Error, IoUring};
use pipkin_tests::mount::Mount;
use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::errors::{Budget, Counts, run, sweep};
use pipkin_tests::suite::{full, shared_sync};
use std::sync::atomic::Ordering;

/// Workloads of the normal run, each swept to its last I/O.
const WORKLOADS: u64 = 150;
/// Runs that they owe: fewer would mean that the workloads hardly write.
const RUNS_LEAST: u64 = 15_000;

#[test]
fn no_failed_io_loses_what_was_acknowledged() {
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("errors", watched(|watch| sweep(env_u64("PIPKIN_SEED", 0), &Counts::new(0), watch)));
    }
    let workloads = env_u64("PIPKIN_WORKLOADS", WORKLOADS);
    let counts = Counts::new(RUNS_LEAST * workloads / WORKLOADS);
    unwrap("errors", run(&Budget { workloads, seed: env_u64("PIPKIN_FIRST_SEED", 1) }, &counts));
    let swept = counts.workloads.load(Ordering::Relaxed);
    assert_eq!(swept, workloads, "workloads were left out");
    counts.runs.finish(format_args!("{swept} workloads, {} failed syncs", counts.syncs.load(Ordering::Relaxed)));
}

/// Stores that are filled up.
const FULL_STORES: u64 = 300;

#[test]
fn a_full_medium_loses_nothing_and_is_written_again_once_there_is_room() {
    let quota = Quota::new("full medium", FULL_STORES);
    if std::env::var("PIPKIN_FULL_SEED").is_ok() {
        return unwrap("full medium", watched(|watch| full::one(env_u64("PIPKIN_FULL_SEED", 0), &quota, watch)));
    }
    unwrap("full medium", full::run(FULL_STORES, env_u64("PIPKIN_FIRST_SEED", 1), &quota));
    quota.finish("filled, emptied, written again");
}

/// A real file system of 3 MiB that fills up: the same, by way of the system's own errors.
#[test]
fn a_full_file_system_loses_nothing() {
    for way in ["mapped", "not mapped", "through io_uring"] {
        let Some(mount) = Mount::tmpfs(3 * 1024) else { return };
        let path = mount.path().join("store.pipkin");
        let open = || {
            let builder = match way {
                "through io_uring" => Db::builder().io_uring(IoUring { auto: false, ..IoUring::default() }),
                _ => Db::builder().mmap(way == "mapped"),
            };
            builder.path(&path).segment_size(64 * 1024).background(false).open().unwrap()
        };
        let value = |i: u32| vec![i as u8; 300 + i as usize % 500];
        let db = open();
        let mut stored = 0_u32;
        let error = loop {
            match db.insert(stored.to_be_bytes(), value(stored)) {
                Ok(()) => stored += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::NoSpace), "{way}: {error:?} after {stored} records");
        assert!(stored > 1000, "{way}: full after {stored} records");
        let check = |db: &Db, first: u32| {
            for i in 0..stored {
                let right = (i >= first).then(|| value(i));
                assert_eq!(db.get(i.to_be_bytes()).unwrap(), right, "{way}: record {i}");
            }
        };
        check(&db, 0);
        db.flush().unwrap();
        for i in 0..stored / 2 {
            assert!(db.remove(i.to_be_bytes()).unwrap(), "{way}: remove {i} on the full file system");
        }
        db.flush().unwrap();
        check(&db, stored / 2);
        db.close().unwrap();
        let db = open();
        check(&db, stored / 2);
        db.compact().unwrap();
        for i in 0..stored / 4 {
            db.insert([&i.to_be_bytes()[..], b"again"].concat(), value(i)).unwrap();
        }
        db.close().unwrap();
        check(&open(), stored / 2);
        println!("full file system, {way}: {stored} records until it was full");
    }
}

#[test]
fn flushers_that_meet_at_one_sync_are_told_the_truth() {
    unwrap("shared sync", watched(|_| shared_sync::run(5)));
}
