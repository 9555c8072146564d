//! The maintenance lock.

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

/// The maintenance lock: one checkpoint, compaction or verification at a time. Background work yields to explicit calls.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    turn: Mutex<()>,
    /// Held by the next owner while it waits, so that a thread that takes the lock again and again lets others in between.
    next: Mutex<()>,
    /// Number of callers that wait for the lock.
    waiting: AtomicUsize,
}

impl Turn {
    /// Waits for the lock. While it waits, [`Self::is_wanted`] is true.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let next = self.next.lock();
        let turn = self.turn.lock();
        drop(next);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        turn
    }

    /// Takes the lock if it is free.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        self.turn.try_lock()
    }

    /// True while a caller waits: background work that holds the lock should stop.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Progress of a compaction in steps. A series of steps makes a few rounds, each over the segments before a fixed log position, so that it
/// terminates whatever the steps themselves leave dead.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) rounds: u8,
    /// This round takes segments that begin before this log position.
    pub(crate) until: u64,
}
