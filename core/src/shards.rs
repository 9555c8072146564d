//! Locking shards of the index, and building them first where needed. Opening parks all shards; the first use of one builds it from its
//! parts of the snapshot and the records after that.

use crate::engine::{Engine, FullKey, Origin};
use crate::error::Result;
use crate::frame::{Header, Kind};
use crate::index::{KeyHash, Parked, SHARDS, ShardGuard, Slot};
use crate::log::{Placed, Window};
use crate::nested::Held;
use crate::planted::{Bug, is};
use crate::snapshot;
use alloc::vec::Vec;
use core::ops::Range;

impl Engine {
    /// Locks the shard of `hash`.
    pub(crate) fn lock(&self, hash: KeyHash) -> Result<ShardGuard<'_>> {
        self.lock_shard(hash.shard())
    }

    /// Locks shard number `index`; builds it if it is parked.
    ///
    /// # Errors
    ///
    /// [`Error::Nested`](crate::Error::Nested) inside the closure of an `update`, which holds a shard: locking another one out of order
    /// could deadlock. Errors of the storage and [`Error::Corrupt`](crate::Error::Corrupt), when the shard cannot be built.
    pub(crate) fn lock_shard(&self, index: usize) -> Result<ShardGuard<'_>> {
        self.refuse_inside(&[Held::Shard])?;
        let mut shard = self.index.lock_shard(index);
        if shard.is_parked() {
            let built = shard.unpark(&self.pins, |shard, parked| self.build(index, shard, parked));
            built.map_err(|error| self.log.or_fenced(error))?;
        }
        Ok(shard)
    }

    /// Locks every shard: no other writer of records runs while the guards live.
    pub(crate) fn lock_all(&self) -> Result<Vec<ShardGuard<'_>>> {
        self.lock_shards(0..SHARDS)
    }

    /// Locks a range of shards in ascending order, so that two callers cannot deadlock.
    pub(crate) fn lock_shards(&self, numbers: Range<usize>) -> Result<Vec<ShardGuard<'_>>> {
        numbers.map(|index| self.lock_shard(index)).collect()
    }

    /// Builds every shard that is still parked, or until `stop` returns true. Only a full build makes the figures count what records after
    /// the snapshot have made dead.
    pub(crate) fn build_all(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        let parked = (0..SHARDS).filter(|&index| self.index.is_parked_at(index));
        parked.take_while(|_| !stop()).try_for_each(|index| self.lock_shard(index).map(drop))
    }

    /// Number of records in a namespace.
    pub(crate) fn count(&self, namespace: u32) -> Result<u64> {
        let mut used = (0..SHARDS).filter(|&index| !self.index.is_empty_at(index));
        if !self.log.clock.in_use() || is(Bug::LenCountsExpired) {
            return used.try_fold(0, |sum, index| Ok(sum + self.lock_shard(index)?.count(namespace)));
        }
        let now = self.log.clock.now();
        used.try_fold(0, |sum, index| Ok(sum + self.count_unexpired(index, &mut self.lock_shard(index)?, namespace, now)?))
    }

    fn build(&self, index: usize, shard: &mut ShardGuard<'_>, parked: &Parked) -> Result<()> {
        let nothing = Origin::default();
        let origin = self.origin.get().unwrap_or(&nothing);
        // Track changes from here on: the snapshot does not have them.
        shard.follow_changes();
        let parts = origin.snapshot.parts_of(index);
        if !parts.is_empty() {
            let mut image = snapshot::load_shard(&*self.log.storage, index, parts)?;
            let is_stale = |slot: &Slot| origin.retired.contains(self.log.geometry.extent_of(slot.offset()).into());
            let mut stale = Vec::new();
            if !origin.retired.is_empty() {
                stale.extend(image.slots.iter().copied().filter(is_stale));
                image.slots.retain(|slot| !is_stale(slot));
            }
            let mut expiring = core::mem::take(&mut image.expiring);
            // The slots of an image that was read are in order.
            let is_there = |slot: &Slot| image.slots.binary_search(slot).is_ok();
            expiring.iter_mut().for_each(|one| one.slots.retain(is_there));
            self.load_image(index, shard, image, parts)?;
            for (from, slot) in expiring.iter().flat_map(|one| one.slots.iter().map(|slot| (one.from, *slot))) {
                self.expires(shard, slot, from);
            }
            stale.iter().for_each(|&slot| shard.note_removed(&self.pins, slot));
            if !stale.is_empty() {
                self.recount(index, shard)?;
            }
        }
        for &offset in &parked.later {
            // Records are far apart, so read nothing ahead.
            let mut window = Window::new(&*self.log.storage, offset);
            let (hash, header) = self.apply_at(shard, offset, &mut window)?;
            let is_known = origin.snapshot.knows_expiring && !is(Bug::CalendarEndsAtSnapshot);
            if header.kind == Kind::Put && header.expires() && is_known {
                let expiry = header.meta(window.bytes(offset, header.header_len())?).expiry();
                self.expires(shard, hash.slot(offset), expiry.unwrap_or_default());
            }
        }
        if origin.snapshot.knows_expiring {
            shard.set_knows_expiring();
        }
        self.purge(index, shard, &|number| !origin.namespaces.contains(number.into()))
    }

    /// Applies the record at `offset`, which opening has checked; returns what it is.
    pub(crate) fn apply_at(&self, shard: &mut ShardGuard<'_>, offset: u64, window: &mut Window<'_>) -> Result<(KeyHash, Header)> {
        self.with_key_at(offset, window, |header, key| {
            let key = self.full_key(header.namespace, key);
            self.apply(shard, key, &header, offset)?;
            Ok((key.hash, header))
        })
    }

    /// Hands over header and key of the record at `offset`.
    pub(crate) fn with_key_at<T>(
        &self,
        offset: u64,
        window: &mut Window<'_>,
        then: impl FnOnce(Header, &[u8]) -> Result<T>,
    ) -> Result<T> {
        let header = window.header(offset)?;
        if header.is_sealed() {
            return then(header, self.log.frame(offset)?.key());
        }
        then(header, window.bytes(offset + header.header_len() as u64, header.key_len())?)
    }

    /// Applies a record of the log to the index.
    pub(crate) fn apply(&self, shard: &mut ShardGuard<'_>, key: FullKey<'_>, header: &Header, offset: u64) -> Result<()> {
        let placed = Placed { offset, len: header.frame_len() as u64 };
        if header.expires() {
            self.log.clock.found_expiring();
            if is(Bug::ReplaySkipsExpired) && self.log.frame(offset).is_ok_and(|frame| self.has_expired_now(&frame)) {
                return Ok(());
            }
        }
        let old = self.find_locked(shard, key)?;
        shard.will_publish();
        match header.kind {
            Kind::Put => self.publish_put(shard, key, old, placed),
            _ => self.publish_remove(shard, key, old, placed),
        }
        Ok(())
    }

    /// Recounts the records per namespace, after slots were dropped whose records may be gone, so that their namespaces are unknown.
    fn recount(&self, index: usize, shard: &mut ShardGuard<'_>) -> Result<()> {
        let known: Vec<u32> = shard.namespaces().collect();
        if let [only] = known[..] {
            // All are of this one. Reading them would take a follower longer than the writer beside it takes to free the next segment.
            shard.set_counts(alloc::vec![(only, shard.len() as u64)]);
            return Ok(());
        }
        let mut counts: Vec<(u32, u64)> = Vec::new();
        let mut damaged = 0;
        for slot in shard.slots(self.medium())? {
            match self.owned(index, slot)? {
                Some(frame) => count_up(&mut counts, frame.header.namespace, 1),
                None => damaged += 1,
            }
        }
        // Attribute damaged records to namespaces that had more records before; most often there is one such namespace.
        for number in known {
            let known = counts.iter().find(|(other, _)| *other == number).map_or(0, |&(_, count)| count);
            let missing = shard.count(number).saturating_sub(known).min(damaged);
            damaged -= missing;
            count_up(&mut counts, number, missing);
        }
        // The sum must equal the number of slots, even for a forged file.
        count_up(&mut counts, 0, damaged);
        shard.set_counts(counts);
        Ok(())
    }
}

fn count_up(counts: &mut Vec<(u32, u64)>, number: u32, more: u64) {
    match counts.iter_mut().find(|(known, _)| *known == number) {
        Some((_, count)) => *count += more,
        None if more > 0 => counts.push((number, more)),
        None => {}
    }
}
