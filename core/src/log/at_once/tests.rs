//! What keeps an append or a read from being done at once, each thing by itself.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
use super::super::Space;
use super::*;
use crate::Db;
use crate::storage::fault::FaultStorage;
use crate::storage::{Durability, MemoryStorage, Storage, StorageError, as_its_file};
use crate::sync::Mutex;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::replace;

/// The longest frame that is written at once.
const LONGEST: usize = DIRECT - 1;

fn opened(storage: impl Storage + 'static) -> Db {
    let builder = Db::builder().segment_size(256 * 1024).entropy([7; 32]).background(false);
    builder.open_storage(Box::new(storage)).unwrap()
}

/// A store with room for long frames in its active segment.
fn roomy(storage: impl Storage + 'static) -> Db {
    let db = opened(storage);
    db.insert("a key", alloc::vec![1; 300 * 1024]).unwrap();
    assert!(db.store().engine.log.room_of_active() > 2 * DIRECT as u64 + SPARE);
    db
}

#[test]
fn a_frame_that_is_not_long_is_appended_at_once_where_the_segment_has_room_to_spare() {
    let db = roomy(MemoryStorage::new());
    let log = &db.store().engine.log;
    assert!(log.takes_at_once(LONGEST) && !log.takes_at_once(LONGEST + 1));
    let with_room = |room: u64| {
        let limit = |change: &dyn Fn(u64) -> u64| {
            let mut tail = log.tail.lock();
            let active = tail.active.as_mut().unwrap();
            let limit = change(active.position);
            replace(&mut active.limit, limit)
        };
        let before = limit(&|position| position + room);
        let takes = log.takes_at_once(1000);
        limit(&|_| before);
        takes
    };
    assert_eq!([1000 + SPARE - 1, 1000 + SPARE, 1000 + SPARE + 1].map(with_room), [false, true, true]);
}

#[test]
fn nothing_is_appended_at_once_by_who_has_not_begun_to_write_or_has_no_reserve_or_meets_another_writer() {
    let db = roomy(MemoryStorage::new());
    let log = &db.store().engine.log;
    assert!(log.takes_at_once(10));
    log.tail.lock().announced = false;
    assert!(!log.takes_at_once(10));
    log.tail.lock().announced = true;
    let space = replace(&mut log.tail.lock().space, Space::new(log.geometry));
    assert!(!log.takes_at_once(10));
    log.tail.lock().space = space;
    let active = log.tail.lock().active.take();
    assert!(!log.takes_at_once(10));
    log.tail.lock().active = active;
    {
        let _writer = log.tail.lock();
        assert!(!log.takes_at_once(10));
    }
    assert!(log.takes_at_once(10));
}

#[test]
fn nothing_is_appended_at_once_while_a_sync_runs() {
    let storage = FaultStorage::new(MemoryStorage::new());
    let db = roomy(storage.clone());
    let taken = Arc::new(Mutex::new(Vec::new()));
    let (noted, writer) = (taken.clone(), db.clone());
    storage.before_sync(move || {
        let log = &writer.store().engine.log;
        noted.lock().push((log.takes_at_once(10), log.tail.try_lock().is_some()));
    });
    db.flush().unwrap();
    storage.before_sync(|| ());
    assert_eq!(*taken.lock(), [(false, true)], "though nobody holds the tail");
    assert!(db.store().engine.log.takes_at_once(10));
}

#[cfg(feature = "shared-files")]
#[test]
fn where_nobody_locks_the_file_nothing_is_at_once() {
    let storage = FaultStorage::new(Durable::default());
    storage.set_shared(true);
    let db = roomy(storage);
    db.flush().unwrap();
    let log = &db.store().engine.log;
    assert!(log.sync_state.synced() >= log.end() && log.sync_state.achieved().is_some());
    assert_eq!((log.takes_at_once(10), log.synced_already()), (false, None));
}

#[test]
fn what_a_sync_has_covered_already_is_known_until_something_is_written() {
    let db = opened(Durable::default());
    let log = &db.store().engine.log;
    db.insert("a", "value").unwrap();
    assert_eq!(log.synced_already(), None);
    assert_eq!(db.flush().unwrap(), Durability::Device);
    assert_eq!(log.synced_already(), Some(Durability::Device));
    log.sync_state.start_at(log.end() - 1);
    assert_eq!(log.synced_already(), None);
    log.sync_state.start_at(log.end());
    assert_eq!(log.synced_already(), Some(Durability::Device));
    log.poison(crate::Error::Bug("a test"));
    assert_eq!(log.synced_already(), None);
}

#[test]
fn a_medium_that_keeps_nothing_leaves_it_to_a_sync_to_say_so() {
    let db = opened(MemoryStorage::new());
    db.insert("a", "value").unwrap();
    assert_eq!(db.flush().unwrap(), Durability::None);
    assert_eq!(db.store().engine.log.synced_already(), None);
}

#[test]
fn a_record_is_at_hand_when_all_of_it_is_in_memory_and_it_is_not_long() {
    let file = Durable::default();
    let db = opened(file.clone());
    let log = &db.store().engine.log;
    let offset_of = |key: u8, value_len: usize| {
        db.insert([key], alloc::vec![key; value_len]).unwrap();
        let pin = db.store().engine.pin();
        let hash = db.store().engine.full_key(0, &[key]).hash;
        let mut offset = 0;
        let _ = db.store().engine.index.find(&pin, hash, |found| {
            offset = found;
            Ok(Some(()))
        });
        (offset, log.header(offset).unwrap().frame_len())
    };
    let head = offset_of(0, 60_000).1 - 60_000;
    let at_hand = |offset: u64, bytes: usize| {
        *file.at_hand.lock() = (offset, bytes);
        log.is_at_hand(offset)
    };
    // The longest one, and one that is a byte too long.
    let (offset, len) = offset_of(1, AT_ONCE_MAX - head);
    assert_eq!(len, AT_ONCE_MAX);
    assert!(at_hand(offset, len) && !at_hand(offset, len - 1));
    let (offset, len) = offset_of(2, AT_ONCE_MAX - head + 1);
    assert_eq!((len, at_hand(offset, len)), (AT_ONCE_MAX + 1, false));
    // Of a short one the bytes that are fetched in front of it are enough.
    let (offset, len) = offset_of(3, 50);
    assert!(len < 200 && at_hand(offset, 200) && !at_hand(offset, 199));
}

/// A file in memory that says that it keeps what was synced, and which of its bytes are at hand: so many from an offset on.
#[derive(Clone, Default)]
struct Durable {
    file: MemoryStorage,
    at_hand: Arc<Mutex<(u64, usize)>>,
}

impl Storage for Durable {
    as_its_file!(len, set_len, read_at, write_at);
    fn sync(&self) -> Result<Durability, StorageError> {
        self.file.sync().map(|_| Durability::Device)
    }
    fn is_at_hand(&self, offset: u64, len: usize) -> bool {
        let (from, bytes) = *self.at_hand.lock();
        offset == from && len <= bytes
    }
}
