//! Going on in the segment that a crash has torn, where the medium has no room for a fresh one: otherwise each crash would take a segment
//! away from a full store, and after a few of them nothing could be removed any more.

use super::{Active, Log, Purpose, SEGMENT_HEADER_LEN, Segment, Tail};
use crate::error::{Error, Result};
use crate::frame::FRAME_LEN_MIN;
use crate::planted::{Bug, is};

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

impl Log {
    /// Right behind an unclean end: where there is no room for a fresh segment and for the reserve, the last segment takes appends
    /// again, behind its last whole commit.
    pub(super) fn resume_if_cramped(&self, tail: &mut Tail) -> Result<()> {
        let given_up = core::mem::take(&mut tail.given_up);
        // Where something is kept that stands behind the end, the log would go on there.
        let last = tail.segments.values().next_back().copied().filter(|last| last.base == tail.previous.base);
        let Some(last) = last.filter(|_| tail.active.is_none() && !is(Bug::TornEndKeepsItsSegment)) else { return Ok(()) };
        if self.has_place(tail)? || self.keeps_stranded(&last)? {
            return Ok(());
        }
        self.resume(tail, &last, &given_up)
    }

    /// There is room for a fresh segment beside the reserve.
    fn has_place(&self, tail: &mut Tail) -> Result<bool> {
        match self.take(tail, 1, Purpose::Store) {
            Ok(run) => {
                tail.space.release(run.extent, run.extents, run.backed);
                Ok(true)
            }
            Err(Error::NoSpace) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Nothing of what stands behind the end may ever check again: zeros take its place, and that of the headers in `given_up`, which name
    /// this segment as the one before theirs.
    fn resume(&self, tail: &mut Tail, segment: &Segment, given_up: &[u64]) -> Result<()> {
        let (end, behind) = (segment.end, segment.behind(self.geometry));
        match self.reserve(end, behind) {
            // The file has lost its end, and the medium has no room for it.
            Err(Error::NoSpace) => return Ok(()),
            result => result?,
        }
        // The beginning first, and synced: zeros further on might complete a frame whose lost bytes were to be zeros. All of it, even what
        // reads as zeros: the session before may have failed to sync just that.
        let head = (FRAME_LEN_MIN as u64).min(behind - end);
        self.write_zeros(end, head)?;
        given_up.iter().try_for_each(|&header| self.write_zeros(header, SEGMENT_HEADER_LEN as u64))?;
        self.sync_alone()?;
        self.write_zeros(end + head, behind - end - head)?;
        self.sync_alone()?;
        tail.active = Some(Active::new(*segment, end, self.geometry, false));
        Ok(())
    }

    fn write_zeros(&self, offset: u64, len: u64) -> Result<()> {
        for from in (offset..offset + len).step_by(ZEROS.len()) {
            let zeros = ZEROS.get(..(offset + len - from) as usize).unwrap_or(&ZEROS);
            self.storage.write_at(from, &[zeros]).map_err(|error| self.poison(error.into()))?;
        }
        Ok(())
    }
}
