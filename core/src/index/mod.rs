//! The index: for every live key a slot of eight bytes, part of the key's hash and the record's offset in the file.
//!
//! No keys are kept; a lookup compares the key with the record that a matching slot points at. Lookups take no lock. Writers of one
//! shard exclude each other, and append to the log while they hold the shard, so that per key the order of the log is the order of the
//! index.

#[cfg(feature = "std")]
mod base;
mod calendar;
mod copies;
mod dump;
mod expiring;
mod over;
mod parked;
#[cfg(feature = "std")]
mod pointed;
#[cfg(feature = "std")]
mod rot;
mod shard;
mod slot;
mod state;
mod table;

#[cfg(feature = "std")]
pub(crate) use base::{Base, BasePlace, GROUP_LEN_MAX};
pub(crate) use dump::{Dump, Expiring, ShardChanges, ShardImage};
pub(crate) use parked::Parked;
#[cfg(feature = "std")]
pub(crate) use pointed::Pointed;
#[cfg(feature = "std")]
pub(crate) use rot::Rot;
pub(crate) use shard::ShardGuard;
pub(crate) use slot::Slot;

use crate::error::Result;
use crate::pins::{Pin, Pins};
use crate::storage::Storage;
use alloc::boxed::Box;
use alloc::vec::Vec;
use shard::Shard;

/// Number of shards of the index. A power of two: the top bits of the hash choose the shard.
pub(crate) const SHARDS: usize = 256;

/// The seed of a store's hashes.
pub(crate) fn seed_of(seed: &[u8; 16]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(seed, 1)
}

/// The hash of a key in a namespace.
///
/// XXH3 (Yann Collet), seeded by the store: the snapshot keeps parts of it, so it belongs to the format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    pub(crate) fn new(seed: u64, namespace: u32, key: &[u8]) -> Self {
        let seed = seed ^ u64::from(namespace).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self(xxhash_rust::xxh3::xxh3_64_with_seed(key, seed))
    }

    pub(crate) const fn shard(self) -> usize {
        (self.0 >> 56) as usize
    }

    /// The slot of a record of a key with this hash.
    pub(crate) const fn slot(self, offset: u64) -> Slot {
        Slot::new(self.tag(), offset)
    }

    /// All bits of the hash.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// True when both hashes have the same shard and tag, so that slots cannot tell them apart.
    pub(crate) const fn has_slot_of(self, other: Self) -> bool {
        self.shard() == other.shard() && self.tag() == other.tag()
    }

    /// True when a key with this hash has such a slot in shard `shard`.
    pub(crate) const fn fits(self, shard: usize, slot: Slot) -> bool {
        self.shard() == shard && self.tag() == slot.tag()
    }

    /// Its lower half, which shares at most two bits with the shard and the tag.
    pub(crate) const fn low(self) -> usize {
        self.0 as u32 as usize
    }

    pub(crate) const fn tag(self) -> u64 {
        (self.0 >> (56 - slot::TAG_BITS)) & ((1 << slot::TAG_BITS) - 1)
    }
}

/// Without the standard library every index is in memory, and nothing of this is compiled.
#[cfg(not(feature = "std"))]
#[derive(Debug)]
pub(crate) enum Pointed {}

/// What has been read of the base of a shard, and the number of that.
type Known<'a> = Option<(&'a Pointed, usize)>;

/// All shards.
#[derive(Debug)]
pub(crate) struct Index {
    shards: Box<[Shard]>,
}

impl Default for Index {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard::default()).collect() }
    }
}

impl Index {
    #[inline]
    fn shard(&self, index: usize) -> &Shard {
        #[expect(clippy::indexing_slicing, reason = "the mask keeps the number inside the fixed number of shards")]
        &self.shards[index % SHARDS]
    }

    /// Calls `found` with the offset of every record that may belong to `hash`, until it returns a result. It looks into the table only:
    /// the caller has seen that this [is all](Self::is_unclear).
    #[inline]
    pub(crate) fn find<T>(&self, pin: &Pin<'_>, hash: KeyHash, found: impl FnMut(u64) -> Result<Option<T>>) -> Result<Option<T>> {
        self.shard(hash.shard()).find(pin, hash.tag(), found)
    }

    /// The same, wherever the slots are.
    pub(crate) fn find_anywhere<T>(
        &self,
        storage: &dyn Storage,
        pin: &Pin<'_>,
        hash: KeyHash,
        found: impl FnMut(u64) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.shard(hash.shard()).find_anywhere(storage, pin, hash.tag(), found)
    }

    /// Prefetches the cache line where the search for `hash` begins.
    #[inline]
    pub(crate) fn prefetch(&self, pin: &Pin<'_>, hash: KeyHash) {
        self.shard(hash.shard()).prefetch(pin, hash.tag());
    }

    /// Where in the file a look-up of `hash` reads if the table of its shard does not answer: up to [`GROUP_LEN_MAX`] bytes. `None` where all slots are
    /// in memory, or the shard is not built.
    #[cfg(feature = "std")]
    pub(crate) fn place_below(&self, pin: &Pin<'_>, hash: KeyHash) -> Option<u64> {
        self.shard(hash.shard()).place_below(pin, hash.tag())
    }

    /// The offset of the first record that may belong to `hash`: usually the one that does.
    #[inline]
    pub(crate) fn first_slot(&self, pin: &Pin<'_>, hash: KeyHash) -> Option<u64> {
        self.shard(hash.shard()).first_slot(pin, hash.tag())
    }

    /// True when the index points at the record at `offset`, or may do so once its shard is built. Without a lock: a record that lives may
    /// die at any time, and one that is dead stays so.
    #[inline]
    pub(crate) fn may_point_at(
        &self,
        storage: &dyn Storage,
        pin: &Pin<'_>,
        (hash, offset): (KeyHash, u64),
        pointed: Option<&Pointed>,
    ) -> bool {
        let shard = self.shard(hash.shard());
        let slot = hash.slot(offset);
        if !shard.is_unclear() {
            return shard.has(pin, slot);
        }
        shard.may_have(storage, pin, slot, pointed.map(|pointed| (pointed, hash.shard())))
    }

    /// The place of the base of a shard, if it has one, and its slots, those that are masked included.
    ///
    /// # Errors
    ///
    /// When the base cannot be read.
    #[cfg(feature = "std")]
    pub(crate) fn read_base(&self, storage: &dyn Storage, pin: &Pin<'_>, index: usize) -> Result<Option<(BasePlace, Vec<Slot>)>> {
        self.shard(index).read_base(storage, pin)
    }

    /// The place of the base of each shard.
    #[cfg(feature = "std")]
    pub(crate) fn base_places(&self, pin: &Pin<'_>) -> impl Iterator<Item = Option<BasePlace>> {
        self.shards.iter().map(|shard| shard.base_place(pin))
    }

    /// True when the table of the shard of `hash` alone does not answer: the shard has not been needed since the store was opened, and must
    /// be built first; or it may have slots in the file, see [`Self::keep_in_file`]; or its results need another check, see
    /// [`Self::doubt_all`].
    #[inline]
    pub(crate) fn is_unclear(&self, hash: KeyHash) -> bool {
        self.shard(hash.shard()).is_unclear()
    }

    /// True when the shard of `hash` must be built first, or is in doubt.
    pub(crate) fn is_parked(&self, hash: KeyHash) -> bool {
        self.shard(hash.shard()).is_parked()
    }

    /// From now on shards may have slots in the file. Called before the store is in use.
    #[cfg(feature = "std")]
    pub(crate) fn keep_in_file(&self) {
        self.shards.iter().for_each(Shard::keep_in_file);
    }

    /// True while a writer that holds the shard of `hash` has appended a commit of which a part may not be in the index yet. If not, the
    /// shard has everything that was appended before an end of the log that the caller has read before.
    #[inline]
    pub(crate) fn is_publishing(&self, hash: KeyHash) -> bool {
        self.shard(hash.shard()).is_publishing()
    }

    /// True when the index points at the record at `offset`. Without a lock.
    pub(crate) fn points_at(&self, storage: &dyn Storage, pin: &Pin<'_>, hash: KeyHash, offset: u64) -> Result<bool> {
        self.shard(hash.shard()).has_anywhere(storage, pin, hash.slot(offset), None)
    }

    /// True when nobody holds the shard of `hash`.
    #[cfg(feature = "async")]
    pub(crate) fn is_free(&self, hash: KeyHash) -> bool {
        self.shard(hash.shard()).is_free()
    }

    /// The shard of `hash`, for a writer.
    #[cfg(test)]
    pub(crate) fn lock(&self, hash: KeyHash) -> ShardGuard<'_> {
        self.lock_shard(hash.shard())
    }

    /// Shard number `index`, for a writer, who must build it if it is parked.
    pub(crate) fn lock_shard(&self, index: usize) -> ShardGuard<'_> {
        self.shard(index).lock()
    }

    /// Ends the dump of the index; `is_written` if a snapshot has it. Holds all shards at once for that moment: locked one after the
    /// other, each could wait for a commit.
    pub(crate) fn end_dump(&self, is_written: bool) {
        let held: Vec<_> = self.shards.iter().map(Shard::lock).collect();
        held.into_iter().for_each(|mut shard| shard.end_dump(is_written));
    }

    /// Makes every shard report from now on that it must be built: a reader then takes the slow path, finds the shard built, and checks its
    /// result for doubt. So the fast path of stores without doubt needs no extra check.
    pub(crate) fn doubt_all(&self) {
        self.shards.iter().for_each(Shard::doubt);
    }

    /// True when shard number `index` has not been built yet.
    pub(crate) fn is_parked_at(&self, index: usize) -> bool {
        self.shards.get(index).is_some_and(Shard::is_parked)
    }

    /// True when shard number `index` has no record.
    pub(crate) fn is_empty_at(&self, index: usize) -> bool {
        self.shards.get(index).is_none_or(Shard::is_empty)
    }

    /// Records in a namespace.
    #[cfg(test)]
    pub(crate) fn len(&self, namespace: u32) -> u64 {
        self.shards.iter().map(|shard| shard.lock().count(namespace)).sum()
    }

    /// Records in all namespaces.
    pub(crate) fn len_all(&self) -> u64 {
        self.shards.iter().map(|shard| shard.len() as u64).sum()
    }

    /// Bytes of memory of the tables.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes()).sum::<u64>() + (SHARDS * size_of::<Shard>()) as u64
    }

    /// Bytes in the file of the slots that are not in memory.
    #[cfg(feature = "std")]
    pub(crate) fn file_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().base_bytes()).sum()
    }

    /// Bytes of memory of what is newer than what is in the file.
    #[cfg(feature = "std")]
    pub(crate) fn newer_bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().newer_bytes()).sum()
    }

    /// Entries of all calendars: records that expire, and some that were replaced since.
    pub(crate) fn count_expiring(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().count_expiring()).sum()
    }

    /// Frees replaced tables that no reader uses any more.
    pub(crate) fn reclaim(&self, pins: &Pins) {
        let mut waiting = self.shards.iter().filter(|shard| shard.has_old()).peekable();
        if waiting.peek().is_some() {
            // One advance serves all shards: tables that are replaced from now on can wait for the next call.
            pins.advance();
        }
        waiting.for_each(|shard| shard.lock().free_old(pins));
    }
}

#[cfg(all(test, feature = "std", not(shuttle)))]
mod figures;
#[cfg(all(test, feature = "std"))]
mod over_tests;
#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(test)]
mod tests;
