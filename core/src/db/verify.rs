//! `verify` of an open store: nothing that it checks changes its place meanwhile.

use super::handle::Db;
use crate::error::Result;
use crate::log::Segment;
use crate::verify::{VerifyReport, check_front, check_store, check_stranded, check_untouched, forgive_torn};
use alloc::vec::Vec;

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
        let _maintenance = store.maintenance.lock();
        let (segments, active) = {
            let tail = log.tail.lock();
            let segments: Vec<Segment> = tail.segments.values().copied().collect();
            (segments, tail.active)
        };
        let position =
            |segment: &Segment| active.filter(|active| active.segment.base == segment.base).map(|active| active.position);
        let ends = segments.iter().map(|segment| Segment { end: position(segment).unwrap_or(segment.end), ..*segment });
        let mut report = VerifyReport::default();
        // The first write of a session writes a superblock: not while they are looked at.
        let pair = {
            let pair = log.superblocks.lock();
            check_front(&*log.storage, &mut report)?;
            *pair
        };
        check_store(&*log.storage, &pair, &ends.collect::<Vec<_>>(), &mut report)?;
        let unfinished = segments.iter().filter(|segment| active.is_none_or(|active| active.segment.base != segment.base));
        check_stranded(&*log.storage, log.geometry, unfinished, &mut report)?;
        if log.is_poisoned() {
            // A write that failed half way may have left the other superblock torn, and bytes behind the end of the log.
            report.damage.retain(|damage| damage.offset != pair.slot.other().offset());
            return Ok(report);
        }
        let tail = log.tail.lock();
        forgive_torn(&mut report, &tail.torn_headers);
        if let Some(active) = tail.active {
            let segment = Segment { end: active.position, ..active.segment };
            check_untouched(&*log.storage, &pair.current, &segment, &mut report)?;
        }
        Ok(report)
    }
}
