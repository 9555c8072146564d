//! `verify` of an open store: the maintenance lock keeps everything that it checks in place.

use super::handle::Db;
use crate::error::Result;
use crate::verify::{VerifyReport, check_front, check_store, check_stranded, check_untouched, forgive_torn};

impl Db {
    /// Verifies the checksums of every byte that counts. Reads and writes continue meanwhile.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let report = db.verify()?;
    /// assert!(report.is_ok(), "{:?}", report.damage);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of the storage, and [`Error::Corrupt`](crate::Error::Corrupt) when the file has become shorter. Any other damage is not an
    /// error: it is listed in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        let store = &self.store;
        store.refuse_following()?;
        store.may_wait_for_the_turn()?;
        let log = &store.engine.log;
        // No superblock, snapshot or segment moves while the lock is held; records may still be appended after what is checked.
        let _turn = store.turn.lock();
        let (segments, active) = log.segments_and_active();
        let mut report = VerifyReport::default();
        // The first write of a session writes a superblock; the lock on the superblocks keeps it from doing so during the check.
        let pair = log.with_superblocks(|pair| check_front(&*log.storage, &mut report).map(|()| *pair))?;
        check_store(&*log.storage, &pair, &segments, &mut report)?;
        let unfinished = segments.iter().filter(|segment| active != Some(segment.base));
        check_stranded(&*log.storage, log.geometry, unfinished, &mut report)?;
        if log.is_poisoned() {
            // A write that failed half way may have left the other superblock torn, and bytes after the end of the log; neither is damage.
            report.damage.retain(|damage| damage.offset != pair.slot.other().offset());
            return Ok(report);
        }
        log.with_active(|active, torn_headers| {
            forgive_torn(&mut report, torn_headers);
            let untouched = |segment| check_untouched(&*log.storage, &pair.current, &segment, &mut report);
            active.map_or(Ok(()), untouched)
        })?;
        Ok(report)
    }
}
