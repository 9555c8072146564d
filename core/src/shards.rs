//! The shards of the index as everybody but recovery gets them: built. Opening parks them; the first who needs one builds it from its
//! part of the snapshot and the records behind that. The ordered index is built from all of them.

use crate::engine::{Engine, FullKey, Origin};
use crate::error::Result;
#[cfg(feature = "ordered")]
use crate::frame::NAMESPACE_OF_NAMES;
use crate::frame::{Header, Kind};
use crate::index::{KeyHash, Parked, SHARDS, ShardGuard, Slot};
use crate::log::{Placed, Window};
use crate::nested::Held;
#[cfg(feature = "ordered")]
use crate::ordered::{Key, Ordered};
use crate::snapshot;
#[cfg(feature = "ordered")]
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

impl Engine {
    /// The shard of `hash`, for a writer.
    pub(crate) fn lock(&self, hash: KeyHash) -> Result<ShardGuard<'_>> {
        self.lock_shard(hash.shard())
    }

    /// Shard number `index`, for a writer.
    ///
    /// # Errors
    ///
    /// [`Error::Nested`](crate::Error::Nested) inside the closure of an `update`, which holds a shard: only whoever takes several of them in
    /// order never waits for another one who does.
    pub(crate) fn lock_shard(&self, index: usize) -> Result<ShardGuard<'_>> {
        self.refuse_inside(&[Held::Shard])?;
        let mut shard = self.index.lock_shard(index);
        if shard.is_parked() {
            let built = shard.unpark(&self.pins, |shard, parked| self.build(index, shard, parked));
            built.map_err(|error| self.log.or_fenced(error))?;
        }
        Ok(shard)
    }

    /// Every shard: nobody else writes to the store meanwhile.
    pub(crate) fn lock_all(&self) -> Result<Vec<ShardGuard<'_>>> {
        self.lock_shards(0..SHARDS)
    }

    /// Some neighbouring shards, in order, so that two that lock several never wait for each other.
    pub(crate) fn lock_shards(&self, numbers: Range<usize>) -> Result<Vec<ShardGuard<'_>>> {
        numbers.map(|index| self.lock_shard(index)).collect()
    }

    /// Builds every shard that is still parked, unless `stop` says that it is not wanted any more. Only then do the figures count
    /// what the records behind the snapshot have made dead.
    pub(crate) fn build_all(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        let parked = (0..SHARDS).filter(|&index| self.index.is_parked_at(index));
        parked.take_while(|_| !stop()).try_for_each(|index| self.lock_shard(index).map(drop))
    }

    /// Fills the ordered index with what the hash index knows. The store is not in use yet.
    #[cfg(feature = "ordered")]
    pub(crate) fn order(&self) -> Result<()> {
        let mut keys: Vec<(u32, Key, u64)> = Vec::new();
        let mut nameless = Vec::new();
        for shard in 0..SHARDS {
            for slot in self.lock_shard(shard)?.slots() {
                match self.owned(shard, slot)? {
                    Some(frame) if frame.header.namespace != NAMESPACE_OF_NAMES => {
                        keys.push((frame.header.namespace, Key::new(frame.key()), slot.offset()));
                    }
                    Some(_) => {}
                    None => nameless.push((shard, slot)),
                }
            }
        }
        // Opening is the only one to set it, and does so once.
        let _ = self.ordered.set(Box::new(Ordered::of(keys)));
        let _ = self.nameless.set(Box::new(nameless));
        Ok(())
    }

    /// Records in a namespace.
    pub(crate) fn count(&self, namespace: u32) -> Result<u64> {
        let mut used = (0..SHARDS).filter(|&index| !self.index.is_empty_at(index));
        used.try_fold(0, |sum, index| Ok(sum + self.lock_shard(index)?.count(namespace)))
    }

    fn build(&self, index: usize, shard: &mut ShardGuard<'_>, parked: &Parked) -> Result<()> {
        let nothing = Origin::default();
        let origin = self.origin.get().unwrap_or(&nothing);
        // What happens from here on, the snapshot does not know.
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
            shard.load(&self.pins, image);
            stale.iter().for_each(|&slot| shard.note_removed(slot));
            if !stale.is_empty() {
                self.recount(index, shard)?;
            }
        }
        for &offset in &parked.later {
            // The next one is far away: nothing is read ahead.
            let mut window = Window::new(&*self.log.storage, offset);
            self.apply_at(shard, offset, &mut window)?;
        }
        self.purge(index, shard, &|number| !origin.namespaces.contains(number.into()))
    }

    /// Applies the record at `offset`, which opening has checked.
    pub(crate) fn apply_at(&self, shard: &mut ShardGuard<'_>, offset: u64, window: &mut Window<'_>) -> Result<()> {
        let header = window.header(offset)?;
        let key = window.bytes(offset + header.header_len() as u64, header.key_len())?;
        self.apply(shard, self.full_key(header.namespace, key), &header, offset)
    }

    /// The index learns of a record that stands in the log.
    pub(crate) fn apply(&self, shard: &mut ShardGuard<'_>, key: FullKey<'_>, header: &Header, offset: u64) -> Result<()> {
        let placed = Placed { offset, len: header.frame_len() as u64 };
        let old = self.find_locked(shard, key)?;
        match header.kind {
            Kind::Put => self.publish_put(shard, key, old, placed),
            _ => self.publish_remove(shard, key, old, placed),
        }
        Ok(())
    }

    /// Counts the records of a shard that lost some whose namespace nobody can tell any more.
    fn recount(&self, index: usize, shard: &mut ShardGuard<'_>) -> Result<()> {
        let mut counts: Vec<(u32, u64)> = Vec::new();
        let mut damaged = 0;
        for slot in shard.slots() {
            match self.owned(index, slot)? {
                Some(frame) => count_up(&mut counts, frame.header.namespace, 1),
                None => damaged += 1,
            }
        }
        // A damaged record may be of any namespace that had more of them before; most often there is one.
        for number in shard.namespaces() {
            let known = counts.iter().find(|(other, _)| *other == number).map_or(0, |&(_, count)| count);
            let missing = shard.count(number).saturating_sub(known).min(damaged);
            damaged -= missing;
            count_up(&mut counts, number, missing);
        }
        // As many as there are slots, whatever a forged file says.
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
