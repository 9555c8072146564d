//! What a checkpoint writes of the index, and what its directory says.

use super::{nine_segments, opened, set};
use crate::Db;
use crate::index::SHARDS;
use crate::maintenance::checkpoint::{Extent, shards_together};
use crate::snapshot::{Directory, estimate};
use crate::storage::MemoryStorage;
#[cfg(feature = "testing")]
use alloc::boxed::Box;
use alloc::vec::Vec;

fn directory(db: &Db) -> Directory {
    db.store().engine.checkpoints.lock().clone()
}

fn write(db: &Db, extent: Extent) -> Directory {
    db.store().write_checkpoint(extent).unwrap();
    directory(db)
}

#[test]
fn figures_that_exceed_a_segment_are_limited_to_it() {
    let (db, segments) = nine_segments();
    let engine = &db.store().engine;
    let len = segments[0].len(engine.log.geometry);
    let figures = [(len - 100, 500), (len + 50, 60), (len - 500, 500), (300, 200)];
    for (segment, (live, tombstones)) in segments.iter().zip(figures) {
        set(engine, segment, live, tombstones);
    }
    let uses = write(&db, Extent::Changes).uses;
    let of = |number: usize| uses.iter().find(|one| one.base == segments[number].base).map(|one| (one.live, one.tombstones));
    assert_eq!([0, 1, 2, 3].map(of), [Some((len - 100, 100)), Some((len, 0)), Some((len - 500, 500)), Some((300, 200))]);
    assert_eq!(uses.len(), engine.log.segments().len());
}

#[test]
fn the_more_records_there_are_the_fewer_shards_are_dumped_together() {
    let together = [0, 32 * 1024 - 1, 32 * 1024, 3 * 32 * 1024, 255 * 32 * 1024, 100_000_000].map(shards_together);
    assert_eq!(together, [SHARDS + 1, SHARDS / 2 + 1, SHARDS / 2 + 1, SHARDS / 4 + 1, 2, 1]);
}

/// A store of many short records.
fn many() -> Db {
    let db = opened(&MemoryStorage::new());
    db.insert_many((0..2_000_u32).map(|key| (key.to_le_bytes(), b"value"))).unwrap();
    db
}

/// How many parts there are of each shard.
fn parts(directory: &Directory) -> Vec<usize> {
    directory.shards.iter().map(|(_, parts)| parts.len()).collect()
}

#[test]
fn a_checkpoint_of_changes_adds_a_part_to_each_shard_that_has_some_and_a_whole_one_has_one_of_each() {
    let db = many();
    let first = write(&db, Extent::Changes);
    assert!(first.shards.len() > SHARDS - 10 && parts(&first).iter().all(|&count| count == 1));
    db.insert(7_u32.to_le_bytes(), "other").unwrap();
    let second = write(&db, Extent::Changes);
    let changed = |directory: &Directory| parts(directory).iter().filter(|&&count| count == 2).count();
    assert_eq!((changed(&second), second.shards.len(), second.parts_max()), (1, first.shards.len(), 2));
    assert_eq!((second.names, second.segments.len()), (first.names, first.segments.len() + 1));
    for (extent, count) in [(Extent::Whole, 3), (Extent::Passing, 2)] {
        db.insert(7_u32.to_le_bytes(), "again").unwrap();
        assert_eq!(write(&db, Extent::Closing).parts_max(), count);
        let whole = write(&db, extent);
        assert_eq!((whole.parts_max(), whole.segments.len()), (1, 1));
        assert_eq!(whole.shards.len(), first.shards.len());
    }
}

/// A snapshot grows by its changes up to half of its length, at a close by an eighth.
#[test]
fn a_snapshot_is_written_whole_once_its_changes_are_too_long() {
    for (extent, parts_of_len) in [(Extent::Changes, 2), (Extent::Closing, 8)] {
        let db = many();
        let log = &db.store().engine.log;
        let (mut before, mut wholes) = (write(&db, Extent::Whole), Vec::new());
        for round in 0..60_u32 {
            db.insert(7_u32.to_le_bytes(), round.to_le_bytes()).unwrap();
            let names = db.store().names.read();
            let len = estimate(2_000, false, &names, log.segment_count(), log.storage.len().unwrap());
            drop(names);
            assert!(log.replay_debt() * 2 < len * 8);
            let expected = before.len(log.geometry) > len + len / parts_of_len;
            let after = write(&db, extent);
            assert_eq!(after.segments.len() == 1, expected, "round {round}, {extent:?}");
            wholes.extend(expected.then_some(round));
            before = after;
        }
        assert!(wholes.len() > 1, "{wholes:?}");
    }
}

#[test]
fn a_snapshot_is_written_whole_when_it_takes_no_more_than_an_eighth_of_the_log_behind_the_last_one() {
    for (more, is_whole) in [(0, true), (1, false)] {
        let db = opened(&MemoryStorage::new());
        (0..3_u8).for_each(|key| db.insert([key], "value").unwrap());
        let log = &db.store().engine.log;
        write(&db, Extent::Whole);
        // Records of which the index has none: they make the log longer, and nothing else.
        let len = || {
            let names = db.store().names.read();
            estimate(3, false, &names, log.segment_count(), log.storage.len().unwrap())
        };
        super::filled::fill(log, &|| len() * 8 - more - log.replay_debt());
        let written = write(&db, Extent::Changes);
        assert_eq!(written.segments.len() == 1, is_whole, "{more} bytes less");
    }
}

/// Opened behind a kill in front of the first checkpoint, a store finds its records that expire when it first looks for those that have.
#[cfg(feature = "testing")]
#[test]
fn a_whole_snapshot_knows_what_expires_and_so_do_those_that_add_to_it() {
    use crate::testing::TestClock;
    use core::time::Duration;
    let open = |storage: &MemoryStorage| {
        let builder = Db::builder().clock(TestClock::new(1_700_000_000_000)).segment_size(4096).background(false);
        builder.open_storage(Box::new(storage.clone())).unwrap()
    };
    let insert = |db: &Db, key: u32, seconds: u64| {
        db.insert_with_ttl(key.to_le_bytes(), "value", Duration::from_secs(seconds)).unwrap();
    };
    let storage = MemoryStorage::new();
    let db = open(&storage);
    (0..2_000).for_each(|key| insert(&db, key, 100));
    assert!(db.store().engine.log.newest_checkpoint().is_none());
    let killed = storage.to_vec();
    for looks in [false, true] {
        let db = open(&MemoryStorage::from_vec(killed.clone()));
        if looks {
            assert_eq!(db.sweep_expired().unwrap(), 0);
        }
        let whole = write(&db, Extent::Changes);
        assert_eq!((whole.knows_expiring, whole.parts_max()), (looks, 1));
        assert_eq!(whole.shards.iter().all(|(_, parts)| parts[0].calendar.is_some()), looks);
        insert(&db, 7, 50);
        let changes = write(&db, Extent::Changes);
        assert_eq!((changes.knows_expiring, changes.parts_max()), (looks, 2));
    }
}
