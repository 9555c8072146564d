//! Whether a read or an append would wait, as things stand: for the async face, which has a thread of its own do what would.

use super::append::DIRECT;
use super::{Log, Tail};

/// Longest record, in bytes, that is read or written on the task that asks: copying it and its checksum take some microseconds.
const AT_ONCE_MAX: usize = 64 * 1024;

/// Bytes of the segment beside those of a frame: for a sync mark, for what removals keep, and for the tags of a sealed store.
const SPARE: u64 = 1024;

impl Log {
    /// True when the whole record at `offset` is in memory and short, and reading it needs nothing else. The caller holds a pin or a lock.
    pub(crate) fn is_at_hand(&self, offset: u64) -> bool {
        use super::announce::PREFETCH;
        if !self.storage.is_at_hand(offset, PREFETCH) {
            return false;
        }
        // Damage is an error at once.
        let Ok(header) = self.header(offset) else { return true };
        let len = header.frame_len();
        len <= AT_ONCE_MAX && !header.is_compressed() && (len <= PREFETCH || self.storage.is_at_hand(offset, len))
    }

    /// True when a frame of this length can be appended without a system call that may take long, and without waiting for whoever appends or
    /// syncs: writes to a file wait for its sync, for milliseconds at times. Another thread may be faster after this; then the append waits
    /// all the same.
    pub(crate) fn takes_at_once(&self, frame_len: usize) -> bool {
        let has_room = |tail: &Tail| {
            let room = tail.active.as_ref().map_or(0, super::Active::room);
            tail.announced && tail.space.has_reserve() && room >= frame_len as u64 + SPARE
        };
        frame_len < DIRECT
            && !self.is_fenced()
            && self.sync_state.is_idle()
            && self.tail.try_lock().is_some_and(|tail| has_room(&tail))
    }

    /// True when a sync has covered everything that was written, and what it has achieved; `None` when that takes a sync to say.
    pub(crate) fn synced_already(&self) -> Option<crate::storage::Durability> {
        let is_covered = !self.is_fenced() && self.writable().is_ok() && self.sync_state.synced() >= self.end();
        if is_covered { self.sync_state.achieved() } else { None }
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
