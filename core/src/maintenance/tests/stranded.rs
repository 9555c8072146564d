//! What giving up stranded records would free, by the figures of a store that a damaged bit has cut short.

use super::{choose, set};
use crate::maintenance::stranded::{is_kept, make_way};
use crate::storage::MemoryStorage;
use crate::storage::fault::FaultStorage;
use crate::{Db, Error};
use alloc::boxed::Box;
use alloc::vec::Vec;

const EXTENT: usize = 4096;
/// Bytes of a file of four segments.
const FOUR: usize = 16_384 + 4 * EXTENT;

fn opened(storage: &FaultStorage<MemoryStorage>) -> Db {
    let builder = Db::builder().segment_size(EXTENT as u32).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
    builder.open_storage(Box::new(storage.clone())).unwrap()
}

/// Four segments of three records each, of which the second record of number `damaged` is: the log ends in front of it. The medium has
/// room for so many segments more.
pub(super) fn cut_short(damaged: u8, more: usize) -> Db {
    cut_short_in(&mut written(), &[damaged * 3 + 1], more)
}

/// The file of twelve records in four segments, as a kill leaves it.
fn written() -> Vec<u8> {
    written_with_last(11)
}

/// The same, of which the last record is of this key.
fn written_with_last(last: u8) -> Vec<u8> {
    let storage = MemoryStorage::new();
    let db = opened(&FaultStorage::new(storage.clone()));
    for key in (0..11_u8).chain([last]) {
        db.insert([key], [key; 1_000]).unwrap();
    }
    let mut bytes = storage.to_vec();
    core::mem::forget(db);
    bytes.truncate(FOUR);
    bytes
}

fn cut_short_in(bytes: &mut [u8], damaged: &[u8], more: usize) -> Db {
    for &key in damaged {
        let at = bytes.windows(100).position(|window| window == [key; 100]).unwrap();
        bytes[at] ^= 1;
    }
    let bytes = bytes.to_vec();
    let medium = FaultStorage::new(MemoryStorage::from_vec(bytes));
    medium.set_capacity(Some((FOUR + more * EXTENT) as u64));
    let db = opened(&medium);
    assert!(db.open_report().stranded_records > 0);
    db
}

/// How much is in the way of a removal, as its error says.
fn in_the_way(db: &Db) -> u64 {
    match db.remove([0]) {
        Err(Error::StrandedInTheWay { bytes }) => bytes,
        other => panic!("{other:?}"),
    }
}

#[test]
fn segments_that_no_list_names_are_in_the_way_as_a_whole() {
    for damaged in [0, 1, 2] {
        let db = cut_short(damaged, 0);
        let unlisted: Vec<_> = db.store().engine.log.unlisted();
        assert_eq!(unlisted.len(), 3 - usize::from(damaged));
        assert_eq!(in_the_way(&db), (unlisted.len() * EXTENT) as u64);
        db.drop_stranded().unwrap();
        assert!(db.remove([0]).unwrap());
    }
}

#[test]
fn of_a_torn_last_segment_the_rest_is_in_the_way() {
    let db = cut_short(3, 0);
    let engine = &db.store().engine;
    let torn = engine.log.segments().pop().unwrap();
    assert_eq!(in_the_way(&db), torn.limit(engine.log.geometry) - torn.end);
    db.drop_stranded().unwrap();
    assert!(db.remove([0]).unwrap());
}

/// Behind a checkpoint a compaction could empty the torn segment, if what lives in it fits into the active one.
#[test]
fn a_listed_segment_is_in_the_way_if_what_lives_in_it_has_room_elsewhere() {
    let db = cut_short(3, 1);
    let engine = &db.store().engine;
    // It takes the last free segment; there is no room for a snapshot of the index.
    assert!(matches!(db.checkpoint(), Err(Error::NoSpace)));
    let torn = *engine.log.segments().iter().rev().nth(1).unwrap();
    let room = engine.log.room_of_active();
    assert!(!engine.log.has_reserve() && room > 2 * choose::SLACK);
    for (live, bytes) in [(room - choose::SLACK, EXTENT as u64), (room - choose::SLACK + 1, 0)] {
        set(engine, &torn, live, 0);
        assert_eq!(choose::kept_for_stranded(engine), bytes, "{live} bytes live, room for {room}");
    }
}

/// Of what follows the damage, the log has the last record as well, or it has not.
#[test]
fn the_log_goes_on_in_a_torn_segment_if_it_has_what_is_stranded_there() {
    for (last, goes_on) in [(9, true), (11, false)] {
        let db = cut_short_in(&mut written_with_last(last), &[10], 0);
        let engine = &db.store().engine;
        engine.build_all(&|| false).unwrap();
        let torn = engine.log.segments().pop().unwrap();
        make_way(engine).unwrap();
        let room = if goes_on { torn.limit(engine.log.geometry) - torn.end } else { 0 };
        assert_eq!(engine.log.room_of_active(), room);
        assert_eq!(engine.log.torn_end().is_some(), !goes_on);
        assert_eq!(is_kept(engine, &torn), !goes_on);
    }
}

#[test]
fn while_there_is_a_reserve_nothing_is_in_the_way() {
    let db = cut_short(3, 4);
    db.insert("more", "value").unwrap();
    assert_eq!(choose::kept_for_stranded(&db.store().engine), 0);
}

/// Bytes from one place to the last one before another that is not zero.
fn used(bytes: &[u8], from: usize, to: usize) -> u64 {
    bytes[from..to].iter().rposition(|&byte| byte != 0).map_or(0, |last| last as u64 + 1)
}

#[test]
fn every_used_byte_behind_the_end_is_said_to_be_torn_and_every_record_there_stranded() {
    for damaged in 0..4_usize {
        let mut bytes = written();
        let db = cut_short_in(&mut bytes, &[damaged as u8 * 3 + 1], 4);
        let log = &db.store().engine.log;
        let torn = log.segments()[damaged];
        let start = |number: usize| 16_384 + number * EXTENT;
        let behind =
            (damaged + 1..4).map(|number| used(&bytes, start(number), start(number + 1) - crate::log::TRAILER_LEN as usize));
        let own = used(&bytes, torn.end as usize, torn.limit(log.geometry) as usize);
        let report = db.open_report();
        assert_eq!(report.torn_bytes, own + behind.sum::<u64>(), "damaged in {damaged}");
        assert_eq!(report.stranded_records, 1 + 3 * (3 - damaged as u64));
    }
}

#[test]
fn a_segment_behind_the_end_without_a_valid_record_is_not_kept() {
    let db = cut_short_in(&mut written(), &[1, 6, 7, 8], 4);
    assert_eq!(db.store().engine.log.unlisted().len(), 2);
    assert_eq!(db.open_report().stranded_records, 1 + 3 + 3);
}

/// Bytes in which every few begin what looks like a header.
pub(super) fn noise(mut seed: u64, len: usize) -> Vec<u8> {
    core::iter::repeat_with(|| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 32) as u8
    })
    .take(len)
    .collect()
}

#[test]
fn long_records_behind_a_damaged_value_full_of_false_candidates_are_counted() {
    for seed in 1..=32 {
        let storage = MemoryStorage::new();
        let builder = || Db::builder().segment_size(16_384).entropy([7; 32]).background(false);
        let db = builder().open_storage(Box::new(storage.clone())).unwrap();
        let value = noise(seed, 6_000);
        db.insert("damaged", &value).unwrap();
        db.insert("whole", [1; 700]).unwrap();
        let mut bytes = storage.to_vec();
        core::mem::forget(db);
        let at = bytes.windows(100).position(|window| *window == value[..100]).unwrap();
        bytes[at] ^= 1;
        let db = builder().open_storage(Box::new(MemoryStorage::from_vec(bytes))).unwrap();
        assert_eq!(db.open_report().stranded_records, 1, "seed {seed}");
    }
}
