//! What the store does unasked: checkpoints that bound the work of a reopen, and compaction of segments that are mostly dead. A thread
//! does it where there are threads, otherwise the write that finds it due.

use super::checkpoint::{self, Extent};
use crate::error::{Error, Result};
use crate::log::LIST_ENTRY_LEN;
use crate::nested::Held;
use crate::planted::{Bug, is};
use crate::store::{FlushPolicy, Store};
use crate::sync::Ordering;

/// Bytes of log between two checkpoints at least, for each segment: 16 times what it mostly takes in the list. The lists are dead weight of the
/// log. Closer together they would make each other due, and compaction that goes after them would make the store grow without end.
const APART_PER_SEGMENT: u64 = 16 * LIST_ENTRY_LEN;

impl Store {
    /// Makes a write durable, where the policy says so, and sees to what it has made due. A failure of that is no failure of the write.
    pub(crate) fn after_write(&self) -> Result<()> {
        let end = self.engine.log.end();
        if self.options.flush_policy == FlushPolicy::WriteThrough {
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
            self.thread.wake();
            if end >= self.checkpoint_due.load(Ordering::Relaxed) {
                // As much again has been written since a checkpoint was begun: whoever writes so fast waits for it to end, for what a
                // reopen has to replay is bounded.
                drop(self.engine.checkpoints.lock());
            }
            return Ok(());
        }
        let _ = self.maintain();
        Ok(())
    }

    /// Does what earlier sessions have left undone, in front of the first write, whatever else would do it later: a process may always end
    /// before that, as soon as it has written, and then nothing would ever be done. A failure of that is no failure of the write.
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
        // On a full medium the list would take room from a compaction that a crash has ended, and whose rest only just fits.
        if !self.engine.log.secure_free(1)? {
            self.free_a_segment()?;
        }
        self.write_checkpoint(Extent::Changes)?;
        self.compact_unasked(|| |_| {})?;
        self.engine.log.shrink()
    }

    /// Does what is due. Returns at once when somebody else is at it.
    pub(crate) fn maintain(&self) -> Result<()> {
        self.engine.log.write_behind();
        let Some(_turn) = self.turn.try_lock() else {
            self.put_compaction_off();
            return Ok(());
        };
        self.engine.build_all(&|| self.is_closed())?;
        let log = &self.engine.log;
        self.checkpoint_if_due()?;
        if log.end() >= self.compaction_due.load(Ordering::Relaxed) {
            match self.compact_unasked(|| self.pace()) {
                // What follows may make some.
                Ok(()) | Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
        }
        if log.space_low.load(Ordering::Relaxed) {
            self.free_a_segment()?;
        }
        self.engine.index.reclaim(&self.engine.pins);
        Ok(())
    }

    pub(crate) fn checkpoint_if_due(&self) -> Result<()> {
        let end = self.engine.log.end();
        if end < self.checkpoint_due.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.write_checkpoint(Extent::Changes)
    }

    /// Writes a checkpoint, without a snapshot where there is no room for one: that is enough for maintenance. The caller has the turn.
    pub(crate) fn write_checkpoint(&self, extent: Extent) -> Result<()> {
        self.try_checkpoint(extent).map(drop)
    }

    /// The same; true when it has a snapshot.
    fn try_checkpoint(&self, extent: Extent) -> Result<bool> {
        // Whatever comes of it, the next one is due only after as much again.
        let log = &self.engine.log;
        let apart = self.options.replay_debt_max.max(log.segment_count() as u64 * APART_PER_SEGMENT);
        self.checkpoint_due.store(log.end().saturating_add(apart), Ordering::Relaxed);
        checkpoint::write(&self.engine, &self.names, extent)
    }

    pub(crate) fn checkpoint(&self) -> Result<()> {
        self.may_wait_for_the_turn()?;
        let _turn = self.turn.lock();
        self.writable()?;
        if self.try_checkpoint(Extent::Changes)? { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Refuses to wait for the turn to maintain the store inside of a closure for which whoever has the turn may wait.
    pub(crate) fn may_wait_for_the_turn(&self) -> Result<()> {
        self.engine.refuse_inside(&[Held::Shard, Held::Turn])
    }
}
