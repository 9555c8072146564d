//! Compaction in steps: one segment for each call, until none is worth it.

use super::checkpoint::Extent;
use super::choose::{self, PARTS_ASKED};
use super::report::CompactReport;
use crate::error::Result;
use crate::log::{Segment, list_len};
use crate::planted::{Bug, is};
use crate::store::{Steps, Store};

/// Steps go through the segments that there are before the first of them, and so often through what has been written since.
const STEP_ROUNDS: u8 = 3;

impl Store {
    pub(crate) fn compact_step(&self) -> Result<Option<CompactReport>> {
        let _turn = self.turn.lock();
        self.writable()?;
        self.engine.build_all(&|| false)?;
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
        // The next series begins anew.
        *self.steps.lock() = if victim.is_some() { steps } else { Steps::default() };
        victim.map(|victim| self.compact_one(&victim, &mut |_| {})).transpose()
    }

    fn victim_of_step(&self, until: u64) -> Result<Option<Segment>> {
        let log = &self.engine.log;
        let worst = || choose::worst(&self.engine, 1.0 / PARTS_ASKED, until, &|_| false);
        // Each checkpoint leaves a dead list of the segments for the steps behind it: as far apart as this they make less work than they do.
        let apart = 2 * log.geometry.segment_size() + 4 * list_len(log.segment_count());
        let victim = worst();
        if victim.is_some() || until == 0 || (log.replay_debt() <= apart && !is(Bug::CompactionWithoutEnd)) {
            return Ok(victim);
        }
        // What could be compacted may all lie behind the newest checkpoint.
        self.write_checkpoint(Extent::Changes)?;
        Ok(worst())
    }
}
