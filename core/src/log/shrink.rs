//! Giving free space back to the host: extents at the end of the file are cut off, the blocks of other free extents are discarded.

use super::Log;
use crate::error::{Error, Result};
use crate::planted::{Bug, is};
use crate::sync::{Ordering, let_waiters_in};

/// Limit in bytes of one cut of the file: writers wait for each cut.
const CUT_MAX: u64 = 16 * 1024 * 1024;

/// The block lengths of file systems divide this, in bytes.
const BLOCK: u64 = 4096;

/// Shortest unused end of a segment, in bytes, that is worth a `discard` call.
const REST_LEAST: u64 = 64 * 1024;

impl Log {
    /// Gives the blocks of free extents back to the host, except `kept` bytes of backed ones. The caller ensures that only one thread runs
    /// this at a time.
    ///
    /// One extent at a time: a file system blocks writers of the file meanwhile, and one that discards on the device at once took
    /// 6 ms for 4 MiB. In pieces of 256 KiB it took three times as long in all.
    fn give_back(&self, kept: u64) {
        if self.is_fenced() {
            return;
        }
        loop {
            // Not among the free ones while its blocks are discarded, so that no lock is held that a writer needs.
            let Some(extent) = self.tail.lock().space.take_last_backed(kept) else { return };
            // A hint to the host: its result changes nothing.
            let _ = self.storage.discard(self.geometry.start(extent), self.geometry.size_of(extent));
            self.tail.lock().space.give_back(extent);
        }
    }

    /// Gives free segments back to the host, all but one that is kept for removals.
    ///
    /// Does nothing where other sessions may write to the file: no call can cut it on condition that nobody has made it longer.
    pub(crate) fn shrink(&self) -> Result<()> {
        if self.is_fenced() {
            return Ok(());
        }
        let step_max = (CUT_MAX / self.geometry.segment_size()).max(1) as u32;
        loop {
            let mut tail = self.tail.lock();
            let at_end = tail.space.surplus();
            let reserve = tail.space.longest();
            // Free space elsewhere in the file can be the reserve.
            let total = tail.space.total;
            let behind = |count: u32| self.geometry.len_of(total - count, count);
            let elsewhere = tail.space.free_bytes().saturating_sub(behind(at_end));
            let surplus = if elsewhere >= reserve { at_end } else { at_end.saturating_sub(1) };
            if surplus == 0 {
                break;
            }
            let step = surplus.min(step_max);
            self.storage.set_len(self.geometry.start(tail.space.total - step))?;
            tail.space.shrink(step);
            drop(tail);
            if surplus > step {
                let_waiters_in();
            }
        }
        let kept = self.tail.lock().space.longest();
        self.give_back(kept);
        Ok(())
    }

    /// True when the medium is full or has been in this session. A session that has taken no new space from the host asks for some.
    fn may_not_get_space_again(&self) -> bool {
        let mut tail = self.tail.lock();
        if self.medium_was_full.load(Ordering::Relaxed) {
            return true;
        }
        let holds_space = tail.space.has_reserve() && !tail.space.has_grown();
        holds_space && matches!(self.grow(&mut tail), Err(Error::NoSpace))
    }

    /// True when the snapshot is at the end of the file and there is room for it further forward.
    pub(crate) fn snapshot_could_move_down(&self) -> bool {
        if self.is_fenced() {
            return false;
        }
        let tail = self.tail.lock();
        let Some(last) = tail.snapshot.iter().max_by_key(|segment| segment.extent) else { return false };
        let is_last = last.extent + last.extents + tail.space.free_at_end() == tail.space.total;
        is_last && tail.space.has_run_below(last.len(self.geometry), last.extent)
    }

    /// On closing: cuts the file after the last byte that counts, and gives back the blocks of free segments before it and those after the
    /// ends of the log and of the snapshot. The next session reserves what it needs again.
    ///
    /// On a full medium it could not: there the reserve for removals and the rest of the active segment keep their blocks.
    pub(super) fn trim(&self) -> Result<()> {
        if self.is_fenced() {
            return Ok(());
        }
        if self.may_not_get_space_again() && !is(Bug::ReserveGivenBack) {
            return self.shrink();
        }
        {
            let mut tail = self.tail.lock();
            let surplus = tail.space.surplus();
            tail.space.shrink(surplus);
        }
        self.give_back(0);
        let tail = self.tail.lock();
        let end = self.geometry.start(tail.space.total);
        // More space was reserved than is used.
        let snapshot = tail.snapshot.iter().map(|segment| (segment.end, segment.behind(self.geometry)));
        let active = tail.active.iter().map(|active| (active.position, active.segment.behind(self.geometry)));
        for (position, behind) in snapshot.chain(active) {
            let from = position.next_multiple_of(BLOCK);
            // The end of the file is cut below.
            if behind < end && behind >= from + REST_LEAST {
                // A hint to the host: its result changes nothing.
                let _ = self.storage.discard(from, behind - from);
            }
        }
        let snapshot_end = tail.snapshot.iter().map(|segment| segment.end).max();
        let last = self.geometry.size_of(tail.space.total.saturating_sub(1));
        let in_last = |&offset: &u64| offset <= end && end - offset < last;
        let len = match tail.active {
            // The segment list names all of its extents: at least a byte of the last one stays, even if the log ends before it.
            Some(active) if active.segment.behind(self.geometry) == end => {
                active.position.max(self.geometry.start(tail.space.total.saturating_sub(1)) + 1)
            }
            _ => snapshot_end.filter(in_last).unwrap_or(end),
        };
        Ok(self.storage.set_len(len)?)
    }
}

#[cfg(all(test, feature = "testing"))]
mod tests;
