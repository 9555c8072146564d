//! A part of the order in the index snapshot: where the records of adjacent keys stand, in the order of these keys. The keys themselves stand
//! in the records, and are read when somebody first needs one of them.

use super::Key;
use crate::error::{Error, Result};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Bound;

/// Records of a part, about: so few that their keys are read in an instant, so many that the list of parts stays short.
pub(crate) const PART_RECORDS: usize = 2048;

/// A part that nobody has read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) namespace: u32,
    /// Records in it.
    pub(crate) records: u32,
    /// Offset of its chunk in the file.
    pub(crate) offset: u64,
    /// Salt of the segment that holds the chunk.
    pub(crate) salt: u64,
}

/// Reads parts, and the keys of their records.
pub(crate) trait Source {
    /// Keys and offsets of the part's records, in order.
    ///
    /// # Errors
    ///
    /// When the part, or the key of one of its records, cannot be read.
    fn keys(&self, part: Part) -> Result<Vec<(Key, u64)>>;
}

impl<F> fmt::Debug for Stopped<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopped").field("rest", &self.rest).field("error", &self.error).finish_non_exhaustive()
    }
}

/// A piece of the order as it is written to the snapshot.
pub(crate) enum Piece {
    /// A part that nobody has read since the store was opened: it is as it was.
    Unread(Part),
    /// Offsets of the records, in the order of their keys.
    Offsets(Vec<u64>),
}

/// A walk that has met a part which cannot be read.
pub(crate) struct Stopped<F> {
    /// Takes the rest.
    pub(crate) each: F,
    /// Where the rest of the walk begins: what is in front of it has been walked through.
    pub(crate) rest: Bound<Vec<u8>>,
    pub(crate) error: Error,
}

/// Of a map that was never stored.
#[cfg(test)]
pub(super) struct NoParts;

#[cfg(test)]
impl Source for NoParts {
    fn keys(&self, part: Part) -> Result<Vec<(Key, u64)>> {
        Err(Error::corrupt(part.offset, "a part of a map that has none"))
    }
}
