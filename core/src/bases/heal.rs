//! Building shards anew from the log, beside readers and writers, where slots that stay in the file are damaged.
//!
//! All records that count are in the log, so a shard is built as opening would build it: each record of it, in the order of the log. Most of
//! the log is read without a lock, into a separate index; then the damaged shards are locked, the rest of the log is read, and the new slots
//! take the place of the old ones at once. The maintenance lock keeps segments from being retired meanwhile.
//!
//! The log does not tell what was taken out of the index without a tombstone: records that have expired and were swept, and those of dropped
//! namespaces. The shard's counts do.

use crate::engine::{Engine, FullKey};
use crate::error::{Error, Result};
use crate::frame::{Header, Kind};
use crate::index::{Expiring, Index, SHARDS, ShardGuard, ShardImage, Slot};
use crate::log::Window;
use crate::nested::Held;
use crate::pins::Pins;
use crate::planted::{Bug, is};
use crate::scan::{Found, Stretch, scan};
use crate::sync::Ordering;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The rest of the log is read with the shards locked once a round has read no more than this, in bytes ...
const REST: u64 = 1 << 20;
/// ... or after so many rounds: writers may be as fast.
const ROUNDS: usize = 8;

impl Engine {
    /// Builds the shards anew whose slots in the file are damaged; returns how many. The caller holds the maintenance lock.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] where the log is damaged, too: whose a damaged record was, only the slots could tell. Then, and after an error of the
    /// storage, everything is as before.
    pub(crate) fn heal(&self) -> Result<u64> {
        self.refuse_inside(&[Held::Shard])?;
        // Before anything is read: what is found damaged from here on is looked at again.
        self.bases.rot.forget();
        let healed = self.damaged_shards().and_then(|damaged| self.build_anew(&damaged));
        match &healed {
            Ok(shards) => drop(self.bases.built_anew.fetch_add(*shards, Ordering::Relaxed)),
            Err(_) => self.bases.rot.is_left(),
        }
        healed
    }

    /// True when slots in the file were found damaged, and are not healed.
    pub(crate) fn is_rotten(&self) -> bool {
        self.bases.rot.is_found()
    }

    /// True when maintenance should try to heal what is damaged.
    pub(crate) fn should_heal(&self) -> bool {
        self.is_rotten() && self.log.end() >= self.bases.heal_next.load(Ordering::Relaxed)
    }

    /// Reads all slots that are in the file: where one is damaged, others may be.
    fn damaged_shards(&self) -> Result<Vec<usize>> {
        let mut damaged = Vec::new();
        for number in 0..SHARDS {
            match self.lock_shard(number)?.slots(self.medium()) {
                Ok(_) => {}
                Err(Error::IndexDamaged { .. }) => damaged.push(number),
                Err(error) => return Err(error),
            }
        }
        // They have been noted again, by this.
        self.bases.rot.forget();
        Ok(damaged)
    }

    fn build_anew(&self, damaged: &[usize]) -> Result<u64> {
        if damaged.is_empty() {
            return Ok(0);
        }
        let mut anew = Anew::new(self, damaged);
        for _ in 0..ROUNDS {
            if anew.read_on()? <= REST {
                break;
            }
        }
        if is(Bug::IndexHealedEarly) {
            crate::planted::dawdle();
        }
        let mut shards: Vec<(usize, ShardGuard<'_>)> =
            damaged.iter().map(|&number| (number, self.index.lock_shard(number))).collect();
        if !is(Bug::IndexHealedEarly) {
            anew.read_on()?;
        }
        let images = shards.iter().map(|(number, shard)| self.image_anew(&anew, *number, shard));
        let images = images.collect::<Result<Vec<ShardImage>>>()?;
        for ((_, shard), image) in shards.iter_mut().zip(images) {
            for one in &image.expiring {
                self.count_again(shard, &one.slots)?;
            }
            shard.load_anew(&self.pins, image);
        }
        Ok(damaged.len() as u64)
    }

    /// What a shard has, according to the log and to its counts.
    fn image_anew(&self, anew: &Anew<'_>, number: usize, shard: &ShardGuard<'_>) -> Result<ShardImage> {
        let made = anew.index.lock_shard(number);
        let mut image = ShardImage { slots: made.slots(self.medium())?, counts: made.counts().to_vec(), expiring: Vec::new() };
        if shard.counts().iter().any(|&(namespace, count)| made.count(namespace) < count) {
            // The log has fewer records than there are: nothing is put in the place of slots that may be right.
            let offset = shard.base_place().map_or(0, |place| place.part);
            return Err(Error::corrupt(offset, "a part of the index, and the log has fewer records than it had"));
        }
        let taken_out = |&&(namespace, count): &&(u32, u64)| count > shard.count(namespace);
        let more: Vec<(u32, u64)> = made.counts().iter().filter(taken_out).copied().collect();
        for (namespace, count) in more {
            let gone = self.taken_out(&image.slots, shard, namespace)?;
            if gone.len() as u64 == count - shard.count(namespace) {
                image.slots.retain(|slot| gone.binary_search(slot).is_err());
                image.counts.retain(|&(other, _)| other != namespace);
                image.counts.extend(Some((namespace, shard.count(namespace))).filter(|&(_, count)| count > 0));
            } else {
                // Which of them were swept cannot be told. All have expired, so that none answers; they are swept again.
                image.expiring.push(Expiring { from: 0, slots: gone });
            }
        }
        Ok(image)
    }

    /// The slots of records of a namespace that may have been taken out of a shard without a tombstone: all, if the namespace is gone, or those that
    /// have expired, and are not in the table.
    fn taken_out(&self, slots: &[Slot], shard: &ShardGuard<'_>, namespace: u32) -> Result<Vec<Slot>> {
        let (is_gone, now) = (shard.count(namespace) == 0, self.log.clock.now());
        let mut out = Vec::new();
        for &slot in slots {
            let frame = self.log.frame(slot.offset())?;
            let has_expired = || frame.expiry().is_some_and(|expiry| expiry <= now) && !shard.has_in_memory(slot);
            if frame.header.namespace == namespace && (is_gone || has_expired()) {
                out.push(slot);
            }
        }
        out.sort_unstable();
        Ok(out)
    }

    /// What is swept again must have counted: too much of a segment counts then for those that were not swept, until it is emptied.
    fn count_again(&self, shard: &ShardGuard<'_>, slots: &[Slot]) -> Result<()> {
        for slot in slots {
            let len = self.log.frame(slot.offset())?.header.frame_len() as i64;
            self.log.segment_stats.change_live(self.log.geometry.extent_of(slot.offset()), len, shard.is_dumped());
        }
        Ok(())
    }
}

/// Shards that are built from the log, and how far it has been read.
struct Anew<'a> {
    engine: &'a Engine,
    index: Index,
    pins: Pins,
    wanted: [bool; SHARDS],
    /// By base of a segment: the file offset up to which it has been read.
    read: BTreeMap<u64, u64>,
}

impl<'a> Anew<'a> {
    fn new(engine: &'a Engine, shards: &[usize]) -> Self {
        let mut wanted = [false; SHARDS];
        for (number, wanted) in wanted.iter_mut().enumerate() {
            *wanted = shards.contains(&number);
        }
        Self { engine, index: Index::default(), pins: Pins::default(), wanted, read: BTreeMap::new() }
    }

    /// Reads the log up to its end of now; returns how many bytes.
    fn read_on(&mut self) -> Result<u64> {
        let log = &self.engine.log;
        let mut bytes = 0;
        for segment in log.segments() {
            let from = self.read.get(&segment.base).copied().unwrap_or_else(|| segment.first_frame(log.geometry));
            if from < segment.end {
                self.read_stretch(Stretch { salt: segment.salt, from, to: segment.end, full: true })?;
                self.read.insert(segment.base, segment.end);
                bytes += segment.end - from;
            }
        }
        Ok(bytes)
    }

    fn read_stretch(&self, stretch: Stretch) -> Result<()> {
        let medium = self.engine.medium();
        let mut window = Window::new(medium, stretch.to);
        scan(medium, stretch, &mut |found| match found {
            Found::Damage(_) if is(Bug::IndexHealedAcrossDamage) => Ok(()),
            Found::Damage(damage) => Err(Error::corrupt(damage.offset, damage.what)),
            Found::Frame { offset, header } => self.record(offset, &header, &mut window),
        })
    }

    fn record(&self, offset: u64, header: &Header, window: &mut Window<'_>) -> Result<()> {
        if !matches!(header.kind, Kind::Put | Kind::Tombstone) {
            return Ok(());
        }
        let key = window.bytes(offset + header.header_len() as u64, header.key_len())?;
        let FullKey { namespace, key, hash } = self.engine.full_key(header.namespace, key);
        if !self.wanted.get(hash.shard()).copied().unwrap_or_default() {
            return Ok(());
        }
        let mut shard = self.index.lock_shard(hash.shard());
        let same = |number: u32, other: &[u8]| number == namespace && other == key;
        let old = shard.find(hash, |offset| self.engine.log.frame_if(offset, same))?.map(|frame| frame.offset);
        match (header.kind, old) {
            (Kind::Put, Some(old)) => drop(shard.replace(&self.pins, hash, old, offset)),
            (Kind::Put, None) => shard.insert(&self.pins, hash, namespace, offset),
            (_, Some(old)) => drop(shard.remove(&self.pins, hash, namespace, old)),
            (_, None) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
