//! Compaction in steps: one segment per call, until none is worth it.

use super::checkpoint::Extent;
use super::choose::{self, PARTS_ASKED};
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
        self.engine.build_all(&|| false)?;
        self.end_purges()?;
        self.settle_floor()?;
        let log = &self.engine.log;
        let mut steps = *self.steps.lock();
        let victim = loop {
            if let Some(victim) = self.victim_of_step(steps.until)? {
                break Some(victim);
            }
            if steps.rounds == STEP_ROUNDS {
                break None;
            }
            steps = Steps { rounds: steps.rounds + 1, until: log.end() };
        };
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
        if victim.is_some() || until == 0 || (log.replay_debt() <= apart && !is(Bug::CompactionWithoutEnd)) {
            return Ok(victim);
        }
        // All segments worth compacting may be after the newest checkpoint: write one, and choose again.
        self.write_checkpoint(Extent::Changes)?;
        Ok(worst())
    }
}
