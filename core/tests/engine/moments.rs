//! Snapshots of an open store: what each shows, costs and ends with. Concurrent histories are in `tests/tests/moments.rs`.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, Snapshot};

const fn is_shared<T: Send + Sync>() {}
const _: () = is_shared::<Snapshot>();

fn small(storage: &MemoryStorage) -> Db {
    Db::builder().segment_size(4096).ordered(true).background(false).open_storage(Box::new(storage.clone())).unwrap()
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn all(snapshot: &Snapshot) -> Vec<(Vec<u8>, Vec<u8>)> {
    let ranged: Vec<_> = snapshot.range(..).unwrap().collect::<Result<_, _>>().unwrap();
    let mut walked: Vec<_> = snapshot.iter().collect::<Result<_, _>>().unwrap();
    walked.sort();
    assert_eq!(ranged, walked);
    assert_eq!(snapshot.len().unwrap(), ranged.len() as u64);
    ranged
}

/// A snapshot of a store that is not written to costs nothing, and one of a store whose records are all replaced ten times at most 24 bytes
/// for each record, which are free when it is dropped.
#[test]
fn each_key_that_is_overwritten_costs_at_most_24_bytes_until_the_snapshot_is_dropped() {
    let db = Db::builder().segment_size(64 * 1024).background(false).in_memory().unwrap();
    let keys = 100_000_u32;
    db.insert_many((0..keys).map(|number| (key(number), [0; 8]))).unwrap();
    let before = db.snapshot();
    assert_eq!(db.stats().unwrap().snapshot_memory_bytes, 0);
    for round in 1..=10_u8 {
        db.insert_many((0..keys).map(|number| (key(number), [round; 8]))).unwrap();
    }
    let stats = db.stats().unwrap();
    // The counts of each shard take some 50 bytes.
    assert!(stats.snapshot_memory_bytes <= 24 * u64::from(keys) + 256 * 64, "{} bytes", stats.snapshot_memory_bytes);
    assert!(stats.snapshots == 1 && stats.snapshot_age_bytes > 10 * 8 * u64::from(keys));
    assert!((0..keys).all(|number| before.get(key(number)).unwrap() == Some(vec![0; 8])));
    db.compact().unwrap();
    let held = db.stats().unwrap().snapshot_held_bytes;
    assert!(held >= 8 * u64::from(keys), "{held} bytes are held");
    drop(before);
    assert_eq!(db.stats().unwrap().snapshot_memory_bytes, 0);
    db.compact().unwrap();
    assert_eq!(db.stats().unwrap().snapshot_held_bytes, 0);
}

/// Each of several snapshots shows its own state, in whatever order they are dropped, under compaction between all steps.
#[test]
fn several_snapshots_show_a_state_each() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let db = small(&MemoryStorage::new());
        let mut held: Vec<Option<(Snapshot, Vec<_>)>> = Vec::new();
        for round in 0..3_u8 {
            db.insert_many((0..40).map(|number| (key(number), [round; 100]))).unwrap();
            db.remove(key(u32::from(round))).unwrap();
            db.compact().unwrap();
            let snapshot = db.snapshot();
            let seen = all(&snapshot);
            assert_eq!(seen.len(), 39);
            held.push(Some((snapshot, seen)));
        }
        db.clear().unwrap();
        for last in order {
            db.insert_many((0..40).map(|number| (key(number), [9; 100]))).unwrap();
            db.compact().unwrap();
            for (snapshot, seen) in held.iter().flatten() {
                assert!(all(snapshot) == *seen);
            }
            held[last] = None;
        }
        db.compact().unwrap();
        let stats = db.stats().unwrap();
        assert_eq!((stats.snapshots, stats.snapshot_held_bytes, stats.snapshot_memory_bytes, stats.records), (0, 0, 0, 40));
    }
}

/// Ever new snapshots beside an old one: what only they needed goes with them.
#[test]
fn an_old_snapshot_does_not_keep_what_only_younger_ones_needed() {
    let db = small(&MemoryStorage::new());
    db.insert_many((0..20).map(|number| (key(number), [0; 50]))).unwrap();
    let old = db.snapshot();
    let mut most = 0;
    for round in 1..200_u32 {
        let young = db.snapshot();
        db.insert_many((0..20).map(|number| (key(number), round.to_le_bytes()))).unwrap();
        if round % 7 == 0 {
            db.compact().unwrap();
        }
        assert_eq!(all(&young).len(), 20);
        drop(young);
        let bytes = db.stats().unwrap().snapshot_memory_bytes;
        if round == 20 {
            most = bytes;
        }
        assert!(round <= 20 || bytes <= most, "round {round}: {bytes} bytes after {most}");
    }
    assert!(all(&old).iter().all(|(_, value)| *value == [0; 50]));
}

/// A queue: what is inserted and removed under a snapshot was never in it, and leaves nothing.
#[test]
fn what_came_and_went_since_leaves_nothing() {
    let db = small(&MemoryStorage::new());
    let empty = db.snapshot();
    for number in 0..2000 {
        db.insert(key(number), [1; 20]).unwrap();
        db.remove(key(number)).unwrap();
    }
    let bytes = db.stats().unwrap().snapshot_memory_bytes;
    assert!(bytes < 256 * 64, "{bytes} bytes");
    assert_eq!(all(&empty), []);
}

/// A store that was killed, and one that was closed: no shard is built when the snapshot is taken.
#[test]
fn a_snapshot_taken_right_after_opening_builds_its_shards_when_they_are_read() {
    for killed in [false, true] {
        let storage = MemoryStorage::new();
        let db = small(&storage);
        db.insert_many((0..2000).map(|number| (key(number), [1; 30]))).unwrap();
        db.checkpoint().unwrap();
        db.insert_many((0..50).map(|number| (key(number), [2; 30]))).unwrap();
        if killed {
            std::mem::forget(db);
        } else {
            db.close().unwrap();
        }
        let db = Db::builder().segment_size(4096).background(false).open_storage(Box::new(storage)).unwrap();
        let before = db.snapshot();
        db.insert_many((0..2000).map(|number| (key(number), [3; 30]))).unwrap();
        db.remove_many((0..100).map(key)).unwrap();
        db.compact().unwrap();
        for number in 0..2000 {
            let expected = if number < 50 { 2 } else { 1 };
            assert_eq!(before.get(key(number)).unwrap(), Some(vec![expected; 30]), "{number}");
        }
        assert_eq!((before.len().unwrap(), db.len().unwrap()), (2000, 1900));
    }
}

/// Namespaces at a moment: their names, numbers, records and lengths.
#[test]
fn namespaces_are_those_of_the_moment() {
    let db = small(&MemoryStorage::new());
    let users = db.namespace("users").unwrap();
    users.insert("7", "Ada").unwrap();
    db.namespace("empty").unwrap();
    db.insert("color", "green").unwrap();
    let before = db.snapshot();
    users.clear().unwrap();
    db.clear().unwrap();
    let cleared = db.snapshot();
    users.insert("7", "Bob").unwrap();
    db.drop_namespace("users").unwrap();
    db.drop_namespace("empty").unwrap();
    db.namespace("users").unwrap().insert("7", "Eve").unwrap();
    db.namespace("new").unwrap();
    for _ in 0..3 {
        db.compact().unwrap();
        assert_eq!(before.list_namespaces().unwrap(), ["empty", "users"]);
        assert_eq!(before.namespace("users").unwrap().unwrap().get("7").unwrap().as_deref(), Some(&b"Ada"[..]));
        assert_eq!(before.namespace("users").unwrap().unwrap().len().unwrap(), 1);
        assert_eq!(before.namespace("empty").unwrap().unwrap().iter().count(), 0);
        assert!(before.namespace("new").unwrap().is_none() && before.namespace("").unwrap().is_none());
        assert_eq!((before.get("color").unwrap().as_deref(), before.len().unwrap()), (Some(&b"green"[..]), 1));
        assert_eq!(cleared.list_namespaces().unwrap(), ["empty", "users"]);
        assert_eq!((cleared.get("color").unwrap(), cleared.len().unwrap()), (None, 0));
        assert!(cleared.namespace("users").unwrap().unwrap().is_empty().unwrap());
        assert_eq!(db.stats().unwrap().records, 1, "records that only snapshots show are not counted");
    }
    drop((before, cleared));
    assert_eq!(db.list_namespaces(), ["new", "users"]);
    assert_eq!(db.stats().unwrap().records, 1);
    assert!(db.verify().unwrap().is_ok());
}

/// A store that is closed, poisoned or read-only: its snapshots go on, and the file opens again.
#[test]
fn a_snapshot_outlives_the_closing_of_its_store() {
    let storage = MemoryStorage::new();
    let db = small(&storage);
    db.insert_many((0..200).map(|number| (key(number), [1; 100]))).unwrap();
    let before = db.snapshot();
    db.clear().unwrap();
    db.insert("after", "1").unwrap();
    db.close().unwrap();
    assert_eq!(all(&before).len(), 200);
    drop(before);
    let db = Db::builder().read_only(true).open_storage(Box::new(storage)).unwrap();
    let now = db.snapshot();
    assert_eq!((now.len().unwrap(), now.get("after").unwrap().as_deref()), (1, Some(&b"1"[..])));
    assert!(now.position().is_some());
}

/// Inside of an `update`, whose shard its thread holds: a snapshot can be taken and dropped there, and reads that would wait are refused.
#[test]
fn inside_of_an_update_nothing_waits_for_it() {
    let db = small(&MemoryStorage::new());
    db.insert_many((0..500).map(|number| (key(number), [1; 8]))).unwrap();
    let read = db.snapshot();
    assert_eq!(all(&read).len(), 500);
    let unread = db.snapshot();
    db.update(key(7), |old| {
        let inside = db.snapshot();
        assert!(matches!(inside.get(key(8)), Err(Error::Nested)), "its commits may wait for this call");
        assert!(matches!(unread.len(), Err(Error::Nested)));
        assert!(matches!(unread.iter().next(), Some(Err(Error::Nested))));
        assert_eq!(read.get(key(7)).unwrap().as_deref(), old, "it has looked at every shard before");
        drop(inside);
        Some(vec![2])
    })
    .unwrap();
    assert_eq!((unread.get(key(7)).unwrap(), db.get(key(7)).unwrap()), (Some(vec![1; 8]), Some(vec![2])));
    drop((read, unread));
    assert_eq!(db.stats().unwrap().snapshot_memory_bytes, 0);
}

struct Late(Option<Snapshot>);

impl Drop for Late {
    fn drop(&mut self) {
        let snapshot = self.0.take().unwrap();
        assert_eq!(snapshot.get("color").unwrap().as_deref(), Some(&b"green"[..]));
    }
}

std::thread_local! {
    static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn a_snapshot_in_a_thread_local_is_read_and_dropped_when_its_thread_ends() {
    let db = small(&MemoryStorage::new());
    db.insert("color", "green").unwrap();
    let snapshot = db.snapshot();
    db.insert("color", "red").unwrap();
    std::thread::spawn(|| LATE.set(Some(Late(Some(snapshot))))).join().unwrap();
    assert_eq!(db.stats().unwrap().snapshots, 0);
}

/// A limit in bytes: maintenance ends the oldest snapshots beyond it, and every later call on them says so.
#[test]
fn beyond_the_limit_the_oldest_snapshot_is_too_old() {
    let db = Db::builder()
        .segment_size(4096)
        .ordered(true)
        .background(false)
        .auto_compact_dead_share(2.0)
        .snapshot_limit(96 * 1024)
        .in_memory()
        .unwrap();
    let write = |value: u8| db.insert_many((0..200).map(|number| (key(number), [value; 1000]))).unwrap();
    write(0);
    let old = db.snapshot();
    let half = old.clone();
    let mut walk = half.iter();
    assert!(walk.next().unwrap().is_ok());
    let mut rounds = 0;
    while old.get(key(1)).is_ok() {
        rounds += 1;
        assert!(rounds < 100, "it is never ended");
        write(rounds);
        db.compact().unwrap();
    }
    let young = db.snapshot();
    write(100);
    assert!(matches!(old.get("nothing"), Err(Error::SnapshotTooOld)));
    assert!(matches!(old.len(), Err(Error::SnapshotTooOld)));
    assert!(matches!(old.contains_key(key(1)), Err(Error::SnapshotTooOld)));
    assert!(matches!(old.iter().next(), Some(Err(Error::SnapshotTooOld))));
    assert!(matches!(old.range(..).unwrap().next(), Some(Err(Error::SnapshotTooOld))));
    assert!(matches!(old.page(pipkin::Cursor::default(), |_, _| true), Err(Error::SnapshotTooOld)));
    assert!(matches!(old.list_namespaces(), Err(Error::SnapshotTooOld)));
    let rest: Vec<_> = walk.collect();
    assert!(matches!(rest.last(), Some(Err(Error::SnapshotTooOld))), "{} more records, and no word of it", rest.len());
    let stats = db.stats().unwrap();
    assert!(stats.snapshots == 1 && stats.snapshot_held_bytes <= 96 * 1024, "{stats:?}");
    assert!(all(&young).iter().all(|(_, value)| *value == [rounds; 1000]));
    drop(old);
    assert_eq!(all(&young).len(), 200);
}

#[cfg(feature = "testing")]
mod with_faults {
    use super::*;
    use pipkin::Storage;
    use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};

    const SEGMENT: u32 = 16 * 1024;

    fn on(medium: &FaultStorage<MemoryStorage>) -> Db {
        crate::common::opened(medium.clone(), SEGMENT)
    }

    /// A full medium that snapshots keep full: removals and clearing work all the same, and what the snapshots answer is right or
    /// `SnapshotTooOld`. A put that finds no room ends no snapshot.
    #[test]
    fn on_a_full_medium_removals_come_before_snapshots() {
        for clears in [false, true] {
            let medium = FaultStorage::new(MemoryStorage::new());
            medium.set_capacity(Some(24 * u64::from(SEGMENT)));
            let db = on(&medium);
            let value = |round: u32, number: u32| [&round.to_le_bytes()[..], &[number as u8; 500]].concat();
            let keys = 200;
            db.insert_many((0..keys).map(|number| (key(number), value(0, number)))).unwrap();
            let mut held = Vec::new();
            let mut round = 0;
            let full = loop {
                held.push((db.snapshot(), round));
                round += 1;
                let written = (0..keys).try_for_each(|number| db.insert(key(number), value(round, number)));
                if let Err(error) = written {
                    break error;
                }
                assert!(round < 1000, "the medium never gets full");
            };
            assert!(matches!(full, Error::NoSpace), "{full:?}");
            let alive = |held: &[(Snapshot, u32)]| {
                let mut alive = 0;
                for (snapshot, round) in held {
                    let found = (0..keys).try_for_each(|number| match snapshot.get(key(number)) {
                        Ok(found) => {
                            assert!(found == Some(value(*round, number)), "round {round}, key {number}");
                            Ok(())
                        }
                        Err(error) => Err(error),
                    });
                    match found {
                        Ok(()) => alive += 1,
                        Err(Error::SnapshotTooOld) => assert_eq!(alive, 0, "the oldest ones go first"),
                        Err(error) => panic!("{error:?}"),
                    }
                }
                alive
            };
            let before = alive(&held);
            assert!(before > 0);
            assert!(matches!(db.insert("more", [1; 8000]), Err(Error::NoSpace)));
            assert_eq!(alive(&held), before, "a put has ended a snapshot");
            if clears {
                db.clear().unwrap();
            } else {
                for number in 0..keys {
                    assert!(db.remove(key(number)).unwrap());
                    alive(&held);
                }
            }
            assert_eq!((db.len().unwrap(), alive(&held) <= before), (0, true));
            drop(held);
            db.compact().unwrap();
            for _ in 0..3 {
                db.insert_many((0..keys).map(|number| (key(number), value(0, number)))).unwrap();
            }
            assert!(db.verify().unwrap().is_ok());
        }
    }

    /// A medium that gets full during compaction under a snapshot: the copies carry a distance each, and room for that was planned.
    #[test]
    fn compaction_plans_the_room_that_origins_take() {
        for len in [1, 7, 30, 200] {
            let medium = FaultStorage::new(MemoryStorage::new());
            let db = on(&medium);
            db.insert("first", "1").unwrap();
            let old = db.snapshot();
            let keys = 3 * SEGMENT / (len + 12);
            for number in 0..keys {
                db.insert(key(number), vec![1; len as usize]).unwrap();
            }
            for number in (0..keys).step_by(4) {
                db.remove(key(number)).unwrap();
            }
            medium.set_capacity(Some(medium.len().unwrap()));
            let compacted = db.compact();
            assert!(matches!(compacted, Ok(_) | Err(Error::NoSpace)), "{compacted:?}");
            while db.compact_step().is_ok_and(|step| step.is_some()) {}
            assert!(!db.is_poisoned());
            let left = (0..keys).filter(|number| number % 4 != 0).count() as u64;
            assert_eq!(db.len().unwrap(), left + 1);
            for number in (0..keys).filter(|number| number % 4 == 1) {
                assert!(db.remove(key(number)).unwrap());
            }
            match old.len() {
                Ok(len) => assert_eq!(len, 1),
                Err(error) => assert!(matches!(error, Error::SnapshotTooOld), "{error:?}"),
            }
            assert!(db.verify().unwrap().is_ok());
        }
    }

    /// After a failed write the store takes no more; its snapshots show what they showed.
    #[test]
    fn a_snapshot_of_a_poisoned_store_goes_on() {
        let medium = FaultStorage::new(MemoryStorage::new());
        let db = on(&medium);
        db.insert_many((0..100).map(|number| (key(number), [1; 100]))).unwrap();
        let before = db.snapshot();
        db.insert_many((0..50).map(|number| (key(number), [2; 100]))).unwrap();
        medium.arm(Fault::from_nth(1, Io::Write, Effect::Late));
        assert!(db.insert("more", [1; 100]).is_err() && db.is_poisoned());
        let after = db.snapshot();
        for number in 0..100 {
            assert_eq!(before.get(key(number)).unwrap(), Some(vec![1; 100]));
            assert_eq!(after.get(key(number)).unwrap(), Some(vec![if number < 50 { 2 } else { 1 }; 100]));
        }
        assert_eq!((before.len().unwrap(), after.len().unwrap()), (100, 100));
    }

    /// A damaged record answers so in the snapshots that show it, and in no other; everything else is as it was.
    #[test]
    fn a_damaged_record_costs_a_snapshot_only_that_key() {
        for damages_old in [false, true] {
            let storage = MemoryStorage::new();
            let db = crate::common::opened(storage.clone(), SEGMENT);
            db.insert_many((0..50).map(|number| (key(number), [b'o'; 100]))).unwrap();
            let before = db.snapshot();
            db.insert_many((0..50).map(|number| (key(number), [b'n'; 100]))).unwrap();
            let bytes = storage.to_vec();
            let letter = if damages_old { b'o' } else { b'n' };
            // The value of key 7.
            let at = crate::common::find(&bytes, &[&key(7)[..], &[letter; 100]].concat()) as u64 + 50;
            storage.write_at(at, &[b"x"]).unwrap();
            let (broken, whole) =
                if damages_old { (&before.get(key(7)), &db.get(key(7))) } else { (&db.get(key(7)), &before.get(key(7))) };
            assert!(matches!(broken, Err(Error::Corrupt { .. })), "{broken:?}");
            assert!(matches!(whole, Ok(Some(value)) if value.len() == 100), "{whole:?}");
            assert!(
                (0..50).filter(|&number| number != 7).all(|number| before.get(key(number)).unwrap() == Some(vec![b'o'; 100]))
            );
            let records: Vec<_> = before.iter().collect();
            assert_eq!(records.iter().filter(|record| record.is_ok()).count(), if damages_old { 49 } else { 50 });
            assert_eq!(records.iter().filter(|record| matches!(record, Err(Error::Corrupt { .. }))).count(), 1);
            drop(before);
            db.insert(key(7), "whole").unwrap();
            db.compact().unwrap();
            assert_eq!(db.len().unwrap(), 50);
        }
    }
}

/// Keys are overwritten in no order while a snapshot lives: automatic compaction leaves alone what that holds, so that it does not scatter the records that the
/// snapshot shows over every segment, and takes it up behind its end.
#[test]
fn a_snapshot_holds_no_more_of_the_file_than_what_it_shows_when_keys_are_overwritten_in_no_order() {
    let keys = 100_000_u32;
    let len_of_file = |with_snapshot: bool| {
        let db = Db::builder().segment_size(256 * 1024).background(false).in_memory().unwrap();
        db.insert_many((0..keys).map(|number| (key(number), [0; 100]))).unwrap();
        let snapshot = with_snapshot.then(|| db.snapshot());
        let mut random = 1_u64;
        let mut overwrite = |count: u32, byte: u8| {
            for _ in 0..count {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                db.insert(key((random >> 33) as u32 % keys), [byte; 100]).unwrap();
            }
        };
        overwrite(10 * keys, 1);
        let len = db.stats().unwrap().file_bytes;
        if let Some(snapshot) = snapshot {
            assert!(snapshot.iter().all(|record| record.unwrap().1 == [0; 100]));
        }
        overwrite(10 * keys, 2);
        let stats = db.stats().unwrap();
        assert!(stats.file_bytes <= len && stats.snapshot_held_bytes == 0, "{stats:?}");
        len
    };
    let (without, with) = (len_of_file(false), len_of_file(true));
    println!("{with} bytes with a snapshot, {without} without");
    // What it shows takes 11 MB.
    assert!(with < without + 16_000_000, "{with} bytes with a snapshot, {without} without");
}
