//! A locked shard: its holder looks up, enters, replaces and removes slots. Nobody else changes them.

use super::{Filled, PARKED, Shard, is_full, lines_after_growth};
use crate::error::Result;
use crate::index::dump::ShardImage;
use crate::index::parked::Parked;
use crate::index::slot::Slot;
use crate::index::state::{Changes, LazyState};
use crate::index::table::{Below, OldTable, Table};
use crate::index::{KeyHash, Known, Pointed};
use crate::pins::Pins;
use crate::storage::Storage;
use crate::sync::{MutexGuard, Ordering};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

/// Up to this many bytes of replaced tables are kept until a later growth: freeing one interrupts every processor that runs a thread of
/// this process.
const OLD_BYTES_KEPT: u64 = 2048;

/// A locked shard: other writers wait.
pub(crate) struct ShardGuard<'a> {
    shard: &'a Shard,
    pub(in crate::index) state: MutexGuard<'a, LazyState>,
}

impl Drop for ShardGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Before the lock is released. A reader that sees it sees what was published.
        self.shard.is_publishing.store(false, Ordering::Release);
    }
}

impl<'a> ShardGuard<'a> {
    pub(super) const fn new(shard: &'a Shard, state: MutexGuard<'a, LazyState>) -> Self {
        Self { shard, state }
    }
}

impl ShardGuard<'_> {
    /// Called before a commit is appended to the log: until the shard is unlocked, reads of several keys take it for half published.
    #[inline]
    pub(crate) fn will_publish(&self) {
        // Seen by whoever sees the new end of the log, which is stored later, with `Release`.
        self.shard.is_publishing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_publishing(&self) -> bool {
        self.shard.is_publishing()
    }

    pub(in crate::index) fn marks(&self, mark: u8) -> bool {
        self.shard.marks.load(Ordering::Relaxed) & mark != 0
    }

    pub(in crate::index) fn set_mark(&self, mark: u8, is_set: bool) {
        let others = self.shard.marks.load(Ordering::Relaxed) & !mark;
        self.shard.marks.store(if is_set { others | mark } else { others }, Ordering::Relaxed);
    }

    /// Prefetches the cache line where the search for `hash` begins.
    #[inline]
    pub(crate) fn prefetch(&self, hash: KeyHash) {
        if let Some(table) = self.table() {
            table.prefetch(hash.tag());
        }
    }

    pub(in crate::index) fn table(&self) -> Option<&Table> {
        // SAFETY: this guard holds the shard's lock, and the result borrows the guard.
        unsafe { self.shard.table.get_locked() }
    }

    /// Calls `found` with the offset of every record that may belong to `hash`, until it returns a result. For a key that is being
    /// written there is usually no such record, or the first one is right: a simple loop without a result looks for that one.
    ///
    /// It looks into the table only: if that [is not all](Self::is_unclear), the caller asks [`Self::find_below`], too.
    pub(crate) fn find<T>(&self, hash: KeyHash, mut found: impl FnMut(u64) -> Result<Option<T>>) -> Result<Option<T>> {
        let Some(table) = self.table() else {
            return Ok(None);
        };
        if let Some(first) = table.first(hash.tag()).map(Slot::offset) {
            if let Some(answer) = found(first)? {
                return Ok(Some(answer));
            }
            let others = |slot: Slot| if slot.offset() == first { None } else { found(slot.offset()).transpose() };
            if let Some(answer) = table.search(hash.tag(), others) {
                return answer.map(Some);
            }
        }
        Ok(None)
    }

    /// True when the table may not be all: see [`Index::is_unclear`](super::Index::is_unclear).
    #[inline]
    pub(crate) fn is_unclear(&self) -> bool {
        self.shard.is_unclear()
    }

    /// Offsets of the records behind the snapshot that a parked shard will be built from, in log order.
    #[cfg(feature = "ordered")]
    pub(crate) fn later(&self) -> Vec<u64> {
        self.state.parked.as_ref().map_or_else(Vec::new, |parked| parked.later.clone())
    }

    /// True when the shard must be built before it is used.
    pub(crate) fn is_parked(&self) -> bool {
        self.state.parked.is_some()
    }

    /// What the shard will be built from.
    pub(crate) fn park(&mut self) -> &mut Parked {
        self.shard.flags.fetch_or(PARKED, Ordering::Release);
        self.state.parked.get_or_insert_default()
    }

    /// Builds the shard; after a failure it is parked as before.
    pub(crate) fn unpark(&mut self, pins: &Pins, build: impl FnOnce(&mut Self, &Parked) -> Result<()>) -> Result<()> {
        let Some(parked) = self.state.parked.take() else {
            return Ok(());
        };
        let result = build(self, &parked);
        if result.is_ok() {
            self.shard.flags.fetch_and(!PARKED, Ordering::Release);
        } else {
            self.clear(pins);
            self.state.parked = Some(parked);
        }
        result
    }

    /// Adds a record of a new key.
    pub(crate) fn insert(&mut self, pins: &Pins, hash: KeyHash, namespace: u32, offset: u64) {
        self.insert_slot(pins, Slot::new(hash.tag(), offset));
        self.state.changes.add();
        self.count_up(namespace);
    }

    // With a second caller, an insertion would else be a call longer.
    #[inline(always)]
    pub(in crate::index) fn insert_slot(&mut self, pins: &Pins, slot: Slot) {
        if self.table().is_none_or(|table| is_full(self.state.used, table.slots())) {
            self.grow(pins);
        }
        let fresh = self.table().and_then(|table| table.insert(slot));
        self.state.used += usize::from(fresh == Some(true));
        self.set_len(self.len() + 1);
    }

    /// Changes the offset of a record from `old`, which the caller has found under this lock, to `new`; false if there is no such slot.
    pub(crate) fn replace(&mut self, pins: &Pins, hash: KeyHash, old: u64, new: u64) -> bool {
        let (old, new) = (Slot::new(hash.tag(), old), Slot::new(hash.tag(), new));
        let is_replaced = self.table().is_some_and(|table| table.replace(old, new)) || self.replace_below(pins, old, new);
        if is_replaced {
            self.note_removed(pins, old);
        }
        is_replaced
    }

    /// Notes that a slot was removed that the newest snapshot may have.
    pub(crate) fn note_removed(&mut self, pins: &Pins, slot: Slot) {
        let len = self.len();
        self.state.changes.remove(slot, len);
        if !self.has_expiring() {
            return;
        }
        self.mask_gone(pins, slot);
        if self.state.calendar.as_mut().is_some_and(|calendar| calendar.lost_one()) {
            self.drop_stale();
        }
    }

    /// Starts to record changes: the shard is now as in the newest snapshot.
    pub(crate) fn follow_changes(&mut self) {
        self.state.changes = Changes::none();
    }

    /// The next snapshot has the shard as a whole.
    #[cfg(feature = "std")]
    pub(in crate::index) fn forget_changes(&mut self) {
        self.state.changes = Changes::Unknown;
    }

    /// Removes the record at `offset`; false if there is no such slot.
    pub(crate) fn remove(&mut self, pins: &Pins, hash: KeyHash, namespace: u32, offset: u64) -> bool {
        self.remove_slot(pins, Slot::new(hash.tag(), offset), namespace)
    }

    /// Removes a slot, which the caller has found under this lock.
    pub(crate) fn remove_slot(&mut self, pins: &Pins, slot: Slot, namespace: u32) -> bool {
        match self.table().and_then(|table| table.remove(slot)) {
            Some(emptied) => {
                self.state.used -= usize::from(emptied);
                self.set_len(self.len() - 1);
            }
            None if self.mask(pins, slot) => {}
            None => return false,
        }
        self.note_removed(pins, slot);
        self.count_down(namespace);
        true
    }

    /// Replaces the counts by namespace.
    pub(crate) fn set_counts(&mut self, counts: Vec<(u32, u64)>) {
        self.state.counts = counts;
    }

    /// All slots, in no order.
    pub(crate) fn slots(&self, storage: &dyn Storage) -> Result<Vec<Slot>> {
        let Some(table) = self.table() else { return Ok(Vec::new()) };
        let mut slots: Vec<Slot> = table.live().collect();
        self.add_below(storage, table, 0..Slot::TAGS, &mut slots)?;
        Ok(slots)
    }

    /// True when it holds this slot.
    pub(crate) fn has(&self, storage: &dyn Storage, slot: Slot) -> Result<bool> {
        self.has_known(storage, slot, None)
    }

    /// True when it points at the record at `offset`, whose key has this hash. What has been read of its base need not be looked up.
    pub(crate) fn points_at(&self, storage: &dyn Storage, hash: KeyHash, offset: u64, pointed: Option<&Pointed>) -> Result<bool> {
        self.has_known(storage, hash.slot(offset), pointed.map(|pointed| (pointed, hash.shard())))
    }

    fn has_known(&self, storage: &dyn Storage, slot: Slot, known: Known<'_>) -> Result<bool> {
        self.table().map_or(Ok(false), |table| table.has_anywhere(storage, slot, known, |below| self.masked(below)))
    }

    /// The slots with tags in this range, in no order.
    pub(crate) fn slots_between(&self, storage: &dyn Storage, tags: Range<u64>) -> Result<Vec<Slot>> {
        let Some(table) = self.table() else { return Ok(Vec::new()) };
        let mut slots = table.between(tags.clone());
        self.add_below(storage, table, tags, &mut slots)?;
        Ok(slots)
    }

    fn count_up(&mut self, namespace: u32) {
        match self.state.counts.iter_mut().find(|(number, _)| *number == namespace) {
            Some((_, count)) => *count += 1,
            None => self.state.counts.push((namespace, 1)),
        }
    }

    fn count_down(&mut self, namespace: u32) {
        if let Some(place) = self.state.counts.iter().position(|&(number, _)| number == namespace)
            && let Some((_, count)) = self.state.counts.get_mut(place)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.state.counts.swap_remove(place);
            }
        }
    }

    fn grow(&mut self, pins: &Pins) {
        let below = self.table().and_then(|table| table.below.clone());
        let lines = lines_after_growth(self.len() + 1 - below.as_ref().map_or(0, Below::live));
        let mut grown = Filled::new(lines, self.table().into_iter().flat_map(Table::live));
        grown.table.below = below;
        self.put(pins, grown);
    }

    /// Replaces the table. The old one is freed once no reader uses it.
    pub(in crate::index) fn put(&mut self, pins: &Pins, Filled { table, used }: Filled) {
        self.state.used = used;
        self.set_len(used + table.below.as_ref().map_or(0, Below::live));
        if let Some(old) = self.shard.table.swap(Box::new(table)) {
            self.keep_old(pins, old);
        }
    }

    /// Keeps a table for the readers that may still use it.
    pub(in crate::index) fn keep_old(&mut self, pins: &Pins, old: OldTable) {
        self.state.old.push((pins.ticket(), old));
        self.shard.has_old.store(true, Ordering::Relaxed);
        if self.old_bytes() > OLD_BYTES_KEPT {
            pins.advance();
            self.free_old(pins);
        }
    }

    fn old_bytes(&self) -> u64 {
        self.state.old.iter().map(|(_, table)| table.bytes()).sum()
    }

    /// Frees the replaced tables that no reader uses any more.
    pub(crate) fn free_old(&mut self, pins: &Pins) {
        if self.state.old.is_empty() {
            return;
        }
        self.state.old.retain(|(ticket, _)| !pins.passed(ticket));
        self.shard.has_old.store(!self.state.old.is_empty(), Ordering::Relaxed);
    }

    /// Removes every record.
    pub(crate) fn clear(&mut self, pins: &Pins) {
        self.load(pins, ShardImage::default());
    }

    pub(crate) fn count(&self, namespace: u32) -> u64 {
        self.state.counts.iter().find(|&&(number, _)| number == namespace).map_or(0, |&(_, count)| count)
    }

    /// Number of records by namespace.
    pub(crate) fn counts(&self) -> &[(u32, u64)] {
        &self.state.counts
    }

    /// The namespaces with records in this shard.
    pub(crate) fn namespaces(&self) -> impl Iterator<Item = u32> {
        self.state.counts.iter().map(|&(number, _)| number)
    }

    pub(crate) fn len(&self) -> usize {
        self.shard.len.load(Ordering::Relaxed) as usize
    }

    pub(in crate::index) fn set_len(&self, len: usize) {
        self.shard.len.store(len as u32, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        let calendar = self.state.calendar.as_ref().map_or(0, |calendar| calendar.bytes());
        self.table().map_or(0, Table::bytes) + self.bytes_below() + self.old_bytes() + calendar
    }
}
