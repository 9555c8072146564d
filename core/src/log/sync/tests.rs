//! Whose records a sync covers.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use crate::storage::fault::{Effect, Fault, FaultStorage, Io};
use crate::storage::{MemoryStorage, Storage, StorageError, StorageErrorKind, as_its_file};
use alloc::boxed::Box;
use alloc::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// A file in memory that says that it keeps what was synced.
#[derive(Clone, Default)]
struct Durable {
    file: MemoryStorage,
}

impl Storage for Durable {
    as_its_file!(len, set_len, read_at, write_at);
    fn sync(&self) -> core::result::Result<Durability, StorageError> {
        self.file.sync().map(|_| Durability::Device)
    }
}

/// A store with a record that was synced.
fn store() -> (Db, FaultStorage<Durable>) {
    let medium = FaultStorage::new(Durable::default());
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(medium.clone())).unwrap();
    db.insert("first", "value").unwrap();
    db.flush().unwrap();
    (db, medium)
}

/// Flushes, and while that sync runs another thread writes a record, if it is to, and flushes, too. Returns the syncs, and whether the other thread's
/// records were synced when its flush came back.
fn both(writes: bool) -> (u64, bool) {
    let (db, medium) = store();
    db.insert("second", "value").unwrap();
    let other: Arc<Mutex<Option<JoinHandle<bool>>>> = Arc::new(Mutex::new(None));
    let (of_hook, their, is_first) = (other.clone(), db.clone(), AtomicBool::new(true));
    medium.before_sync(move || {
        if !is_first.swap(false, Ordering::SeqCst) {
            return;
        }
        let (their, (begun, begins)) = (their.clone(), channel());
        let thread = spawn(move || {
            if writes {
                their.insert("third", "value").unwrap();
            }
            let log = &their.store().engine.log;
            let end = log.end();
            begun.send(()).unwrap();
            assert_eq!(their.flush().unwrap(), Durability::Device);
            log.sync_state.synced() >= end
        });
        *of_hook.lock() = Some(thread);
        begins.recv().unwrap();
        // The other one most likely waits by now. Nothing depends on it.
        sleep(Duration::from_millis(30));
    });
    medium.reset_counts();
    db.flush().unwrap();
    let thread = other.lock().take().unwrap();
    let is_synced = thread.join().unwrap();
    let syncs = medium.counts().syncs;
    medium.before_sync(|| ());
    (syncs, is_synced)
}

#[test]
fn a_sync_that_began_in_front_of_a_record_does_not_count_for_it() {
    assert_eq!(both(true), (2, true));
}

#[test]
fn a_sync_counts_for_those_who_come_meanwhile_and_have_written_nothing_since() {
    assert_eq!(both(false), (1, true));
}

#[test]
fn what_is_synced_already_is_not_synced_again_unless_everything_is_to_be() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let syncs = |sync: &dyn Fn() -> Result<Durability>| {
        medium.reset_counts();
        assert_eq!(sync().unwrap(), Durability::Device);
        medium.counts().syncs
    };
    let synced = log.sync_state.synced();
    assert_eq!(synced, log.end());
    assert_eq!([synced - 1, synced, synced + 1].map(|lsn| syncs(&|| log.sync_to(lsn))), [0, 0, 1]);
    assert_eq!((syncs(&|| log.sync_now()), syncs(&|| log.sync_the_end())), (1, 1));
    assert_eq!(log.sync_state.synced(), synced);
}

#[test]
fn behind_a_sync_that_failed_none_is_tried_again() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    db.insert("second", "value").unwrap();
    let synced = log.sync_state.synced();
    medium.arm(Fault::nth(1, Io::Sync, Effect::Error(StorageErrorKind::Other)));
    assert!(matches!(log.sync_to(log.end()), Err(Error::Storage(_))));
    medium.reset_counts();
    assert!(matches!(log.sync_to(log.end()), Err(Error::Poisoned(_))));
    assert!(matches!(log.sync_alone(), Err(Error::Poisoned(_))));
    assert_eq!((medium.counts().syncs, log.sync_state.synced()), (0, synced));
}

#[test]
fn the_file_says_how_far_the_log_is_synced_once_for_each_sync_that_covers_something() {
    let (db, _medium) = store();
    let log = &db.store().engine.log;
    let mark = super::super::MARK_LEN as u64;
    let marked = || log.position() - log.end();
    assert_eq!(marked(), mark);
    log.sync_now().unwrap();
    assert_eq!(marked(), mark, "that one has covered nothing");
    db.insert("second", "value").unwrap();
    assert_eq!(marked(), 0);
    log.sync_the_end().unwrap();
    assert_eq!((marked(), log.sync_state.synced()), (0, log.end()), "it appends no mark");
    log.sync_now().unwrap();
    assert_eq!(marked(), mark, "the next one does");
}
