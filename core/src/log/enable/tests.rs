//! What the superblocks say from the moment on from which a plain store is sealed.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
use super::*;
use crate::seal::{Cipher, PlainSide, Ring, Secret};
use crate::unlock::enabled;
use crate::{Db, storage::MemoryStorage};
use alloc::boxed::Box;
use alloc::sync::Arc;

/// A plain store of so many full segments.
fn plain(segments: u8) -> Db {
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(MemoryStorage::new())).unwrap();
    (0..segments).for_each(|key| db.insert([key], alloc::vec![key; 3_000]).unwrap());
    db.store().engine.log.seal_active().unwrap();
    db
}

/// Seals it; the version of its page of keys, and what was appended.
fn sealed(db: &Db) -> (u64, Cut) {
    let log = &db.store().engine.log;
    let cipher = Cipher::default();
    let secret = Secret::Key([8; 32].into());
    let (set, (version, page)) = enabled(&*log.storage, &log.store_id, cipher, &secret).unwrap();
    let ring = Ring { current: Arc::new(set), previous: None, border: 0, plain: PlainSide::Before };
    let keys = Keys::new(log.store_id, cipher, ring, (version, page)).unwrap();
    (version, log.begin_sealing(keys, &mut Digests::default(), 9).unwrap())
}

#[test]
fn the_superblocks_name_the_page_of_keys_the_border_and_the_list_behind_it() {
    let db = plain(3);
    let log = &db.store().engine.log;
    let (before, headers, border) = (log.superblock(), log.headers_so_far(), log.tail.lock().next_base);
    let (version, cut) = sealed(&db);
    let checkpoint = CheckpointPlace { base: border, salt: cut.segment.salt, offset: cut.offset, directory: None };
    let generation = before.generation + 2;
    let expected = Superblock {
        generation,
        key_page: version,
        sealed_from: border,
        checkpoint: Some(checkpoint),
        headers: headers + 1,
        ..before
    };
    assert_eq!(log.superblock(), expected);
    assert_eq!((cut.segment.base, cut.segments.len(), cut.floor), (border, 4, 0));
    assert!(log.is_sealed() && log.holds_sealed() && log.tag_len() == TAG_LEN as u64);
    assert_eq!((log.listed(), log.end()), (cut.listed, cut.segment.lsn(log.geometry, cut.end)));
    core::mem::forget(db);
}

#[test]
fn the_floor_that_the_list_names_is_that_of_the_superblocks_and_without_one_theirs_stays() {
    for is_given_up in [false, true] {
        let db = plain(3);
        let log = &db.store().engine.log;
        let segments = log.segments();
        let floor = |at: usize| (segments[at].next_base(log.geometry), segments[at].salt);
        log.set_floor(floor(0), false).unwrap();
        log.set_floor(if is_given_up { (0, 0) } else { floor(1) }, false).unwrap();
        assert_eq!(log.superblock().floor, floor(0).0);
        let (_, cut) = sealed(&db);
        let expected = if is_given_up { (0, floor(0).0) } else { (floor(1).0, floor(1).0) };
        assert_eq!((cut.floor, log.superblock().floor), expected);
        core::mem::forget(db);
    }
}

/// Where the list just does not fit into one extent less.
#[test]
fn the_first_sealed_segment_has_room_for_the_list_and_for_marks_in_front_of_it() {
    let need = |segments: u64| {
        let list = 64 + (segments + 1) * super::super::LIST_ENTRY_LEN_MAX + segments * crate::seal::LISTED_LEN as u64;
        SEGMENT_HEADER_LEN as u64 + list + SLACK + TRAILER_LEN
    };
    // The bytes of a trailer more or less would be another number of extents.
    let is_close = |need: u64| need.div_ceil(4096) > (need - 2 * TRAILER_LEN).div_ceil(4096);
    let counts: Vec<u8> = (1..=60).filter(|&segments| is_close(need(u64::from(segments)))).collect();
    assert!(!counts.is_empty());
    for segments in counts {
        let db = plain(segments);
        let (_, cut) = sealed(&db);
        let extents = need(u64::from(segments)).div_ceil(4096);
        assert_eq!((cut.segments.len(), u64::from(cut.segment.extents)), (usize::from(segments) + 1, extents));
        core::mem::forget(db);
    }
}
