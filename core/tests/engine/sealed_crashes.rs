//! Sealed stores behind crashes: what a power cut leaves is never taken for what somebody without the key has done.
#![cfg(all(feature = "encrypt", feature = "testing"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::killed;
use pipkin::Db;
use pipkin::storage::{MemoryStorage, Storage};

/// Bytes of an extent, and where the first one begins.
const EXTENT: usize = 4096;
const FIRST: usize = 16_384;
const HEADER_LEN: usize = 704;

fn open(file: &MemoryStorage) -> pipkin::Result<Db> {
    Db::builder().encryption_key([7; 32]).segment_size(EXTENT as u32).background(false).open_storage(Box::new(file.clone()))
}

fn bytes(file: &MemoryStorage) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Offset, extents and number of each segment header in the file.
fn headers(bytes: &[u8]) -> Vec<(usize, u32, u64)> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let starts = (FIRST..bytes.len().saturating_sub(HEADER_LEN)).step_by(EXTENT).filter(|&at| &bytes[at + 16..at + 20] == b"PSEG");
    starts.map(|at| (at, word(at + 24) as u32, word(at + 72))).collect()
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
    let (start, extents, _) = headers(&cut).into_iter().max_by_key(|(_, _, number)| *number).unwrap();
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
    let inside = headers(&mixed).into_iter().find(|(at, _, _)| (start + EXTENT..start + 3 * EXTENT).contains(at)).unwrap();
    assert!(headers(&mixed).iter().any(|(at, _, number)| *at == start && *number < inside.2), "the space was used again");
    mixed[start..start + HEADER_LEN].copy_from_slice(&cut[start..start + HEADER_LEN]);
    let file = MemoryStorage::from_vec(mixed);
    let db = open(&file).unwrap();
    assert_eq!(db.len().unwrap(), 1);
    db.close().unwrap();
    let db = open(&file).unwrap();
    db.insert("size", "small").unwrap();
    killed(db);
    let newest = headers(&bytes(&file)).into_iter().max_by_key(|(_, _, number)| *number).unwrap();
    assert!(newest.2 > inside.2, "{newest:?} {inside:?}");
    assert_eq!(open(&file).unwrap().get("size").unwrap().as_deref(), Some(&b"small"[..]));
}
