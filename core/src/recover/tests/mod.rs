//! The rows of the recovery table in `core/FORMAT.md`, one test each where a single file shows it. The crash suites go through the
//! combinations.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

mod advances;
mod decisions;
mod drawn;
mod ends;
mod followed;
mod forged;
mod headers;
mod lists;
mod replayed;
mod standing;
mod unlisted;

use crate::frame::{FrameSpec, Kind, Meta};
use crate::log::{SegmentHeader, SegmentKind};
use crate::storage::MemoryStorage;
use crate::{Db, Error};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Offset of the first frame of the first segment.
const FIRST: usize = 16_384 + 704;
/// Offset of the second superblock; the first one is at the start of the file.
const SECOND_SUPERBLOCK: usize = 4096;

fn open(bytes: &[u8]) -> Result<(Db, MemoryStorage), Error> {
    let storage = MemoryStorage::from_vec(bytes.to_vec());
    let db = Db::builder().segment_size(4096).entropy([7; 32]).open_storage(Box::new(storage.clone()))?;
    Ok((db, storage))
}

/// Offset of a key that is directly followed by its value.
fn find(bytes: &[u8], what: &[u8]) -> usize {
    bytes.windows(what.len()).position(|window| window == what).unwrap()
}

fn keys(db: &Db) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = db.keys().map(Result::unwrap).collect();
    keys.sort();
    keys
}

fn corrupt_at(bytes: &[u8]) -> u64 {
    match open(bytes).err() {
        Some(Error::Corrupt { offset, .. }) => offset,
        other => panic!("expected damage, got {other:?}"),
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Offset of the newer superblock, by its generation.
fn newest_superblock(bytes: &[u8]) -> usize {
    if word(bytes, 48) > word(bytes, SECOND_SUPERBLOCK + 48) { 0 } else { SECOND_SUPERBLOCK }
}

/// Offset of the segment list.
fn list_of(bytes: &[u8]) -> usize {
    word(bytes, newest_superblock(bytes) + 88) as usize
}

/// Changes both superblocks, and signs them again.
fn change_superblocks(bytes: &mut [u8], change: impl Fn(&mut [u8])) {
    for slot in [0, SECOND_SUPERBLOCK] {
        change(&mut bytes[slot..slot + 512]);
        let crc = crate::frame::crc32c(&bytes[slot..slot + 508]) ^ crate::frame::bind(0, slot as u64);
        bytes[slot + 508..slot + 512].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Takes the index snapshot out of the superblocks, as a checkpoint leaves them that has no room for one.
fn drop_snapshot(bytes: &mut [u8]) {
    change_superblocks(bytes, |superblock| superblock[96..120].fill(0));
}

/// A header of the log that no engine has written, one extent long, with a salt of 77 and a sync position after everything.
pub(super) fn forged_header(
    base: u64,
    (previous_base, previous_salt, previous_end): (u64, u64, u64),
    session: u64,
) -> SegmentHeader {
    SegmentHeader {
        salt: 77,
        kind: SegmentKind::Log,
        base,
        extents: 1,
        carried_over: 0,
        previous_base,
        previous_salt,
        previous_end,
        synced: 1 << 61,
        session,
        number: 1 << 61,
        fresh: false,
        linked: false,
        #[cfg(feature = "encrypt")]
        seal: None,
    }
}

/// The header as bytes at the file offset `start`, followed by a valid record of the key `evil`.
fn forged_segment(header: &SegmentHeader, id: [u8; 16], start: u64) -> Vec<u8> {
    let mut bytes = header.encode(id, start).to_vec();
    let spec = FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: b"evil", value: b"x" };
    let at = start + bytes.len() as u64;
    spec.encode_into(&mut bytes, header.salt, at);
    bytes
}
