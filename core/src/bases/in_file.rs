//! What the engine does for shards whose slots stay in the file.

use super::held::Held;
use crate::engine::Engine;
use crate::error::Result;
use crate::index::{GROUP_LEN_MAX, KeyHash, SHARDS, ShardGuard, ShardImage};
use crate::log::SnapshotSegment;
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::snapshot::{Directory, PartPlace, ShardPlace, load_base};
use crate::sorted::Set;
use alloc::vec::Vec;

impl Engine {
    /// True if slots may stay in the file.
    pub(crate) const fn keeps_in_file(&self) -> bool {
        self.bases.newer_max.is_some()
    }

    /// Announces to the host what look-ups of these keys read of the index; true if it fetches something.
    pub(crate) fn will_look_up(&self, pin: &Pin<'_>, hashes: impl Iterator<Item = KeyHash>) -> bool {
        self.keeps_in_file() && {
            let places: Vec<u64> = hashes.filter_map(|hash| self.index.place_below(pin, hash)).collect();
            self.medium().will_read(&places, GROUP_LEN_MAX)
        }
    }

    /// True when what is newer than the bases takes more memory than it may: the next snapshot is written whole.
    pub(crate) fn is_over_newer_max(&self) -> bool {
        self.bases.newer_max.is_some_and(|most| self.index.newer_bytes() > most)
    }

    /// Fills a shard with its copy from the snapshot, of which `parts` are the places. Where slots may stay in the file, those of the first part do.
    pub(crate) fn load_image(
        &self,
        number: usize,
        shard: &mut ShardGuard<'_>,
        image: ShardImage,
        parts: &[ShardPlace],
    ) -> Result<()> {
        let whole = parts.first().filter(|_| self.keeps_in_file()).map(|part| part.slots);
        match whole.map(|part| load_base(self.medium(), number, part, &self.bases.rot)).transpose()?.flatten() {
            Some((base, slots)) => shard.load_over(&self.pins, image, base, &slots),
            None => shard.load(&self.pins, image),
        }
        Ok(())
    }

    /// After a checkpoint: the whole parts of its snapshot become the bases of their shards. `before` are the segments of the snapshot before.
    ///
    /// # Errors
    ///
    /// Those of a part that cannot be read. Its shard keeps the base that it has, and the other shards do not.
    pub(crate) fn take_bases(&self, snapshot: &Directory, before: &[SnapshotSegment], has_snapshot: bool) -> Result<()> {
        let is_gone = |segment: &&SnapshotSegment| !snapshot.segments.iter().any(|other| other.salt == segment.salt);
        if !is(Bug::IndexExtentsFreedEarly) {
            let held = before.iter().filter(is_gone).map(|&segment| Held { segment, ticket: None });
            self.bases.held.lock().extend(held);
        }
        let mut first_error = Ok(());
        for number in (0..SHARDS).filter(|_| has_snapshot) {
            let part = snapshot.parts_of(number).first().map(|part| part.slots);
            let taken = self.take_base(number, part);
            first_error = first_error.and(taken);
        }
        self.free_bases();
        first_error
    }

    fn take_base(&self, number: usize, part: Option<PartPlace>) -> Result<()> {
        let base = self.index.lock_shard(number).base_place();
        let is_it = |part: PartPlace| base.is_some_and(|base| base.part == part.offset && base.salt == part.salt);
        let next = match part {
            None if base.is_none() => return Ok(()),
            None => None,
            Some(part) if is_it(part) => return Ok(()),
            // Read before the shard is locked. `None`, too, for a part that is sealed.
            Some(part) => match load_base(self.medium(), number, part, &self.bases.rot)? {
                None if base.is_none() => return Ok(()),
                next => next,
            },
        };
        self.index.lock_shard(number).rebase(self.medium(), &self.pins, next)
    }

    /// Gives back segments of earlier snapshots that nobody reads any more; returns how many.
    pub(crate) fn free_bases(&self) -> u64 {
        let mut held = self.bases.held.lock();
        if held.is_empty() {
            return 0;
        }
        let places = (0..SHARDS).filter_map(|number| self.index.lock_shard(number).base_place());
        let used = Set::collect(places.map(|place| place.salt));
        for one in held.iter_mut().filter(|one| one.ticket.is_none() && !used.contains(one.segment.salt)) {
            one.ticket = Some(self.pins.ticket());
        }
        self.pins.advance();
        let before = held.len();
        held.retain(|one| {
            let is_free = one.ticket.as_ref().is_some_and(|ticket| self.pins.passed(ticket));
            if is_free {
                self.log.free_snapshot_segment(&one.segment);
            }
            !is_free
        });
        (before - held.len()) as u64
    }
}
