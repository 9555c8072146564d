//! Sealed stores behind crashes: what a power cut leaves is never taken for what somebody without the key has done.
#![cfg(all(feature = "encrypt", feature = "testing"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::killed;
use crate::sealed_bytes::{HEADER_LEN, bytes, headers};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error};

/// Bytes of an extent.
const EXTENT: usize = 4096;

fn open(file: &MemoryStorage) -> pipkin::Result<Db> {
    Db::builder().encryption_key([7; 32]).segment_size(EXTENT as u32).background(false).open_storage(Box::new(file.clone()))
}

/// A power cut took the header of a segment that was begun where a longer one had been given up, and left the one behind it, in the space of
/// the longer one. Its number was forgotten, so that the store, once closed, seemed to have been set back.
#[test]
fn a_header_inside_of_a_segment_that_a_crash_brought_back_still_counts() {
    let file = MemoryStorage::new();
    let db = open(&file).unwrap();
    db.insert("color", "green").unwrap();
    db.flush().unwrap();
    // This commit begins in the first segment. Its end is lost, and the header in front of that is not.
    db.insert_many([("small", vec![1; 100]), ("large", vec![1; 9000])]).unwrap();
    killed(db);
    let mut cut = bytes(&file);
    let (start, extents, _) = headers(&cut, EXTENT).into_iter().max_by_key(|(_, _, number)| *number).unwrap();
    assert_eq!(extents, 3);
    cut[start + HEADER_LEN..start + 3 * EXTENT].fill(0);
    let file = MemoryStorage::from_vec(cut.clone());
    let db = open(&file).unwrap();
    assert_eq!(db.len().unwrap(), 1);
    for number in 0..3_u8 {
        db.insert([number], vec![number; 3000]).unwrap();
    }
    killed(db);
    // The power goes, and of these segments the first one's header does not reach the medium.
    let mut mixed = bytes(&file);
    let inside =
        headers(&mixed, EXTENT).into_iter().find(|(at, _, _)| (start + EXTENT..start + 3 * EXTENT).contains(at)).unwrap();
    assert!(headers(&mixed, EXTENT).iter().any(|(at, _, number)| *at == start && *number < inside.2), "the space was used again");
    mixed[start..start + HEADER_LEN].copy_from_slice(&cut[start..start + HEADER_LEN]);
    let file = MemoryStorage::from_vec(mixed);
    let db = open(&file).unwrap();
    assert_eq!(db.len().unwrap(), 1);
    db.close().unwrap();
    let db = open(&file).unwrap();
    db.insert("size", "small").unwrap();
    killed(db);
    let newest = headers(&bytes(&file), EXTENT).into_iter().max_by_key(|(_, _, number)| *number).unwrap();
    assert!(newest.2 > inside.2, "{newest:?} {inside:?}");
    assert_eq!(open(&file).unwrap().get("size").unwrap().as_deref(), Some(&b"small"[..]));
}

/// The key of a session stands in the header of each of its segments, and in the list.
#[test]
fn a_listed_segment_that_has_lost_both_copies_of_its_header_is_read() {
    let file = MemoryStorage::new();
    for session in 0..3_u8 {
        let db = open(&file).unwrap();
        for number in 0..6 {
            db.insert([session, number], vec![number; 900]).unwrap();
        }
        if session == 2 {
            db.checkpoint().unwrap();
        }
        db.close().unwrap();
    }
    let whole = bytes(&file);
    let (mut listed, mut lost) = (0, 0);
    // Those of the index snapshot are not listed.
    for (start, ..) in headers(&whole, EXTENT).into_iter().filter(|&(start, ..)| whole[start + 20] == 1) {
        let mut damaged = whole.clone();
        damaged[start..start + HEADER_LEN].fill(0);
        let file = MemoryStorage::from_vec(damaged);
        // What the list is in, or stands behind it, is not found without its header.
        let Ok(db) = open(&file) else {
            lost += 1;
            continue;
        };
        let found: Vec<_> = db.iter().map(Result::unwrap).collect();
        assert!(
            found.len() == 18 && found.iter().all(|(key, value)| value[..] == vec![key[1]; 900]),
            "without the header at {start}"
        );
        assert!(!db.verify().unwrap().is_ok());
        db.insert("color", "green").unwrap();
        db.compact().unwrap();
        db.close().unwrap();
        assert_eq!(open(&file).unwrap().len().unwrap(), 19);
        listed += 1;
    }
    assert!(listed > 3 && lost > 0, "{listed}, {lost}");
}

/// A session begins a segment, and nothing but the trailer of the one before names that.
#[test]
fn the_first_segment_of_a_session_is_missed_if_a_flush_has_acknowledged_it() {
    for is_flushed in [true, false] {
        let file = MemoryStorage::new();
        let db = open(&file).unwrap();
        db.insert("color", "green").unwrap();
        db.close().unwrap();
        let before = headers(&bytes(&file), EXTENT);
        let db = open(&file).unwrap();
        db.insert("color", "red").unwrap();
        if is_flushed {
            db.flush().unwrap();
        }
        killed(db);
        let mut lost = bytes(&file);
        let added: Vec<_> = headers(&lost, EXTENT).into_iter().filter(|header| !before.contains(header)).collect();
        let [(start, ..)] = added[..] else { panic!("{added:?}") };
        lost[start..start + HEADER_LEN].fill(0);
        match open(&MemoryStorage::from_vec(lost)) {
            Err(Error::Corrupt { .. }) if is_flushed => {}
            Ok(db) if !is_flushed => assert_eq!(db.get("color").unwrap().as_deref(), Some(&b"green"[..])),
            other => panic!("flushed: {is_flushed}, {:?}", other.map(drop)),
        }
    }
}
