//! Writing a snapshot, a shard at a time, while the store goes on.

use super::{CHUNK_HEADER_LEN, SegmentUse, parts};
use crate::error::{Error, Result};
use crate::frame::{bind, crc32c};
use crate::index::{SHARDS, ShardImage};
use crate::limits::NAMESPACE_NAME_LEN_MAX;
use crate::log::SEGMENT_HEADER_LEN;
use crate::names::Names;
use crate::storage::Storage;
use alloc::vec::Vec;

const GATHER: usize = 256 * 1024;

/// Bytes that a snapshot of `records` records needs at most, with room for records and names that arrive while it is written.
pub(crate) fn estimate(records: u64, names: &Names, segments: usize, file_len: u64) -> u64 {
    let records = records + records / 16 + 256;
    let names = (names.bytes() + names.len() * 6 + 8 * NAMESPACE_NAME_LEN_MAX) as u64;
    let shards = records.min(SHARDS as u64) * 32;
    let slots = records * (3 + offset_width(file_len) as u64);
    SEGMENT_HEADER_LEN as u64 + names + shards + slots + segments as u64 * 24 + 1024
}

/// Bytes that hold every offset of the file, and of a file a good deal longer: it grows meanwhile.
fn offset_width(file_len: u64) -> usize {
    ((file_len * 2).max(1).ilog2() as usize / 8 + 1).min(6)
}

/// A snapshot on its way to the file.
pub(crate) struct SnapshotWriter<'a> {
    storage: &'a dyn Storage,
    salt: u64,
    buffer: Vec<u8>,
    /// Offset in the file of the front of the buffer.
    position: u64,
    start: u64,
    limit: u64,
    offset_width: usize,
}

impl<'a> SnapshotWriter<'a> {
    /// A writer into `start..limit`, behind the segment header.
    pub(crate) fn new(storage: &'a dyn Storage, salt: u64, start: u64, limit: u64, file_len: u64) -> Self {
        let position = start + SEGMENT_HEADER_LEN as u64;
        Self { storage, salt, buffer: Vec::new(), position, start, limit, offset_width: offset_width(file_len) }
    }

    fn chunk(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let from = self.buffer.len();
        self.buffer.extend_from_slice(&[0; CHUNK_HEADER_LEN]);
        encode(&mut self.buffer);
        let offset = self.position + from as u64;
        if let Some((header, body)) = self.buffer.get_mut(from..).and_then(<[u8]>::split_first_chunk_mut::<CHUNK_HEADER_LEN>) {
            let crc = crc32c(body) ^ bind(self.salt, offset);
            *header = (body.len() as u64 | u64::from(crc) << 32).to_le_bytes();
        }
        if self.position + self.buffer.len() as u64 > self.limit {
            return Err(Error::NoSpace);
        }
        if self.buffer.len() >= GATHER { self.write_out() } else { Ok(()) }
    }

    fn write_out(&mut self) -> Result<()> {
        self.storage.write_at(self.position, &[&self.buffer])?;
        self.position += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    pub(crate) fn names<'n>(&mut self, next: u32, names: impl Iterator<Item = (&'n str, u32)>) -> Result<()> {
        self.chunk(|out| parts::encode_names(out, next, names))
    }

    pub(crate) fn shard(&mut self, shard: usize, image: &ShardImage) -> Result<()> {
        if image.slots.is_empty() {
            return Ok(());
        }
        let width = self.offset_width;
        if image.slots.iter().any(|slot| slot.offset() >> (8 * width) != 0) {
            // The file has outgrown twice its length since the beginning: the caller starts over.
            return Err(Error::NoSpace);
        }
        self.chunk(|out| parts::encode_shard(out, shard, image, width))
    }

    /// The last part. Says how many bytes stand behind the segment header.
    pub(crate) fn finish(mut self, uses: &[SegmentUse]) -> Result<u64> {
        self.chunk(|out| parts::encode_uses(out, uses))?;
        self.write_out()?;
        Ok(self.position - self.start - SEGMENT_HEADER_LEN as u64)
    }
}
