//! After an unclean end, the unproven part of the log is written again before a sync counts as covering it.
//!
//! A sync that failed in an earlier session, or never came, leaves bytes that this session reads from the memory of the host and that the
//! medium may not have: Linux marks the pages of a failed sync as clean, so that no later sync stores them. The same bytes are therefore
//! written again: everything from the position up to which the log is proven to be synced to its end, and the current superblock.

use super::stranded::{budget, next_frame};
use super::{Log, Segment, SegmentHeader, Step, Tail, Walk};
use crate::error::{Error, Result};
use crate::planted::{Bug, is};
use crate::sync::Ordering;

impl Log {
    /// False if an earlier session has left bytes that may not be on the medium.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Notes that opening has found an unclean end.
    pub(super) fn set_unsettled(&self) {
        self.settled.store(false, Ordering::Release);
    }

    /// Makes sure that everything that opening has found is on the medium. A failure closes the store to writes.
    pub(super) fn settle(&self, tail: &mut Tail) -> Result<()> {
        if self.is_settled() {
            return Ok(());
        }
        if !is(Bug::TailNotWrittenAgain) {
            for segment in core::mem::take(&mut tail.unproven) {
                self.look()?;
                self.write_again(&segment).map_err(|error| self.poison(self.or_fenced(error)))?;
            }
            let pair = *self.superblocks.lock();
            // The next superblock goes to the other slot: until that one is synced, this one must be on the medium.
            if !pair.other_damaged && pair.current.clean_end.is_none() && !self.is_fenced() {
                pair.current.write(&*self.storage, pair.slot).map_err(|error| self.poison(error))?;
            }
        }
        self.mend_headers(tail)?;
        self.mend_trailers(tail)?;
        self.sync_alone()?;
        self.sync_state.start_at(self.sync_state.synced().max(self.end()));
        self.settled.store(true, Ordering::Release);
        self.feed.wake();
        Ok(())
    }

    /// Writes the unproven part of a segment again, and then verifies it: from the write on, the host keeps the bytes until a sync stores
    /// them.
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
        let mut budget = budget(from.saturating_sub(start));
        loop {
            match walk.step()? {
                Step::Frame { .. } => {}
                Step::End => return Ok(()),
                // Damage in the proven part loses only the damaged records, not the store.
                Step::Bad { offset, .. } => match next_frame(storage, salt, offset + 1, segment.end, &mut budget)? {
                    Some(next) if next <= from => walk = Walk::new(storage, salt, next, segment.end),
                    _ if from >= segment.end => return Ok(()),
                    _ => return Err(Error::corrupt(offset, what)),
                },
            }
        }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
