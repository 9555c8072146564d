//! What the store does unasked: checkpoints that bound the work of a reopen, and compaction of segments that are mostly dead. A thread
//! does it where there are threads, otherwise the write that finds it due.

use super::handle::Db;
use super::options::FlushPolicy;
use super::store::Store;
use crate::checkpoint::{self, Extent};
use crate::compact;
use crate::error::{Error, Result};
use crate::log::LIST_ENTRY_LEN;
use crate::nested::Held;
use crate::planted::{Bug, is};
use crate::stranded;
use crate::sync::Ordering;
use alloc::vec::Vec;

/// Bytes of log between two checkpoints at least, for each segment: 16 times what it mostly takes in the list. The lists are dead weight of the
/// log. Closer together they would make each other due, and compaction that goes after them would make the store grow without end.
const APART_PER_SEGMENT: u64 = 16 * LIST_ENTRY_LEN;

impl Db {
    /// Writes an index snapshot, so that the next opening has nothing to replay. It happens by itself now and then, and when a
    /// store with much to replay is closed.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`](crate::Error::NoSpace) when there is no room for a snapshot: if there is any for the list of the segments, that was
    /// written, and nothing is lost. [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Closed`](crate::Error::Closed),
    /// [`Error::Poisoned`](crate::Error::Poisoned), and [`Error::Corrupt`](crate::Error::Corrupt) when a part of the index that is not
    /// built yet cannot be.
    pub fn checkpoint(&self) -> Result<()> {
        self.store.seen(self.store.checkpoint())
    }
}

/// After a write that found no room, and no way to make some, the next one looks for a way when one segment in so many more has died.
const DEAD_PARTS: u64 = 64;

impl Store {
    /// Makes a write durable, where the policy says so, and sees to what it has made due. A failure of that is no failure of the write.
    pub(super) fn after_write(&self) -> Result<()> {
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
            self.background.wake();
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
    fn catch_up_if_possible(&self) {
        if self.may_wait_for_the_turn().is_ok() && !is(Bug::DebtOfDeadSessions) {
            let _ = self.catch_up();
        }
    }

    fn catch_up(&self) -> Result<()> {
        let _maintenance = self.maintenance.lock();
        if !self.overdue.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        self.engine.build_all(&|| self.is_closed())?;
        self.write_checkpoint(Extent::Changes)?;
        self.compact_unasked(|| |_| {})?;
        self.engine.log.shrink()
    }

    /// Does what is due. Returns at once when somebody else is at it.
    pub(super) fn maintain(&self) -> Result<()> {
        self.engine.log.write_behind();
        let Some(_maintenance) = self.maintenance.try_lock() else {
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

    pub(super) fn checkpoint_if_due(&self) -> Result<()> {
        let end = self.engine.log.end();
        if end < self.checkpoint_due.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.write_checkpoint(Extent::Changes)
    }

    /// Writes a checkpoint, without a snapshot where there is no room for one: that is enough for maintenance. The caller has the turn.
    pub(super) fn write_checkpoint(&self, extent: Extent) -> Result<()> {
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

    /// Compacts until a segment is free again, or nothing that is dead can be got at: removals must go on when the medium is full,
    /// and every removal brings the moment nearer at which what still lives in some segment fits into the rest of the active one.
    fn free_a_segment(&self) -> Result<()> {
        let log = &self.engine.log;
        let is_low = || !log.has_reserve();
        log.reclaim(&self.engine.pins);
        // The medium may have room, and then nobody has to move anything.
        if !log.secure_free(1)? {
            self.engine.build_all(&|| false)?;
            stranded::make_way(&self.engine)?;
        }
        let until = log.end();
        let mut may_checkpoint = log.replay_debt() > log.geometry.segment_size() / 2;
        let mut tried = Vec::new();
        while is_low() {
            let Some(victim) = self.worst_that_fits(until, &tried) else {
                if !may_checkpoint {
                    return Ok(());
                }
                may_checkpoint = false;
                match self.write_checkpoint(Extent::Changes) {
                    Ok(()) => tried.clear(),
                    Err(Error::NoSpace) => return Ok(()),
                    Err(error) => return Err(error),
                }
                continue;
            };
            tried.push(victim.base);
            match self.compact_one(&victim, &mut |_| {}) {
                Ok(_) | Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
        }
        log.space_low.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Runs a write; when there is no space for it, frees what only waits for a sync or for a reader to go, and runs it again.
    pub(super) fn with_reclaimed<T>(&self, write: impl Fn() -> Result<T>) -> Result<T> {
        if self.overdue.load(Ordering::Relaxed) {
            self.catch_up_if_possible();
        }
        match write() {
            // After a failed write nothing may be tried again, whatever it was that failed it.
            Err(Error::NoSpace) if !self.engine.log.is_poisoned() => {
                self.reclaim()?;
                write()
            }
            result => result,
        }
    }

    /// As [`Self::with_reclaimed`], for new data; where that is not enough, compacts what was removed, as long as that makes room, and runs it again.
    pub(super) fn with_room<T>(&self, write: impl Fn() -> Result<T>) -> Result<T> {
        match self.with_reclaimed(&write) {
            Err(Error::NoSpace) if !self.engine.log.is_poisoned() && !is(Bug::RemovalsMakeNoRoom) => self.write_again(&write),
            result => result,
        }
    }

    #[cold]
    fn write_again<T>(&self, write: &dyn Fn() -> Result<T>) -> Result<T> {
        if self.options.compact_dead_share > 1.0 || self.may_wait_for_the_turn().is_err() {
            return Err(Error::NoSpace);
        }
        let _maintenance = self.maintenance.lock();
        self.engine.build_all(&|| self.is_closed())?;
        // Whoever tries again at once would have every segment looked at again.
        let log = &self.engine.log;
        if self.dead_bytes() < self.dead_left.load(Ordering::Relaxed).saturating_add(log.geometry.segment_size() / DEAD_PARTS) {
            return Err(Error::NoSpace);
        }
        let until = log.end();
        loop {
            match self.make_room_once(until) {
                Ok(true) => {}
                Ok(false) | Err(Error::NoSpace) => break,
                Err(error) => return Err(error),
            }
            let written = write();
            if !matches!(written, Err(Error::NoSpace)) || log.is_poisoned() {
                return written;
            }
        }
        self.dead_left.store(self.dead_bytes(), Ordering::Relaxed);
        Err(Error::NoSpace)
    }

    /// Says so when space could be freed only by [giving up](crate::Db::drop_stranded) what is kept. The caller holds no lock.
    pub(super) fn or_what_is_kept<T>(&self, result: Result<T>) -> Result<T> {
        match result {
            Err(Error::NoSpace) if !self.engine.log.is_poisoned() => match compact::kept_for_stranded(&self.engine) {
                0 => Err(Error::NoSpace),
                bytes => Err(Error::StrandedInTheWay { bytes }),
            },
            result => result,
        }
    }

    #[cold]
    fn reclaim(&self) -> Result<()> {
        let log = &self.engine.log;
        log.sync_to(log.end())?;
        if log.reclaim(&self.engine.pins) == 0 { Err(Error::NoSpace) } else { Ok(()) }
    }

    /// In front of whatever may remove something: when the last segment is in use, compaction comes first. What lives in the best
    /// victim may not fit any more behind the removal.
    pub(super) fn make_space(&self) -> Result<()> {
        if self.engine.log.space_low.load(Ordering::Relaxed) { self.make_space_now() } else { Ok(()) }
    }

    #[cold]
    fn make_space_now(&self) -> Result<()> {
        self.may_wait_for_the_turn()?;
        let _maintenance = self.maintenance.lock();
        self.free_a_segment()
    }

    /// Runs a removal; when there is no space even for that, frees some and runs it again.
    pub(super) fn with_space<T>(&self, removal: impl Fn() -> Result<T>) -> Result<T> {
        self.or_what_is_kept(self.try_with_space(removal))
    }

    fn try_with_space<T>(&self, removal: impl Fn() -> Result<T>) -> Result<T> {
        self.make_space()?;
        match self.with_reclaimed(&removal) {
            Err(Error::NoSpace) if !self.engine.log.is_poisoned() => {
                self.make_space_now()?;
                removal()
            }
            result => result,
        }
    }

    /// Refuses to wait for the turn to maintain the store inside of a closure for which whoever has the turn may wait.
    pub(super) fn may_wait_for_the_turn(&self) -> Result<()> {
        self.engine.refuse_inside(&[Held::Shard, Held::Turn])
    }

    pub(super) fn checkpoint(&self) -> Result<()> {
        self.may_wait_for_the_turn()?;
        let _maintenance = self.maintenance.lock();
        self.writable()?;
        if self.try_checkpoint(Extent::Changes)? { Ok(()) } else { Err(Error::NoSpace) }
    }
}
