//! When a frame goes to its place at once, and when through the map of the host.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::super::Space;
use super::super::append::RETIRE_ROOM;
use super::*;
use crate::Db;
use crate::storage::{MemoryStorage, Storage, StorageError, as_its_file};
use crate::sync::AtomicUsize;
use crate::sync::Ordering::SeqCst;
use alloc::boxed::Box;
use alloc::sync::Arc;

/// A file in memory that takes writes through a map, too, and counts both kinds.
#[derive(Clone, Default)]
struct Mapped {
    file: MemoryStorage,
    /// Writes, and those through the map.
    counts: Arc<[AtomicUsize; 2]>,
}

impl Storage for Mapped {
    as_its_file!(len, set_len, read_at, sync);
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.counts[0].fetch_add(1, SeqCst);
        self.file.write_at(offset, parts)
    }
    unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
        self.counts[1].fetch_add(1, SeqCst);
        self.file.write_at(offset, parts).is_ok()
    }
}

fn opened(storage: impl Storage + 'static) -> Db {
    let builder = Db::builder().segment_size(64 * 1024).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(storage)).unwrap();
    db.insert("a key", alloc::vec![1; 40_000]).unwrap();
    db
}

fn is_ready(log: &Log, len: u64, value_len: usize, purpose: Purpose) -> bool {
    let tail = log.tail.lock();
    let active = tail.active.unwrap();
    let place = log.ready(&tail, len, value_len, purpose).unwrap();
    place.is_some_and(|place| {
        assert_eq!((place.offset, place.salt), (active.position, active.segment.salt));
        true
    })
}

const ALL: [Purpose; 3] = [Purpose::Store, Purpose::MakeSpace, Purpose::BookKeeping];

#[test]
fn a_frame_has_a_place_if_it_fits_and_nothing_has_to_be_written_in_front_of_it() {
    let db = opened(MemoryStorage::new());
    let log = &db.store().engine.log;
    let room = log.room_of_active();
    for purpose in ALL {
        assert!(is_ready(log, room, DIRECT - 1, purpose) && !is_ready(log, room + 1, 0, purpose));
        assert!(!is_ready(log, 10, DIRECT, purpose), "a long value");
    }
    log.tail.lock().mark_due = Some(1);
    assert!(!is_ready(log, 10, 0, Purpose::Store));
    log.tail.lock().mark_due = None;
    log.tail.lock().announced = false;
    assert!(!is_ready(log, 10, 0, Purpose::Store));
    log.tail.lock().announced = true;
    assert!(is_ready(log, 10, 0, Purpose::Store));
}

#[test]
fn without_a_reserve_nothing_new_is_stored_and_room_is_kept_for_retirements() {
    let db = opened(MemoryStorage::new());
    let log = &db.store().engine.log;
    let room = log.room_of_active();
    let space = core::mem::replace(&mut log.tail.lock().space, Space::new(log.geometry));
    assert_eq!(ALL.map(|purpose| is_ready(log, 10, 0, purpose)), [false, true, true]);
    assert_eq!(ALL.map(|purpose| is_ready(log, room - RETIRE_ROOM, 0, purpose)), [false, true, true]);
    assert_eq!(ALL.map(|purpose| is_ready(log, room - RETIRE_ROOM + 1, 0, purpose)), [false, false, true]);
    assert_eq!(ALL.map(|purpose| is_ready(log, room, 0, purpose)), [false, false, true]);
    log.tail.lock().space = space;
}

#[test]
fn in_a_burst_small_frames_go_through_the_map() {
    let storage = Mapped::default();
    let db = opened(storage.clone());
    let log = &db.store().engine.log;
    let written = |unsynced: u64| {
        log.sync_state.start_at(log.end() - unsynced);
        storage.counts.iter().for_each(|count| count.store(0, SeqCst));
        db.insert("small", unsynced.to_le_bytes()).unwrap();
        assert_eq!(db.get("small").unwrap().as_deref(), Some(&unsynced.to_le_bytes()[..]));
        storage.counts.each_ref().map(|count| count.load(SeqCst))
    };
    assert_eq!([0, BURST - 1, BURST, BURST + 1].map(written), [[1, 0], [1, 0], [0, 1], [0, 1]]);
}
