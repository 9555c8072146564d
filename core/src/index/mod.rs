//! The index: for every live key a slot of eight bytes, a piece of the key's hash and the record's offset in the file.
//!
//! No keys are kept; a slot that fits is held against the record itself. Look-ups take no lock. Writers of one shard exclude each
//! other, and append to the log while they hold the shard, so that per key the order of the log is the order of the index.

mod parked;
mod shard;
mod slot;
mod table;

pub(crate) use parked::Parked;
pub(crate) use shard::{Dump, ShardChanges, ShardGuard, ShardImage};
pub(crate) use slot::Slot;

use crate::error::Result;
use crate::pins::{Pin, Pins};
use alloc::boxed::Box;
use alloc::vec::Vec;
use shard::Shard;

/// Shards of the index. A power of two: the shard is the top of the hash.
pub(crate) const SHARDS: usize = 256;

/// The seed of a store's hashes.
pub(crate) fn seed_of(seed: &[u8; 16]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(seed, 1)
}

/// The hash of a key in a namespace.
///
/// XXH3 (Yann Collet), seeded by the store: the snapshot keeps parts of it, so it belongs to the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// All of it.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    /// True when slots cannot tell the two apart.
    pub(crate) const fn has_slot_of(self, other: Self) -> bool {
        self.shard() == other.shard() && self.tag() == other.tag()
    }

    /// True when a key with this hash has such a slot in shard `shard`.
    pub(crate) const fn fits(self, shard: usize, slot: Slot) -> bool {
        self.shard() == shard && self.tag() == slot.tag()
    }

    /// Its lower half, of which the shard and the tag have two bits at most.
    pub(crate) const fn low(self) -> usize {
        self.0 as u32 as usize
    }

    const fn tag(self) -> u64 {
        (self.0 >> (56 - slot::TAG_BITS)) & ((1 << slot::TAG_BITS) - 1)
    }
}

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

    /// Asks `found` about the offset of every record that may belong to `hash`, until it answers.
    #[inline]
    pub(crate) fn find<T>(&self, pin: &Pin<'_>, hash: KeyHash, found: impl FnMut(u64) -> Result<Option<T>>) -> Result<Option<T>> {
        self.shard(hash.shard()).find(pin, hash.tag(), found)
    }

    /// Asks the processor for the place where the search for `hash` begins.
    #[inline]
    pub(crate) fn prefetch(&self, pin: &Pin<'_>, hash: KeyHash) {
        self.shard(hash.shard()).prefetch(pin, hash.tag());
    }

    /// The offset of the first record that may belong to `hash`: most often the one that does.
    #[inline]
    pub(crate) fn first_slot(&self, pin: &Pin<'_>, hash: KeyHash) -> Option<u64> {
        self.shard(hash.shard()).first_slot(pin, hash.tag())
    }

    /// True when nobody has needed the shard of `hash` since the store was opened: it has to be built first. Or when what it says needs a
    /// closer look, see [`Self::doubt_all`].
    #[inline]
    pub(crate) fn is_parked(&self, hash: KeyHash) -> bool {
        self.shard(hash.shard()).is_parked()
    }

    /// The shard of `hash`, for a writer.
    #[cfg(test)]
    pub(crate) fn lock(&self, hash: KeyHash) -> ShardGuard<'_> {
        self.lock_shard(hash.shard())
    }

    /// Shard number `index`, for a writer, who builds it if it is parked.
    pub(crate) fn lock_shard(&self, index: usize) -> ShardGuard<'_> {
        self.shard(index).lock()
    }

    /// The dump of the index is over; `is_written` says whether a snapshot has it. All shards are held for that moment: one after the
    /// other, each could wait for a commit.
    pub(crate) fn end_dump(&self, is_written: bool) {
        let held: Vec<_> = self.shards.iter().map(Shard::lock).collect();
        held.into_iter().for_each(|mut shard| shard.end_dump(is_written));
    }

    /// From here on every shard says of itself that it has to be built: whoever asks for a key finds that it is, and looks closer at
    /// what comes of it. Readers that have no doubts ask nothing more than they did.
    pub(crate) fn doubt_all(&self) {
        self.shards.iter().for_each(Shard::doubt);
    }

    /// True when shard number `index` is still to be built.
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

    /// Bytes of memory that the tables take.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().bytes()).sum::<u64>() + (SHARDS * size_of::<Shard>()) as u64
    }

    /// Frees replaced tables that no reader can see any more.
    pub(crate) fn reclaim(&self, pins: &Pins) {
        let mut waiting = self.shards.iter().filter(|shard| shard.has_old()).peekable();
        if waiting.peek().is_some() {
            // Once serves them all: what is replaced from now on was not asked for.
            pins.advance();
        }
        waiting.for_each(|shard| shard.lock().free_old(pins));
    }
}

#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(test)]
mod tests;
