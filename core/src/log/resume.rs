//! Appending to the segment that a crash has torn, where the medium has no room for a fresh one: otherwise each crash would use up a
//! segment of a full store, and after a few crashes nothing could be removed any more.

use super::{Active, Holds, Log, Purpose, SEGMENT_HEADER_LEN, Segment, SegmentHeader, Tail};
use crate::error::{Error, Result};
use crate::frame::FRAME_LEN_MIN;
use crate::planted::{Bug, is};
use alloc::vec::Vec;

static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

impl Log {
    /// Right after an unclean end: if there is no room for a fresh segment and the reserve, the last segment takes appends
    /// again, after its last complete commit.
    pub(super) fn resume_if_cramped(&self, tail: &mut Tail) -> Result<()> {
        let is_plain = |last: &Segment| self.takes_plain(last);
        let Some(last) = torn_end(tail).filter(is_plain).filter(|_| !is(Bug::TornEndKeepsItsSegment)) else { return Ok(()) };
        if self.has_place(tail)? || self.holds_stranded(&last)? != Holds::Nothing {
            return Ok(());
        }
        // Leave headers alone whose extents hold a kept segment, or a snapshot written since.
        let is_used = |extent: &u32| {
            let log = tail.segments.values().map(|segment| (segment.extent, segment.extents));
            let snapshot = tail.snapshot.iter().map(|segment| (segment.extent, segment.extents));
            log.chain(snapshot).any(|(first, count)| (first..first.saturating_add(count)).contains(extent))
        };
        let given_up = tail.given_up.iter().filter(|extent| !is_used(extent)).map(|&extent| self.geometry.start(extent));
        let mut names_it = Vec::new();
        for start in given_up {
            // Its blocks may have been given back to the host since.
            let header = SegmentHeader::read(&*self.storage, self.store_id, start)?;
            if header.is_some_and(|header| header.previous_salt == last.salt) {
                names_it.push(start);
            }
        }
        self.resume(tail, &last, &names_it)
    }

    /// True if segments may be kept that an unclean end has left.
    pub(crate) fn is_behind_crash(&self) -> bool {
        let tail = self.tail.lock();
        !tail.unlisted.is_empty() || torn_end(&tail).is_some()
    }

    /// The torn last segment, if nothing has been written after its end and the log has begun no other segment.
    pub(crate) fn torn_end(&self) -> Option<Segment> {
        let tail = self.tail.lock();
        torn_end(&tail).filter(|_| tail.announced && !self.is_fenced())
    }

    /// As [`Self::resume_if_cramped`], once an obstacle has been removed.
    pub(crate) fn resume_again(&self) -> Result<()> {
        self.resume_if_cramped(&mut self.tail.lock())
    }

    /// True if there is room for a fresh segment beside the reserve.
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

    /// Overwrites everything after the end with zeros, so that no old frame there can ever be valid again, and also the headers at the
    /// offsets `given_up`, which name this segment as their predecessor. Then the segment takes appends.
    fn resume(&self, tail: &mut Tail, segment: &Segment, given_up: &[u64]) -> Result<()> {
        let (end, behind) = (segment.end, segment.behind(self.geometry));
        match self.reserve(end, behind) {
            // A crash has shortened the file, and the medium has no room for the lost end.
            Err(Error::NoSpace) => return Ok(()),
            result => result?,
        }
        // The beginning first, and synced: zeros further on might complete a torn frame whose missing bytes were zeros. Overwrite even
        // bytes that read as zero: the session before may have failed to sync them.
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
    // With a kept segment later in the log, recovery would not find what is appended here.
    let last = tail.segments.values().next_back().copied().filter(|last| last.base == tail.previous.base);
    last.filter(|_| is_behind_crash)
}
