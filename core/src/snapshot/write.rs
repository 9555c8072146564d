//! Writing the parts of a snapshot, a shard at a time, while the store is in use.

use super::directory::{Directory, PartPlace, ShardPlace};
use super::{CHUNK_HEADER_LEN, parts};
use crate::error::{Error, Result};
use crate::frame::{bind, crc32c};
use crate::index::{Expiring, SHARDS, ShardChanges, ShardImage, Slot};
use crate::limits::NAMESPACE_NAME_LEN_MAX;
use crate::log::{DirectoryPlace, Geometry, SEGMENT_HEADER_LEN, SnapshotSegment};
use crate::names::Names;
use crate::planted::{Bug, is};
use crate::storage::Storage;
use alloc::vec::Vec;

const GATHER: usize = 256 * 1024;
/// About the bytes of a calendar beside one for each slot.
const CALENDAR_LEN: u64 = 128;

/// Upper bound in bytes of a whole snapshot of `records` records, with room for records and names that are added
/// meanwhile. With calendars if some expire.
pub(crate) fn estimate(records: u64, some_expire: bool, names: &Names, segments: usize, file_len: u64) -> u64 {
    let records = records + records / 16 + 256;
    let names = (names.bytes() + names.options_bytes() + names.len() * 8 + 8 * NAMESPACE_NAME_LEN_MAX) as u64;
    let shards = records.min(SHARDS as u64) * 40;
    let slots = records * (3 + offset_width(file_len) as u64);
    let calendars = if some_expire { records + records.min(SHARDS as u64) * CALENDAR_LEN } else { 0 };
    SEGMENT_HEADER_LEN as u64 + names + shards + slots + calendars + segments as u64 * 24 + 1024
}

/// Number of bytes of an offset, enough for a much longer file, since it grows meanwhile.
fn offset_width(file_len: u64) -> usize {
    ((file_len * 2).max(1).ilog2() as usize / 8 + 1).min(6)
}

/// Gathers the parts and writes them to the file.
pub(crate) struct SnapshotWriter<'a> {
    storage: &'a dyn Storage,
    geometry: Geometry,
    /// Takes a segment with room for this many bytes after its header, and writes the header.
    take: &'a dyn Fn(u64) -> Result<SnapshotSegment>,
    /// The segments taken so far; the caller gives them back if the snapshot is not finished.
    taken: &'a mut Vec<SnapshotSegment>,
    buffer: Vec<u8>,
    /// File offset of the first byte of the buffer.
    position: u64,
    limit: u64,
    salt: u64,
    offset_width: usize,
    /// Bytes of the tag of each part in a sealed store.
    tag_len: usize,
}

impl<'a> SnapshotWriter<'a> {
    pub(crate) fn new(
        storage: &'a dyn Storage,
        geometry: Geometry,
        take: &'a dyn Fn(u64) -> Result<SnapshotSegment>,
        taken: &'a mut Vec<SnapshotSegment>,
    ) -> Result<Self> {
        let offset_width = offset_width(storage.len()?);
        #[cfg(feature = "encrypt")]
        let tag_len = super::sealed::tag_len(storage);
        #[cfg(not(feature = "encrypt"))]
        let tag_len = 0;
        Ok(Self { storage, geometry, take, taken, buffer: Vec::new(), position: 0, limit: 0, salt: 0, offset_width, tag_len })
    }

    /// Adds a part, in a new segment if the current one has no room for it. Returns its place.
    fn chunk(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<PartPlace> {
        let from = self.buffer.len();
        self.buffer.extend_from_slice(&[0; CHUNK_HEADER_LEN]);
        encode(&mut self.buffer);
        self.buffer.resize(self.buffer.len() + self.tag_len, 0);
        let from = if self.position + self.buffer.len() as u64 > self.limit { self.begin_segment(from)? } else { from };
        let place = PartPlace { offset: self.position + from as u64, salt: self.salt };
        if let Some((header, body)) = self.buffer.get_mut(from..).and_then(<[u8]>::split_first_chunk_mut::<CHUNK_HEADER_LEN>) {
            #[cfg(feature = "encrypt")]
            super::sealed::seal(self.storage, self.salt, place.offset, body)?;
            let crc = crc32c(body) ^ bind(self.salt, place.offset);
            *header = (body.len() as u64 | u64::from(crc) << 32).to_le_bytes();
        }
        if self.buffer.len() >= GATHER {
            self.write_out()?;
        }
        Ok(place)
    }

    /// Begins a new segment with the bytes of the buffer from `from` on. Returns their new index in the buffer.
    fn begin_segment(&mut self, from: usize) -> Result<usize> {
        let chunk = self.buffer.split_off(from);
        self.write_out()?;
        let segment = (self.take)(chunk.len() as u64)?;
        self.taken.push(segment);
        (self.position, self.limit, self.salt) = (segment.end, segment.behind(self.geometry), segment.salt);
        self.buffer = chunk;
        Ok(0)
    }

    fn write_out(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        self.storage.write_at(self.position, &[&self.buffer])?;
        self.position += self.buffer.len() as u64;
        self.buffer.clear();
        if let Some(last) = self.taken.last_mut() {
            last.end = self.position;
        }
        Ok(())
    }

    /// Adds the names, unless the previous snapshot has the same at `known`. Returns their place and hash.
    pub(crate) fn names<'n>(
        &mut self,
        next: u32,
        names: impl Iterator<Item = (&'n str, u32, &'n [u8])>,
        known: (Option<PartPlace>, u64),
    ) -> Result<(PartPlace, u64)> {
        let mut bytes = Vec::new();
        parts::encode_names(&mut bytes, next, names);
        let hash = parts::hash_of(&bytes);
        match known {
            (Some(place), known) if known == hash => Ok((place, hash)),
            _ => Ok((self.chunk(|out| out.extend_from_slice(&bytes))?, hash)),
        }
    }

    /// Adds a part that is not of a shard.
    #[cfg(any(feature = "events", feature = "ordered"))]
    pub(crate) fn part(&mut self, bytes: &[u8]) -> Result<PartPlace> {
        self.chunk(|out| out.extend_from_slice(bytes))
    }

    /// Adds a part of the order: the offsets of adjacent records.
    #[cfg(feature = "ordered")]
    pub(crate) fn order(&mut self, offsets: &[u64]) -> Result<PartPlace> {
        self.chunk(|out| parts::encode_order(out, offsets))
    }

    pub(crate) fn shard(&mut self, shard: usize, image: &ShardImage) -> Result<ShardPlace> {
        let width = self.width_for(image.slots.iter().map(|slot| slot.offset()).max())?;
        let slots = self.chunk(|out| parts::encode_shard(out, shard, image, width))?;
        Ok(ShardPlace { slots, calendar: self.calendar(shard, &image.slots, &image.expiring)? })
    }

    pub(crate) fn changes(&mut self, shard: usize, changes: &ShardChanges) -> Result<ShardPlace> {
        let width = self.width_for(changes.added.iter().chain(&changes.removed).map(|slot| slot.offset()).max())?;
        let slots = self.chunk(|out| parts::encode_changes(out, shard, changes, width))?;
        if is(Bug::CalendarOfChangesLost) {
            return Ok(ShardPlace { slots, calendar: None });
        }
        Ok(ShardPlace { slots, calendar: self.calendar(shard, &changes.added, &changes.expiring)? })
    }

    /// Adds the calendar of a part, if a record of it expires.
    fn calendar(&mut self, shard: usize, slots: &[Slot], expiring: &[Expiring]) -> Result<Option<PartPlace>> {
        if expiring.is_empty() {
            return Ok(None);
        }
        self.chunk(|out| parts::encode_calendar(out, shard, slots, expiring)).map(Some)
    }

    /// The width for offsets up to `largest`.
    fn width_for(&mut self, largest: Option<u64>) -> Result<usize> {
        // The file may have grown to more than twice its length since the snapshot began.
        if largest.is_some_and(|largest| largest >> (8 * self.offset_width) != 0) {
            self.offset_width = offset_width(self.storage.len()?);
        }
        Ok(self.offset_width)
    }

    /// Writes the directory. It becomes valid once a superblock names its place.
    pub(crate) fn finish(mut self, mut directory: Directory) -> Result<(Directory, DirectoryPlace)> {
        self.write_out()?;
        directory.segments.extend(self.taken.iter().map(|segment| segment.used(self.geometry)));
        // The end of the directory is not known yet, so keep all extents of the last segment.
        if let (Some(last), Some(taken)) = (directory.segments.last_mut(), self.taken.last()) {
            *last = *taken;
        }
        directory.drop_unused(1);
        let mut bytes = Vec::new();
        directory.encode(&mut bytes, self.geometry);
        let around = CHUNK_HEADER_LEN + self.tag_len;
        let room = self.limit - self.position;
        if self.taken.is_empty() || (around + bytes.len()) as u64 > room {
            // The directory must name its own segment, too.
            let segment = (self.take)((around + bytes.len() + SEGMENT_ENTRY_LEN_MAX) as u64)?;
            self.taken.push(segment);
            if let Some(last) = directory.segments.last_mut() {
                *last = last.used(self.geometry);
            }
            directory.segments.push(segment);
            directory.drop_unused(1);
            (self.position, self.limit, self.salt) = (segment.end, segment.behind(self.geometry), segment.salt);
            bytes.clear();
            directory.encode(&mut bytes, self.geometry);
        }
        let place = self.chunk(|out| out.extend_from_slice(&bytes))?;
        self.write_out()?;
        match (directory.segments.last_mut(), self.taken.last()) {
            (Some(last), Some(taken)) if last.salt == place.salt => *last = taken.used(self.geometry),
            _ => return Err(Error::Bug("a directory of the snapshot that does not name its own segment")),
        }
        Ok((directory, DirectoryPlace { offset: place.offset, len: (around + bytes.len()) as u64, salt: place.salt }))
    }
}

/// Upper bound in bytes of a directory's entry for a segment.
const SEGMENT_ENTRY_LEN_MAX: usize = 8 + 3 * 9;

const _: () = assert!(SEGMENT_HEADER_LEN < 4096 - SEGMENT_ENTRY_LEN_MAX, "the smallest segment holds a part");
