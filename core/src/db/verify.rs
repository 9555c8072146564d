//! `verify` of an open store: nothing that it checks changes its place meanwhile.

use super::store::Store;
use crate::error::Result;
use crate::log::Segment;
use crate::verify::{VerifyReport, check_front, check_store, check_stranded, check_untouched, forgive_torn};
use alloc::vec::Vec;

impl Store {
    pub(super) fn verify(&self) -> Result<VerifyReport> {
        self.may_wait_for_the_turn()?;
        let log = &self.engine.log;
        // No superblock, snapshot or segment changes its place meanwhile; records may still be appended behind what is looked at.
        let _maintenance = self.maintenance.lock();
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
