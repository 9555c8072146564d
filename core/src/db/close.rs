//! Closing: flush, checkpoint if worthwhile, and record in the superblock where the log ends.

use crate::error::{Error, Result};
use crate::maintenance::{Extent, write_checkpoint};
use crate::store::Store;
use crate::sync::Ordering;

/// Replay debt in bytes up to which closing writes no snapshot: replaying so little is as fast as loading one.
const REPLAY_DEBT_AT_CLOSE: u64 = 256 * 1024;
/// The same for a store with many keys in order: opening reads the keys of two thousand records for each record that it replays.
#[cfg(feature = "ordered")]
const ORDERED_DEBT_AT_CLOSE: u64 = 4096;

impl Store {
    /// Flushes, writes a snapshot if there is much to replay, and records in the superblock where the log ends.
    pub(super) fn close(&self) -> Result<()> {
        #[cfg(feature = "native")]
        if std::process::id() != self.process {
            // A forked child drops an inherited handle. The store belongs to its parent, which still writes to it, so leave it alone.
            return Ok(());
        }
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        #[cfg(feature = "std")]
        self.background.stop();
        let _turn = self.turn.lock();
        let log = &self.engine.log;
        if log.read_only {
            return Ok(());
        }
        let result = self.mark_clean();
        log.close_to_writes();
        log.storage.release()?;
        result
    }

    /// Bytes of log behind the newest checkpoint that closing leaves to the next opening.
    fn replay_debt_at_close(&self) -> u64 {
        #[cfg(feature = "ordered")]
        if self.engine.has_much_in_order() {
            return if self.engine.checkpoints.lock().order.is_whole { ORDERED_DEBT_AT_CLOSE } else { 0 };
        }
        REPLAY_DEBT_AT_CLOSE.max(self.engine.log.geometry.segment_size() / 16)
    }

    fn mark_clean(&self) -> Result<()> {
        let log = &self.engine.log;
        if !log.is_announced() && (self.report.clean || log.is_fenced()) {
            // A session that has written nothing leaves a store as it is that was closed cleanly, or that another session has taken over.
            return Ok(());
        }
        log.writable()?;
        // Segments that are kept for stranded records are found only after an unclean end, or in the segment list.
        let is_unlisted = || !log.unlisted().is_empty();
        if is_unlisted() || self.report.damaged_list || log.replay_debt() > self.replay_debt_at_close() {
            match write_checkpoint(&self.engine, &self.names, Extent::Closing) {
                // Without room for the list, leave the end unclean, so that the next open finds them.
                Err(Error::NoSpace) if !log.is_poisoned() && is_unlisted() => return log.sync_to(log.end()).map(drop),
                // Without a snapshot opening replays more, and nothing is lost: still close cleanly and cut the file.
                Err(Error::NoSpace) if !log.is_poisoned() => {}
                result => drop(result?),
            }
            // The previous snapshot had to stay until this one was safe. Its space is free now, so writing another one there may shorten
            // the file.
            if log.snapshot_could_move_down() {
                write_checkpoint(&self.engine, &self.names, Extent::Whole)?;
            }
        }
        let _writers = self.engine.lock_all()?;
        log.finish(&self.engine.pins)
    }
}
