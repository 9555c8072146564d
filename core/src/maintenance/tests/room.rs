//! How much room there is for appends, and for which: on a medium that is full, and on one that is not.

use super::opened;
use super::stranded::cut_short;
use crate::frame::{FrameSpec, Kind, Meta};
use crate::log::{Log, MARK_LEN, Purpose, RETIRE_ROOM};
use crate::storage::fault::FaultStorage;
use crate::storage::{MemoryStorage, Storage};
use crate::{Db, Error};
use alloc::boxed::Box;

/// Appends a tombstone of a key of so many bytes, for a purpose.
fn append(log: &Log, len: usize, purpose: Purpose) -> Result<u64, Error> {
    let frame =
        FrameSpec { kind: Kind::Tombstone, continues: false, meta: Meta::plain(0), key: &alloc::vec![9; len], value: &[] };
    log.append_one(&frame, purpose).map(|placed| placed.len)
}

/// A store without a reserve, whose medium has no byte left but those of the active segment.
fn full() -> Db {
    let db = cut_short(3, 1);
    assert!(matches!(db.checkpoint(), Err(Error::NoSpace)));
    assert!(!db.store().engine.log.has_reserve());
    db
}

#[test]
fn what_is_secured_can_be_appended_and_what_is_there_takes_no_more_space() {
    let db = opened(&MemoryStorage::new());
    db.insert("a key", "value").unwrap();
    let log = &db.store().engine.log;
    let longest = || Ok(1000);
    assert!(!log.has_room(100_000));
    log.secure(100_000, &longest).unwrap();
    assert!(log.has_room(100_000) && log.has_reserve() && !log.has_room(1_000_000));
    let most = (100_000..).find(|&bytes| !log.has_room(bytes)).unwrap() - 1;
    let extents = log.usage().extents;
    log.secure(most, &longest).unwrap();
    assert_eq!(log.usage().extents, extents);
    log.secure(most + 1, &longest).unwrap();
    assert_eq!(log.usage().extents, extents + 1);
}

#[test]
fn on_a_full_medium_the_active_segment_secures_what_fits_beside_a_sync_mark() {
    let db = full();
    let log = &db.store().engine.log;
    let room = log.room_of_active();
    let secures = |bytes: u64, longest: u64| match log.secure(bytes, &|| Ok(longest)) {
        Ok(()) => true,
        Err(Error::NoSpace) => false,
        Err(error) => panic!("{error}"),
    };
    assert!(secures(room - MARK_LEN as u64, 1000) && !secures(room - MARK_LEN as u64 + 1, 1000));
}

/// Without a reserve, what makes space leaves room for the frames that retire what it has emptied.
#[test]
fn what_makes_space_leaves_the_last_bytes_to_retirements_where_there_is_no_reserve() {
    let db = full();
    let log = &db.store().engine.log;
    let mut len = 0;
    loop {
        match append(log, 40, Purpose::MakeSpace) {
            Ok(appended) => len = appended,
            Err(Error::NoSpace) => break,
            Err(error) => panic!("{error}"),
        }
    }
    let left = log.room_of_active();
    assert!(left >= RETIRE_ROOM && left < RETIRE_ROOM + len, "{left} bytes");
    while append(log, 40, Purpose::BookKeeping).is_ok() {}
    assert!(log.room_of_active() < len);
}

#[test]
fn where_there_is_a_reserve_segments_are_filled_to_their_ends_for_every_purpose() {
    for purpose in [Purpose::Store, Purpose::MakeSpace, Purpose::BookKeeping] {
        let db = opened(&MemoryStorage::new());
        db.insert("a key", "value").unwrap();
        let log = &db.store().engine.log;
        let left = |_| {
            assert!(log.secure_free(1).unwrap());
            append(log, 40, purpose).unwrap();
            log.room_of_active()
        };
        let least = (0..200).map(left).min().unwrap();
        assert!(least < 60, "{least} bytes were left of a segment");
    }
}

/// What a write has made the file grow by, before it turned out that there is not enough room for it, goes back to the host.
#[test]
fn a_write_that_finds_no_room_leaves_the_file_as_long_as_it_was() {
    let storage = MemoryStorage::new();
    let medium = FaultStorage::new(storage.clone());
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(medium.clone())).unwrap();
    db.insert("a", "short value").unwrap();
    let before = storage.len().unwrap();
    medium.set_capacity(Some(before + 32 * 4096));
    assert!(matches!(db.insert("b", alloc::vec![1; 64 * 4096]), Err(Error::NoSpace)));
    // But for the reserve that removals need.
    let after = storage.len().unwrap();
    assert!(after <= before + 2 * 4096, "{before} bytes, and {after} behind it");
    db.insert("b", alloc::vec![1; 16 * 4096]).unwrap();
}
