//! Log and index together: the few steps that every reader and writer of records is made of.

use crate::error::{Error, Result};
use crate::index::{Index, KeyHash, ShardGuard};
use crate::log::{Frame, Log, Placed, Tally};
#[cfg(feature = "ordered")]
use crate::ordered::Ordered;
use crate::pins::{Pin, Pins};
use crate::planted::{Bug, is};
use crate::shards::Origin;
use crate::snapshot::Directory;
use crate::sync::Mutex;
use once_cell::race::OnceBox;

/// What an open store works with.
pub(crate) struct Engine {
    // The index first: dropped before the pins that guard it and the log that it points into.
    pub(crate) index: Index,
    pub(crate) pins: Pins,
    pub(crate) log: Log,
    /// The snapshot that the newest checkpoint names. Held while a checkpoint is written.
    pub(crate) checkpoints: Mutex<Directory>,
    /// What the parked shards of the index were parked with.
    pub(crate) origin: OnceBox<Origin>,
    /// The keys in order, where that was asked for.
    #[cfg(feature = "ordered")]
    pub(crate) ordered: OnceBox<Ordered>,
    /// Seed of the hashes: it belongs to the store, so that a snapshot fits and nobody can choose keys that collide.
    pub(crate) seed: u64,
}

/// Keys that are looked up together: about as many as the processor has misses in flight.
pub(crate) const GROUP: usize = 16;

/// A key in its namespace, with the hash of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FullKey<'a> {
    pub(crate) namespace: u32,
    pub(crate) key: &'a [u8],
    pub(crate) hash: KeyHash,
}

impl Engine {
    #[inline]
    pub(crate) fn full_key<'k>(&self, namespace: u32, key: &'k [u8]) -> FullKey<'k> {
        FullKey { namespace, key, hash: KeyHash::new(self.seed, namespace, key) }
    }

    /// The record of a key, for a reader; its checksum has not been looked at.
    #[inline]
    pub(crate) fn find<'a>(&'a self, pin: &Pin<'_>, FullKey { namespace, key, hash }: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        let same = |number: u32, other: &[u8]| number == namespace && other == key;
        if self.index.is_parked(hash) {
            drop(self.lock(hash)?);
        }
        self.index.find(pin, hash, |offset| self.log.frame_if(offset, same))
    }

    /// Asks the processor for the slots of some keys.
    pub(crate) fn prefetch_slots(&self, pin: &Pin<'_>, hashes: impl Iterator<Item = KeyHash>) {
        hashes.for_each(|hash| self.index.prefetch(pin, hash));
    }

    /// Where the records of up to [`GROUP`] keys are likely to stand, most of whose slots should be there by now; the host is told
    /// that they will be read.
    pub(crate) fn locate(&self, pin: &Pin<'_>, hashes: impl Iterator<Item = KeyHash>) -> [Option<u64>; GROUP] {
        let mut places = [None; GROUP];
        let mut offsets = [0; GROUP];
        let mut unused = offsets.iter_mut();
        for (place, hash) in places.iter_mut().zip(hashes) {
            *place = self.index.guess(pin, hash);
            if let Some(offset) = *place
                && let Some(unused) = unused.next()
            {
                *unused = offset;
            }
        }
        let count = GROUP - unused.len();
        self.log.will_read(offsets.get(..count).unwrap_or_default());
        places
    }

    /// The record of a key, for a writer that holds its shard.
    pub(crate) fn frame_locked<'a>(
        &'a self,
        shard: &ShardGuard<'_>,
        FullKey { namespace, key, hash }: FullKey<'_>,
    ) -> Result<Option<Frame<'a>>> {
        let same = |number: u32, other: &[u8]| number == namespace && other == key;
        shard.find(hash, |offset| self.log.frame_if(offset, same)).map_err(|error| self.log.or_fenced(error))
    }

    /// Where the record of a key stands, for a writer that holds its shard.
    pub(crate) fn find_locked(&self, shard: &ShardGuard<'_>, key: FullKey<'_>) -> Result<Option<Placed>> {
        let frame = self.frame_locked(shard, key)?;
        Ok(frame.map(|frame| Placed { offset: frame.offset, len: frame.header.frame_len() as u64 }))
    }

    /// The index points at `new` from now on.
    pub(crate) fn publish_put(&self, shard: &mut ShardGuard<'_>, key: FullKey<'_>, old: Option<Placed>, new: Placed) {
        self.count_live(shard, new.offset, new.len as i64);
        self.point(shard, key, old, new);
    }

    /// As [`Self::publish_put`], for one of several records that are counted together.
    pub(crate) fn publish_tallied(
        &self,
        shard: &mut ShardGuard<'_>,
        key: FullKey<'_>,
        old: Option<Placed>,
        new: Placed,
        tally: &mut Tally<'_>,
    ) {
        tally.add(self.log.geometry.extent_of(new.offset), new.len as i64, shard.is_dumped());
        self.point(shard, key, old, new);
    }

    #[inline]
    fn point(&self, shard: &mut ShardGuard<'_>, key: FullKey<'_>, old: Option<Placed>, new: Placed) {
        match old {
            Some(old) => {
                shard.replace(key.hash, old.offset, new.offset);
                self.count_live(shard, old.offset, -(old.len as i64));
            }
            None => shard.insert(&self.pins, key.hash, key.namespace, new.offset),
        }
        #[cfg(feature = "ordered")]
        if let Some(ordered) = self.ordered.get() {
            ordered.put(key.namespace, key.key, new.offset);
        }
    }

    /// The index does not know the key any more; its tombstone stands at `tombstone`.
    pub(crate) fn publish_remove(&self, shard: &mut ShardGuard<'_>, key: FullKey<'_>, old: Option<Placed>, tombstone: Placed) {
        self.log.ledger.add_tombstone(self.log.geometry.extent_of(tombstone.offset), tombstone.len);
        if let Some(old) = old
            && shard.remove(key.hash, key.namespace, old.offset)
        {
            self.count_live(shard, old.offset, -(old.len as i64));
        }
        #[cfg(feature = "ordered")]
        if let Some(ordered) = self.ordered.get() {
            ordered.remove(key.namespace, key.key);
        }
    }

    fn count_live(&self, shard: &ShardGuard<'_>, offset: u64, change: i64) {
        self.log.ledger.change_live(self.log.geometry.extent_of(offset), change, shard.is_dumped());
    }

    /// Takes the records of dead namespaces out of a shard.
    pub(crate) fn bury(&self, shard: &mut ShardGuard<'_>, dead: &dyn Fn(u32) -> bool) -> Result<()> {
        if !shard.namespaces().any(dead) {
            return Ok(());
        }
        for slot in shard.slots() {
            // Its namespace decides whether it goes: it is believed only if it checks. One that does not stays, and is no reason to keep
            // everybody from its neighbours: it is damage where it is read, or nobody's.
            let frame = match self.log.frame(slot.offset()).and_then(|frame| frame.check().map(|()| frame)) {
                Ok(frame) => frame,
                Err(Error::Corrupt { .. }) => continue,
                Err(error) => return Err(error),
            };
            let header = frame.header;
            if dead(header.namespace) && shard.remove_slot(slot, header.namespace) {
                self.count_live(shard, slot.offset(), -(header.frame_len() as i64));
            }
        }
        Ok(())
    }

    /// The ordered index.
    ///
    /// # Errors
    ///
    /// [`Error::NotOrdered`] when the store was opened without.
    #[cfg(feature = "ordered")]
    pub(crate) fn ordered(&self) -> Result<&Ordered> {
        self.ordered.get().ok_or(Error::NotOrdered)
    }

    /// A pin, unless a planted bug takes it away.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_> {
        let pin = self.pins.pin();
        if is(Bug::ReaderNotPinned) { Pin::none() } else { pin }
    }
}
