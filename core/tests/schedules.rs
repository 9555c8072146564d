//! The store under a scheduler that tries orders of its threads' steps: every load, store and lock is a place to switch. It covers
//! appending, publishing, group commit, checkpoints, compaction and the reuse of segments under readers.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p pipkin --no-default-features --features std,testing,ordered --test schedules`
#![cfg(shuttle)]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs, reason = "tests fail by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::CrashStorage;
use pipkin::{Db, Storage};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Mutex;
use shuttle::{Config, Runner, thread};
use std::sync::Arc;

/// Schedules of each kind that a test tries.
fn schedules() -> usize {
    std::env::var("PIPKIN_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(300)
}

/// Random orders, and orders with few preemptions, which find other things.
fn check(body: impl Fn() + Send + Sync + Clone + 'static) {
    let mut config = Config::new();
    // Opening a store takes more than the threads of the scheduler have.
    config.stack_size = 1 << 18;
    Runner::new(RandomScheduler::new(schedules()), config.clone()).run(body.clone());
    Runner::new(PctScheduler::new(4, schedules()), config).run(body);
}

fn open(storage: impl Storage + 'static) -> Db {
    Db::builder().segment_size(4096).background(false).entropy([7; 32]).open_storage(Box::new(storage)).unwrap()
}

/// A value that says what it is, long enough that a few of them fill a segment.
fn value(key: u8, version: u8) -> Vec<u8> {
    let mut value = vec![version; 700];
    value[0] = key;
    value
}

/// Newest version that was acknowledged, by key.
type Acked = Arc<Mutex<[u8; 2]>>;

/// Two threads, each of which writes the versions of a key of its own, durably or not.
fn writers(db: &Db, acked: &Acked, versions: u8, flushed: bool) -> Vec<thread::JoinHandle<()>> {
    let writer = |key: u8| {
        let (db, acked) = (db.clone(), acked.clone());
        thread::spawn(move || {
            for version in 1..=versions {
                db.insert([key], value(key, version)).unwrap();
                if flushed {
                    db.flush().unwrap();
                }
                acked.lock().unwrap()[usize::from(key)] = version;
            }
        })
    };
    (0..2).map(writer).collect()
}

fn read(db: &Db, key: u8, acked: &Acked) {
    let least = acked.lock().unwrap()[usize::from(key)];
    if let Some(found) = db.get_zerocopy([key]).unwrap() {
        let version = found[1];
        assert_eq!(*found, *value(key, version), "bytes that nobody wrote");
        assert!(version >= least, "an old version came back");
    } else {
        assert_eq!(least, 0, "an acknowledged record is missing");
    }
}

#[test]
fn readers_see_whole_new_values_while_segments_are_compacted_and_used_again() {
    check(|| {
        let storage = MemoryStorage::new();
        let db = open(storage.clone());
        let acked = Acked::default();
        let mut threads = writers(&db, &acked, 8, false);
        let (reader, seen) = (db.clone(), acked.clone());
        threads.push(thread::spawn(move || (0..6).for_each(|turn| read(&reader, turn % 2, &seen))));
        let keeper = db.clone();
        threads.push(thread::spawn(move || {
            keeper.checkpoint().unwrap();
            assert!(keeper.compact_step().is_ok());
            assert!(keeper.compact().is_ok());
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        for db in [db, open(MemoryStorage::from_vec(storage.to_vec()))] {
            (0..2).for_each(|key| assert_eq!(db.get([key]).unwrap().unwrap(), value(key, 8)));
        }
    });
}

#[test]
fn what_a_flush_has_acknowledged_is_on_the_medium() {
    check(|| {
        let storage = CrashStorage::new();
        let db = open(storage.clone());
        let acked = Acked::default();
        let mut threads = writers(&db, &acked, 3, true);
        threads.push(thread::spawn(move || {
            for _ in 0..3 {
                let least = *acked.lock().unwrap();
                // The power goes, and nothing reached the medium since the last sync.
                let copy = open(CrashStorage::from_image(&storage.freeze().synced_image()));
                for key in 0..2 {
                    let found = copy.get([key]).unwrap().map_or(0, |found| found[1]);
                    assert!(found >= least[usize::from(key)], "a flushed record is gone");
                }
            }
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn transactions_on_both_sides_of_a_checkpoint_are_whole() {
    check(|| {
        let storage = MemoryStorage::new();
        let db = open(storage.clone());
        db.insert_many([([0], [10]), ([1], [10])]).unwrap();
        let mut threads = Vec::new();
        for (from, to) in [(0_u8, 1_u8), (1, 0)] {
            let db = db.clone();
            threads.push(thread::spawn(move || {
                for _ in 0..2 {
                    let moved = db.transaction(|tx| {
                        let (left, right) = (tx.get([from])?.unwrap()[0], tx.get([to])?.unwrap()[0]);
                        tx.insert([from], [left - 1])?;
                        tx.insert([to], [right + 1])
                    });
                    assert!(matches!(moved, Ok(()) | Err(pipkin::Error::Conflict(_))), "{moved:?}");
                }
            }));
        }
        let keeper = db.clone();
        threads.push(thread::spawn(move || keeper.checkpoint().unwrap()));
        threads.push(thread::spawn(move || {
            let copy = open(MemoryStorage::from_vec(storage.to_vec()));
            let amount = |key: u8| copy.get([key]).unwrap().unwrap()[0];
            assert_eq!(amount(0) + amount(1), 20, "a commit was found in part");
        }));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// A snapshot whose shards have been read before, so that its reads take no lock: while a key is overwritten and another one removed, each
/// read finds the slot or the note. With the note left after the slot has changed, a read in between finds neither.
#[test]
fn a_snapshot_finds_the_slot_or_the_note() {
    check(|| {
        let db = Db::builder().segment_size(4096).background(false).entropy([7; 32]).in_memory().unwrap();
        let before = db.snapshot();
        drop(before);
        for key in 0..2 {
            db.insert([key], [key, 1]).unwrap();
        }
        let before = db.snapshot();
        let read = |key: u8| assert_eq!(before.get([key]).unwrap(), Some(vec![key, 1]));
        (0..2).for_each(read);
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                db.insert([0], [0, 2]).unwrap();
                db.remove([1]).unwrap();
            })
        };
        for _ in 0..4 {
            (0..2).for_each(read);
        }
        writer.join().unwrap();
        (0..2).for_each(read);
    });
}

/// A snapshot that is read while its keys are overwritten and removed, and while compaction copies the rest: whichever steps come between,
/// it shows what it showed.
#[test]
fn a_snapshot_shows_its_state_in_every_order_of_steps() {
    check(|| {
        let db = Db::builder().segment_size(4096).background(false).entropy([7; 32]).in_memory().unwrap();
        for key in 0..2 {
            db.insert([key], value(key, 1)).unwrap();
        }
        let before = db.snapshot();
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                db.insert([0], value(0, 2)).unwrap();
                db.remove([1]).unwrap();
                db.insert([1], value(1, 3)).unwrap();
            })
        };
        let keeper = {
            let db = db.clone();
            thread::spawn(move || {
                db.compact().unwrap();
            })
        };
        for _ in 0..2 {
            for key in 0..2 {
                assert_eq!(before.get([key]).unwrap(), Some(value(key, 1)));
            }
        }
        let during = db.snapshot();
        let seen: Vec<_> = (0..2).map(|key| during.get([key]).unwrap()).collect();
        writer.join().unwrap();
        keeper.join().unwrap();
        assert_eq!((0..2).map(|key| during.get([key]).unwrap()).collect::<Vec<_>>(), seen, "it has changed");
        drop(during);
        assert_eq!(before.len().unwrap(), 2);
        drop(before);
        db.compact().unwrap();
        let stats = db.stats().unwrap();
        assert_eq!((stats.snapshot_memory_bytes, stats.snapshot_held_bytes), (0, 0));
    });
}

#[test]
fn of_two_transactions_that_read_what_the_other_writes_only_one_does() {
    check(|| {
        let db = open(MemoryStorage::new());
        db.insert_many([([0], [1]), ([1], [1])]).unwrap();
        let threads = [(0_u8, 1_u8), (1, 0)].map(|(read, written)| {
            let db = db.clone();
            thread::spawn(move || {
                let mut tx = db.begin().unwrap();
                if tx.get([read]).unwrap() == Some(vec![1]) {
                    tx.insert([written], [0]).unwrap();
                }
                tx.commit().is_ok()
            })
        });
        assert!(threads.map(|thread| thread.join().unwrap()).contains(&true), "each has waited for the other");
        let left: u8 = (0..2).map(|key| db.get([key]).unwrap().unwrap()[0]).sum();
        assert_eq!(left, 1, "each has read what was there before the other");
    });
}

#[test]
fn what_is_left_for_a_snapshot_beside_its_end_is_forgotten() {
    check(|| {
        let db = open(MemoryStorage::new());
        db.insert([0], value(0, 0)).unwrap();
        let writer = db.clone();
        let writer = thread::spawn(move || (1..4).for_each(|version| writer.insert([0], value(0, version)).unwrap()));
        for _ in 0..2 {
            let found = db.snapshot().get([0]).unwrap().unwrap();
            assert!(found[1] < 4);
        }
        writer.join().unwrap();
        let stats = db.stats().unwrap();
        assert_eq!((stats.snapshots, stats.snapshot_held_bytes, stats.snapshot_memory_bytes), (0, 0, 0));
    });
}

/// What `get_many` has read of one namespace: the two keys of a batch say the same version.
fn one_moment(db: &Db) -> u8 {
    let found = db.get_many([[0], [1], [2]]).unwrap();
    let (first, second, third) = (&found[0], &found[1], &found[2]);
    assert_eq!(first.as_ref().map(|value| value[1]), second.as_ref().map(|value| value[1]), "half of a batch");
    assert!(third.is_none() || first.is_some(), "what came later without what came earlier");
    first.as_ref().map_or(0, |value| value[1])
}

/// Batches and single writes, one after the other, a compaction, and readers of several keys: each read is of one moment, and ends.
#[test]
fn several_keys_are_read_as_of_one_moment() {
    check(|| {
        let db = open(MemoryStorage::new());
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                for version in 1..4 {
                    db.insert_many([([0], value(0, version)), ([1], value(1, version))]).unwrap();
                    db.insert([2], [version]).unwrap();
                    db.remove([2]).unwrap();
                }
                db.batch().remove([0]).remove([1]).commit().unwrap();
            })
        };
        let keeper = db.clone();
        let keeper = thread::spawn(move || assert!(keeper.compact().is_ok()));
        for _ in 0..4 {
            one_moment(&db);
        }
        writer.join().unwrap();
        keeper.join().unwrap();
        assert_eq!(one_moment(&db), 0);
    });
}

/// Two keys are moved to and fro between two places, so that one of them is always there, and the places are never both empty: a look at
/// the first, a move, and a look at the second must not find nothing.
#[test]
fn what_is_moved_between_two_keys_is_at_one_of_them() {
    check(|| {
        let db = open(MemoryStorage::new());
        db.insert([0], [1]).unwrap();
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                for turn in 0..5_u8 {
                    let (from, to) = (turn % 2, 1 - turn % 2);
                    db.batch().remove([from]).insert([to], [1]).commit().unwrap();
                }
            })
        };
        for _ in 0..3 {
            let there = db.get_many([[0], [1]]).unwrap().iter().flatten().count();
            assert_eq!(there, 1, "it is at one of two places at every moment");
        }
        writer.join().unwrap();
    });
}

/// A read of several keys inside the closure of an update, whose shard this thread holds, beside batches that need the same shard: neither
/// waits for the other.
#[test]
fn a_read_of_several_keys_inside_an_update_waits_for_no_writer_of_its_shard() {
    check(|| {
        let db = open(MemoryStorage::new());
        db.insert_many([([0], value(0, 0)), ([1], value(1, 0))]).unwrap();
        let writer = {
            let db = db.clone();
            thread::spawn(move || {
                for version in 1..4 {
                    db.insert_many([([0], value(0, version)), ([1], value(1, version))]).unwrap();
                }
            })
        };
        let single = {
            let db = db.clone();
            thread::spawn(move || (0..3).for_each(|version| db.insert([2], [version]).unwrap()))
        };
        for _ in 0..2 {
            // Its own shard is held, so no batch is published meanwhile.
            db.update([3], |_| Some(vec![one_moment(&db)])).unwrap();
            db.update([0], |old| old.map(<[u8]>::to_vec).inspect(|_| drop(db.get_many([[0], [1], [2]]).unwrap()))).unwrap();
        }
        writer.join().unwrap();
        single.join().unwrap();
    });
}
