//! Compaction that nobody asked for: of what is mostly dead, at a rate, until somebody waits.

use super::choose;
use super::copy::Emptying;
use super::report::CompactReport;
use crate::error::{Error, Result};
use crate::log::Segment;
use crate::planted::{Bug, is};
use crate::store::Store;
use crate::sync::Ordering;

/// Bytes that a compaction copies for one sync: whoever flushes meanwhile waits for as many.
const COPIED_UNASKED: u64 = 4 * 1024 * 1024;
/// Compaction that is held to a rate waits for so long at a time.
#[cfg(feature = "std")]
const PACE: core::time::Duration = core::time::Duration::from_millis(2);

impl Store {
    /// Nothing is dropped before it is known what belongs to no namespace.
    pub(super) fn emptying(&self, copied_max: u64) -> Result<Emptying<'_>> {
        self.check_names()?;
        Ok(Emptying::new(&self.engine, copied_max))
    }

    /// Compacts what is mostly dead, until somebody waits for the turn. The caller has it.
    pub(crate) fn compact_unasked<P: FnMut(u64)>(&self, pace: impl Fn() -> P) -> Result<()> {
        let until = self.engine.log.end();
        let mut emptying = self.emptying(COPIED_UNASKED)?;
        let mut result = Ok(());
        while result.is_ok()
            && !self.is_closed()
            && !self.turn.is_wanted()
            && let Some(victim) =
                choose::worst(&self.engine, self.options.compact_dead_share, until, &|segment| emptying.holds(segment))
        {
            // It may take long, and what a reopen has to replay stays bounded.
            match self.checkpoint_if_due() {
                Ok(()) | Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
            result = self.empty(&mut emptying, &victim, &mut pace()).map(drop);
        }
        self.put_compaction_off();
        self.free(&mut emptying)?;
        result
    }

    /// Compacts one segment and frees what can be freed by now.
    pub(crate) fn compact_one(&self, segment: &Segment, pace: &mut dyn FnMut(u64)) -> Result<CompactReport> {
        let mut emptying = self.emptying(COPIED_UNASKED)?;
        let mut report = emptying.empty(segment, pace)?;
        report.bytes_freed += self.free(&mut emptying)?;
        Ok(report)
    }

    /// Empties one more segment; before that frees the others, when there is no room otherwise.
    pub(super) fn empty(
        &self,
        emptying: &mut Emptying<'_>,
        segment: &Segment,
        pace: &mut dyn FnMut(u64),
    ) -> Result<CompactReport> {
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

    /// Retires what has been emptied and frees what can be freed by now; says how many bytes.
    pub(super) fn free(&self, emptying: &mut Emptying<'_>) -> Result<u64> {
        if emptying.is_none() {
            return Ok(0);
        }
        emptying.retire()?;
        let log = &self.engine.log;
        if !is(Bug::ReuseBeforeRetire) {
            log.sync_to(log.end())?;
        }
        Ok(log.reclaim(&self.engine.pins))
    }

    /// Dead space is looked at again when another segment has been written.
    pub(crate) fn put_compaction_off(&self) {
        let log = &self.engine.log;
        self.compaction_due.store(log.end() + log.geometry.segment_size(), Ordering::Relaxed);
    }

    /// Holds compaction that nobody asked for to its rate; closing the store ends the wait, and so do a full medium, a checkpoint that has
    /// become due, and whoever waits for the turn.
    #[cfg(feature = "std")]
    pub(crate) fn pace(&self) -> impl FnMut(u64) {
        use std::time::{Duration, Instant};
        let (rate, started) = (self.options.compact_rate, Instant::now());
        move |copied| {
            let Some(due) = rate.map(|rate| Duration::from_secs_f64(copied as f64 / rate.max(1) as f64)) else { return };
            let is_full = || self.engine.log.medium_full.load(Ordering::Relaxed);
            let is_due = || self.engine.log.end() >= self.checkpoint_due.load(Ordering::Relaxed);
            let hurry = || self.is_closed() || self.turn.is_wanted() || is_full() || is_due();
            while started.elapsed() + PACE < due && !hurry() {
                std::thread::sleep(PACE);
            }
        }
    }

    /// Without threads somebody waits for it.
    #[cfg(not(feature = "std"))]
    pub(crate) fn pace(&self) -> impl FnMut(u64) {
        |_| {}
    }
}
