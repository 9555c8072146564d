//! The header of a segment: which place in log order it has, and the salt that its frames are bound to. It stands there twice, so
//! that one damaged sector does not take the salt of a whole segment with it.

use crate::frame::{bind, crc32c};
use crate::limits::{FILE_LEN_MAX, LOG_POSITION_MAX, ORDER_MAX};
use crate::storage::{Storage, StorageError};

const MAGIC: [u8; 4] = *b"PSEG";
const COPY_LEN: usize = 64;
/// Bytes in front of the first frame: two copies of the header.
pub(crate) const SEGMENT_HEADER_LEN: usize = 2 * COPY_LEN;

/// What a segment holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentKind {
    /// Frames of the log.
    Log,
    /// An index snapshot.
    Snapshot,
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) kind: SegmentKind,
    pub(crate) order: u64,
    pub(crate) salt: u64,
    /// Order of the segment before this one in the log; 0 for the first.
    pub(crate) previous_order: u64,
    /// Offset in the file at which that segment's frames end: what lies behind it was torn off by a crash.
    pub(crate) previous_end: u64,
    /// The log was synced up to this log position when the segment was begun.
    pub(crate) synced: u64,
    pub(crate) extents: u32,
    /// The space had never been written: what stands behind the last frame is zero as long as the segment is active.
    pub(crate) fresh: bool,
}

impl SegmentHeader {
    /// The two copies, for a segment at `offset` of the store with `store_id`.
    pub(crate) fn encode(&self, store_id: [u8; 16], offset: u64) -> [u8; SEGMENT_HEADER_LEN] {
        let mut out = [0; SEGMENT_HEADER_LEN];
        for (index, copy) in out.as_chunks_mut::<COPY_LEN>().0.iter_mut().enumerate() {
            let (body, crc) = copy.split_at_mut(COPY_LEN - 4);
            let kind: u32 = match self.kind {
                SegmentKind::Log => 1,
                SegmentKind::Snapshot => 2,
            };
            let fields = [
                u64::from(u32::from_le_bytes(MAGIC)) | u64::from(kind) << 32,
                self.order,
                self.salt,
                self.previous_order,
                self.previous_end,
                self.synced,
                u64::from(self.extents) | u64::from(self.fresh) << 32,
            ];
            for (place, field) in body.as_chunks_mut::<8>().0.iter_mut().zip(fields) {
                *place = field.to_le_bytes();
            }
            let sum = crc32c(body) ^ Self::binding(store_id, offset, index);
            crc.copy_from_slice(&sum.to_le_bytes());
        }
        out
    }

    fn binding(store_id: [u8; 16], offset: u64, copy: usize) -> u32 {
        bind(xxhash_rust::xxh3::xxh3_64_with_seed(&store_id, 0), offset + (copy * COPY_LEN) as u64)
    }

    fn decode_copy(bytes: &[u8; COPY_LEN], binding: u32) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if u32::from_le_bytes(*crc) != crc32c(body) ^ binding {
            return None;
        }
        let words = body.as_chunks::<8>().0;
        let word = |index: usize| words.get(index).map(|bytes| u64::from_le_bytes(*bytes));
        let first = word(0)?;
        let kind = match first >> 32 {
            1 => SegmentKind::Log,
            2 => SegmentKind::Snapshot,
            _ => return None,
        };
        if first as u32 != u32::from_le_bytes(MAGIC) {
            return None;
        }
        Some(Self {
            kind,
            order: word(1).filter(|&order| order <= ORDER_MAX)?,
            salt: word(2)?,
            previous_order: word(3).filter(|&order| order <= ORDER_MAX)?,
            previous_end: word(4).filter(|&end| end <= FILE_LEN_MAX)?,
            synced: word(5).filter(|&position| position <= LOG_POSITION_MAX)?,
            extents: Some(word(6)? as u32).filter(|&extents| extents > 0)?,
            fresh: match word(6)? >> 32 {
                0 => false,
                1 => true,
                _ => return None,
            },
        })
    }

    /// Both copies as they stand at `offset`: `(first, second)`, `None` for a copy that does not check.
    pub(crate) fn decode_both(bytes: &[u8; SEGMENT_HEADER_LEN], store_id: [u8; 16], offset: u64) -> (Option<Self>, Option<Self>) {
        let copies = bytes.as_chunks::<COPY_LEN>().0;
        let copy =
            |index: usize| copies.get(index).and_then(|copy| Self::decode_copy(copy, Self::binding(store_id, offset, index)));
        (copy(0), copy(1))
    }

    /// True when both copies at `offset` check.
    pub(crate) fn is_whole(storage: &dyn Storage, store_id: [u8; 16], offset: u64) -> Result<bool, StorageError> {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        storage.read_at(offset, &mut bytes)?;
        let (first, second) = Self::decode_both(&bytes, store_id, offset);
        Ok(first.is_some() && second.is_some())
    }

    /// The header at `offset`, from whichever copy checks; `None` where no segment begins.
    pub(crate) fn read(storage: &dyn Storage, store_id: [u8; 16], offset: u64) -> Result<Option<Self>, StorageError> {
        let mut bytes = [0; SEGMENT_HEADER_LEN];
        if offset + SEGMENT_HEADER_LEN as u64 > storage.len()? {
            return Ok(None);
        }
        storage.read_at(offset, &mut bytes)?;
        let (first, second) = Self::decode_both(&bytes, store_id, offset);
        Ok(first.or(second))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn one_damaged_copy_is_survived_and_a_moved_header_is_refused() {
        let header = SegmentHeader {
            kind: SegmentKind::Log,
            order: 7,
            salt: 0x1234,
            previous_order: 6,
            previous_end: 99,
            synced: 55,
            extents: 3,
            fresh: true,
        };
        let good = header.encode([1; 16], 16_384);
        assert_eq!(SegmentHeader::decode_both(&good, [1; 16], 16_384), (Some(header), Some(header)));
        assert_eq!(SegmentHeader::decode_both(&good, [1; 16], 20_480), (None, None));
        assert_eq!(SegmentHeader::decode_both(&good, [2; 16], 16_384), (None, None));
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            let (first, second) = SegmentHeader::decode_both(&bad, [1; 16], 16_384);
            assert_eq!(first.or(second), Some(header));
            assert!(first.is_none() || second.is_none(), "bit {bit} is not covered");
        }
    }
}
