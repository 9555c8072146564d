//! What the engine does for shards whose slots stay in the file.

use super::held::Held;
use crate::engine::Engine;
use crate::error::Result;
use crate::index::{GROUP_LEN_MAX, KeyHash, Pointed, SHARDS, ShardGuard, ShardImage};
use crate::log::{Segment, SnapshotSegment};
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::snapshot::{Directory, PartPlace, ShardPlace, load_base};
use crate::sorted::Set;
use alloc::vec::Vec;

/// Most memory for what was read of the bases for the segments that are emptied next: 256 MiB of segments.
const POINTED_BYTES: u64 = 8 * 1024 * 1024;
/// The bases are read for segments of at least a fourth of their bytes. Less are looked up record by record.
const POINTED_SHARE: u64 = 4;

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

    /// Reads the bases for these segments at once, or for as many of them as there is memory for, the first ones. `None` where it is less to look up
    /// each record of them.
    ///
    /// # Errors
    ///
    /// When a base cannot be read.
    pub(crate) fn pointed_into(&self, pin: &Pin<'_>, segments: &[Segment]) -> Result<Option<Pointed>> {
        let range = |segment: &Segment| segment.first_frame(self.log.geometry)..segment.end;
        let mut left = Some(POINTED_BYTES);
        let fits = |segment: &&Segment| {
            let range = range(segment);
            left = left.and_then(|left| left.checked_sub(Pointed::bytes_for(range.end.saturating_sub(range.start))));
            left.is_some()
        };
        let ranges: Vec<_> = segments.iter().take_while(fits).map(|segment| (segment.base, range(segment))).collect();
        let bytes: u64 = ranges.iter().map(|(_, range)| range.end.saturating_sub(range.start)).sum();
        if bytes < self.index.file_bytes() / POINTED_SHARE {
            return Ok(None);
        }
        let mut pointed = Pointed::into(ranges.into_iter());
        for number in 0..SHARDS {
            // Read before the shard is locked.
            let mut read = self.index.read_base(self.medium(), pin, number)?;
            if let Some((base, slots)) = &mut read {
                pointed.sift(slots);
                if !self.index.lock_shard(number).retain_counting(*base, slots) {
                    read = None;
                }
            }
            let (base, slots) = read.map_or((None, Vec::new()), |(base, slots)| (Some(base), slots));
            pointed.add(base, &slots);
        }
        Ok(Some(pointed))
    }

    /// True while the shards have the bases that were read.
    pub(crate) fn has_bases_of(&self, pin: &Pin<'_>, pointed: &Pointed) -> bool {
        pointed.is_of(self.index.base_places(pin))
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
