//! Write-behind: starts the transfer of filled segments to the medium before a sync has to wait for it.
//!
//! Nothing is written more often, since a checkpoint syncs the whole log every few segments anyway. The transfer only runs
//! in parallel with the writers: after a long load, a sync has one segment left to wait for. PostgreSQL (`checkpoint_flush_after`)
//! and RocksDB (`bytes_per_sync`) do likewise.

use super::{Log, Segment};
use crate::sync::Ordering;
use alloc::vec::Vec;

impl Log {
    /// Calls `will_sync` for the segments that have been filled since the last call and that no sync has covered.
    pub(crate) fn write_behind(&self) {
        if cfg!(not(feature = "std")) {
            // Hosts without threads cannot transfer in parallel.
            return;
        }
        let end = |segment: &Segment| segment.next_base(self.geometry);
        let told = self.told_behind.load(Ordering::Relaxed).max(self.sync_state.synced());
        let filled: Vec<Segment> = {
            let tail = self.tail.lock();
            let active = tail.active.map(|active| active.segment.base);
            let filled = tail.segments.values().rev().filter(|segment| Some(segment.base) != active);
            filled.take_while(|segment| end(segment) > told).copied().collect()
        };
        // The oldest first: a concurrent sync waits for them in this order.
        for segment in filled.iter().rev() {
            let start = self.geometry.start(segment.extent);
            self.storage.will_sync(start, segment.len(self.geometry));
            self.told_behind.fetch_max(end(segment), Ordering::Relaxed);
        }
    }
}
