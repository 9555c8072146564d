//! What segments say about the commits that cross their borders.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::{SEGMENT_HEADER_LEN, SegmentHeader, TRAILER_LEN};
use crate::Db;
use crate::storage::MemoryStorage;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes of a segment for frames.
const ROOM: u64 = 4096 - SEGMENT_HEADER_LEN as u64 - TRAILER_LEN;

/// What the headers of a store's segments say, after one commit of values of these lengths, and a record behind it.
fn carried_over(lens: &[usize]) -> Vec<u64> {
    let storage = MemoryStorage::new();
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false);
    let db = builder.open_storage(Box::new(storage.clone())).unwrap();
    db.insert_many((0_u8..).zip(lens).map(|(key, &len)| ([key], alloc::vec![key; len]))).unwrap();
    db.insert("behind", "it").unwrap();
    let log = &db.store().engine.log;
    let header = |extent: u32| SegmentHeader::read(&storage, log.store_id, log.geometry.start(extent)).unwrap().unwrap();
    log.segments().iter().map(|segment| u64::from(header(segment.extent).carried_over)).collect()
}

/// Length of the frame of a record with a value of a length of two bytes.
fn frame_len(value: usize) -> u64 {
    let db = Db::builder().background(false).in_memory().unwrap();
    db.insert([0], alloc::vec![0; value]).unwrap();
    let log = &db.store().engine.log;
    let segment = log.segments()[0];
    log.header(segment.first_frame(log.geometry)).unwrap().frame_len() as u64
}

/// Whoever reads the log from a border on passes over the rest of the commit that was begun before.
#[test]
fn a_segment_says_how_much_of_it_belongs_to_a_commit_from_before() {
    let head = frame_len(1000) - 1000;
    assert_eq!(carried_over(&[100, 100]), [0]);
    // Two of these fit into a segment.
    let two = frame_len(1200) * 2;
    assert_eq!(carried_over(&[1200; 7]), [0, two, two, two / 2]);
    // What fills the second segment to the last byte belongs to it, and what is one byte too long does not.
    let rest = (ROOM - frame_len(1200) - head) as usize;
    assert_eq!(carried_over(&[3000, 1200, rest, 500]), [0, ROOM, frame_len(500)]);
    assert_eq!(carried_over(&[3000, 1200, rest + 1, 500]), [0, frame_len(1200), frame_len(rest + 1) + frame_len(500)]);
}
