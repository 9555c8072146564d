//! What opening refuses stays byte for byte.
#![cfg(feature = "native")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::find;
use pipkin::{Db, Error};

/// Opening wrote the note of its process into the file before it had looked at the log, and took it back when the log was refused: the note that
/// a killed process had left was gone, and the file was another one for whoever compares.
#[test]
fn a_store_that_is_refused_stays_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let db = Db::open(&path).unwrap();
    db.insert("first", "a value that will be damaged").unwrap();
    db.flush().unwrap();
    // The first append behind a flush says how far that reached: what stands in front of it is proven.
    db.insert("second", "value").unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let path = folder.path().join("b.pipkin");
    let place = find(&bytes, b"damaged");
    bytes[place] ^= 1;
    // What a killed process has left in the page of the holder.
    bytes[8192..8200].copy_from_slice(b"PIPKHOLD");
    std::fs::write(&path, &bytes).unwrap();
    let times = || std::fs::metadata(&path).unwrap().modified().unwrap();
    let before = times();
    let refused = Db::open(&path);
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
    assert!(std::fs::read(&path).unwrap() == bytes, "the file was changed");
    assert_eq!(times(), before, "the file was written to");
}
