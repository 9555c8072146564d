//! Whose turn it is to maintain a store.

use crate::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};

/// One checkpoint, compaction or look at all of the file at a time. What nobody asked for gives way to what somebody waits for.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    turn: Mutex<()>,
    /// How many wait for their turn.
    waiting: AtomicUsize,
}

impl Turn {
    /// Waits for the turn.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let turn = self.turn.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        turn
    }

    /// The turn, if nobody has it.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        self.turn.try_lock()
    }

    /// Whoever has the turn unasked should come to an end.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// How far the steps of a compaction have come. From the first one to the one that finds nothing they go through the segments in front of a
/// log position, a few times over: so they end, whatever they leave dead themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    pub(crate) rounds: u8,
    /// The log position in front of which this round's segments begin.
    pub(crate) until: u64,
}
