//! `verify` of an open store: nothing that it checks changes its place meanwhile.

use super::handle::Db;
use crate::error::Result;
use crate::verify::{VerifyReport, check_front, check_store, check_stranded, check_untouched, forgive_torn};

impl Db {
    /// Holds every byte that counts against its checksum. Others read and write meanwhile.
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
    /// Those of the storage, and [`Error::Corrupt`](crate::Error::Corrupt) when the file has become shorter than it was. All other damage
    /// is no error: it is in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        let store = &self.store;
        store.may_wait_for_the_turn()?;
        let log = &store.engine.log;
        // No superblock, snapshot or segment changes its place meanwhile; records may still be appended behind what is looked at.
        let _turn = store.turn.lock();
        let (segments, active) = log.segments_and_active();
        let mut report = VerifyReport::default();
        // The first write of a session writes a superblock: not while they are looked at.
        let pair = log.with_superblocks(|pair| check_front(&*log.storage, &mut report).map(|()| *pair))?;
        check_store(&*log.storage, &pair, &segments, &mut report)?;
        let unfinished = segments.iter().filter(|segment| active != Some(segment.base));
        check_stranded(&*log.storage, log.geometry, unfinished, &mut report)?;
        if log.is_poisoned() {
            // A write that failed half way may have left the other superblock torn, and bytes behind the end of the log.
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
