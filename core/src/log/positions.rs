//! Positions as callers hold them: the log position after a commit's last frame, and the salt of its segment. A log that does not contain
//! the two together does not contain the commit.

use super::{Log, Placed, Segment, Tail};
use crate::error::{Error, Result};
use crate::frame::FRAME_LEN_MIN;
use crate::limits::LOG_POSITION_FIRST;
use crate::planted::{Bug, is};
use crate::sync::Ordering;

/// The end of the log, at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndPlace {
    pub(crate) lsn: u64,
    /// Salt of its segment; 0 in a store without one.
    pub(crate) salt: u64,
    /// No other file can have another end at this position under this salt.
    pub(crate) is_unique: bool,
}

/// What the log knows about a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contained {
    Yes,
    /// No live segment covers it.
    Gone,
    No,
}

impl Tail {
    /// The last segment that begins before a log position, live or history.
    pub(super) fn covering(&self, lsn: u64) -> Option<Segment> {
        let live = self.segments.values().rev().find(|segment| segment.base < lsn).copied();
        let kept = self.history.kept.values().rev().map(|kept| kept.segment).find(|segment| segment.base < lsn);
        let segment = match (live, kept) {
            (Some(live), Some(kept)) if kept.base > live.base => kept,
            (live, kept) => live.or(kept)?,
        };
        let active = self.active.filter(|active| active.segment.base == segment.base);
        Some(active.map_or(segment, |active| Segment { end: active.position, ..segment }))
    }
}

impl Log {
    /// Calls `run` with the end of the log while its tail is locked: nothing is appended meanwhile.
    pub(crate) fn at_the_end<T>(&self, run: impl FnOnce(EndPlace) -> T) -> T {
        let tail = self.tail.lock();
        let lsn = self.end();
        let segment = tail.covering(lsn);
        // A copy of the file goes on in the segment that the session before has begun, under the same salt.
        let is_unique = lsn <= tail.found_end || segment.is_some_and(|segment| segment.base >= tail.first_own_base);
        run(EndPlace { lsn, salt: segment.map_or(0, |segment| segment.salt), is_unique })
    }

    /// Lets the log go on in a segment that this session has begun: only its salt tells this file from copies of it that are written on.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`] when there is no room for another segment; then nothing has changed.
    pub(crate) fn make_positions_unique(&self) -> Result<()> {
        if self.named.load(Ordering::Acquire) {
            return Ok(());
        }
        let is_own = |tail: &Tail| tail.active.is_none_or(|active| active.segment.base >= tail.first_own_base);
        self.announce(&mut self.tail.lock())?;
        // Sealing the segment takes the rest of it.
        if !is_own(&self.tail.lock()) && !self.secure_free(2)? {
            return Err(Error::NoSpace);
        }
        let mut tail = self.tail.lock();
        self.writable()?;
        if !is_own(&tail) && !is(Bug::PositionsNotUnique) {
            self.seal(&mut tail).map_err(|error| self.poison(error))?;
            self.make_room(&mut tail, |_| FRAME_LEN_MIN as u64)?;
        }
        self.named.store(true, Ordering::Release);
        Ok(())
    }

    /// Log position of the end of a frame, and the salt of its segment. The caller keeps its segment from being reused.
    pub(crate) fn end_of(&self, placed: Placed) -> (u64, u64) {
        let salt = self.segment_stats.salt(self.geometry.extent_of(placed.offset));
        (self.lsn(placed.offset) + placed.len, salt)
    }

    /// What the log knows about the position after a frame in a segment of this salt.
    pub(crate) fn contains(&self, lsn: u64, salt: u64) -> Contained {
        let tail = self.tail.lock();
        if lsn <= LOG_POSITION_FIRST && salt == 0 {
            // The position of a store without records.
            return Contained::Yes;
        }
        match tail.covering(lsn) {
            Some(segment) if lsn <= segment.next_base(self.geometry) => {
                let is_in = segment.salt == salt && lsn <= segment.lsn(self.geometry, segment.end);
                if is_in && !tail.unlisted.iter().any(|other| other.base == segment.base) {
                    Contained::Yes
                } else {
                    Contained::No
                }
            }
            _ if lsn < self.end() => Contained::Gone,
            _ => Contained::No,
        }
    }
}

#[cfg(test)]
mod tests;
