#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

use crate::index::Pointed;
use crate::log::Segment;
use crate::{Db, IndexMemory};
use alloc::vec::Vec;

fn opened(newer_max: u64) -> Db {
    let builder = Db::builder().segment_size(64 * 1024).entropy([7; 32]).background(false);
    builder.index_memory(IndexMemory::InFile { newer_max }).in_memory().unwrap()
}

fn load(db: &Db, keys: core::ops::Range<u32>) {
    db.insert_many(keys.map(|key| (key.to_le_bytes(), [7; 20]))).unwrap();
}

/// The segment with so many bytes of frames.
fn with_bytes(db: &Db, segment: &Segment, bytes: u64) -> Segment {
    Segment { end: segment.first_frame(db.store().engine.log.geometry) + bytes, ..*segment }
}

#[test]
fn the_bases_are_read_for_segments_of_a_fourth_of_their_bytes_and_as_many_as_there_is_memory_for() {
    let db = opened(0);
    load(&db, 0..5_000);
    db.checkpoint().unwrap();
    let engine = &db.store().engine;
    let pin = engine.pins.pin();
    let [one, other] = engine.log.segments()[..2] else { panic!("two segments") };
    let read = |segments: &[Segment]| engine.pointed_into(&pin, segments).unwrap();
    let covered = |pointed: &Pointed| [&one, &other].map(|segment| pointed.covers(segment.base));
    let fourth = engine.index.file_bytes() / 4;
    assert!(fourth > 1_000 && read(&[]).is_none());
    assert!(read(&[with_bytes(&db, &one, fourth - 1)]).is_none());
    assert_eq!(covered(&read(&[with_bytes(&db, &one, fourth)]).unwrap()), [true, false]);
    // Both together.
    let half = fourth.div_ceil(2);
    assert_eq!(covered(&read(&[with_bytes(&db, &one, half), with_bytes(&db, &other, half)]).unwrap()), [true, true]);
    // A byte of memory for 32 of a segment.
    let all = 32 * 8 * 1024 * 1024;
    let (long, short, empty) = (with_bytes(&db, &one, all), with_bytes(&db, &other, 32), with_bytes(&db, &other, 31));
    assert_eq!(covered(&read(&[long, short]).unwrap()), [true, false]);
    assert_eq!(covered(&read(&[long, empty]).unwrap()), [true, true]);
    assert!(read(&[with_bytes(&db, &one, all + 32), short]).is_none());

    let pointed = read(&[one]).unwrap();
    assert!(engine.has_bases_of(&pin, &pointed));
    load(&db, 0..100);
    db.checkpoint().unwrap();
    assert!(!engine.has_bases_of(&pin, &pointed));
}

#[test]
fn a_snapshot_is_written_whole_once_what_is_newer_takes_more_memory_than_it_may() {
    let loaded = |newer_max: u64| {
        let db = opened(newer_max);
        load(&db, 0..500);
        (db.store().engine.index.newer_bytes(), db.store().engine.is_over_newer_max())
    };
    let (bytes, is_over) = loaded(0);
    assert!(bytes > 10_000 && is_over);
    assert_eq!((loaded(bytes - 1), loaded(bytes)), ((bytes, true), (bytes, false)));
    let db = Db::open_in_memory().unwrap();
    load(&db, 0..500);
    assert!(!db.store().engine.is_over_newer_max() && !db.store().engine.keeps_in_file());
}

#[test]
fn segments_of_the_snapshot_before_are_given_back_once_no_reader_is_left() {
    let db = opened(0);
    load(&db, 0..2_000);
    db.checkpoint().unwrap();
    let engine = &db.store().engine;
    let held = || engine.bases.held.lock().len();
    assert_eq!((held(), engine.free_bases()), (0, 0));
    let reader = engine.pins.pin();
    load(&db, 0..100);
    db.checkpoint().unwrap();
    let count = held();
    assert!(count > 0);
    for _ in 0..3 {
        assert_eq!((engine.free_bases(), held()), (0, count));
    }
    drop(reader);
    let freed: Vec<u64> = (0..3).map(|_| engine.free_bases()).collect();
    assert_eq!((freed.iter().sum::<u64>(), held()), (count as u64, 0));
}

#[test]
fn look_ups_are_announced_only_where_the_index_is_in_the_file() {
    let key = 7_u32.to_le_bytes();
    let (in_file, in_memory) = (opened(0), Db::open_in_memory().unwrap());
    for db in [&in_file, &in_memory] {
        load(db, 0..500);
        db.checkpoint().unwrap();
    }
    let places = |db: &Db| {
        let engine = &db.store().engine;
        engine.index.place_below(&engine.pins.pin(), engine.full_key(0, &key).hash)
    };
    let engine = &in_file.store().engine;
    let hash = engine.full_key(0, &key).hash;
    let base = engine.index.lock_shard(hash.shard()).base_place().unwrap();
    assert_eq!((places(&in_file), places(&in_memory)), (Some(base.slots), None));
    let base_bytes: u64 = (0..crate::index::SHARDS).map(|shard| engine.index.lock_shard(shard).base_bytes()).sum();
    assert!(base_bytes > 500 * 4 && engine.index.file_bytes() == base_bytes);
}
