//! Fills segments to the byte, with records that no index points at.

use crate::Error;
use crate::frame::{FrameSpec, Kind, Meta};
use crate::log::{Log, Purpose};

/// Appends a record of a key of so many bytes that is dead from the start; returns its length.
pub(super) fn append_dead(log: &Log, len: usize) -> Result<u64, Error> {
    let frame = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: &alloc::vec![9; len], value: &[] };
    log.append_one(&frame, Purpose::BookKeeping).map(|placed| placed.len)
}

/// Appends dead records until exactly nothing is `left`.
pub(super) fn fill(log: &Log, left: &dyn Fn() -> u64) {
    let overhead = append_dead(log, 1).unwrap() - 1;
    while left() > 120 {
        append_dead(log, 40).unwrap();
    }
    append_dead(log, (left() - overhead) as usize).unwrap();
    assert_eq!(left(), 0);
}

#[cfg(feature = "testing")]
pub(super) fn append_tombstone(log: &Log, namespace: u32, key: &[u8]) {
    let frame = FrameSpec { kind: Kind::Tombstone, continues: false, meta: Meta::plain(namespace), key, value: &[] };
    log.append_one(&frame, Purpose::BookKeeping).unwrap();
}
