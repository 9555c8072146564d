//! Group commit without a timer: a lone caller syncs at once, callers that arrive during a sync share the next one.

use super::{Log, Superblock, poisoned};
use crate::error::{Error, Result};
use crate::planted::{Bug, is};
use crate::storage::Durability;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};

/// How far the log is synced, and who is at it.
#[derive(Debug, Default)]
pub(crate) struct SyncState {
    turn: Mutex<Turn>,
    /// A sync has ended.
    ended: Condvar,
    /// Everything in front of this log position is synced.
    synced: AtomicU64,
    /// No mark says so yet, and none is due.
    unproven: AtomicBool,
}

#[derive(Debug, Default)]
struct Turn {
    /// A sync is running.
    running: bool,
    /// What the last sync achieved.
    achieved: Durability,
}

impl SyncState {
    pub(crate) fn start_at(&self, lsn: u64) {
        self.synced.store(lsn, Ordering::Release);
    }

    pub(crate) fn synced(&self) -> u64 {
        self.synced.load(Ordering::Acquire)
    }
}

/// The sync that is running. Whatever becomes of it, those who wait for it are woken, all at once: who is covered goes on while one of
/// the others runs the next.
struct Running<'a>(&'a SyncState);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.turn.lock().running = false;
        self.0.ended.notify_all();
    }
}

impl Log {
    /// Syncs unless everything in front of `lsn` already is. Says what was achieved.
    pub(crate) fn sync_to(&self, lsn: u64) -> Result<Durability> {
        let covered = |turn: &Turn| {
            // Somebody's sync, begun after our bytes were written, has covered them while we waited.
            let covered = self.sync_state.synced() >= lsn && turn.achieved != Durability::None;
            (covered || is(Bug::FlushSkipsSync)).then_some(turn.achieved)
        };
        self.sync_unless(&covered, true)
    }

    /// Syncs whatever has been written so far, log or not.
    pub(crate) fn sync_now(&self) -> Result<Durability> {
        self.sync_unless(&|_| None, true)
    }

    /// Syncs everything in front of the position that a closed store's superblock will name: nothing is written behind it.
    pub(super) fn sync_the_end(&self) -> Result<Durability> {
        self.sync_unless(&|_| None, false)
    }

    /// Syncs in turn, unless `covered` says that there is no need to; then a mark may say so.
    fn sync_unless(&self, covered: &dyn Fn(&Turn) -> Option<Durability>, mark: bool) -> Result<Durability> {
        // One that shares the file takes nothing over only to sync it.
        if !self.is_settled() && !self.is_fenced() {
            self.writable()?;
            self.announce(&mut self.tail.lock())?;
        }
        let announced = self.is_fenced() && self.tail.lock().announced;
        self.look_around(announced)?;
        let mut turn = self.sync_state.turn.lock();
        loop {
            if !is(Bug::AckBeforeSync) {
                self.writable()?;
            }
            if let Some(achieved) = covered(&turn) {
                drop(turn);
                return self.look_around(announced).map(|()| achieved);
            }
            if !turn.running {
                break;
            }
            turn = self.sync_state.ended.wait(&self.sync_state.turn, turn);
            if is(Bug::SharedSyncCountsForAll) && mark {
                return Ok(turn.achieved);
            }
        }
        turn.running = true;
        drop(turn);
        let running = Running(&self.sync_state);
        let end = self.end();
        let achieved = self.sync_in_turn(end)?;
        // Whoever holds the tail may wait for the turn.
        drop(running);
        self.look_around(announced)?;
        if mark && (announced || !self.is_fenced()) {
            self.prove_synced(end);
        }
        Ok(achieved)
    }

    /// What was written counts only if the store was still this session's behind it. In front of a sync that is all that it takes; behind it, whoever
    /// has lost the store in between is told at once.
    fn look_around(&self, announced: bool) -> Result<()> {
        if is(Bug::FlushNotLookedAround) { Ok(()) } else { self.look_if(announced) }
    }

    /// Syncs, when nobody else does, what belongs to no position of the log. The caller may hold the tail.
    pub(crate) fn sync_alone(&self) -> Result<()> {
        let mut turn = self.sync_state.turn.lock();
        while turn.running {
            turn = self.sync_state.ended.wait(&self.sync_state.turn, turn);
        }
        turn.running = true;
        drop(turn);
        let _running = Running(&self.sync_state);
        // The sync of somebody else may have taken the one error that the system tells.
        if let Some(first) = self.latch.get() {
            return Err(poisoned(first));
        }
        let achieved = self.storage.sync().map_err(|error| self.poison(error.into()))?;
        self.sync_state.turn.lock().achieved = achieved;
        Ok(())
    }

    /// The planted bug of that name: as it was, with an error that closed the store only if nobody else had taken it.
    pub(crate) fn sync_beside(&self) -> Result<Durability> {
        self.storage.sync().map_err(|error| self.poison(error.into()))
    }

    /// Sees to it that the file says how far the log is synced, whether or not anything follows, so that the end of the process takes nothing with
    /// it: in a mark, or in the superblock where there is no room for one.
    fn prove_synced(&self, end: u64) {
        if !self.sync_state.unproven.swap(false, Ordering::AcqRel) || is(Bug::FlushNotMarked) {
            return;
        }
        let mut tail = self.tail.lock();
        let due = tail.mark_due.unwrap_or(0).max(end);
        tail.mark_due = Some(due);
        // A write that fails closes the store to later ones. What was flushed is safe all the same.
        let _ = match self.mark_now(&mut tail) {
            Ok(true) => Ok(()),
            Ok(false) => {
                tail.mark_due = None;
                self.flip(&|superblock| Superblock { synced: superblock.synced.max(due), ..superblock })
            }
            Err(error) => Err(error),
        };
    }

    fn sync_in_turn(&self, end: u64) -> Result<Durability> {
        self.writable()?;
        if is(Bug::AckBeforeSync) {
            self.sync_state.synced.store(end, Ordering::Release);
        }
        let achieved = match self.storage.sync() {
            Ok(durability) => durability,
            Err(error) if is(Bug::SyncErrorForgotten) => return Err(error.into()),
            // What the failed sync should have saved may be gone from the cache and not be on the medium: it is never retried.
            Err(error) => return Err(self.poison(Error::from(error))),
        };
        self.sync_state.turn.lock().achieved = achieved;
        if self.sync_state.synced() < end {
            self.sync_state.synced.store(end, Ordering::Release);
            self.sync_state.unproven.store(true, Ordering::Release);
        }
        Ok(achieved)
    }
}
