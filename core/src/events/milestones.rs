//! Numbers of events in long streams that were looked up before: every 64th version, or a higher power of two. A number never changes, so one of them
//! can only become that of a removed event, of a stream that has begun anew, which counts for nothing; what is forgotten is found again along the stream.

use hashbrown::HashTable;

/// Versions from one milestone to the next, to begin with.
const STEP: u64 = 64;
/// Most milestones that are kept: some 2 MiB. Beyond that each second one of every stream is forgotten.
const MOST: usize = 64 * 1024;

/// One of the events of a stream.
#[derive(Clone, Copy, Debug)]
struct Milestone {
    /// Hash of the stream.
    stream: u64,
    version: u64,
    number: u64,
}

/// A table of milestones.
#[derive(Debug)]
pub(super) struct Milestones {
    table: HashTable<Milestone>,
    step: u64,
}

impl Default for Milestones {
    fn default() -> Self {
        Self { table: HashTable::new(), step: STEP }
    }
}

/// The low bits of a milestone's version are zeros, and those of its product, too: the table takes the upper ones.
const fn hash_of(stream: u64, version: u64) -> u64 {
    stream ^ version.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

impl Milestones {
    /// Versions from one milestone to the next.
    pub(super) const fn step(&self) -> u64 {
        self.step
    }

    /// The number of the event of a stream at `version`.
    pub(super) fn get(&self, stream: u64, version: u64) -> Option<u64> {
        let found = self.table.find(hash_of(stream, version), |one| (one.stream, one.version) == (stream, version));
        found.map(|found| found.number)
    }

    /// Keeps the number of the event of a stream at `version`, if it is a milestone.
    pub(super) fn set(&mut self, stream: u64, version: u64, number: u64) {
        if self.table.len() >= MOST {
            self.step *= 2;
            self.table.retain(|one| one.version.is_multiple_of(self.step));
        }
        if version.is_multiple_of(self.step) && self.get(stream, version).is_none() {
            let hash = |one: &Milestone| hash_of(one.stream, one.version);
            self.table.insert_unique(hash_of(stream, version), Milestone { stream, version, number }, hash);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.allocation_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_any_length_keeps_milestones_all_along() {
        let mut milestones = Milestones::default();
        let last = 5 * STEP * MOST as u64;
        (0..=last / STEP).for_each(|place| milestones.set(7, place * STEP, place));
        let kept = (0..=last / STEP).filter(|place| milestones.get(7, place * STEP).is_some());
        assert!(kept.clone().all(|place| (place * STEP).is_multiple_of(milestones.step())));
        assert_eq!((kept.count() as u64, milestones.step()), (last / milestones.step() + 1, 8 * STEP));
        // Streams that are too short for such milestones leave them to others.
        (0..4 * MOST as u64).for_each(|stream| milestones.set(stream, STEP, 1));
        assert_eq!((milestones.get(7, 0), milestones.step()), (Some(0), 8 * STEP));
        assert!(milestones.bytes() < 6 << 20, "{}", milestones.bytes());
    }
}
