//! Evidence after a frame that is not valid: does a later sync mark or header prove that the frame had been synced?
//!
//! Sync marks are short and of fixed shape, so they are found without knowing where frames begin. Each is bound to its offset
//! and to the salt of its segment, so that no value stored by a user is mistaken for one.

#[cfg(feature = "encrypt")]
use crate::error::Error;
use crate::error::Result;
use crate::frame::{Header, Kind, MARK_VALUE_LEN, Mark, TAG_LEN, check};
use crate::log::{Geometry, MARK_LEN, Segment, SegmentHeader, SegmentKind, Window, named_without_header, without_last_zeros};
use crate::planted::{Bug, is};
use crate::sorted::Map;
use crate::storage::Storage;

/// Head, key length and value length of a mark, in the order in which they follow its checksum.
const MARK_SHAPE: [u8; 3] = [3, 0, MARK_VALUE_LEN as u8];
/// The same of a sealed mark.
const SEALED_SHAPE: [u8; 3] = [0x83, 0, (MARK_VALUE_LEN + TAG_LEN) as u8];
/// Length of the longest mark.
const MARK_LEN_MAX: u64 = (MARK_LEN + TAG_LEN) as u64;
const PIECE: u64 = 64 * 1024;

fn is_mark(shape: &[u8]) -> bool {
    shape == MARK_SHAPE || cfg!(feature = "encrypt") && shape == SEALED_SHAPE
}

/// Where to look.
pub(super) struct Evidence<'a> {
    pub(super) storage: &'a dyn Storage,
    pub(super) geometry: Geometry,
    pub(super) store_id: [u8; 16],
    /// The newest session that a superblock has announced; not known if one is damaged.
    pub(super) newest_session: Option<u64>,
    pub(super) headers: &'a Map<u32, SegmentHeader>,
}

impl Evidence<'_> {
    /// The highest log position that anything after `offset` of `segment` records as synced: marks in the rest of the segment, and
    /// headers and marks of all segments later in the log, whether or not the segments before them are intact. A segment that has lost both
    /// copies of its header is found by the trailer of the one before.
    pub(super) fn behind(&self, segment: &Segment, offset: u64) -> Result<u64> {
        let mut proven = self.marks(segment.salt, offset, segment.limit(self.geometry))?;
        // Nothing has to lead to such a header, since what did may be the damaged part.
        let behind = |header: &SegmentHeader| header.kind != SegmentKind::Snapshot && header.base > segment.base;
        let farthest = segment.next_base(self.geometry).saturating_add(self.storage.len()?);
        let counts = |header: &SegmentHeader| behind(header) && self.is_possible(header, farthest);
        for (extent, header) in self.headers.iter().filter(|(_, header)| counts(header)) {
            let found = header.segment(self.geometry, extent);
            proven = proven.max(header.synced).max(self.marks(header.salt, self.geometry.start(extent), found.end)?);
        }
        let (mut last, mut left) = (*segment, self.storage.len()?);
        while !is(Bug::TrailerNoEvidence)
            && let Some(next) = named_without_header(self.storage, self.geometry, self.store_id, &last)?
        {
            proven = proven.max(self.marks(next.salt, next.first_frame(self.geometry), next.limit(self.geometry))?);
            // Forged trailers cannot make this read more than the file has.
            left = left.saturating_sub(next.len(self.geometry));
            if left == 0 {
                break;
            }
            last = next;
        }
        Ok(proven)
    }

    /// False for a header that no session of this store can have written: it names as synced what was not written yet, or a session that was
    /// not announced, or the segments in front of it would not fit into the file. None of them is retired before the next checkpoint.
    fn is_possible(&self, header: &SegmentHeader, farthest: u64) -> bool {
        self.newest_session
            .is_none_or(|newest| header.synced <= header.base && header.session <= newest && header.base <= farthest)
    }

    /// The highest mark in `from..to`, wherever its frame begins.
    fn marks(&self, salt: u64, from: u64, to: u64) -> Result<u64> {
        let to = to.min(self.storage.len()?);
        let mut window = Window::new(self.storage, to);
        let mut highest = 0;
        let mut piece = from;
        while piece < to {
            let len = (PIECE + MARK_LEN_MAX).min(to - piece) as usize;
            let bytes = window.bytes(piece, len)?;
            for (index, shape) in without_last_zeros(bytes).windows(MARK_SHAPE.len()).enumerate() {
                let Some(start) = is_mark(shape).then(|| index.checked_sub(4)).flatten() else {
                    continue;
                };
                let frame = bytes.get(start..).unwrap_or_default();
                let Ok(header) = Header::decode(frame) else {
                    continue;
                };
                if header.kind == Kind::Mark
                    && check(&header, frame, salt, piece + start as u64).is_ok()
                    && let Some(mark) = header.value(frame).and_then(Mark::decode)
                {
                    // A mark that somebody has forged ends recovery. One of a segment that has lost its header cannot be opened, and counts: it
                    // proves only that something is missing.
                    #[cfg(feature = "encrypt")]
                    if let Err(error @ Error::Forged { .. }) =
                        crate::log::open_frame(self.storage, &header, frame, salt, piece + start as u64)
                    {
                        return Err(error);
                    }
                    highest = highest.max(mark.synced);
                }
            }
            piece += PIECE;
        }
        Ok(highest)
    }

    /// Number of bytes from `from` to the last one before `to` that is not zero.
    pub(super) fn used_bytes(storage: &dyn Storage, from: u64, to: u64) -> Result<u64> {
        let to = to.min(storage.len()?);
        let mut window = Window::new(storage, to);
        let mut used = 0;
        let mut piece = from;
        while piece < to {
            let len = PIECE.min(to - piece) as usize;
            let bytes = without_last_zeros(window.bytes(piece, len)?);
            if !bytes.is_empty() {
                used = piece - from + bytes.len() as u64;
            }
            piece += len as u64;
        }
        Ok(used)
    }
}
