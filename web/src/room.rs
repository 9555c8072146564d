//! Room at a full quota: a write that finds no space compacts first, and fails only when nothing can be gained.

use core::cell::Cell;

use pipkin::{Db, Error, Result};

/// Compaction skips segments of which less than 1/64 is dead, so it is not tried again before that much more has died.
const DEAD_PARTS: u64 = 64;

/// Remembers when compaction is not worth a try.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Dead bytes that the last compaction could not free.
    left: Cell<Option<u64>>,
}

impl Room {
    /// Forgets what compaction could not free. To be called when something that kept it from freeing space has ended.
    pub(crate) fn look_again(&self) {
        self.left.set(None);
    }

    /// Runs a write. When there is no space for it, compacts segment by segment until it fits, and finally everything that is worth
    /// compacting. Fails with `NoSpace` if that is not enough.
    pub(crate) fn with(&self, db: &Db, write: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let written = write();
        if !matches!(written, Err(Error::NoSpace)) {
            return written;
        }
        let stats = db.stats()?;
        // A caller may retry in a loop, and each attempt to compact costs space in the last segment.
        if self.left.get().is_some_and(|left| stats.dead_bytes < left + stats.segment_size / DEAD_PARTS) {
            return written;
        }
        // One step per segment, so that none is compacted twice.
        for _ in 0..stats.segments {
            match db.compact_step() {
                Ok(Some(_)) => match write() {
                    Err(Error::NoSpace) => {}
                    written => return written,
                },
                Ok(None) | Err(Error::NoSpace) => break,
                Err(error) => return Err(error),
            }
        }
        match db.compact() {
            Ok(_) | Err(Error::NoSpace) => {}
            Err(error) => return Err(error),
        }
        let written = write();
        if matches!(written, Err(Error::NoSpace)) {
            self.left.set(Some(db.stats()?.dead_bytes));
        }
        written
    }
}
