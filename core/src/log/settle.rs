//! What an unclean end has left is written again before a sync counts as covering it.
//!
//! A sync that failed in an earlier session, or never came, leaves bytes that this one reads from the memory of the host and that the
//! medium may not have: Linux takes the pages of a failed sync for stored, so that no later sync stores them. The same bytes are therefore
//! written again: everything between the place up to which the log is proven to be synced and its end, and the superblock that counts.

use super::stranded::{LONG_FACTOR, next_frame};
use super::{Log, Segment, SegmentHeader, Step, Tail, Walk};
use crate::error::{Error, Result};
use crate::planted::{Bug, is};
use crate::sync::Ordering;

impl Log {
    /// An earlier session has left something that may not be on the medium.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Opening has met an unclean end.
    pub(super) fn set_unsettled(&self) {
        self.settled.store(false, Ordering::Release);
    }

    /// Sees to it that everything that opening has found is on the medium. A failure closes the store to writes.
    pub(super) fn settle(&self, tail: &mut Tail) -> Result<()> {
        if self.is_settled() {
            return Ok(());
        }
        if !is(Bug::TailNotWrittenAgain) {
            for segment in core::mem::take(&mut tail.unproven) {
                self.write_again(&segment).map_err(|error| self.poison(self.or_fenced(error)))?;
            }
            let pair = *self.superblocks.lock();
            // The next one goes to the other slot: until it is safe, this one has to be.
            if !pair.other_damaged && pair.current.clean_end.is_none() && !self.is_fenced() {
                pair.current.write(&*self.storage, pair.slot).map_err(|error| self.poison(error))?;
            }
        }
        self.mend_headers(tail)?;
        self.mend_trailers(tail)?;
        self.sync_alone()?;
        self.sync_state.start_at(self.sync_state.synced().max(self.end()));
        self.settled.store(true, Ordering::Release);
        Ok(())
    }

    /// Writes what is not proven of a segment again, and looks at it once more: from now on the host keeps it until it is stored.
    fn write_again(&self, segment: &Segment) -> Result<()> {
        let start = self.geometry.start(segment.extent);
        let from = start.saturating_add(self.sync_state.synced().saturating_sub(segment.base));
        if from < segment.end {
            self.storage.rewrite(from, segment.end - from)?;
        }
        if segment.linked {
            let limit = segment.limit(self.geometry);
            self.storage.rewrite(limit, segment.behind(self.geometry) - limit)?;
        }
        let what = "a part of the log that was there when the store was opened";
        let header = SegmentHeader::read(&*self.storage, self.store_id, start)?;
        if header.is_none_or(|header| header.salt != segment.salt) {
            return Err(Error::corrupt(start, what));
        }
        let (storage, salt) = (&*self.storage, segment.salt);
        let mut walk = Walk::new(storage, salt, segment.first_frame(self.geometry), segment.end);
        let mut budget = from.saturating_sub(start).saturating_mul(LONG_FACTOR);
        loop {
            match walk.step()? {
                Step::Frame { .. } => {}
                Step::End => return Ok(()),
                // What was proven to be there, and has been damaged since, costs itself.
                Step::Bad { offset, .. } => match next_frame(storage, salt, offset + 1, segment.end, &mut budget)? {
                    Some(next) if next <= from => walk = Walk::new(storage, salt, next, segment.end),
                    _ if from >= segment.end => return Ok(()),
                    _ => return Err(Error::corrupt(offset, what)),
                },
            }
        }
    }
}
