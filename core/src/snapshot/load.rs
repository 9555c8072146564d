//! Loading a snapshot: all of it is verified at once, and each shard is merged when it is needed. If anything is invalid, there is no
//! snapshot.

use super::directory::{Directory, PartPlace, ShardPlace};
use super::parts::NamedNumber;
use super::{CHUNK_HEADER_LEN, merge, parts};
use crate::error::{Error, Result};
use crate::frame::{bind, crc32c};
use crate::index::ShardImage;
#[cfg(feature = "std")]
use crate::index::{Base, BasePlace, Rot, Slot};
use crate::log::{DirectoryPlace, Geometry, SEGMENT_HEADER_LEN, SegmentHeader, SegmentKind, SnapshotSegment, Window};
use crate::planted::{Bug, is};
use crate::sorted::sort_by_key;
use crate::storage::Storage;
#[cfg(feature = "std")]
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Reads the directory at `place`, and checks it against the headers of the segments that it names.
///
/// # Errors
///
/// [`Error::Corrupt`] when it is not valid, or a segment that it names is missing.
pub(crate) fn read_directory(
    storage: &dyn Storage,
    geometry: Geometry,
    store_id: [u8; 16],
    place: DirectoryPlace,
) -> Result<Directory> {
    let (offset, file_len) = (place.offset, storage.len()?);
    let end = offset.saturating_add(place.len);
    if offset < crate::limits::DATA_START || end > file_len {
        return Err(Error::corrupt(offset, "an index snapshot that reaches past the end of the file"));
    }
    let part = PartPlace { offset, salt: place.salt };
    let decode = |bytes: &[u8]| Directory::decode(bytes, geometry, offset, file_len);
    let mut directory = Chunks::new(storage, end).read(part, decode)?;
    for segment in &directory.segments {
        let start = geometry.start(segment.extent);
        let fits = |header: SegmentHeader| {
            header.kind == SegmentKind::Snapshot && header.salt == segment.salt && header.extents >= segment.extents
        };
        if !SegmentHeader::read(storage, store_id, start)?.is_some_and(fits) {
            return Err(Error::corrupt(start, "the header of a segment of the index snapshot"));
        }
    }
    // The last one holds the directory, too.
    match directory.segments.last_mut() {
        Some(last) if last.salt == place.salt && end <= last.behind(geometry) => {
            last.end = end;
            *last = last.used(geometry);
        }
        _ => return Err(Error::corrupt(offset, "the place of the directory of the index snapshot")),
    }
    Ok(directory)
}

/// Verifies every part of a snapshot, and reads the next number and the names.
///
/// # Errors
///
/// [`Error::Corrupt`] with the offset of the invalid part.
pub(crate) fn load(storage: &dyn Storage, directory: &mut Directory) -> Result<(u32, Vec<NamedNumber>)> {
    let mut chunks = Chunks::new(storage, storage.len()?);
    let mut parts: Vec<PartPlace> = directory.shard_parts().collect();
    // In file order, for the host's read-ahead.
    sort_by_key(&mut parts, |part| part.offset);
    for part in parts {
        chunks.read(part, |_| Some(()))?;
    }
    let names = directory.names.unwrap_or_default();
    let (found, hash) = chunks.read(names, |bytes| Some((parts::decode_names(bytes)?, parts::hash_of(bytes))))?;
    directory.names_hash = hash;
    Ok(found)
}

/// Verifies every chunk of a segment, including those that no directory names any more.
///
/// # Errors
///
/// [`Error::Corrupt`] with the offset of the invalid chunk.
pub(crate) fn check_chunks(storage: &dyn Storage, geometry: Geometry, segment: &SnapshotSegment) -> Result<()> {
    let mut chunks = Chunks::new(storage, segment.end);
    let mut offset = geometry.start(segment.extent) + SEGMENT_HEADER_LEN as u64;
    while offset < segment.end {
        let len = chunks.stored(PartPlace { offset, salt: segment.salt })?.len();
        offset += (CHUNK_HEADER_LEN + len) as u64;
    }
    Ok(())
}

/// Reads the next number and the names, even if the rest is damaged.
///
/// # Errors
///
/// [`Error::Corrupt`] when they are damaged.
#[cfg(feature = "salvage")]
pub(crate) fn load_names(storage: &dyn Storage, directory: &Directory) -> Result<(u32, Vec<NamedNumber>)> {
    Chunks::new(storage, storage.len()?).read(directory.names.unwrap_or_default(), parts::decode_names)
}

/// Reads a shard from the parts at these places.
///
/// # Errors
///
/// [`Error::Corrupt`] when they have changed since [`load`] verified them, or never were parts of one shard.
pub(crate) fn load_shard(storage: &dyn Storage, shard: usize, places: &[ShardPlace]) -> Result<ShardImage> {
    let mut chunks = Chunks::new(storage, storage.len()?);
    let (mut parts, mut expiring) = (Vec::new(), Vec::new());
    for place in places {
        let part = chunks.read(place.slots, |bytes| parts::decode_shard(bytes, shard))?;
        if let Some(calendar) = place.calendar {
            expiring.extend(chunks.read(calendar, |bytes| parts::decode_calendar(bytes, shard, part.added()))?);
        }
        parts.push(part);
    }
    let first = places.first().map_or(0, |place| place.slots.offset);
    let image = merge::merge(parts).ok_or_else(|| Error::corrupt(first, "the parts of a shard of the index snapshot"))?;
    Ok(ShardImage { expiring, ..image })
}

/// Reads the whole part of a shard at this place, to leave its slots in the file; `None` if it is sealed. Also returns the slots. `rot` hears of damage
/// that is found in them later.
///
/// # Errors
///
/// As for [`load_shard`].
#[cfg(feature = "std")]
pub(crate) fn load_base(
    storage: &dyn Storage,
    shard: usize,
    place: PartPlace,
    rot: &Arc<Rot>,
) -> Result<Option<(Base, Vec<Slot>)>> {
    #[cfg(feature = "encrypt")]
    if crate::log::is_sealed_segment(storage, place.salt) {
        return Ok(None);
    }
    let mut chunks = Chunks::new(storage, storage.len()?);
    let base = chunks.read(place, |bytes| {
        let (width, at, slots) = parts::decode_base(bytes, shard)?;
        let first = place.offset + (CHUNK_HEADER_LEN + at) as u64;
        let base = BasePlace { part: place.offset, salt: place.salt, slots: first, width };
        Some((Base::new(base, bytes.get(at..)?, &slots, rot)?, slots))
    })?;
    Ok(Some(base))
}

/// Reads a part that is not of a shard.
///
/// # Errors
///
/// [`Error::Corrupt`] when it is damaged.
#[cfg(any(feature = "events", feature = "ordered"))]
pub(crate) fn read_part(storage: &dyn Storage, place: PartPlace) -> Result<Vec<u8>> {
    Chunks::new(storage, storage.len()?).read(place, |bytes| Some(bytes.to_vec()))
}

struct Chunks<'a> {
    #[cfg(feature = "encrypt")]
    storage: &'a dyn Storage,
    window: Window<'a>,
    end: u64,
}

impl<'a> Chunks<'a> {
    fn new(storage: &'a dyn Storage, end: u64) -> Self {
        Self {
            #[cfg(feature = "encrypt")]
            storage,
            window: Window::new(storage, end),
            end,
        }
    }

    fn read<T>(&mut self, place: PartPlace, decode: impl FnOnce(&[u8]) -> Option<T>) -> Result<T> {
        #[cfg(feature = "encrypt")]
        let storage = self.storage;
        let body = self.stored(place)?;
        #[cfg(feature = "encrypt")]
        let body = &*super::sealed::open(storage, place.salt, place.offset, body)?;
        decode(body).ok_or_else(|| damaged(place))
    }

    /// The bytes of a chunk as they stand in the file.
    fn stored(&mut self, place: PartPlace) -> Result<&[u8]> {
        let offset = place.offset;
        let body_start = offset.saturating_add(CHUNK_HEADER_LEN as u64);
        if body_start > self.end {
            return Err(damaged(place));
        }
        let header = self.window.bytes(offset, CHUNK_HEADER_LEN)?.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let (len, crc) = (header as u32, (header >> 32) as u32);
        if body_start + u64::from(len) > self.end {
            return Err(damaged(place));
        }
        let body = self.window.bytes(body_start, len as usize)?;
        if crc != crc32c(body) ^ bind(place.salt, offset) && !is(Bug::SnapshotUnchecked) {
            return Err(damaged(place));
        }
        Ok(body)
    }
}

fn damaged(place: PartPlace) -> Error {
    Error::corrupt(place.offset, "a part of the index snapshot")
}
