//! What the first append of a session says in the superblock, to which slot superblocks go, and how frames are gathered.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
use super::super::{Front, read_superblocks};
use super::*;
use crate::Db;
use crate::storage::fault::FaultStorage;
use crate::storage::{MemoryStorage, Storage};
use alloc::boxed::Box;

fn opened(storage: &(impl Storage + Clone + 'static)) -> Db {
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    builder.open_storage(Box::new(storage.clone())).unwrap()
}

fn superblocks(storage: &MemoryStorage) -> SuperblockPair {
    match read_superblocks(storage).unwrap() {
        Front::Store(pair) => pair,
        Front::Blank => panic!("no store"),
    }
}

/// A file of one record, and its superblocks as a close has left them; the session in front of the close ended without one.
fn closed(is_torn: bool) -> (MemoryStorage, SuperblockPair) {
    let storage = MemoryStorage::new();
    let db = opened(&storage);
    db.insert("a", "1").unwrap();
    if is_torn {
        core::mem::forget(db);
        opened(&storage).close().unwrap();
    } else {
        db.close().unwrap();
    }
    let pair = superblocks(&storage);
    assert!(pair.current.clean_end.is_some() && pair.current.torn_end == is_torn);
    (storage, pair)
}

#[test]
fn the_first_append_of_a_session_says_that_the_store_is_not_closed_and_who_writes_where() {
    for is_torn in [false, true] {
        let (storage, closed) = closed(is_torn);
        let db = opened(&storage);
        assert_eq!(superblocks(&storage), closed, "opening writes nothing");
        let active = db.store().engine.log.tail.lock().active_place();
        assert_eq!(active == super::super::ActivePlace::default(), is_torn);
        db.insert("b", "2").unwrap();
        let generation = closed.current.generation + 1;
        let expected = Superblock { clean_end: None, torn_end: false, generation, session: generation, active, ..closed.current };
        assert_eq!(superblocks(&storage).current, expected, "torn: {is_torn}");
        db.insert("c", "3").unwrap();
        assert_eq!(superblocks(&storage).current, expected, "once a session");
        core::mem::forget(db);
    }
}

#[test]
fn behind_a_close_its_superblock_is_written_over_and_then_the_slots_take_turns() {
    let (storage, closed) = closed(false);
    let db = opened(&storage);
    let log = &db.store().engine.log;
    db.insert("b", "2").unwrap();
    let now = || {
        let pair = superblocks(&storage);
        assert_eq!(log.with_superblocks(|known| *known), pair);
        (pair.slot, pair.current.generation - closed.current.generation)
    };
    assert_eq!(now(), (closed.slot, 1));
    log.flip(&|superblock| superblock).unwrap();
    assert_eq!(now(), (closed.slot.other(), 2));
    log.flip(&|superblock| superblock).unwrap();
    assert_eq!(now(), (closed.slot, 3));
}

/// The one that was lost may have been much later than the one that is left, and is the one to be written over.
#[test]
fn a_lost_superblock_is_replaced_by_one_of_a_much_higher_generation() {
    let (storage, closed) = closed(false);
    storage.write_at(closed.slot.other().offset() + 100, &[&[9]]).unwrap();
    assert!(superblocks(&storage).other_damaged);
    let db = opened(&storage);
    db.insert("b", "2").unwrap();
    core::mem::forget(db);
    let pair = superblocks(&storage);
    assert!(!pair.other_damaged);
    assert!(pair.current.generation > closed.current.generation + LOST && pair.current.clean_end.is_none());
}

#[test]
fn generations_end_in_front_of_where_they_would_be_taken_for_damage() {
    let (storage, closed) = closed(false);
    let last = LOG_POSITION_MAX - LOG_POSITION_SPARE;
    for slot in [SuperblockSlot::A, SuperblockSlot::B] {
        Superblock { generation: last, ..closed.current }.write(&storage, slot).unwrap();
    }
    let db = opened(&storage);
    db.insert("b", "2").unwrap();
    assert_eq!(superblocks(&storage).current.generation, last + 1);
    assert!(matches!(db.store().engine.log.flip(&|superblock| superblock), Err(Error::LogExhausted)));
    core::mem::forget(db);
}

/// A store whose active segment has room for more than what is gathered, and a counter of its writes.
fn roomy() -> (Db, FaultStorage<MemoryStorage>) {
    let storage = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(4 << 20).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(storage.clone())).unwrap();
    db.insert("first", alloc::vec![0; 4_500_000]).unwrap();
    assert!(db.store().engine.log.room_of_active() > GATHER as u64 + 200_000);
    (db, storage)
}

/// Writes of one commit of values of these lengths.
fn writes(db: &Db, storage: &FaultStorage<MemoryStorage>, lens: &[usize]) -> u64 {
    let log = &db.store().engine.log;
    let values: Vec<Vec<u8>> = lens.iter().map(|&len| alloc::vec![1; len]).collect();
    let frames: Vec<FrameSpec<'_>> = values.iter().enumerate().map(|(at, value)| frame(value, at + 1 < lens.len())).collect();
    storage.reset_counts();
    let mut placed = Vec::new();
    log.append(&frames, Purpose::Store, &mut placed).unwrap();
    let ends: Vec<u64> = placed.iter().map(|placed| placed.offset + placed.len).collect();
    assert!(placed.iter().skip(1).zip(&ends).all(|(next, &end)| next.offset == end), "one behind the other");
    placed.iter().for_each(|placed| assert!(log.frame(placed.offset).unwrap().check().is_ok()));
    storage.counts().writes
}

fn frame(value: &[u8], continues: bool) -> FrameSpec<'_> {
    FrameSpec { kind: Kind::Put, continues, meta: crate::frame::Meta::plain(0), key: b"key", value }
}

#[test]
fn frames_of_one_commit_are_gathered_but_for_long_ones() {
    let (db, storage) = roomy();
    assert_eq!(writes(&db, &storage, &[10, DIRECT - 1, 10]), 1);
    assert_eq!(writes(&db, &storage, &[10, DIRECT, 10]), 3);
    assert_eq!(writes(&db, &storage, &[DIRECT, DIRECT]), 2);
}

#[test]
fn no_more_is_gathered_than_a_piece_of_the_log() {
    let len = 30_000;
    let each = frame(&alloc::vec![1; len], true).len();
    let rest = GATHER - 34 * each;
    assert!(rest < DIRECT && frame(&alloc::vec![1; rest - (each - len)], true).len() == rest);
    for (last, expected) in [(rest - 1, 1), (rest, 2)] {
        let (db, storage) = roomy();
        let mut lens = alloc::vec![len; 34];
        lens.extend([last - (each - len), 10]);
        assert_eq!(writes(&db, &storage, &lens), expected, "a last one of {last} bytes");
    }
}

#[test]
fn a_check_that_speaks_against_an_append_leaves_the_log_as_it_was() {
    let db = opened(&MemoryStorage::new());
    let log = &db.store().engine.log;
    db.insert("a", "1").unwrap();
    let (end, value, mut placed) = (log.end(), [5; 10], Vec::new());
    let refused = log.append_if(&|| Err(Error::Bug("not now")), &[frame(&value, false)], Purpose::Store, &mut placed);
    assert!(matches!(refused, Err(Error::Bug("not now"))));
    assert_eq!((log.end(), placed.len(), log.is_poisoned()), (end, 0, false));
    log.append_if(&|| Ok(()), &[frame(&value, false)], Purpose::Store, &mut placed).unwrap();
    assert_eq!(log.end(), end + placed.first().unwrap().len);
}

#[cfg(feature = "events")]
#[test]
fn the_number_of_the_next_event_moves_on_only_with_the_append() {
    let storage = FaultStorage::new(MemoryStorage::new());
    let db = opened(&storage);
    let log = &db.store().engine.log;
    db.insert("a", "1").unwrap();
    let (value, mut placed) = ([5; 10], Vec::new());
    log.append_events(&|| Ok(()), &[frame(&value, false)], 5, Purpose::Store, &mut placed).unwrap();
    assert_eq!(log.next_event(), 5);
    let refused = log.append_events(&|| Err(Error::NoSpace), &[frame(&value, false)], 6, Purpose::Store, &mut placed);
    assert!(refused.is_err() && log.next_event() == 5);
    use crate::storage::fault::{Effect, Fault, Io};
    storage.arm(Fault::nth(1, Io::Write, Effect::Error(crate::storage::StorageErrorKind::Other)));
    let failed = log.append_events(&|| Ok(()), &[frame(&value, false)], 6, Purpose::Store, &mut placed);
    assert!(matches!(failed, Err(Error::Storage(_))));
    assert_eq!((log.next_event(), log.is_poisoned()), (5, true));
}

#[test]
fn each_superblock_says_what_was_acted_on_and_how_many_headers_there_are() {
    let storage = MemoryStorage::new();
    let db = opened(&storage);
    let log = &db.store().engine.log;
    db.insert("a", "1").unwrap();
    let before = log.superblock();
    log.acted_on(1000);
    db.store().engine.log.seal_active().unwrap();
    db.insert("b", "2").unwrap();
    log.flip(&|superblock| superblock).unwrap();
    let now = superblocks(&storage).current;
    assert_eq!((before.clock, now.clock), (0, 1000));
    assert_eq!((now.headers, log.headers_so_far()), (before.headers + 2, before.headers + 2));
    log.lower_floor(500);
    log.flip(&|superblock| superblock).unwrap();
    assert_eq!(superblocks(&storage).current.clock, 500);
}

#[test]
fn a_commit_that_cannot_be_written_leaves_the_end_of_the_log_where_it_was() {
    use crate::storage::StorageErrorKind;
    use crate::storage::fault::{Effect, Fault, Io};
    let (value, state) = ([5; 1500], |log: &super::super::Log| {
        let tail = log.tail.lock();
        let bases: Vec<u64> = tail.segments.values().map(|segment| segment.base).collect();
        (bases, tail.active.map(|active| active.position), log.end())
    });
    for nth in 1.. {
        let storage = FaultStorage::new(MemoryStorage::new());
        let db = opened(&storage);
        let log = &db.store().engine.log;
        db.insert("a", [1; 1000]).unwrap();
        let (before, mut placed) = (state(log), Vec::new());
        storage.arm(Fault::nth(nth, Io::Write, Effect::Error(StorageErrorKind::Other)));
        // It begins in the active segment and goes on in the two behind it.
        let frames = [frame(&value, true), frame(&value, true), frame(&value, true), frame(&value, false)];
        if log.append(&frames, Purpose::Store, &mut placed).is_ok() {
            assert_eq!((log.segment_count(), placed.len()), (3, 4));
            assert!(nth > 6);
            break;
        }
        assert_eq!((state(log), log.is_poisoned()), (before, true), "write {nth}");
        assert!(log.tail.lock().scratch.is_empty());
    }
}
