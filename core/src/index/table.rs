//! The hash table of one shard: lines of eight slots, one cache line each, searched from the line that the tag points at.
//!
//! The line is a function of the tag alone, and rises with it: growing needs no key, and slots in order of their tags fill the
//! table front to back. Slots are replaced in place, one atomic store each; a table that is full is replaced whole.
//!
//! Why not `hashbrown`: its tables cannot be read while they change, so readers would lock the shard, and a writer holds that while it
//! appends, a commit all the shards that it touches, a checkpoint many. It also lacks an order that growth keeps, which walks by pages,
//! dumps of shards and prefetching rely on. A look-up alone takes no less time here: with 1,000,000 keys in 256 shards 47 ns of processor time,
//! pin included, where `hashbrown` under `RwLock`s takes 35 (34 and 25 in each of two threads). The slots take 11.6 bytes a key, there 18.9
//! (`figures.rs` measures both).

mod below;

pub(super) use below::Below;

use super::slot::{Slot, TAG_BITS};
use crate::pins::Pin;
use crate::prefetch::prefetch;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use core::ptr;

pub(super) const LINE_SLOTS: usize = 8;

/// Eight slots in one cache line.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Line([AtomicU64; LINE_SLOTS]);

/// The slots of one shard.
#[derive(Debug)]
pub(super) struct Table {
    lines: Box<[Line]>,
    /// The slots that are older than those of this table, where the index is kept in the file.
    pub(super) below: Option<Below>,
}

impl Table {
    /// A table with room for `lines * 8` slots.
    pub(super) fn new(lines: usize) -> Self {
        Self { lines: (0..lines.max(1)).map(|_| Line::default()).collect(), below: None }
    }

    pub(super) const fn slots(&self) -> usize {
        self.lines.len() * LINE_SLOTS
    }

    pub(super) const fn bytes(&self) -> u64 {
        (self.lines.len() * size_of::<Line>()) as u64
    }

    /// Calls `found` with the lines in which `tag` may be, in search order, until it returns a result. A plain loop: most searches end in
    /// the first line.
    #[inline]
    fn search_lines<T>(&self, tag: u64, mut found: impl FnMut(&Line) -> Option<T>) -> Option<T> {
        let home = self.home(tag);
        let mut index = home;
        loop {
            if let Some(answer) = found(self.lines.get(index)?) {
                return Some(answer);
            }
            index = if index + 1 == self.lines.len() { 0 } else { index + 1 };
            if index == home {
                return None;
            }
        }
    }

    /// Calls `found` with the slots with `tag`, in search order, until it returns a result. Checks whether a line ends the search only
    /// after its slots: most searches have found something by then.
    #[inline]
    pub(super) fn search<T>(&self, tag: u64, mut found: impl FnMut(Slot) -> Option<T>) -> Option<T> {
        let ask = |line: &Line| {
            for slot in &line.0 {
                let slot = Slot::from_bits(slot.load(Ordering::Acquire));
                if slot.tag() == tag
                    && slot.is_live()
                    && let Some(answer) = found(slot)
                {
                    return Some(Some(answer));
                }
            }
            // A tag that was put past this line found it full, and since then none of its slots has become empty.
            has_empty(line).then_some(None)
        };
        self.search_lines(tag, ask).flatten()
    }

    /// The first slot with `tag` in search order, without branches on its position in the line. For lookups of many keys: without
    /// mispredicted branches one search does not delay the next. A single lookup that then reads its record is faster with branches.
    #[inline]
    pub(super) fn first(&self, tag: u64) -> Option<Slot> {
        self.search_lines(tag, |line| line.first(tag).map(Some).or_else(|| has_empty(line).then_some(None))).flatten()
    }

    /// Prefetches the line in which the search for `tag` begins.
    #[inline]
    pub(super) fn prefetch(&self, tag: u64) {
        if let Some(line) = self.lines.get(self.home(tag)) {
            prefetch(&line.0);
        }
    }

    fn home(&self, tag: u64) -> usize {
        ((tag * self.lines.len() as u64) >> TAG_BITS) as usize
    }

    /// Every slot that points at a record.
    pub(super) fn live(&self) -> impl Iterator<Item = Slot> {
        self.lines.iter().flat_map(Line::live)
    }

    /// The same as a list. Without a branch on each slot: which ones are empty cannot be predicted.
    pub(super) fn live_slots(&self) -> Vec<Slot> {
        let mut slots = alloc::vec![Slot::EMPTY; self.slots()];
        let mut used = 0;
        for line in &self.lines {
            let Some(places) = slots.get_mut(used..used + LINE_SLOTS) else { break };
            let mut count = 0;
            for slot in &line.0 {
                let slot = Slot::from_bits(slot.load(Ordering::Acquire));
                if let Some(place) = places.get_mut(count) {
                    *place = slot;
                }
                count += usize::from(slot.is_live());
            }
            used += count;
        }
        slots.truncate(used);
        slots
    }

    /// The slots with tags in this range that point at records.
    pub(super) fn between(&self, tags: Range<u64>) -> Vec<Slot> {
        let mut found = Vec::new();
        let Some(last) = tags.end.checked_sub(1).filter(|last| tags.start <= *last) else { return found };
        let mut lines_left = self.home(last) - self.home(tags.start);
        self.search_lines(tags.start, |line| {
            found.extend(line.live().filter(|slot| tags.contains(&slot.tag())));
            // From the line of the last tag on this is like every search: a tag that was put past a line found it full.
            let ends_here = lines_left == 0 && has_empty(line);
            lines_left = lines_left.saturating_sub(1);
            ends_here.then_some(())
        });
        found
    }

    /// True when one of the slots is `wanted`.
    #[inline]
    pub(super) fn has(&self, wanted: Slot) -> bool {
        let found = |line: &Line| if line.slot(wanted).is_some() { Some(true) } else { has_empty(line).then_some(false) };
        self.search_lines(wanted.tag(), found) == Some(true)
    }

    /// Replaces `old` by `new`, which has the same tag. Only the holder of the shard's lock calls this.
    pub(super) fn replace(&self, old: Slot, new: Slot) -> bool {
        let replaced = self.search_lines(old.tag(), |line| match line.slot(old) {
            Some(slot) => {
                slot.store(new.bits(), Ordering::Release);
                Some(true)
            }
            None => has_empty(line).then_some(false),
        });
        replaced == Some(true)
    }

    /// Puts `new` into a free slot; `Some(true)` when it had never been used before, `None` when the table is full. Only the holder
    /// of the shard's lock calls this.
    pub(super) fn insert(&self, new: Slot) -> Option<bool> {
        self.search_lines(new.tag(), |line| {
            let slot = line.0.iter().find(|slot| !Slot::from_bits(slot.load(Ordering::Relaxed)).is_live())?;
            let fresh = slot.load(Ordering::Relaxed) == Slot::EMPTY.bits();
            slot.store(new.bits(), Ordering::Release);
            Some(fresh)
        })
    }

    /// A filler for a table that nobody else sees yet.
    pub(super) fn filler(&self) -> Filler<'_> {
        Filler { table: self, used: alloc::vec![0; self.lines.len()] }
    }

    /// Removes `old`; `Some(true)` when its slot is empty again, not dead. Only the holder of the shard's lock calls this.
    pub(super) fn remove(&self, old: Slot) -> Option<bool> {
        let removed = self.search_lines(old.tag(), |line| {
            let ends_here = has_empty(line);
            let Some(slot) = line.slot(old) else { return ends_here.then_some(None) };
            // Other tags may have been put past a full line: their search must not end at this slot.
            let emptied = if ends_here { Slot::EMPTY } else { Slot::DEAD };
            slot.store(emptied.bits(), Ordering::Release);
            Some(Some(ends_here))
        });
        removed.flatten()
    }
}

/// Fills an empty table. Counts how far each line is filled, so that it need not read slots: every slot is moved to a larger table two or
/// three times.
pub(super) struct Filler<'a> {
    table: &'a Table,
    /// Number of used slots of each line.
    used: Vec<u8>,
}

impl Filler<'_> {
    /// As [`Table::insert`]; `None` when the table is full.
    #[inline]
    pub(super) fn put(&mut self, new: Slot) -> Option<()> {
        let home = self.table.home(new.tag());
        let mut index = home;
        loop {
            let used = self.used.get_mut(index)?;
            if let Some(slot) = self.table.lines.get(index)?.0.get(usize::from(*used)) {
                slot.store(new.bits(), Ordering::Relaxed);
                *used += 1;
                return Some(());
            }
            index = if index + 1 == self.used.len() { 0 } else { index + 1 };
            if index == home {
                return None;
            }
        }
    }
}

impl Line {
    fn live(&self) -> impl Iterator<Item = Slot> {
        self.0.iter().map(|slot| Slot::from_bits(slot.load(Ordering::Acquire))).filter(|slot| slot.is_live())
    }

    /// The first slot with `tag`: compares all slots first and branches only once.
    #[inline]
    fn first(&self, tag: u64) -> Option<Slot> {
        let bit = |slot: &AtomicU64| u32::from(Slot::from_bits(slot.load(Ordering::Relaxed)).tag() == tag);
        let mut hits = self.0.iter().enumerate().fold(0, |hits, (place, slot)| hits | bit(slot) << place);
        while let Some(slot) = self.0.get(hits.trailing_zeros() as usize) {
            let slot = Slot::from_bits(slot.load(Ordering::Acquire));
            if slot.tag() == tag && slot.is_live() {
                return Some(slot);
            }
            hits &= hits - 1;
        }
        None
    }

    /// The slot that holds `wanted`. To publish through it, hold the shard's lock.
    fn slot(&self, wanted: Slot) -> Option<&AtomicU64> {
        self.0.iter().find(|slot| slot.load(Ordering::Relaxed) == wanted.bits())
    }
}

/// True if the line has an empty slot. Slots are used from the front of their line, so the last one usually decides.
#[inline]
fn has_empty(line: &Line) -> bool {
    line.0.iter().rev().any(|slot| slot.load(Ordering::Relaxed) == Slot::EMPTY.bits())
}

/// The pointer through which readers reach the table of a shard.
#[derive(Debug)]
pub(super) struct TableCell(AtomicPtr<Table>);

impl Default for TableCell {
    fn default() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }
}

impl TableCell {
    /// The table, for a reader.
    pub(super) fn get<'a>(&'a self, _pin: &'a Pin<'_>) -> Option<&'a Table> {
        // SAFETY: the pointer is null or came from `Box::into_raw` in `swap`. A table that is swapped out is freed only once
        // every pin from before the swap is gone (`ShardGuard::free_old`), and the result does not outlive the pin.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The table, for the holder of the shard's lock.
    ///
    /// # Safety
    ///
    /// The caller holds the shard's lock for as long as it uses the result: only the lock prevents a swap of the table.
    pub(super) unsafe fn get_locked(&self) -> Option<&Table> {
        // SAFETY: the pointer is null or a live box; by the caller's promise nobody swaps it out meanwhile.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// Publishes `new` and returns the old table, which earlier readers may still use.
    pub(super) fn swap(&self, new: Box<Table>) -> Option<OldTable> {
        let old = self.0.swap(Box::into_raw(new), Ordering::AcqRel);
        (!old.is_null()).then(|| OldTable(old))
    }
}

impl Drop for TableCell {
    fn drop(&mut self) {
        let table = *self.0.get_mut();
        if !table.is_null() {
            // SAFETY: the pointer came from `Box::into_raw`, and `&mut self` means that no reader is left.
            drop(unsafe { Box::from_raw(table) });
        }
    }
}

/// A table that was swapped out. Dropping it frees the memory.
#[derive(Debug)]
pub(super) struct OldTable(*mut Table);

// SAFETY: it owns the table it points at, and a table is `Send`.
unsafe impl Send for OldTable {}

impl OldTable {
    pub(super) fn bytes(&self) -> u64 {
        // SAFETY: the pointer is a live box until `drop`.
        unsafe { (*self.0).bytes() }
    }
}

impl Drop for OldTable {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `Box::into_raw` in `swap` and is owned by this value alone. The shard drops it only once
        // every pin from before the swap has gone.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
