//! Log and index together: the steps that all reads and writes of records are made of.

use crate::doubt::{Doubt, SetAside};
use crate::error::Result;
#[cfg(feature = "events")]
use crate::events::EventIndex;
use crate::index::{Index, KeyHash, ShardGuard};
use crate::log::{Frame, Log, Placed, Tally};
use crate::moments::Moments;
#[cfg(feature = "ordered")]
use crate::ordered::Ordered;
use crate::pins::{Pin, Pins};
use crate::planted::{Bug, is};
use crate::snapshot::Directory;
use crate::sorted::Set;
use crate::storage::Storage;
use crate::sync::{Mutex, Ordering, RwLock};
use alloc::collections::BTreeSet;
use once_cell::race::OnceBox;

/// The log and the index of an open store, and what guards them.
pub(crate) struct Engine {
    // The index first: fields are dropped in order, and it must go before the pins that guard it and the log that it points into.
    pub(crate) index: Index,
    pub(crate) pins: Pins,
    pub(crate) log: Log,
    /// Directory of the snapshot that the newest checkpoint names. Locked while a checkpoint is written.
    pub(crate) checkpoints: Mutex<Directory>,
    /// The shards whose slots stay in the file.
    #[cfg(feature = "std")]
    pub(crate) bases: crate::bases::Bases,
    /// What opening recorded for building the parked shards.
    pub(crate) origin: OnceBox<Origin>,
    /// The ordered index, if the store was opened with it.
    #[cfg(feature = "ordered")]
    pub(crate) ordered: OnceBox<Ordered>,
    /// Shard numbers and slots of records whose keys could not be read: they are missing in the ordered index.
    #[cfg(feature = "ordered")]
    pub(crate) nameless: RwLock<alloc::vec::Vec<(usize, crate::index::Slot)>>,
    /// What compaction has copied, and the ordered index does not know yet.
    #[cfg(feature = "ordered")]
    pub(crate) moves: Mutex<crate::ordered::Moves>,
    /// Times that the ordered index was built anew, as a part of it in the snapshot could not be read.
    #[cfg(feature = "ordered")]
    pub(crate) orders_lost: crate::sync::AtomicU64,
    /// Records that have expired and were taken out of the index, which the log does not tell.
    pub(crate) forgotten: crate::sync::AtomicU64,
    /// Records that were taken out of the index, because they were removed or have expired: a key that was not there twice may have been there
    /// in between. Counted before the slot goes.
    pub(crate) taken_out: crate::sync::AtomicU64,
    /// The index of events.
    #[cfg(feature = "events")]
    pub(crate) events: EventIndex,
    /// Set if the index was rebuilt across damage: what it does not know.
    pub(crate) doubt: OnceBox<Doubt>,
    /// Segments in which compaction has found damage.
    pub(crate) set_aside: Mutex<SetAside>,
    /// Numbers of the namespaces that there are.
    pub(crate) living: RwLock<BTreeSet<u32>>,
    /// The dictionaries of compressed values that have been read.
    #[cfg(feature = "compress")]
    pub(crate) dictionaries: crate::compress::Known,
    /// Bases of the segments that hold dictionaries, as compaction last found them.
    #[cfg(feature = "compress")]
    pub(crate) homes: RwLock<BTreeSet<u64>>,
    /// The living snapshots, and what is kept for them.
    pub(crate) moments: Moments,
    /// Seed of the hashes. Stored with the store, so that a snapshot stays valid, and random, so that nobody can choose colliding keys.
    pub(crate) seed: u64,
}

/// The state at opening that building a parked shard needs.
#[derive(Debug, Default)]
pub(crate) struct Origin {
    /// Directory of the snapshot: where the parts of each shard are.
    pub(crate) snapshot: Directory,
    /// Extents of segments that were retired after the snapshot: their live records have been copied or overwritten since.
    pub(crate) retired: Set,
    /// Numbers of the namespaces at opening; records under other numbers are dead.
    pub(crate) namespaces: Set,
}

/// Keys that are looked up together: about as many as the processor can have cache misses in flight.
pub(crate) const GROUP: usize = 16;

/// A key in its namespace, with the hash of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FullKey<'a> {
    pub(crate) namespace: u32,
    pub(crate) key: &'a [u8],
    pub(crate) hash: KeyHash,
}

/// Who repeats the look-up of a key: a reader, or a writer that holds its shard.
pub(crate) enum By<'a> {
    Reader(&'a Pin<'a>),
    Writer(&'a ShardGuard<'a>),
}

/// How a record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    Replaced,
    Removed,
}

impl Engine {
    /// What the slots that are not in memory are read from.
    #[inline]
    pub(crate) fn medium(&self) -> &dyn Storage {
        &*self.log.storage
    }

    #[inline]
    pub(crate) fn full_key<'k>(&self, namespace: u32, key: &'k [u8]) -> FullKey<'k> {
        FullKey { namespace, key, hash: KeyHash::new(self.seed, namespace, key) }
    }

    /// The record of a key, for a reader, for as long as the pin lives. Its checksum is not verified.
    pub(crate) fn find<'a>(&'a self, pin: &'a Pin<'_>, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        self.find_kept(pin, key)
    }

    /// [`Self::find`] for a caller that keeps the pin for as long as the frame: nothing else sees to that.
    // With a second caller, a look-up would else be a call longer: 2 % of it.
    #[inline(always)]
    pub(crate) fn find_kept<'a>(
        &'a self,
        pin: &Pin<'_>,
        FullKey { namespace, key, hash }: FullKey<'_>,
    ) -> Result<Option<Frame<'a>>> {
        let same = |number: u32, other: &[u8]| number == namespace && other == key;
        if self.index.is_unclear(hash) {
            return self.find_unclear(pin, FullKey { namespace, key, hash });
        }
        let found = self.index.find(pin, hash, |offset| self.log.frame_if(offset, same));
        if found.is_err() { self.find_again(&By::Reader(pin), FullKey { namespace, key, hash }, found) } else { found }
    }

    /// [`Self::find_kept`] where the table of the shard alone does not answer.
    #[cold]
    fn find_unclear<'a>(&'a self, pin: &Pin<'_>, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        if self.log.follows() {
            return self.find_followed(pin, key);
        }
        if self.index.is_parked(key.hash) {
            drop(self.lock(key.hash)?);
        }
        let same = |number: u32, other: &[u8]| number == key.namespace && other == key.key;
        let found = self.index.find_anywhere(self.medium(), pin, key.hash, |offset| self.log.frame_if(offset, same));
        if self.doubt.get().is_some() || found.is_err() { self.find_again(&By::Reader(pin), key, found) } else { found }
    }

    /// Prefetches the slots of some keys.
    pub(crate) fn prefetch_slots(&self, pin: &Pin<'_>, hashes: impl Iterator<Item = KeyHash>) {
        hashes.for_each(|hash| self.index.prefetch(pin, hash));
    }

    /// Probable file offsets of the records of up to [`GROUP`] keys, whose slots should have been prefetched; announces them to the host.
    /// None where the key has no slot, in a shard that is being built or in doubt, and unless `below`, in one that has slots in the file.
    pub(crate) fn locate(&self, pin: &Pin<'_>, hashes: impl Iterator<Item = KeyHash>, below: bool) -> [Option<u64>; GROUP] {
        let mut places = [None; GROUP];
        let mut offsets = [0; GROUP];
        let mut unused = offsets.iter_mut();
        for (place, hash) in places.iter_mut().zip(hashes) {
            *place = match self.index.is_unclear(hash) {
                false => self.index.first_slot(pin, hash),
                true if below => self.locate_below(pin, hash),
                true => None,
            };
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

    /// [`Self::locate`] where the table of the shard alone does not answer.
    #[cold]
    fn locate_below(&self, pin: &Pin<'_>, hash: KeyHash) -> Option<u64> {
        // A shard that is being built has slots of the index snapshot first, whose records may have been replaced since.
        if self.index.is_parked(hash) {
            return None;
        }
        // An error is met again by who looks closer.
        self.index.find_anywhere(self.medium(), pin, hash, |offset| Ok(Some(offset))).ok().flatten()
    }

    /// The record of a key, for a writer that holds its shard.
    pub(crate) fn frame_locked<'a>(
        &'a self,
        shard: &ShardGuard<'_>,
        FullKey { namespace, key, hash }: FullKey<'_>,
    ) -> Result<Option<Frame<'a>>> {
        let same = |number: u32, other: &[u8]| number == namespace && other == key;
        let found = match shard.find(hash, |offset| self.log.frame_if(offset, same)) {
            Ok(None) if shard.is_unclear() => self.frame_below(shard, FullKey { namespace, key, hash }),
            found => found,
        };
        if found.is_err() || self.doubt.get().is_some() {
            self.find_again(&By::Writer(shard), FullKey { namespace, key, hash }, found)
        } else {
            found
        }
    }

    /// Offset and length of the record of a key, damaged or not, for a writer that holds its shard and replaces it.
    pub(crate) fn find_locked(&self, shard: &ShardGuard<'_>, key: FullKey<'_>) -> Result<Option<Placed>> {
        let FullKey { namespace, key: name, hash } = key;
        let same = |number: u32, other: &[u8]| number == namespace && other == name;
        match shard.find(hash, |offset| self.log.frame_if(offset, same)) {
            Ok(Some(frame)) => Ok(Some(Placed { offset: frame.offset, len: frame.header.frame_len() as u64 })),
            Ok(None) if shard.is_unclear() => self.find_locked_below(shard, key),
            Ok(None) => Ok(None),
            Err(error) => self.find_damaged(shard, key, error),
        }
    }

    /// [`Self::find_locked`] among the slots below the table.
    #[cold]
    fn find_locked_below(&self, shard: &ShardGuard<'_>, key: FullKey<'_>) -> Result<Option<Placed>> {
        match self.frame_below(shard, key) {
            Ok(frame) => Ok(frame.map(|frame| Placed { offset: frame.offset, len: frame.header.frame_len() as u64 })),
            Err(error) => self.find_damaged(shard, key, error),
        }
    }

    /// The record of a key that a locked shard has below its table.
    #[cold]
    fn frame_below(&self, shard: &ShardGuard<'_>, key: FullKey<'_>) -> Result<Option<Frame<'_>>> {
        let same = |number: u32, other: &[u8]| number == key.namespace && other == key.key;
        shard.find_below(self.medium(), key.hash, |offset| self.log.frame_if(offset, same))
    }

    /// Publishes a record: the index points at `new` from now on. Cannot fail.
    pub(crate) fn publish_put(&self, shard: &mut ShardGuard<'_>, key: FullKey<'_>, old: Option<Placed>, new: Placed) {
        debug_assert!(shard.is_publishing(), "a commit is published that no reader of several keys expects");
        self.leave_note(shard, key, old, new, Ends::Replaced);
        self.publish_copy(shard, key, old, new);
        self.leave_note_late(shard, key, old, new, Ends::Replaced);
    }

    /// Publishes the copy that compaction has made of a record: for snapshots nothing changes.
    #[inline]
    pub(crate) fn publish_copy(&self, shard: &mut ShardGuard<'_>, key: FullKey<'_>, old: Option<Placed>, new: Placed) {
        self.count_live(shard, new.offset, new.len as i64);
        #[cfg(feature = "ordered")]
        self.order_put(key.namespace, key.key, new.offset);
        self.point(shard, key, old, new);
    }

    /// Like [`Self::publish_put`], for one of several records whose live bytes are added up in `tally`.
    pub(crate) fn publish_tallied(
        &self,
        shard: &mut ShardGuard<'_>,
        key: FullKey<'_>,
        old: Option<Placed>,
        new: Placed,
        tally: &mut Tally<'_>,
    ) {
        self.leave_note(shard, key, old, new, Ends::Replaced);
        #[cfg(feature = "ordered")]
        self.order_put(key.namespace, key.key, new.offset);
        self.publish_prepared_put(shard, key, old, new, tally);
    }

    /// The last step of [`Self::publish_tallied`]: snapshots have their notes, and the order has the record.
    pub(crate) fn publish_prepared_put(
        &self,
        shard: &mut ShardGuard<'_>,
        key: FullKey<'_>,
        old: Option<Placed>,
        new: Placed,
        tally: &mut Tally<'_>,
    ) {
        debug_assert!(shard.is_publishing(), "a commit is published that no reader of several keys expects");
        tally.add(self.log.geometry.extent_of(new.offset), new.len as i64, shard.is_dumped());
        self.point(shard, key, old, new);
        self.leave_note_late(shard, key, old, new, Ends::Replaced);
    }

    /// Publishes compaction's copy of the live record `old`. The live bytes of both are added up in a tally each. The caller gathers the move of
    /// the ordered index.
    pub(crate) fn publish_copy_tallied(
        &self,
        shard: &mut ShardGuard<'_>,
        key: FullKey<'_>,
        (old, from): (Placed, &mut Tally<'_>),
        (new, to): (Placed, &mut Tally<'_>),
    ) {
        shard.replace(&self.pins, key.hash, old.offset, new.offset);
        from.add(self.log.geometry.extent_of(old.offset), -(old.len as i64), shard.is_dumped());
        to.add(self.log.geometry.extent_of(new.offset), new.len as i64, shard.is_dumped());
    }

    #[inline]
    fn point(&self, shard: &mut ShardGuard<'_>, key: FullKey<'_>, old: Option<Placed>, new: Placed) {
        match old {
            Some(old) => {
                shard.replace(&self.pins, key.hash, old.offset, new.offset);
                self.count_live(shard, old.offset, -(old.len as i64));
            }
            None => shard.insert(&self.pins, key.hash, key.namespace, new.offset),
        }
    }

    /// Publishes a removal: takes the key out of the index. Its tombstone is at `tombstone`. Cannot fail.
    pub(crate) fn publish_remove(&self, shard: &mut ShardGuard<'_>, key: FullKey<'_>, old: Option<Placed>, tombstone: Placed) {
        self.leave_note(shard, key, old, tombstone, Ends::Removed);
        #[cfg(feature = "ordered")]
        self.order_remove(key.namespace, key.key);
        self.publish_prepared_removal(shard, key, old, tombstone);
    }

    /// The last step of [`Self::publish_remove`]: snapshots have their notes, and the order is without the key.
    pub(crate) fn publish_prepared_removal(
        &self,
        shard: &mut ShardGuard<'_>,
        key: FullKey<'_>,
        old: Option<Placed>,
        tombstone: Placed,
    ) {
        debug_assert!(shard.is_publishing(), "a commit is published that no reader of several keys expects");
        self.log.segment_stats.add_tombstone(self.log.geometry.extent_of(tombstone.offset), tombstone.len);
        if let Some(old) = old {
            self.take_out(shard, key.hash, key.namespace, old);
        }
        if let Some(doubt) = self.doubt.get() {
            doubt.settle(key.hash);
        }
        self.leave_note_late(shard, key, old, tombstone, Ends::Removed);
    }

    /// Takes a record out of the hash index.
    #[inline]
    pub(crate) fn take_out(&self, shard: &mut ShardGuard<'_>, hash: KeyHash, namespace: u32, old: Placed) {
        self.taken_out.fetch_add(1, Ordering::Relaxed);
        if shard.remove(&self.pins, hash, namespace, old.offset) {
            self.count_live(shard, old.offset, -(old.len as i64));
            if self.log.clock.in_use() {
                self.count_removed(old.offset);
            }
        }
    }

    fn count_live(&self, shard: &ShardGuard<'_>, offset: u64, change: i64) {
        self.log.segment_stats.change_live(self.log.geometry.extent_of(offset), change, shard.is_dumped());
    }

    /// Removes the records of dead namespaces from shard `number`.
    pub(crate) fn purge(&self, number: usize, shard: &mut ShardGuard<'_>, dead: &dyn Fn(u32) -> bool) -> Result<()> {
        if !shard.namespaces().any(dead) {
            return Ok(());
        }
        for slot in shard.slots(self.medium())? {
            // Its namespace decides whether it is removed. If that cannot be read any more, the slot stays: reading its key reports damage,
            // or no handle can reach it.
            let Some(frame) = self.owned(number, slot)? else { continue };
            let header = frame.header;
            if dead(header.namespace) && shard.remove_slot(&self.pins, slot, header.namespace) {
                if self.log.follows() {
                    self.log.segment_stats.change_slots(self.log.geometry.extent_of(slot.offset()), -1);
                }
                self.count_live(shard, slot.offset(), -(header.frame_len() as i64));
            }
        }
        Ok(())
    }

    /// Frees what replaced parts of the index take, in memory and in the file, as far as no reader uses them; returns how many segments.
    pub(crate) fn reclaim_index(&self) -> u64 {
        self.index.reclaim(&self.pins);
        self.free_bases()
    }

    /// Registers a reader: while the pin lives, nothing that it can reach is reused.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_> {
        let pin = self.pins.pin();
        if is(Bug::ReaderNotPinned) { Pin::none() } else { pin }
    }
}
