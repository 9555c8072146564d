//! Closing: what is left is written, and the superblock says where the log ends.

use crate::error::{Error, Result};
use crate::maintenance::{Extent, write_checkpoint};
use crate::store::Store;
use crate::sync::Ordering;

/// A closed store with less than this to replay needs no new snapshot: replaying is as quick as loading one.
const REPLAY_DEBT_AT_CLOSE: u64 = 256 * 1024;

impl Store {
    /// Flushes, writes a snapshot if there is much to replay, and says in the superblock where the log ends.
    pub(super) fn close(&self) -> Result<()> {
        #[cfg(feature = "native")]
        if std::process::id() != self.process {
            // A child that was forked drops what it has inherited. The store is its parent's, which goes on writing.
            return Ok(());
        }
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        #[cfg(feature = "std")]
        self.thread.stop();
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

    fn mark_clean(&self) -> Result<()> {
        let log = &self.engine.log;
        if !log.is_announced() && (self.report.clean || log.is_fenced()) {
            // What a session has not taken over it does not close either.
            return Ok(());
        }
        log.writable()?;
        // Segments that are kept for what is stranded in them are found behind an unclean end, or in the list.
        let is_unlisted = || !log.unlisted().is_empty();
        if is_unlisted()
            || self.report.damaged_list
            || log.replay_debt() > REPLAY_DEBT_AT_CLOSE.max(log.geometry.segment_size() / 16)
        {
            match write_checkpoint(&self.engine, &self.names, Extent::Closing) {
                // Where there is no room for the list, the next open finds them behind an end that is not said to be clean.
                Err(Error::NoSpace) if !log.is_poisoned() && is_unlisted() => return log.sync_to(log.end()).map(drop),
                // Opening will replay more, and nothing is lost: no reason to leave the file uncut.
                Err(Error::NoSpace) if !log.is_poisoned() => {}
                result => drop(result?),
            }
            // The snapshot before had to stay until this one was safe. Now that its place is free, a second move may shorten the file.
            if log.snapshot_could_move_down() {
                write_checkpoint(&self.engine, &self.names, Extent::Whole)?;
            }
        }
        let _writers = self.engine.lock_all()?;
        log.finish(&self.engine.pins)
    }
}
