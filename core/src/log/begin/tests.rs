//! Where the trailer of the last segment is backed that an earlier session has filled.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
use super::*;
use crate::Db;
use crate::storage::fault::{Effect, Fault, FaultStorage, Io};
use crate::storage::{MemoryStorage, Storage, StorageErrorKind};
use alloc::boxed::Box;

/// A store that has filled its last segment, and its medium.
fn store() -> (Db, FaultStorage<MemoryStorage>) {
    let medium = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(medium.clone())).unwrap();
    db.insert("a key", "value").unwrap();
    db.store().engine.log.seal_active().unwrap();
    (db, medium)
}

#[test]
fn the_file_reaches_to_the_end_of_the_trailer_that_will_name_the_next_segment() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let at = log.tail.lock().previous.trailer.unwrap();
    medium.set_len(at).unwrap();
    log.back_trailer(&mut log.tail.lock()).unwrap();
    assert_eq!((medium.len().unwrap(), log.tail.lock().previous.trailer), (at + TRAILER_LEN, Some(at)));
    log.back_trailer(&mut log.tail.lock()).unwrap();
    assert_eq!(medium.len().unwrap(), at + TRAILER_LEN, "it is there");
    core::mem::forget(db);
}

#[test]
fn a_trailer_that_the_medium_has_no_room_for_is_left_out() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let at = log.tail.lock().previous.trailer.unwrap();
    medium.set_len(at).unwrap();
    medium.set_capacity(Some(at + TRAILER_LEN - 1));
    log.back_trailer(&mut log.tail.lock()).unwrap();
    assert_eq!((medium.len().unwrap(), log.tail.lock().previous.trailer, log.is_poisoned()), (at, None, false));
    core::mem::forget(db);
}

#[test]
fn a_trailer_is_backed_only_where_no_segment_takes_appends_and_one_is_due() {
    let (db, medium) = store();
    let log = &db.store().engine.log;
    let backs = |is_active: bool, is_due: bool| {
        let mut tail = log.tail.lock();
        let last = *tail.segments.values().next_back().unwrap();
        tail.active = is_active.then(|| Active::new(last, last.end, log.geometry, false));
        let at = tail.previous.trailer;
        tail.previous.trailer = at.filter(|_| is_due);
        medium.reset_counts();
        log.back_trailer(&mut tail).unwrap();
        (tail.active, tail.previous.trailer) = (None, at);
        medium.counts().reserves
    };
    assert_eq!([backs(true, true), backs(false, false), backs(true, false), backs(false, true)], [0, 0, 0, 1]);
    medium.arm(Fault::nth(1, Io::Reserve, Effect::Error(StorageErrorKind::Other)));
    assert!(matches!(log.back_trailer(&mut log.tail.lock()), Err(Error::Storage(_))));
    assert!(log.tail.lock().previous.trailer.is_some());
}
