//! One shard: a table for readers, and the state of its writers under a lock.

use super::KeyHash;
use super::calendar::Calendar;
use super::dump::{Dump, Expiring, ShardChanges, ShardImage};
use super::parked::Parked;
use super::slot::Slot;
use super::state::{Changes, LazyState};
use super::table::{LINE_SLOTS, Table, TableCell};
use crate::error::Result;
use crate::pins::{Pin, Pins};
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, Mutex, MutexGuard, Ordering};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

/// A table grows when more than 7 of 8 slots are used ...
const fn is_full(used: usize, slots: usize) -> bool {
    used * 8 >= slots * 7
}

/// ... to one and a half times what its records need at that load: a key takes 9.2 to 13.8 bytes.
const fn lines_after_growth(records: usize) -> usize {
    (records * 12).div_ceil(7 * LINE_SLOTS) + 1
}

/// A table that is built from a complete list of slots takes 10.7 bytes a key.
const fn lines_for(records: usize) -> usize {
    (records * 4).div_ceil(3 * LINE_SLOTS) + 1
}

/// Up to this many bytes of replaced tables are kept until a later growth: freeing one interrupts every processor that runs a thread of
/// this process.
const OLD_BYTES_KEPT: u64 = 2048;

/// A mark: the running dump of the index has copied this shard already.
const DUMPED: u8 = 1;
/// A mark: the calendar has all records that expire, those from before the store was opened included.
const KNOWS_EXPIRING: u8 = 2;

/// One shard of the index.
#[derive(Debug, Default)]
pub(super) struct Shard {
    table: TableCell,
    /// The same as `state.parked.is_some()`, for readers.
    is_parked: AtomicBool,
    /// The same as `!state.old.is_empty()`, so that freeing them need not wait for the writers of shards that have none.
    has_old: AtomicBool,
    /// Its writer has appended a commit, or is about to, and has not published all of it.
    is_publishing: AtomicBool,
    /// [`DUMPED`] and [`KNOWS_EXPIRING`]. Used under the lock only.
    marks: AtomicU8,
    /// Slots that point at a record. A file of 4 TiB holds fewer than 2^32 in each of 256 shards. Changed under the lock only.
    len: AtomicU32,
    state: Mutex<LazyState>,
}

// A store has 256 of them, and a process may have thousands of stores.
#[cfg(all(target_os = "linux", target_pointer_width = "64", feature = "std", not(shuttle)))]
const _: () = assert!(size_of::<Shard>() <= 32);

impl Shard {
    #[inline]
    pub(super) fn find<T>(&self, pin: &Pin<'_>, tag: u64, mut found: impl FnMut(u64) -> Result<Option<T>>) -> Result<Option<T>> {
        let Some(table) = self.table.get(pin) else {
            return Ok(None);
        };
        table.search(tag, |slot| found(slot.offset()).transpose()).transpose()
    }

    #[inline]
    pub(super) fn prefetch(&self, pin: &Pin<'_>, tag: u64) {
        if let Some(table) = self.table.get(pin) {
            table.prefetch(tag);
        }
    }

    /// The first record that may carry `tag`.
    #[inline]
    pub(super) fn first_slot(&self, pin: &Pin<'_>, tag: u64) -> Option<u64> {
        self.table.get(pin)?.first(tag).map(Slot::offset)
    }

    /// True when it holds this slot.
    #[inline]
    pub(super) fn has(&self, pin: &Pin<'_>, slot: Slot) -> bool {
        self.table.get(pin).is_some_and(|table| table.has(slot))
    }

    #[inline]
    pub(super) fn is_parked(&self) -> bool {
        self.is_parked.load(Ordering::Acquire)
    }

    /// See [`Index::is_publishing`](super::Index::is_publishing).
    #[inline]
    pub(super) fn is_publishing(&self) -> bool {
        self.is_publishing.load(Ordering::Acquire)
    }

    /// See [`Index::doubt_all`](super::Index::doubt_all).
    pub(super) fn doubt(&self) {
        self.is_parked.store(true, Ordering::Release);
    }

    /// True when it has no record. Read without the lock, so possibly out of date.
    pub(super) fn is_empty(&self) -> bool {
        // In this order: building a shard sets its length first, and then `is_parked`.
        !self.is_parked() && self.len() == 0
    }

    /// Number of records; 0 while it is parked. Read without the lock, so possibly out of date.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// True when replaced tables wait until their readers have finished.
    pub(super) fn has_old(&self) -> bool {
        self.has_old.load(Ordering::Relaxed)
    }

    #[cfg(feature = "async")]
    pub(super) fn is_free(&self) -> bool {
        self.state.try_lock().is_some()
    }

    pub(super) fn lock(&self) -> ShardGuard<'_> {
        ShardGuard { shard: self, state: self.state.lock() }
    }
}

/// A table that no reader sees yet, and its number of used slots.
struct Filled {
    table: Table,
    used: usize,
}

impl Filled {
    fn new(lines: usize, slots: impl Iterator<Item = Slot>) -> Self {
        let table = Table::new(lines);
        let mut filler = table.filler();
        let used = slots.filter(|&slot| filler.put(slot).is_some()).count();
        Self { table, used }
    }
}

/// A locked shard: other writers wait.
pub(crate) struct ShardGuard<'a> {
    shard: &'a Shard,
    state: MutexGuard<'a, LazyState>,
}

impl Drop for ShardGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Before the lock is released. A reader that sees it sees what was published.
        self.shard.is_publishing.store(false, Ordering::Release);
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

    fn marks(&self, mark: u8) -> bool {
        self.shard.marks.load(Ordering::Relaxed) & mark != 0
    }

    fn set_mark(&self, mark: u8, is_set: bool) {
        let others = self.shard.marks.load(Ordering::Relaxed) & !mark;
        self.shard.marks.store(if is_set { others | mark } else { others }, Ordering::Relaxed);
    }

    fn table(&self) -> Option<&Table> {
        // SAFETY: this guard holds the shard's lock, and the result borrows the guard.
        unsafe { self.shard.table.get_locked() }
    }

    /// Calls `found` with the offset of every record that may belong to `hash`, until it returns a result. For a key that is being
    /// written there is usually no such record, or the first one is right: a simple loop without a result looks for that one.
    pub(crate) fn find<T>(&self, hash: KeyHash, mut found: impl FnMut(u64) -> Result<Option<T>>) -> Result<Option<T>> {
        let Some(table) = self.table() else {
            return Ok(None);
        };
        let Some(first) = table.first(hash.tag()).map(Slot::offset) else {
            return Ok(None);
        };
        if let Some(answer) = found(first)? {
            return Ok(Some(answer));
        }
        let others = |slot: Slot| if slot.offset() == first { None } else { found(slot.offset()).transpose() };
        table.search(hash.tag(), others).transpose()
    }

    /// True when the shard must be built before it is used.
    /// Offsets of the records behind the snapshot that a parked shard will be built from, in log order.
    #[cfg(feature = "ordered")]
    pub(crate) fn later(&self) -> Vec<u64> {
        self.state.parked.as_ref().map_or_else(Vec::new, |parked| parked.later.clone())
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.state.parked.is_some()
    }

    /// What the shard will be built from.
    pub(crate) fn park(&mut self) -> &mut Parked {
        self.shard.is_parked.store(true, Ordering::Release);
        self.state.parked.get_or_insert_default()
    }

    /// Builds the shard; after a failure it is parked as before.
    pub(crate) fn unpark(&mut self, pins: &Pins, build: impl FnOnce(&mut Self, &Parked) -> Result<()>) -> Result<()> {
        let Some(parked) = self.state.parked.take() else {
            return Ok(());
        };
        let result = build(self, &parked);
        if result.is_ok() {
            self.shard.is_parked.store(false, Ordering::Release);
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

    fn insert_slot(&mut self, pins: &Pins, slot: Slot) {
        if self.table().is_none_or(|table| is_full(self.state.used, table.slots())) {
            self.grow(pins);
        }
        let fresh = self.table().and_then(|table| table.insert(slot));
        self.state.used += usize::from(fresh == Some(true));
        self.set_len(self.len() + 1);
    }

    /// Changes the offset of a record from `old` to `new`; false if there is no such slot.
    pub(crate) fn replace(&mut self, hash: KeyHash, old: u64, new: u64) -> bool {
        let (old, new) = (Slot::new(hash.tag(), old), Slot::new(hash.tag(), new));
        let is_replaced = self.table().is_some_and(|table| table.replace(old, new));
        if is_replaced {
            self.note_removed(old);
        }
        is_replaced
    }

    /// Notes that a slot was removed that the newest snapshot may have.
    pub(crate) fn note_removed(&mut self, slot: Slot) {
        let len = self.len();
        self.state.changes.remove(slot, len);
        if self.has_expiring() && self.state.calendar.as_mut().is_some_and(|calendar| calendar.lost_one()) {
            self.drop_stale();
        }
    }

    #[cold]
    fn drop_stale(&mut self) {
        if let Some(mut calendar) = self.state.calendar.take() {
            calendar.drop_stale(|slot| self.has(slot));
            self.state.calendar = Some(calendar);
        }
    }

    /// Begins a calendar, unless there is one. Without this, it would look at each entry once before its time.
    pub(crate) fn begin_calendar(&mut self, now: u64) {
        self.state.calendar.get_or_insert_with(|| Box::new(Calendar::begun_at(now)));
    }

    /// The record of a slot expires then.
    pub(crate) fn expires(&mut self, slot: Slot, expiry: u64) {
        self.state.calendar.get_or_insert_default().add(slot, expiry);
    }

    /// Slots of records that may have expired at `now`, in order. The caller forgets them, or calls [`Self::expires`] again.
    pub(crate) fn take_due(&mut self, now: u64) -> Vec<Slot> {
        if !self.state.calendar.as_ref().is_some_and(|calendar| calendar.may_be_due(now)) {
            return Vec::new();
        }
        self.state.calendar.as_mut().map_or_else(Vec::new, |calendar| calendar.take_due(now))
    }

    /// True if the calendar has all records that expire.
    pub(crate) fn knows_expiring(&self) -> bool {
        self.marks(KNOWS_EXPIRING)
    }

    pub(crate) fn set_knows_expiring(&mut self) {
        self.set_mark(KNOWS_EXPIRING, true);
    }

    /// Forgets which records expire: they are looked for again.
    pub(crate) fn forget_expiring(&mut self) {
        if self.has_expiring() {
            self.state.calendar = None;
        }
        self.set_mark(KNOWS_EXPIRING, false);
    }

    /// True if the record of a slot may expire: the calendar has it, or does not have all that do.
    pub(crate) fn may_expire(&self, slot: Slot) -> bool {
        let calendar = || self.state.calendar.iter().flat_map(|calendar| calendar.entries());
        !self.knows_expiring() || calendar().any(|(_, slots)| slots.contains(&slot))
    }

    /// True if it has, or has had, a record that expires, as far as it knows.
    pub(crate) fn has_expiring(&self) -> bool {
        self.state.calendar.is_some()
    }

    /// Number of records that expire; where there are many, of some that were replaced lately, too.
    pub(crate) fn count_expiring(&mut self) -> u64 {
        if self.state.calendar.as_ref().is_some_and(|calendar| calendar.may_be_tidied()) {
            self.drop_stale();
        }
        self.state.calendar.as_ref().map_or(0, |calendar| calendar.len() as u64)
    }

    /// Starts to record changes: the shard is now as in the newest snapshot.
    pub(crate) fn follow_changes(&mut self) {
        self.state.changes = Changes::none();
    }

    /// Removes the record at `offset`; false if there is no such slot.
    pub(crate) fn remove(&mut self, hash: KeyHash, namespace: u32, offset: u64) -> bool {
        self.remove_slot(Slot::new(hash.tag(), offset), namespace)
    }

    pub(crate) fn remove_slot(&mut self, slot: Slot, namespace: u32) -> bool {
        let Some(emptied) = self.table().and_then(|table| table.remove(slot)) else {
            return false;
        };
        self.state.used -= usize::from(emptied);
        self.set_len(self.len() - 1);
        self.note_removed(slot);
        self.count_down(namespace);
        true
    }

    /// Replaces the counts by namespace.
    pub(crate) fn set_counts(&mut self, counts: Vec<(u32, u64)>) {
        self.state.counts = counts;
    }

    /// All slots, in no order.
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.table().into_iter().flat_map(Table::live).collect()
    }

    /// True when it holds this slot.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.table().is_some_and(|table| table.has(slot))
    }

    /// The slots with tags in this range, in no order.
    pub(crate) fn slots_between(&self, tags: Range<u64>) -> Vec<Slot> {
        self.table().map(|table| table.between(tags)).unwrap_or_default()
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
        let lines = lines_after_growth(self.len() + 1);
        let grown = Filled::new(lines, self.table().into_iter().flat_map(Table::live));
        self.put(pins, grown);
    }

    /// Replaces the table. The old one is freed once no reader uses it.
    fn put(&mut self, pins: &Pins, Filled { table, used }: Filled) {
        self.state.used = used;
        self.set_len(used);
        if let Some(old) = self.shard.table.swap(Box::new(table)) {
            self.state.old.push((pins.ticket(), old));
            self.shard.has_old.store(true, Ordering::Relaxed);
            if self.old_bytes() > OLD_BYTES_KEPT {
                pins.advance();
                self.free_old(pins);
            }
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

    fn set_len(&self, len: usize) {
        self.shard.len.store(len as u32, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> u64 {
        let calendar = self.state.calendar.as_ref().map_or(0, |calendar| calendar.bytes());
        self.table().map_or(0, Table::bytes) + self.old_bytes() + calendar
    }

    /// A copy for a snapshot: later changes are not part of it. With `since`, which is true for offsets of records appended after
    /// the previous snapshot, only the changes, if they take less than the whole.
    pub(crate) fn dump(&mut self, since: Option<&dyn Fn(u64) -> bool>) -> Dump {
        self.set_mark(DUMPED, true);
        if self.state.is_unused() {
            return Dump::Whole(ShardImage::default());
        }
        match (core::mem::replace(&mut self.state.changes, Changes::none()), since) {
            (Changes::Known { any: false, .. }, Some(_)) => Dump::Unchanged,
            (Changes::Known { removed, .. }, Some(is_new)) => {
                let added: Vec<Slot> =
                    self.table().into_iter().flat_map(Table::live).filter(|slot| is_new(slot.offset())).collect();
                if (added.len() + removed.len()) * 2 > self.len() {
                    return Dump::Whole(self.image());
                }
                let expiring = self.expiring(is_new);
                Dump::Changes(ShardChanges { added, removed, counts: self.state.counts.clone(), expiring })
            }
            _ => Dump::Whole(self.image()),
        }
    }

    /// Ends the dump. Unless a snapshot has it, the next one writes the whole shard.
    pub(crate) fn end_dump(&mut self, is_written: bool) {
        self.set_mark(DUMPED, false);
        self.state.shrink();
        if !is_written && !matches!(self.state.changes, Changes::Unknown) {
            self.state.changes = Changes::Unknown;
        }
    }

    /// True when the running dump has copied this shard already.
    pub(crate) fn is_dumped(&self) -> bool {
        self.marks(DUMPED)
    }

    /// A copy, in no order.
    pub(crate) fn image(&self) -> ShardImage {
        let slots = self.table().map(Table::live_slots).unwrap_or_default();
        ShardImage { slots, counts: self.state.counts.clone(), expiring: self.expiring(&|_| true) }
    }

    /// The records at such offsets that expire.
    fn expiring(&self, is_wanted: &dyn Fn(u64) -> bool) -> Vec<Expiring> {
        let mut expiring = Vec::new();
        for (from, slots) in self.state.calendar.iter().flat_map(|calendar| calendar.entries()) {
            let slots: Vec<Slot> = slots.iter().copied().filter(|slot| is_wanted(slot.offset())).collect();
            if !slots.is_empty() {
                expiring.push(Expiring { from, slots });
            }
        }
        expiring
    }

    /// Replaces the content of the shard by a copy.
    pub(crate) fn load(&mut self, pins: &Pins, image: ShardImage) {
        if !self.counts().is_empty() || !image.counts.is_empty() {
            self.state.counts = image.counts;
        }
        if self.table().is_some() || !image.slots.is_empty() {
            self.put(pins, Filled::new(lines_for(image.slots.len()), image.slots.into_iter()));
        }
    }
}
