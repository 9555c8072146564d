//! Automatic compaction: of segments that are mostly dead, at a limited rate, until a caller waits for the maintenance lock.

use super::choose;
use super::due::unless_full;
use super::emptying::Emptying;
use super::report::CompactReport;
use crate::error::{Error, Result};
use crate::log::Segment;
use crate::planted::{Bug, is};
use crate::store::Store;
use crate::sync::Ordering;

/// Bytes that it copies per sync; a concurrent flush may wait for as many to be written.
const COPIED_UNASKED: u64 = 4 * 1024 * 1024;
/// Length of one pause of a compaction with a rate limit.
#[cfg(feature = "std")]
const PACE: core::time::Duration = core::time::Duration::from_millis(2);

impl Store {
    /// Begins to empty segments. Checks the names first: records under a number without a name are dropped.
    pub(super) fn emptying(&self, copied_max: u64) -> Result<Emptying<'_>> {
        self.check_names()?;
        let emptying = Emptying::new(&self.engine, copied_max);
        #[cfg(feature = "compress")]
        let emptying = emptying.with_compressor(self.compressor()?);
        Ok(emptying)
    }

    /// Compacts segments that are mostly dead, but for those whose records all expire before long, until a caller waits for the maintenance lock
    /// or the store is closed. The caller holds that lock.
    pub(crate) fn compact_unasked<P: FnMut(u64)>(&self, pace: impl Fn() -> P) -> Result<()> {
        let is_left = |segment: &Segment| self.is_held(segment) || self.is_dying(segment);
        #[cfg(feature = "compress")]
        if choose::worst(&self.engine, self.options.compact_dead_share, self.engine.log.end(), &|_| false, &is_left).is_some()
            && let Some(pending) = self.begin_training()?
        {
            // Only where something is copied: a write that finds nothing to compact does not wait for a training.
            self.finish_training(pending, false)?;
        }
        #[cfg(feature = "compress")]
        self.find_homes()?;
        let until = self.engine.log.end();
        let mut emptying = self.emptying(COPIED_UNASKED)?;
        let mut result = Ok(());
        while result.is_ok()
            && !self.is_closed()
            && !self.turn.is_wanted()
            && let Some(victim) =
                choose::worst(&self.engine, self.options.compact_dead_share, until, &|segment| emptying.holds(segment), &is_left)
        {
            // Compaction may take long: write checkpoints meanwhile, so that replay stays bounded.
            unless_full(self.checkpoint_if_due())?;
            result = self.empty(&mut emptying, &victim, &mut pace()).map(drop);
        }
        self.put_compaction_off();
        self.free(&mut emptying)?;
        #[cfg(feature = "compress")]
        self.mend_dictionaries()?;
        result
    }

    /// True while a living snapshot shows records that have ended and lie in `segment`: emptying it would free nothing before the end of that,
    /// and scatter what the snapshot shows over more segments.
    fn is_held(&self, segment: &Segment) -> bool {
        self.engine.log.segment_stats.noted(segment.extent) > 0
    }

    /// Compacts one segment, then frees what can be freed.
    pub(crate) fn compact_one(&self, segment: &Segment, pace: &mut dyn FnMut(u64)) -> Result<CompactReport> {
        let mut emptying = self.emptying(COPIED_UNASKED)?;
        #[cfg(feature = "compress")]
        self.part_dictionaries(segment)?;
        let mut report = emptying.empty(segment, pace)?;
        report.bytes_freed += self.free(&mut emptying)?;
        Ok(report)
    }

    /// Empties one more segment. If there is no room for its records, first frees the segments that were emptied before.
    pub(super) fn empty(
        &self,
        emptying: &mut Emptying<'_>,
        segment: &Segment,
        pace: &mut dyn FnMut(u64),
    ) -> Result<CompactReport> {
        #[cfg(feature = "compress")]
        self.part_dictionaries(segment)?;
        let mut freed = if emptying.is_full_for(segment) { self.free(emptying)? } else { 0 };
        let mut report = match emptying.empty(segment, pace) {
            Err(Error::NoSpace) if !emptying.is_none() => {
                freed += self.free(emptying)?;
                emptying.empty(segment, pace)?
            }
            result => result?,
        };
        report.bytes_freed += freed;
        Ok(report)
    }

    /// Retires the emptied segments and frees what can be freed; returns how many bytes.
    pub(super) fn free(&self, emptying: &mut Emptying<'_>) -> Result<u64> {
        if emptying.is_none() {
            return Ok(0);
        }
        emptying.retire()?;
        let log = &self.engine.log;
        if !is(Bug::ReuseBeforeRetire) {
            log.sync_to(log.end())?;
        }
        let freed = log.reclaim(&self.engine.pins);
        self.limit_snapshots();
        Ok(freed)
    }

    /// Makes the next automatic compaction due after another segment size of log.
    pub(crate) fn put_compaction_off(&self) {
        let log = &self.engine.log;
        self.compaction_due.store(log.end() + log.geometry.segment_size(), Ordering::Relaxed);
    }

    /// Limits automatic compaction to its rate. Waiting ends early when the store is closed, the medium is full, a checkpoint is due, other
    /// stores wait for a worker, or a caller waits for the maintenance lock.
    #[cfg(feature = "std")]
    pub(crate) fn pace(&self) -> impl FnMut(u64) {
        use std::time::{Duration, Instant};
        let (rate, started) = (self.options.compact_rate, Instant::now());
        move |copied| {
            let Some(due) = rate.map(|rate| Duration::from_secs_f64(copied as f64 / rate.max(1) as f64)) else { return };
            let is_full = || self.engine.log.medium_full.load(Ordering::Relaxed);
            let is_due = || self.engine.log.end() >= self.checkpoint_due.load(Ordering::Relaxed);
            let hurry = || self.is_closed() || self.turn.is_wanted() || is_full() || is_due() || self.background.should_hurry();
            while started.elapsed() + PACE < due && !hurry() {
                std::thread::sleep(PACE);
            }
        }
    }

    /// No limit without threads: the write that runs the compaction waits for it.
    #[cfg(not(feature = "std"))]
    pub(crate) fn pace(&self) -> impl FnMut(u64) {
        |_| {}
    }
}
