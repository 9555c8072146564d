//! Stranded records: valid records after the end of the log. After a frame with a wrong checksum they may be the rest of a write that a
//! power cut has torn, or records that a damaged bit has cut off. Without proof of a sync the two cannot be told apart, so the records
//! are counted, reported and kept.

use super::zeros::first_used;
use super::{Geometry, Log, Segment, Step, Walk};
use crate::error::Result;
use crate::frame::{HEADER_LEN_MAX, Header, check};
use crate::planted::{Bug, is};
use crate::sorted::Map;
use crate::storage::Storage;
use crate::sync::Mutex;
use alloc::vec::Vec;

/// Count of valid records after the end of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stranded {
    pub(crate) records: u64,
    /// Their length in bytes.
    pub(crate) bytes: u64,
    /// File offset of the first one.
    pub(crate) at: Option<u64>,
}

impl Stranded {
    pub(crate) fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.at = self.at.or(other.at);
    }
}

/// Which segments are kept for the records after their ends.
#[derive(Debug, Default)]
pub(crate) struct StrandedState(Mutex<Known>);

/// What follows the end of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// No record worth keeping.
    Nothing,
    /// Records that have not been compared with the index.
    Records,
    /// Records that the log does not have.
    Unknown,
}

#[derive(Debug, Default)]
struct Known {
    /// Results for the segments searched so far, by base.
    holds: Map<u64, Holds>,
    /// The user has given up all stranded records.
    given_up: bool,
}

impl Log {
    /// Whether valid records follow the end of `segment` and have not been given up: then the segment must stay as it is.
    pub(crate) fn holds_stranded(&self, segment: &Segment) -> Result<Holds> {
        if segment.end >= segment.limit(self.geometry) {
            return Ok(Holds::Nothing);
        }
        {
            let known = self.stranded.0.lock();
            if known.given_up {
                return Ok(Holds::Nothing);
            }
            if let Some(&holds) = known.holds.get(segment.base) {
                return Ok(holds);
            }
        }
        let found = in_segment(&*self.storage, self.geometry, segment)?;
        let holds = if found.records > 0 { Holds::Records } else { Holds::Nothing };
        self.found_stranded(segment, holds);
        Ok(holds)
    }

    /// Remembers what follows the end of `segment`.
    pub(crate) fn found_stranded(&self, segment: &Segment, holds: Holds) {
        self.stranded.0.lock().holds.insert(segment.base, holds);
    }

    /// File offsets of the records after the end of `segment`.
    pub(crate) fn stranded_offsets(&self, segment: &Segment) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        find(&*self.storage, segment.salt, segment.end, segment.limit(self.geometry), &mut offsets)?;
        Ok(offsets)
    }

    /// Gives up all stranded records: from now on no segment is kept for them.
    pub(crate) fn give_up_stranded(&self) {
        self.stranded.0.lock().given_up = true;
    }

    /// Segments that are kept and that no checkpoint lists.
    pub(crate) fn unlisted(&self) -> Vec<Segment> {
        self.tail.lock().unlisted.clone()
    }

    /// Frees segments that no checkpoint lists and that were kept only for their stranded records, unless `is_kept`. Nothing refers to
    /// them, so no frame in the log is needed.
    pub(crate) fn free_unlisted(&self, is_kept: &dyn Fn(&Segment) -> bool) {
        let freed: Vec<Segment> = self.unlisted().into_iter().filter(|segment| !is_kept(segment)).collect();
        let mut tail = self.tail.lock();
        for segment in freed {
            // A checkpoint may have listed it since.
            if tail.unlisted.iter().any(|unlisted| unlisted.base == segment.base) {
                tail.unlisted.retain(|unlisted| unlisted.base != segment.base);
                tail.torn_headers.retain(|(offset, _)| *offset != self.geometry.start(segment.extent));
                tail.segments.remove(segment.base);
                tail.space.release(segment.extent, segment.extents, false);
            }
        }
    }
}

/// The stranded records of one segment.
pub(crate) fn in_segment(storage: &dyn Storage, geometry: Geometry, segment: &Segment) -> Result<Stranded> {
    find(storage, segment.salt, segment.end, segment.limit(geometry), &mut Vec::new())
}

/// Bytes to search at a time.
const PIECE: u64 = 256 * 1024;
/// Candidates for a frame of up to `SHORT` bytes are always verified. How much of longer ones is verified has a bound, for hostile files.
const SHORT: usize = 512;
const LONG_FACTOR: u64 = 8;
/// In a short range the bytes of one damaged value hold more false candidates than `LONG_FACTOR` pays for.
const LONG_MIN: u64 = 1024 * 1024;

/// How many bytes of long candidates may be verified in a range of `len` bytes.
pub(super) fn budget(len: u64) -> u64 {
    len.saturating_mul(LONG_FACTOR).max(LONG_MIN)
}

/// Counts the records of complete commits in `from..to`, a part of a segment with this salt, and adds their offsets. Records of an
/// incomplete commit do not count.
fn find(storage: &dyn Storage, salt: u64, from: u64, to: u64, offsets: &mut Vec<u64>) -> Result<Stranded> {
    let to = if is(Bug::StrandedDropped) { 0 } else { to.min(storage.len()?) };
    let mut found = Stranded::default();
    let mut budget = budget(to.saturating_sub(from));
    let mut position = from;
    while position < to {
        let mut walk = Walk::new(storage, salt, position, to);
        let (mut commit, mut finished) = (Stranded::default(), offsets.len());
        while let Step::Frame { offset, header } = walk.step()? {
            if header.kind.is_control() {
                continue;
            }
            commit.add(Stranded { records: 1, bytes: header.frame_len() as u64, at: Some(offset) });
            offsets.push(offset);
            if !header.continues {
                found.add(core::mem::take(&mut commit));
                finished = offsets.len();
            }
        }
        offsets.truncate(finished);
        match next_frame(storage, salt, walk.position() + 1, to, &mut budget)? {
            Some(next) => position = next,
            None => break,
        }
    }
    Ok(found)
}

/// File offset of the next valid frame from `from` on.
pub(super) fn next_frame(storage: &dyn Storage, salt: u64, from: u64, to: u64, budget: &mut u64) -> Result<Option<u64>> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut piece = from;
    while piece < to {
        let len = (PIECE + HEADER_LEN_MAX as u64).min(to - piece) as usize;
        bytes.resize(len, 0);
        storage.read_at(piece, &mut bytes)?;
        let mut index = 0;
        // The checksum is followed by the head, which is never 0.
        while let Some(zeros) = first_used(bytes.get(index + 4..).unwrap_or_default()) {
            index += zeros;
            if index >= PIECE as usize {
                break;
            }
            let rest = bytes.get(index..).unwrap_or_default();
            index += 1;
            let Ok(header) = Header::decode(rest) else { continue };
            let (offset, len) = (piece + index as u64 - 1, header.frame_len());
            if len as u64 > to - offset {
                continue;
            }
            if len > SHORT {
                let Some(left) = budget.checked_sub(len as u64) else { continue };
                *budget = left;
            }
            let is_frame = match rest.get(..len) {
                Some(frame) => check(&header, frame, salt, offset).is_ok(),
                None => matches!(Walk::new(storage, salt, offset, to).step()?, Step::Frame { .. }),
            };
            if is_frame {
                return Ok(Some(offset));
            }
        }
        piece += PIECE;
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
