//! Numbers of events in long streams that were looked up before: every 64th version. A number never changes, so one of them can only become
//! that of a removed event, of a stream that has begun anew, which counts for nothing; what is forgotten is found again along the stream.

use hashbrown::HashTable;

/// Versions from one milestone to the next.
pub(super) const STEP: u64 = 64;
/// Most milestones that are kept: some 2 MiB. Beyond that all are forgotten.
const MOST: usize = 64 * 1024;

/// Every [`STEP`]th event of a stream.
#[derive(Clone, Copy, Debug)]
struct Milestone {
    /// Hash of the stream.
    stream: u64,
    /// Its version, divided by [`STEP`].
    step: u64,
    number: u64,
}

/// A table of milestones.
#[derive(Debug, Default)]
pub(super) struct Milestones(HashTable<Milestone>);

const fn hash_of(stream: u64, step: u64) -> u64 {
    stream ^ step.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Milestones {
    pub(super) fn get(&self, stream: u64, step: u64) -> Option<u64> {
        let found = self.0.find(hash_of(stream, step), |one| (one.stream, one.step) == (stream, step));
        found.map(|found| found.number)
    }

    pub(super) fn set(&mut self, stream: u64, step: u64, number: u64) {
        if self.get(stream, step).is_some() {
            return;
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.insert_unique(hash_of(stream, step), Milestone { stream, step, number }, |one| hash_of(one.stream, one.step));
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.allocation_size()
    }
}
