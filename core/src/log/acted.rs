//! Which expiries were acted on: the file says so with or before the commit that relied on it, so that nothing that had expired comes back
//! under a clock that was set back.

use super::{Log, Superblock, Tail};
use crate::error::Result;
use crate::planted::{Bug, is};

/// Of the features that a reader may ignore: the store has, or has had, a record that expires.
pub(crate) const FEATURE_EXPIRY: u64 = 1;

impl Log {
    /// An answer, a sweep or a compaction takes a record for gone that expires at `expiry`. The next commit says so first.
    #[inline]
    pub(crate) fn acted_on(&self, expiry: u64) {
        if self.clock.floor() < expiry {
            self.raise_floor(expiry);
        }
    }

    #[cold]
    fn raise_floor(&self, expiry: u64) {
        if self.clock.raise(expiry) && !self.read_only {
            let mut tail = self.tail.lock();
            self.mark_said(&mut tail);
        }
    }

    /// Lowers what was acted on, after the host's clock was wrong. The next superblock says so.
    pub(crate) fn lower_floor(&self, time: u64) {
        let mut tail = self.tail.lock();
        self.clock.lower(time);
        tail.clock_said = time;
    }

    /// Called when no mark of a sync is due any more: one is due all the same while the file does not say what was acted on.
    pub(super) fn mark_said(&self, tail: &mut Tail) {
        if self.clock.floor() > tail.clock_said && tail.mark_due.is_none() && !is(Bug::FloorNotKept) {
            tail.mark_due = Some(self.sync_state.synced());
        }
    }

    /// Writes a superblock where a mark is due for the clock and does not fit in front of the next frame, of `first` bytes.
    pub(super) fn say_clock(&self, tail: &mut Tail, first: u64) -> Result<()> {
        self.mark_said(tail);
        if self.clock.floor() <= tail.clock_said || self.mark_fits(tail, first) || is(Bug::FloorNotKept) {
            return Ok(());
        }
        let floor = self.clock.floor();
        self.flip(&|superblock| superblock)?;
        tail.clock_said = floor;
        Ok(())
    }

    /// Called before the first record that expires is written: the superblock says that there are such.
    pub(crate) fn begin_expiring(&self) -> Result<()> {
        let mut tail = self.tail.lock();
        self.writable()?;
        self.announce(&mut tail)?;
        if self.superblock().optional_features & FEATURE_EXPIRY == 0 {
            let with_feature = |superblock: Superblock| superblock.optional_features | FEATURE_EXPIRY;
            self.flip(&|superblock| Superblock { optional_features: with_feature(superblock), ..superblock })?;
        }
        self.clock.begin();
        Ok(())
    }

    /// The clock for the next superblock.
    pub(super) fn clock_to_write(&self, before: u64) -> u64 {
        if is(Bug::FloorNotKept) { before } else { self.clock.floor() }
    }
}
