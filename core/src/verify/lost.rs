//! A store that has lost both superblocks: its segments are found by their headers. A header's checksum is bound to the id of the store,
//! which is lost, too; but a frame's checksum is bound to the salt in the header, so a header counts if a valid frame follows it. With the
//! key of a sealed store its id is known, and a header counts if its tag fits.

use crate::error::Result;
use crate::limits::{DATA_START, SEGMENT_SIZE_MAX, SEGMENT_SIZE_MIN};
use crate::log::{SEGMENT_HEADER_LEN, SegmentHeader, SegmentKind, Step, Superblock, Walk, Window, read_next};
use crate::sorted::Map;
use crate::storage::Storage;
use alloc::vec::Vec;

/// What remains of a store without superblocks.
pub(crate) struct Lost {
    /// A superblock with the only thing that can be derived: the sizes of the extents.
    pub(crate) superblock: Superblock,
    /// Segment headers by extent.
    pub(crate) headers: Map<u32, SegmentHeader>,
}

impl Lost {
    /// `None` when the file holds no segment.
    pub(crate) fn find(storage: &dyn Storage) -> Result<Option<Self>> {
        let found = headers(storage)?;
        let mut best: Option<((usize, usize), Self)> = None;
        let mut full = SEGMENT_SIZE_MIN;
        while full <= SEGMENT_SIZE_MAX {
            let superblock = unknown(storage, full);
            let geometry = superblock.geometry();
            let mut headers = Map::default();
            for (offset, header) in &found {
                let extent = geometry.extent_of(*offset);
                if geometry.start(extent) == *offset {
                    headers.insert(extent, *header);
                }
            }
            // The trailers, which name the next segment, are at the ends of the segments: they distinguish sizes with the same starts.
            let mut linked = 0;
            for (extent, header) in headers.iter().filter(|(_, header)| header.kind == SegmentKind::Log) {
                linked += usize::from(read_next(storage, geometry, &header.segment(geometry, extent))?.is_some());
            }
            let score = (headers.len(), linked);
            if headers.len() > 0 && best.as_ref().is_none_or(|(best, _)| score >= *best) {
                best = Some((score, Self { superblock, headers }));
            }
            full *= 2;
        }
        Ok(best.map(|(_, lost)| lost))
    }
}

/// A superblock of which only the size of a segment is known; of a sealed store the id, too, for its key fits no other.
fn unknown(storage: &dyn Storage, full: u32) -> Superblock {
    let superblock = Superblock::unknown(full);
    #[cfg(feature = "encrypt")]
    if let Some(keys) = crate::log::keys_of(storage) {
        return Superblock { store_id: *keys.store_id(), ..superblock };
    }
    #[cfg(not(feature = "encrypt"))]
    let _ = storage;
    superblock
}

/// The headers of a sealed store whose tags fit, at every offset where one may be.
#[cfg(feature = "encrypt")]
fn authentic_headers(storage: &dyn Storage, store_id: [u8; 16]) -> Result<Vec<(u64, SegmentHeader)>> {
    let mut found = Vec::new();
    let mut offset = DATA_START;
    while offset + SEGMENT_HEADER_LEN as u64 <= storage.len()? {
        let header = SegmentHeader::read(storage, store_id, offset)?;
        found.extend(header.filter(|header| header.kind == SegmentKind::Log).map(|header| (offset, header)));
        offset += u64::from(SEGMENT_SIZE_MIN);
    }
    Ok(found)
}

/// All valid segment headers, at every offset where one may be.
fn headers(storage: &dyn Storage) -> Result<Vec<(u64, SegmentHeader)>> {
    #[cfg(feature = "encrypt")]
    if let Some(keys) = crate::log::keys_of(storage) {
        return authentic_headers(storage, *keys.store_id());
    }
    let len = storage.len()?;
    let mut window = Window::new(storage, len);
    let mut found = Vec::new();
    let mut offset = DATA_START;
    while offset + SEGMENT_HEADER_LEN as u64 <= len {
        let bytes = window.bytes(offset, SEGMENT_HEADER_LEN)?.first_chunk().copied();
        for header in bytes.into_iter().flat_map(|bytes| SegmentHeader::decode_unbound(&bytes)).flatten() {
            let first = offset + SEGMENT_HEADER_LEN as u64;
            let is_log = header.kind == SegmentKind::Log;
            if is_log && matches!(Walk::new(storage, header.salt, first, len).step()?, Step::Frame { .. }) {
                found.push((offset, header));
                break;
            }
        }
        offset += u64::from(SEGMENT_SIZE_MIN);
    }
    Ok(found)
}
