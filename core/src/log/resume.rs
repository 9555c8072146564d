//! Going on in the segment that a crash has torn, where the medium has no room for a fresh one: otherwise each crash would take a segment
//! away from a full store, and after a few of them nothing could be removed any more.

use super::{Active, Holds, Log, Purpose, SEGMENT_HEADER_LEN, Segment, SegmentHeader, Tail};
use crate::error::{Error, Result};
use crate::frame::FRAME_LEN_MIN;
use crate::planted::{Bug, is};
use alloc::vec::Vec;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

impl Log {
    /// Right behind an unclean end: where there is no room for a fresh segment and for the reserve, the last segment takes appends
    /// again, behind its last whole commit.
    pub(super) fn resume_if_cramped(&self, tail: &mut Tail) -> Result<()> {
        let Some(last) = torn_end(tail).filter(|_| !is(Bug::TornEndKeepsItsSegment)) else { return Ok(()) };
        if self.has_place(tail)? || self.holds_stranded(&last)? != Holds::Nothing {
            return Ok(());
        }
        // Where something is kept that stands behind the end, or a snapshot has been written since, this takes nothing away.
        let is_used = |extent: &u32| {
            let log = tail.segments.values().map(|segment| (segment.extent, segment.extents));
            let snapshot = tail.snapshot.iter().map(|segment| (segment.extent, segment.extents));
            log.chain(snapshot).any(|(first, count)| (first..first.saturating_add(count)).contains(extent))
        };
        let given_up = tail.given_up.iter().filter(|extent| !is_used(extent)).map(|&extent| self.geometry.start(extent));
        let mut names_it = Vec::new();
        for start in given_up {
            // Its blocks may have gone back to the host since.
            let header = SegmentHeader::read(&*self.storage, self.store_id, start)?;
            if header.is_some_and(|header| header.previous_salt == last.salt) {
                names_it.push(start);
            }
        }
        self.resume(tail, &last, &names_it)
    }

    /// Something may be kept that an unclean end has left.
    pub(crate) fn is_behind_crash(&self) -> bool {
        let tail = self.tail.lock();
        !tail.unlisted.is_empty() || torn_end(&tail).is_some()
    }

    /// The torn segment behind whose end nothing has been written yet, when the log has begun no other one.
    pub(crate) fn torn_end(&self) -> Option<Segment> {
        let tail = self.tail.lock();
        torn_end(&tail).filter(|_| tail.announced && !self.is_fenced())
    }

    /// Once more, when something that was in the way has gone.
    pub(crate) fn resume_again(&self) -> Result<()> {
        self.resume_if_cramped(&mut self.tail.lock())
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

fn torn_end(tail: &Tail) -> Option<Segment> {
    let is_behind_crash = tail.active.is_none() && tail.previous.trailer.is_none();
    // Where a segment that is kept stands further along the log, what this would write is not found.
    let last = tail.segments.values().next_back().copied().filter(|last| last.base == tail.previous.base);
    last.filter(|_| is_behind_crash)
}
