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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]
    use super::*;
    use crate::frame::FrameSpec;
    use crate::storage::MemoryStorage;
    use alloc::vec::Vec;

    /// What the marks in `from..to` record as synced.
    fn marks(bytes: &[u8], salt: u64, from: usize, to: usize) -> u64 {
        let (storage, headers) = (MemoryStorage::from_vec(bytes.to_vec()), Map::default());
        let geometry = Geometry::new(4096, 4096);
        let evidence = Evidence { storage: &storage, geometry, store_id: [0; 16], newest_session: None, headers: &headers };
        evidence.marks(salt, from as u64, to as u64).unwrap()
    }

    /// Writes a mark with the salt of its segment over what is there.
    fn put_mark(bytes: &mut [u8], salt: u64, at: usize, synced: u64) {
        let (mut frame, value) = (Vec::new(), Mark { synced, clock: 0 }.encode());
        FrameSpec::control(Kind::Mark, &value).encode_into(&mut frame, salt, at as u64);
        bytes[at..at + frame.len()].copy_from_slice(&frame);
    }

    #[test]
    #[cfg_attr(miri, ignore = "millions of steps of safe code")]
    fn a_mark_is_found_wherever_it_lies_and_only_where_it_was_written() {
        let piece = PIECE as usize;
        for at in [0, 1, 100].into_iter().chain(piece - 2 * MARK_LEN..piece + 2).chain([2 * piece - 1]) {
            let mut bytes = alloc::vec![0xff; 3 * piece];
            put_mark(&mut bytes, 7, at, 99);
            let behind = at + MARK_LEN;
            assert_eq!((marks(&bytes, 7, 0, bytes.len()), marks(&bytes, 7, at, behind)), (99, 99), "at {at}");
            assert_eq!((marks(&bytes, 7, at + 1, bytes.len()), marks(&bytes, 7, 0, behind - 1)), (0, 0), "at {at}");
            assert_eq!(marks(&bytes, 8, 0, bytes.len()), 0, "of another segment, at {at}");
            bytes.remove(bytes.len() - 1);
            bytes.insert(0, 0xff);
            assert_eq!(marks(&bytes, 7, 0, bytes.len()), 0, "moved, from {at}");
        }
    }

    #[test]
    fn of_several_marks_the_highest_counts() {
        let mut bytes = alloc::vec![0; 4096];
        for (at, synced) in [(10, 5), (1000, 9), (3000, 7)] {
            put_mark(&mut bytes, 7, at, synced);
        }
        assert_eq!((marks(&bytes, 7, 0, 4096), marks(&bytes, 7, 0, 999), marks(&bytes, 7, 1001, 1 << 40)), (9, 5, 7));
    }

    #[test]
    fn a_mark_has_the_one_shape_that_marks_are_written_in() {
        for (shape, expected) in [
            ([3, 0, 16], true),
            ([0x83, 0, 32], cfg!(feature = "encrypt")),
            ([3, 0, 32], false),
            ([0x83, 0, 16], false),
            ([3, 1, 16], false),
            ([4, 0, 16], false),
            ([0; 3], false),
        ] {
            assert_eq!(is_mark(&shape), expected, "{shape:02x?}");
        }
        // No engine writes one with a key.
        for (key, expected) in [(&b""[..], 99), (b"k", 0)] {
            let (mut frame, value) = (Vec::new(), Mark { synced: 99, clock: 0 }.encode());
            FrameSpec { key, ..FrameSpec::control(Kind::Mark, &value) }.encode_into(&mut frame, 7, 0);
            assert_eq!(marks(&frame, 7, 0, frame.len()), expected);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "millions of steps of safe code")]
    fn what_was_used_ends_with_the_last_byte_that_is_not_zero() {
        let piece = PIECE as usize;
        let len = 3 * piece + 10;
        for at in [0, 1, piece - 1, piece, piece + 1, 2 * piece + 500, len - 1] {
            let mut bytes = alloc::vec![0; len];
            bytes[at] = 1;
            bytes[at / 2] = 1;
            let storage = MemoryStorage::from_vec(bytes);
            let used = |from: usize, to: usize| Evidence::used_bytes(&storage, from as u64, to as u64).unwrap();
            assert_eq!((used(0, len), used(0, usize::MAX)), (at as u64 + 1, at as u64 + 1), "byte {at}");
            assert_eq!((used(at, len), used(at, at + 1), used(at, at), used(at + 1, len)), (1, 1, 0, 0), "byte {at}");
            assert_eq!(used(0, at), if at == 0 { 0 } else { at as u64 / 2 + 1 }, "up to byte {at}");
        }
    }

    /// What no session of the store can have written proves nothing, unless it is not known which sessions there were.
    #[test]
    fn a_header_counts_if_a_session_that_was_announced_can_have_written_it() {
        let (storage, headers) = (MemoryStorage::new(), Map::default());
        let fits = SegmentHeader { base: 1000, synced: 1000, session: 5, ..super::super::tests::forged_header(0, (0, 0, 0), 0) };
        let cases = [
            (fits, true),
            (SegmentHeader { synced: 1001, ..fits }, false),
            (SegmentHeader { session: 6, ..fits }, false),
            (SegmentHeader { base: 2000, ..fits }, true),
            (SegmentHeader { base: 2001, ..fits }, false),
        ];
        for (header, is_possible) in cases {
            for newest_session in [Some(5), None] {
                let geometry = Geometry::new(4096, 4096);
                let evidence = Evidence { storage: &storage, geometry, store_id: [0; 16], newest_session, headers: &headers };
                assert_eq!(evidence.is_possible(&header, 2000), is_possible || newest_session.is_none(), "{header:?}");
            }
        }
    }
}
