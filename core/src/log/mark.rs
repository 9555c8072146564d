//! Sync marks: the file says how far the log is synced, in the log itself.

use super::append::kept_room;
use super::space::Purpose;
use super::{Log, Tail};
use crate::error::Result;
use crate::frame::{FRAME_LEN_MIN, FrameSpec, Kind, MARK_VALUE_LEN, Mark};
use crate::planted::{Bug, is};

/// Length of a sync mark frame in bytes.
pub(crate) const MARK_LEN: usize = FRAME_LEN_MIN + MARK_VALUE_LEN;

impl Log {
    /// Length of a sync mark frame of this log in bytes.
    pub(super) fn mark_len(&self) -> u64 {
        MARK_LEN as u64 + self.tag_len()
    }

    /// True if a sync mark is due and fits into the active segment together with the first frame of the commit, of `first` bytes. A
    /// new segment needs no mark, since its header records how far the log is synced.
    pub(super) fn mark_fits(&self, tail: &Tail, first: u64) -> bool {
        let room = tail.active.map_or(0, |active| active.room());
        tail.mark_due.is_some() && room >= self.mark_len() + first
    }

    /// Appends the sync mark that is due, if it fits.
    pub(super) fn put_mark(&self, tail: &mut Tail, first: u64) -> Result<()> {
        if !self.mark_fits(tail, first) {
            return Ok(());
        }
        let (Some(synced), Some(active)) = (tail.mark_due.take(), tail.active) else {
            return Ok(());
        };
        let claimed = if is(Bug::SyncMarkTooHigh) { synced + self.geometry.segment_size() } else { synced };
        let clock = self.clock_to_write(0);
        self.put(tail, active, &FrameSpec::control(Kind::Mark, &Mark { synced: claimed, clock }.encode()))?;
        tail.clock_said = tail.clock_said.max(clock);
        Ok(())
    }

    /// Writes the sync mark that is due, unless the room is needed for frames that must follow; false if it did not fit. Does not
    /// count as an append, so the next flush has nothing to sync.
    pub(super) fn mark_now(&self, tail: &mut Tail) -> Result<bool> {
        self.writable()?;
        let Some(active) = tail.active.filter(|_| tail.announced) else { return Ok(false) };
        if active.room() < self.mark_len() + kept_room(tail, Purpose::MakeSpace) {
            return Ok(false);
        }
        let written = self.put_mark(tail, 0).and_then(|()| self.write_gathered(tail));
        written.map_err(|error| {
            // The end of the log is unchanged.
            tail.scratch.clear();
            tail.active = Some(active);
            self.poison(error)
        })?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
