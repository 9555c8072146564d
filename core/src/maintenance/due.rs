//! Automatic maintenance: checkpoints, which bound the replay on opening, and compaction of segments that are mostly dead. The background
//! thread runs it if there is one, otherwise the write that finds it due.

use super::checkpoint::{self, Extent};
use crate::error::{Error, Result};
use crate::nested::Held;
use crate::planted::{Bug, is};
use crate::store::{FlushPolicy, Store};
use crate::sync::Ordering;

impl Store {
    /// Makes a write durable if the policy says so, and runs the maintenance that it has made due. A failure of the sync is returned; a
    /// failure of maintenance is not, because the write has succeeded.
    pub(crate) fn after_write(&self) -> Result<()> {
        let end = self.engine.log.end();
        self.engine.log.feed.wake_early();
        if self.options.flush_policy == FlushPolicy::WriteThrough && !self.syncs_later() {
            self.engine.log.sync_to(end)?;
        }
        let low = self.engine.log.space_low.load(Ordering::Relaxed);
        if !low && end < self.checkpoint_due.load(Ordering::Relaxed) && end < self.compaction_due.load(Ordering::Relaxed) {
            return Ok(());
        }
        if self.overdue.load(Ordering::Relaxed) {
            self.catch_up_if_possible();
        }
        #[cfg(feature = "std")]
        if self.options.has_thread() {
            self.background.wake();
            let due = self.checkpoint_due.load(Ordering::Relaxed);
            if end >= due {
                // Writers outran the running checkpoint; block until it ends, so that replay stays bounded.
                drop(self.engine.checkpoints.lock());
            }
            // A checkpoint needs the turn, which a compaction or verification may have for many seconds. Writers do not wait for it, unless one list may
            // soon not name all segments: then the medium could get full. With a `due` of 0 the thread is asked for something else.
            if due > 0
                && end >= due.saturating_add(self.engine.log.between_lists(u64::MAX))
                && self.may_wait_for_the_turn().is_ok()
            {
                let _turn = self.turn.lock();
                let _ = self.checkpoint_if_due();
            }
            return Ok(());
        }
        let _ = self.maintain();
        Ok(())
    }

    /// The caller syncs after the write.
    #[cfg(feature = "async")]
    fn syncs_later(&self) -> bool {
        self.engine.refuse_inside(&[Held::Sync]).is_err()
    }

    #[cfg(not(feature = "async"))]
    const fn syncs_later(&self) -> bool {
        false
    }

    /// True when a write would run maintenance, or wait for it.
    #[cfg(feature = "async")]
    pub(crate) fn is_due(&self) -> bool {
        let end = self.engine.log.end();
        self.engine.log.space_low.load(Ordering::Relaxed)
            || self.overdue.load(Ordering::Relaxed)
            || end >= self.checkpoint_due.load(Ordering::Relaxed)
            || end >= self.compaction_due.load(Ordering::Relaxed)
    }

    /// Runs the maintenance that earlier sessions left undone, before the first write and in its thread. Left for later, it would never run
    /// in a process that always ends right after writing. A failure of it does not fail the write.
    #[cold]
    pub(super) fn catch_up_if_possible(&self) {
        if self.may_wait_for_the_turn().is_ok() && !is(Bug::DebtOfDeadSessions) {
            let _ = self.catch_up();
        }
    }

    fn catch_up(&self) -> Result<()> {
        let _turn = self.turn.lock();
        if !self.overdue.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.engine.build_all(&|| self.is_closed())?;
        // On a full medium free a segment first: the list would take the room that a compaction interrupted by a crash needs for its rest.
        if !self.engine.log.secure_free(1)? {
            self.free_a_segment()?;
        }
        self.write_checkpoint(Extent::Changes)?;
        self.compact_unasked(|| |_| {})?;
        self.engine.log.shrink()
    }

    /// Runs the maintenance that is due. Returns at once when the maintenance lock is taken.
    pub(crate) fn maintain(&self) -> Result<()> {
        self.engine.log.write_behind();
        let Some(_turn) = self.turn.try_lock() else {
            self.put_compaction_off();
            return Ok(());
        };
        self.heal_unasked()?;
        self.engine.build_all(&|| self.is_closed())?;
        self.end_purges()?;
        self.sweep_unasked()?;
        #[cfg(feature = "events")]
        self.retain_unasked()?;
        self.settle_floor()?;
        self.limit_snapshots();
        let log = &self.engine.log;
        self.checkpoint_if_due()?;
        if log.end() >= self.compaction_due.load(Ordering::Relaxed) {
            unless_full(self.compact_unasked(|| self.pace()))?;
        }
        if log.space_low.load(Ordering::Relaxed) {
            self.free_a_segment()?;
        }
        self.engine.reclaim_index();
        Ok(())
    }

    /// Forgets records that have expired, as many at a time as the options allow.
    fn sweep_unasked(&self) -> Result<()> {
        if !self.options.sweep {
            return Ok(());
        }
        let most = self.options.sweep_rate.unwrap_or(u64::MAX);
        let first = self.sweep_next.load(Ordering::Relaxed);
        let stop = |removed: u64| removed >= most || self.is_closed() || self.turn.is_wanted();
        let (_, next) = self.engine.sweep_some(first as usize, &stop)?;
        self.sweep_next.store(next as u32, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn checkpoint_if_due(&self) -> Result<()> {
        let end = self.engine.log.end();
        if end < self.checkpoint_due.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.write_checkpoint(Extent::Changes)
    }

    /// Writes a checkpoint, without a snapshot if there is no room for one: that is enough for maintenance. The caller holds the
    /// maintenance lock.
    pub(crate) fn write_checkpoint(&self, extent: Extent) -> Result<()> {
        self.try_checkpoint(extent).map(drop)
    }

    /// Like [`Self::write_checkpoint`]; returns whether a snapshot was written, or none is wanted because the index is in doubt.
    fn try_checkpoint(&self, extent: Extent) -> Result<bool> {
        // Set before the attempt: even if it fails, the next checkpoint is due only after as many log bytes again.
        let log = &self.engine.log;
        let apart = log.between_lists(self.options.replay_debt_max);
        self.checkpoint_due.store(log.end().saturating_add(apart), Ordering::Relaxed);
        checkpoint::write(&self.engine, &self.names, extent)
    }

    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.may_wait_for_the_turn()?;
        let _turn = self.turn.lock();
        self.writable()?;
        // As at a close: whoever asks for it wants the next opening to be quick.
        let write = || self.end_purges().and_then(|()| self.try_checkpoint(Extent::Closing));
        if self.healed(&write)? { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Answers [`Error::Nested`] inside a closure whose call holds a shard or the maintenance lock: waiting for that lock could deadlock.
    pub(crate) fn may_wait_for_the_turn(&self) -> Result<()> {
        self.engine.refuse_inside(&[Held::Shard, Held::Turn])
    }
}

/// A full medium does not end maintenance: what follows may free space.
pub(super) fn unless_full(result: Result<()>) -> Result<()> {
    match result {
        Err(Error::NoSpace) => Ok(()),
        result => result,
    }
}
