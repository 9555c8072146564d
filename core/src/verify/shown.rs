//! The index snapshot as a reference: which of the records before its checkpoint count.

use crate::error::{Error, Result};
use crate::index::{KeyHash, SHARDS, Slot, seed_of};
use crate::log::Superblock;
#[cfg(feature = "salvage")]
use crate::scan::Damage;
use crate::snapshot::{self, NamedNumber};
use crate::sorted::sort_by_key;
use crate::storage::Storage;
use alloc::vec::Vec;
use core::ops::Range;

/// The content of the index snapshot.
pub(crate) struct Shown {
    /// Slots by shard, sorted.
    slots: Vec<Vec<Slot>>,
    seed: u64,
    /// Base of the checkpoint's segment, and its offset.
    at: (u64, u64),
    pub(crate) names: Vec<NamedNumber>,
    /// File offset of its directory.
    pub(crate) directory: u64,
}

/// The records of a segment: their range of file offsets, and the segment's base.
pub(crate) type Zone = (Range<u64>, u64);

impl Shown {
    /// Loads the snapshot; `None` if there is none, it is damaged, or its key is not at hand.
    pub(crate) fn load(storage: &dyn Storage, superblock: &Superblock) -> Result<Option<Self>> {
        let Some((place, directory)) = superblock.checkpoint.and_then(|place| Some((place, place.directory?))) else {
            return Ok(None);
        };
        let read = || {
            let mut parts = snapshot::read_directory(storage, superblock.geometry(), superblock.store_id, directory)?;
            let (_, names) = snapshot::load(storage, &mut parts)?;
            let shard = |number: usize| match parts.parts_of(number) {
                [] => Ok(Vec::new()),
                places => snapshot::load_shard(storage, number, places).map(|image| image.slots),
            };
            let slots = (0..SHARDS).map(shard).collect::<Result<_>>()?;
            let seed = seed_of(&superblock.seed);
            Ok(Self { slots, seed, at: (place.base, place.offset), names, directory: directory.offset })
        };
        match read() {
            Ok(shown) => Ok(Some(shown)),
            Err(Error::Corrupt { .. }) => Ok(None),
            #[cfg(feature = "encrypt")]
            Err(Error::KeyNeeded) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn hash(&self, namespace: u32, key: &[u8]) -> KeyHash {
        KeyHash::new(self.seed, namespace, key)
    }

    /// True before the checkpoint. After it the snapshot may or may not have a record.
    pub(crate) fn covers(&self, base: u64, offset: u64) -> bool {
        (base, offset) < self.at
    }

    fn shard(&self, hash: KeyHash) -> &[Slot] {
        self.slots.get(hash.shard()).map_or(&[], Vec::as_slice)
    }

    /// True when the record at `offset` is the newest of its key, whose hash this is.
    pub(crate) fn has(&self, hash: KeyHash, offset: u64) -> bool {
        self.shard(hash).binary_search(&hash.slot(offset)).is_ok()
    }

    /// File offsets of the records with this hash.
    #[cfg(feature = "salvage")]
    pub(crate) fn offsets(&self, hash: KeyHash) -> impl Iterator<Item = u64> {
        let shard = self.shard(hash);
        let first = shard.partition_point(|slot| *slot < hash.slot(0));
        shard.iter().skip(first).take_while(move |slot| slot.has_tag_of(hash)).map(|slot| slot.offset())
    }
}

/// Checks a log against the snapshot.
pub(crate) struct Audit<'a> {
    pub(crate) shown: &'a Shown,
    /// In ascending order of offsets.
    zones: Vec<Zone>,
    /// Number of records that count.
    used: u64,
    /// Damaged stretches of the file.
    pub(crate) damaged: Vec<Range<u64>>,
}

impl<'a> Audit<'a> {
    pub(crate) fn new(shown: &'a Shown, mut zones: Vec<Zone>) -> Self {
        sort_by_key(&mut zones, |(range, _)| range.start);
        Self { shown, zones, used: 0, damaged: Vec::new() }
    }

    #[cfg(feature = "salvage")]
    pub(crate) fn damage(&mut self, damage: &Damage) {
        self.damaged.push(damage.offset..damage.offset + damage.len);
    }

    /// Notes a record with a value; true when the snapshot points at it, so that it counts.
    pub(crate) fn put(&mut self, hash: KeyHash, offset: u64) -> bool {
        let counts = self.shown.has(hash, offset);
        self.used += u64::from(counts);
        counts
    }

    /// True when the newest record of this hash is damaged.
    #[cfg(feature = "salvage")]
    pub(crate) fn is_damaged(&self, hash: KeyHash) -> bool {
        self.shown.offsets(hash).any(|offset| self.damaged.iter().any(|range| range.contains(&offset)))
    }

    /// True when every slot that points before the checkpoint points at a record of its hash, or into damage.
    pub(crate) fn agrees(&self) -> bool {
        let is_here = |offset: u64| {
            let place = self.zones.partition_point(|(range, _)| range.start <= offset).checked_sub(1);
            let zone = place.and_then(|place| self.zones.get(place));
            zone.is_some_and(|(range, base)| range.contains(&offset) && self.shown.covers(*base, offset))
        };
        let is_damaged = |offset: u64| self.damaged.iter().any(|range| range.contains(&offset));
        let slots = self.shown.slots.iter().flatten().map(|slot| slot.offset());
        slots.filter(|&offset| is_here(offset) && !is_damaged(offset)).count() as u64 == self.used
    }
}
