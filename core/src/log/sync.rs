//! Group commit without a timer: a lone caller syncs at once, callers that arrive during a sync share the next one.

use super::{Log, Superblock, poisoned};
use crate::error::{Error, Result};
use crate::planted::{Bug, is};
use crate::storage::Durability;
use crate::sync::{AtomicBool, AtomicU64, Condvar, Mutex, Ordering};

/// How far the log is synced, and whether a sync is running.
#[derive(Debug, Default)]
pub(crate) struct SyncState {
    turn: Mutex<Turn>,
    /// Notified when a sync has ended.
    ended: Condvar,
    /// Everything before this log position is synced.
    synced: AtomicU64,
    /// No sync mark records `synced` yet, and none is due.
    unproven: AtomicBool,
}

#[derive(Debug, Default)]
struct Turn {
    /// A sync is running.
    running: bool,
    /// Durability that the last sync achieved.
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

#[cfg(feature = "async")]
impl SyncState {
    /// True when no sync is running.
    pub(super) fn is_idle(&self) -> bool {
        self.turn.try_lock().is_some_and(|turn| !turn.running)
    }

    /// What the last sync has achieved; `None` without one, or while one begins or ends.
    pub(super) fn achieved(&self) -> Option<Durability> {
        self.turn.try_lock().map(|turn| turn.achieved).filter(|achieved| *achieved != Durability::None)
    }
}

/// The running sync. Dropping it, even after a failure, wakes all waiters at once: covered waiters return; one of the rest starts the
/// next sync.
struct Running<'a>(&'a SyncState);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.turn.lock().running = false;
        self.0.ended.notify_all();
    }
}

impl Log {
    /// Syncs unless everything before `lsn` is synced already. Returns the durability achieved.
    pub(crate) fn sync_to(&self, lsn: u64) -> Result<Durability> {
        let covered = |turn: &Turn| {
            // Another caller's sync, begun after our bytes were written, has covered them while we waited.
            let covered = self.sync_state.synced() >= lsn && turn.achieved != Durability::None;
            (covered || is(Bug::FlushSkipsSync)).then_some(turn.achieved)
        };
        self.sync_unless(&covered, true)
    }

    /// Syncs everything that has been written so far, log or not.
    pub(crate) fn sync_now(&self) -> Result<Durability> {
        self.sync_unless(&|_| None, true)
    }

    /// Syncs everything before the end that a closed store's superblock will name. Appends no sync mark, so the end does not move.
    pub(super) fn sync_the_end(&self) -> Result<Durability> {
        self.sync_unless(&|_| None, false)
    }

    /// Waits for a running sync, then syncs, unless `covered` returns a result that makes that unnecessary. With `mark` the file then
    /// records how far the log is synced.
    fn sync_unless(&self, covered: &dyn Fn(&Turn) -> Option<Durability>, mark: bool) -> Result<Durability> {
        // A session that shares its file does not take the store over just to sync.
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
        // `prove_synced` locks the tail, whose holder may be waiting for this sync to end.
        drop(running);
        self.look_around(announced)?;
        if mark && (announced || !self.is_fenced()) {
            self.prove_synced(end);
        }
        Ok(achieved)
    }

    /// Fails if another session has taken the store over: a write counts only if this session still owned the store after it. The check
    /// before a sync is enough for that; the check after it reports a loss in between at once.
    fn look_around(&self, announced: bool) -> Result<()> {
        if is(Bug::FlushNotLookedAround) { Ok(()) } else { self.look_if(announced) }
    }

    /// Syncs bytes that have no log position (a superblock, zeros), never at the same time as another sync. The caller may hold the tail.
    pub(crate) fn sync_alone(&self) -> Result<()> {
        let mut turn = self.sync_state.turn.lock();
        while turn.running {
            turn = self.sync_state.ended.wait(&self.sync_state.turn, turn);
        }
        turn.running = true;
        drop(turn);
        let _running = Running(&self.sync_state);
        // Another caller's sync may have consumed the error, which the system reports only once.
        if let Some(first) = self.latch.get() {
            return Err(poisoned(first));
        }
        let achieved = self.storage.sync().map_err(|error| self.poison(error.into()))?;
        self.sync_state.turn.lock().achieved = achieved;
        Ok(())
    }

    /// Only for the planted bug of this name: a sync without a turn, as it once was; an error closes the store only if no other sync has
    /// consumed it.
    pub(crate) fn sync_beside(&self) -> Result<Durability> {
        self.storage.sync().map_err(|error| self.poison(error.into()))
    }

    /// Records in the file how far the log is synced, in a sync mark, or in the superblock if there is no room for a mark. Done even if no
    /// append follows, so that the end of the process does not lose it.
    fn prove_synced(&self, end: u64) {
        if !self.sync_state.unproven.swap(false, Ordering::AcqRel) || is(Bug::FlushNotMarked) {
            return;
        }
        let mut tail = self.tail.lock();
        let due = tail.mark_due.unwrap_or(0).max(end);
        tail.mark_due = Some(due);
        // A failed write closes the store to later ones. What was flushed is safe all the same.
        let _ = match self.mark_now(&mut tail) {
            Ok(true) => Ok(()),
            Ok(false) => {
                tail.mark_due = None;
                let floor = self.clock.floor();
                let flipped = self.flip(&|superblock| Superblock { synced: superblock.synced.max(due), ..superblock });
                if flipped.is_ok() {
                    tail.clock_said = tail.clock_said.max(floor);
                }
                flipped
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
            // Bytes of a failed sync may be neither in the cache nor on the medium, so it is never retried.
            Err(error) => return Err(self.poison(Error::from(error))),
        };
        self.sync_state.turn.lock().achieved = achieved;
        if self.sync_state.synced() < end {
            self.sync_state.synced.store(end, Ordering::Release);
            self.sync_state.unproven.store(true, Ordering::Release);
            self.feed.wake();
        }
        Ok(achieved)
    }
}

#[cfg(all(test, feature = "testing", feature = "std"))]
mod tests;
