#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use super::*;
use crate::storage::{MemoryStorage, Storage};
use crate::{Db, IndexMemory};
use alloc::boxed::Box;

/// Records that were put, put again, and removed, in several segments.
fn filled() -> (Db, MemoryStorage) {
    let storage = MemoryStorage::new();
    let builder = Db::builder().segment_size(8192).entropy([7; 32]).background(false);
    let db = builder.index_memory(IndexMemory::InFile { newer_max: 0 }).open_storage(Box::new(storage.clone())).unwrap();
    let put = |keys: core::ops::Range<u32>| db.insert_many(keys.map(|key| (key.to_le_bytes(), [7; 20]))).unwrap();
    put(0..600);
    put(100..200);
    for key in 150..250_u32 {
        db.remove(key.to_le_bytes()).unwrap();
    }
    db.namespace("other").unwrap().insert("key", "value").unwrap();
    (db, storage)
}

#[test]
fn shards_that_are_built_anew_have_what_the_log_has_of_them() {
    let (db, _) = filled();
    let engine = &db.store().engine;
    let all: Vec<usize> = (0..SHARDS).collect();
    for shards in [&all[..], &[0, 200], &[]] {
        let mut anew = Anew::new(engine, shards);
        let segments = engine.log.segments();
        let bytes: u64 = segments.iter().map(|segment| segment.end - segment.first_frame(engine.log.geometry)).sum();
        assert!(segments.len() > 2);
        assert_eq!((anew.read_on().unwrap(), anew.read_on().unwrap()), (bytes, 0));
        for number in 0..SHARDS {
            let (made, own) = (anew.index.lock_shard(number), engine.index.lock_shard(number));
            let sorted = |shard: &ShardGuard<'_>| Slot::sort(shard.slots(engine.medium()).unwrap());
            let counts = |shard: &ShardGuard<'_>| shard.counts().iter().copied().collect::<BTreeMap<u32, u64>>();
            if shards.contains(&number) {
                assert_eq!((sorted(&made), counts(&made)), (sorted(&own), counts(&own)), "shard {number}");
            } else {
                assert_eq!(made.len(), 0, "shard {number}");
            }
        }
    }
}

#[test]
fn the_log_is_read_on_where_the_reading_before_has_ended() {
    let (db, _) = filled();
    let engine = &db.store().engine;
    let all: Vec<usize> = (0..SHARDS).collect();
    let mut anew = Anew::new(engine, &all);
    anew.read_on().unwrap();
    let hash = |key: &str| engine.full_key(0, key.as_bytes()).hash;
    let has = |anew: &Anew<'_>, key: &str| {
        let found = anew.index.lock_shard(hash(key).shard()).find(hash(key), |offset| {
            let frame = engine.log.frame(offset)?;
            Ok((frame.key() == key.as_bytes()).then_some(()))
        });
        found.unwrap().is_some()
    };
    for (key, is_put, bytes) in [("later", true, 7 + 5 + 1), ("later", false, 7 + 5), ("last", true, 7 + 4 + 1)] {
        if is_put {
            db.insert(key, "1").unwrap()
        } else {
            assert!(db.remove(key).unwrap())
        }
        assert_eq!(has(&anew, key), !is_put);
        assert_eq!((anew.read_on().unwrap(), anew.read_on().unwrap()), (bytes, 0));
        assert_eq!(has(&anew, key), is_put);
    }
}

#[test]
fn damage_of_the_log_ends_the_reading_with_its_place() {
    let (db, storage) = filled();
    let engine = &db.store().engine;
    let record = engine.log.segments().first().unwrap().first_frame(engine.log.geometry);
    storage.write_at(record + 12, &[&[0x55]]).unwrap();
    let mut anew = Anew::new(engine, &[]);
    match anew.read_on() {
        Err(Error::Corrupt { offset, .. }) => assert_eq!(offset, record),
        other => panic!("{other:?}"),
    }
}
