//! Loading a snapshot: all of it is checked at once, and each shard is decoded when it is needed. Anything that does not fit means that
//! there is no snapshot.

use super::parts::{self, Part};
use super::{CHUNK_HEADER_LEN, SegmentUse};
use crate::error::{Error, Result};
use crate::frame::{bind, crc32c};
use crate::index::{SHARDS, ShardImage};
#[cfg(feature = "salvage")]
use crate::log::CheckpointPlace;
use crate::log::{SEGMENT_HEADER_LEN, Window};
use crate::planted::{Bug, is};
use crate::storage::Storage;
use alloc::string::String;
use alloc::vec::Vec;

/// A snapshot, every part of which has been held against its checksum; the shards have not been decoded.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) next_namespace: u32,
    pub(crate) names: Vec<(String, u32)>,
    /// Where the part of each shard stands that holds anything.
    pub(crate) shards: Vec<(usize, u64)>,
    pub(crate) uses: Vec<SegmentUse>,
}

/// Checks the snapshot at `offset`, and reads all of it but the shards.
///
/// # Errors
///
/// [`Error::Corrupt`] with the offset of the chunk that does not fit.
pub(crate) fn load(storage: &dyn Storage, offset: u64, len: u64, salt: u64) -> Result<Loaded> {
    let mut chunks = Chunks::of(storage, offset, len, salt)?;
    let end = chunks.end;
    let (next_namespace, names) = chunks.next(parts::decode_names)?;
    let mut shards: Vec<(usize, u64)> = Vec::new();
    let uses = loop {
        let position = chunks.position;
        match chunks.next(parts::decode_part)? {
            Part::Shard(shard) if shard < SHARDS && shards.last().is_none_or(|&(before, _)| before < shard) => {
                shards.push((shard, position));
            }
            Part::Shard(_) => {
                return Err(Error::corrupt(position, "the order of the parts of the index snapshot"));
            }
            Part::Uses(uses) => break uses,
        }
    };
    if chunks.position == end {
        Ok(Loaded { next_namespace, names, shards, uses })
    } else {
        Err(Error::corrupt(chunks.position, "bytes behind the last part of the index snapshot"))
    }
}

/// Reads the next number and the names, whatever has become of the rest.
///
/// # Errors
///
/// [`Error::Corrupt`] when they do not check.
#[cfg(feature = "salvage")]
pub(crate) fn load_names(storage: &dyn Storage, place: &CheckpointPlace) -> Result<(u32, Vec<(String, u32)>)> {
    Chunks::of(storage, place.snapshot_offset, place.snapshot_len, place.snapshot_salt)?.next(parts::decode_names)
}

/// Reads the shard whose part of the snapshot stands at `position`.
///
/// # Errors
///
/// [`Error::Corrupt`] when it has changed since [`load`] has looked at it, or never was one.
pub(crate) fn load_shard(storage: &dyn Storage, position: u64, salt: u64) -> Result<ShardImage> {
    let end = storage.len()?;
    Chunks { window: Window::new(storage, end), salt, position, end }.next(parts::decode_shard)
}

struct Chunks<'a> {
    window: Window<'a>,
    salt: u64,
    position: u64,
    end: u64,
}

impl<'a> Chunks<'a> {
    /// Those of the snapshot at `offset`.
    fn of(storage: &'a dyn Storage, offset: u64, len: u64, salt: u64) -> Result<Self> {
        let start = offset.saturating_add(SEGMENT_HEADER_LEN as u64);
        let end = start.saturating_add(len);
        if offset < crate::limits::DATA_START || end > storage.len()? {
            return Err(Error::corrupt(offset, "an index snapshot that reaches past the end of the file"));
        }
        Ok(Self { window: Window::new(storage, end), salt, position: start, end })
    }

    fn next<T>(&mut self, decode: impl FnOnce(&[u8]) -> Option<T>) -> Result<T> {
        let offset = self.position;
        let damaged = || Error::corrupt(offset, "a part of the index snapshot");
        let body_start = offset + CHUNK_HEADER_LEN as u64;
        if body_start > self.end {
            return Err(damaged());
        }
        let header = self.window.bytes(offset, CHUNK_HEADER_LEN)?.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (len, crc) = (header as u32, (header >> 32) as u32);
        if body_start + u64::from(len) > self.end {
            return Err(damaged());
        }
        let body = self.window.bytes(body_start, len as usize)?;
        if crc != crc32c(body) ^ bind(self.salt, offset) && !is(Bug::SnapshotUnchecked) {
            return Err(damaged());
        }
        let part = decode(body).ok_or_else(damaged)?;
        self.position = body_start + u64::from(len);
        Ok(part)
    }
}
