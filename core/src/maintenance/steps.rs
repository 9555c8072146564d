//! Compaction in steps: one segment per call, until none is worth it.

use super::checkpoint::Extent;
use super::choose::{self, PARTS_ASKED};
#[cfg(feature = "compress")]
use super::due::unless_full;
use super::report::CompactReport;
use crate::error::Result;
use crate::log::Segment;
use crate::planted::{Bug, is};
use crate::store::{Steps, Store};

/// Rounds of a series of steps: the first takes the segments that existed when the series began, each later one those that existed when it
/// began.
const STEP_ROUNDS: u8 = 3;

impl Store {
    pub(crate) fn compact_step(&self) -> Result<Option<CompactReport>> {
        let _turn = self.turn.lock();
        self.writable()?;
        self.heal_unasked()?;
        self.engine.build_all(&|| false)?;
        self.end_purges()?;
        self.settle_floor()?;
        let log = &self.engine.log;
        let mut steps = *self.steps.lock();
        #[cfg(feature = "compress")]
        if steps.until == 0 {
            self.train_first()?;
        }
        let victim = loop {
            if let Some(victim) = self.victim_of_step(steps.until)? {
                break Some(victim);
            }
            if steps.rounds == STEP_ROUNDS {
                break None;
            }
            steps = Steps { rounds: steps.rounds + 1, until: log.end() };
        };
        #[cfg(feature = "compress")]
        if victim.is_none() {
            self.mend_dictionaries()?;
            self.drop_dictionaries()?;
        }
        // After the last step, the next call begins a new series.
        *self.steps.lock() = if victim.is_some() { steps } else { Steps::default() };
        victim.map(|victim| self.compact_one(&victim, &mut |_| {})).transpose()
    }

    fn victim_of_step(&self, until: u64) -> Result<Option<Segment>> {
        let log = &self.engine.log;
        let worst = || choose::worst(&self.engine, 1.0 / PARTS_ASKED, until, &|_| false, &|_| false);
        // Distance between checkpoints, in log bytes. Each one leaves a dead segment list for later steps to compact; this far apart, they
        // save more work than they cause.
        let apart = 2 * log.geometry.segment_size() + 4 * log.list_len(log.segment_count());
        let victim = worst();
        if victim.is_some() || until == 0 {
            return Ok(victim);
        }
        if log.replay_debt() > apart || is(Bug::CompactionWithoutEnd) {
            // All segments worth compacting may be after the newest checkpoint: write one, and choose again.
            self.write_checkpoint(Extent::Changes)?;
            let victim = worst();
            if victim.is_some() {
                return Ok(victim);
            }
        }
        self.victim_to_compress(until)
    }

    /// Before a series of steps: trains the dictionaries that are due.
    #[cfg(feature = "compress")]
    fn train_first(&self) -> Result<()> {
        if let Some(pending) = self.begin_training()? {
            self.finish_training(pending, false)?;
        }
        self.find_homes()
    }

    /// A segment that is worth emptying for its compression alone. Writes a checkpoint where only that lets it be emptied.
    #[cfg(feature = "compress")]
    fn victim_to_compress(&self, until: u64) -> Result<Option<Segment>> {
        let compressor = self.compressor()?;
        if compressor.is_none() {
            return Ok(None);
        }
        let is_worth_it = |segment: &Segment| {
            segment.base < until && !self.engine.is_set_aside(segment, false) && self.is_worth_compressing(&compressor, segment)
        };
        let find = || choose::candidates(&self.engine).into_iter().find(is_worth_it);
        let (live, active) = self.engine.log.segments_and_active();
        let waits = |segment: &Segment| Some(segment.base) != active && is_worth_it(segment);
        let victim = find();
        if victim.is_some() || !live.iter().any(waits) {
            return Ok(victim);
        }
        unless_full(self.write_checkpoint(Extent::Changes))?;
        Ok(find())
    }

    #[cfg(not(feature = "compress"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "a build with the feature needs them")]
    const fn victim_to_compress(&self, _: u64) -> Result<Option<Segment>> {
        Ok(None)
    }
}
