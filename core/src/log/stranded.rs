//! Records behind the place where the log ends: what stands behind a frame that does not check may be the rest of a write that a power cut has
//! torn, or what a damaged bit has cut off. Nothing tells the two apart when no sync is proven, so they are counted, said, and kept.

use super::zeros::first_used;
use super::{Geometry, Log, Segment, Step, Walk};
use crate::error::Result;
use crate::frame::{HEADER_LEN_MAX, Header, check};
use crate::planted::{Bug, is};
use crate::sorted::Map;
use crate::storage::Storage;
use crate::sync::Mutex;
use alloc::vec::Vec;

/// Records that check behind the end of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stranded {
    pub(crate) records: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Where the first of them stands.
    pub(crate) at: Option<u64>,
}

impl Stranded {
    pub(crate) fn add(&mut self, other: Self) {
        self.records += other.records;
        self.bytes += other.bytes;
        self.at = self.at.or(other.at);
    }
}

/// Which segments keep what stands behind their ends.
#[derive(Debug, Default)]
pub(crate) struct StrandedState(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By base: of segments that were looked at.
    holds: Map<u64, bool>,
    /// The user has given all of it up.
    given_up: bool,
}

impl Log {
    /// Records that check stand behind the end of `segment`, and nobody has given them up: it stays as it is.
    pub(crate) fn keeps_stranded(&self, segment: &Segment) -> Result<bool> {
        if segment.end >= segment.limit(self.geometry) {
            return Ok(false);
        }
        {
            let known = self.stranded.0.lock();
            if known.given_up {
                return Ok(false);
            }
            if let Some(&holds) = known.holds.get(segment.base) {
                return Ok(holds);
            }
        }
        let holds = in_segment(&*self.storage, self.geometry, segment)?.records > 0;
        self.stranded.0.lock().holds.insert(segment.base, holds);
        Ok(holds)
    }

    /// From now on nothing is kept for the sake of what stands behind the end of the log.
    pub(crate) fn give_up_stranded(&self) {
        self.stranded.0.lock().given_up = true;
    }
}

/// Those behind the end of a segment.
pub(crate) fn in_segment(storage: &dyn Storage, geometry: Geometry, segment: &Segment) -> Result<Stranded> {
    find(storage, segment.salt, segment.end, segment.limit(geometry))
}

/// Bytes that are searched at a time.
const PIECE: u64 = 256 * 1024;
/// What looks like a frame of up to so many bytes is checked wherever it stands; of longer ones, so many times the bytes of the stretch are
/// checked in all: a bound for hostile files.
const SHORT: usize = 512;
pub(super) const LONG_FACTOR: u64 = 8;

/// The records of whole commits in `from..to`, which is a part of a segment with this salt. Those of a commit that was never finished are none.
fn find(storage: &dyn Storage, salt: u64, from: u64, to: u64) -> Result<Stranded> {
    let to = if is(Bug::StrandedDropped) { 0 } else { to.min(storage.len()?) };
    let mut found = Stranded::default();
    let mut budget = to.saturating_sub(from).saturating_mul(LONG_FACTOR);
    let mut position = from;
    while position < to {
        let mut walk = Walk::new(storage, salt, position, to);
        let mut commit = Stranded::default();
        while let Step::Frame { offset, header } = walk.step()? {
            if header.kind.is_control() {
                continue;
            }
            commit.add(Stranded { records: 1, bytes: header.frame_len() as u64, at: Some(offset) });
            if !header.continues {
                found.add(core::mem::take(&mut commit));
            }
        }
        match next_frame(storage, salt, walk.position() + 1, to, &mut budget)? {
            Some(next) => position = next,
            None => break,
        }
    }
    Ok(found)
}

/// Where the next frame begins that checks, from `from` on.
pub(super) fn next_frame(storage: &dyn Storage, salt: u64, from: u64, to: u64, budget: &mut u64) -> Result<Option<u64>> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut piece = from;
    while piece < to {
        let len = (PIECE + HEADER_LEN_MAX as u64).min(to - piece) as usize;
        bytes.resize(len, 0);
        storage.read_at(piece, &mut bytes)?;
        let mut index = 0;
        // The head, which is never 0, stands behind the checksum.
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
