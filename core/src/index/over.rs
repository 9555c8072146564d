//! A locked shard over a base: what its verbs do to the slots in the file. See `table/below.rs` for the order in which readers see it.

use super::KeyHash;
#[cfg(feature = "std")]
use super::base::{Base, BasePlace};
#[cfg(feature = "std")]
use super::dump::ShardImage;
#[cfg(feature = "std")]
use super::shard::lines_for;
use super::shard::{Filled, ShardGuard, is_full, lines_after_growth};
use super::slot::Slot;
use super::table::{Below, Table};
use crate::error::Result;
use crate::pins::Pins;
use crate::planted::{Bug, is};
use crate::storage::Storage;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

impl ShardGuard<'_> {
    /// The masked slots of a base.
    pub(super) fn masked<'a>(&'a self, below: &'a Below) -> Option<&'a Table> {
        // SAFETY: this guard holds the shard's lock, and the result borrows the guard.
        unsafe { below.masked().get_locked() }
    }

    /// [`ShardGuard::find`] among the slots below the table, which the caller has asked in vain.
    pub(crate) fn find_below<T>(
        &self,
        storage: &dyn Storage,
        hash: KeyHash,
        found: impl FnMut(u64) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        match self.table().and_then(|table| table.below.as_ref()) {
            None => Ok(None),
            Some(below) => below.find(storage, self.masked(below), hash.tag(), found).map(|(answer, _)| answer),
        }
    }

    fn below(&self) -> Option<Below> {
        self.table()?.below.clone()
    }

    /// Points a slot of the base elsewhere; false if there is none, or it counts no more.
    #[cold]
    pub(super) fn replace_below(&mut self, pins: &Pins, old: Slot, new: Slot) -> bool {
        let Some(below) = self.below() else { return false };
        if self.is_masked(&below, old) {
            return false;
        }
        // In this order: a reader may see both, and never neither.
        if is(Bug::IndexMaskedBeforePut) {
            self.mask(pins, old);
            crate::planted::dawdle();
            self.insert_slot(pins, new);
            return true;
        }
        self.insert_slot(pins, new);
        self.mask(pins, old)
    }

    fn is_masked(&self, below: &Below, slot: Slot) -> bool {
        self.masked(below).is_some_and(|masked| masked.has(slot))
    }

    /// Takes a slot of the base out; false if there is no base, or the slot counts no more.
    #[cold]
    pub(super) fn mask(&mut self, pins: &Pins, slot: Slot) -> bool {
        let Some(below) = self.below() else { return false };
        if self.is_masked(&below, slot) {
            return false;
        }
        self.enter_mask(pins, &below, slot);
        below.set_count(below.count() + 1);
        self.set_len(self.len().saturating_sub(1));
        true
    }

    /// Notes a slot that has left the table, and may be in the calendar: what is not in the table and not masked is taken for one of the base.
    pub(super) fn mask_gone(&mut self, pins: &Pins, slot: Slot) {
        if let Some(below) = self.below()
            && !self.is_masked(&below, slot)
        {
            self.enter_mask(pins, &below, slot);
        }
    }

    fn enter_mask(&mut self, pins: &Pins, below: &Below, slot: Slot) {
        let used = below.entered();
        if self.masked(below).is_none_or(|masked| is_full(used, masked.slots())) {
            let slots = self.masked(below).map(Table::live_slots).unwrap_or_default();
            let grown = Filled::new(lines_after_growth(used + 1), slots.into_iter()).table;
            if let Some(old) = below.masked().swap(Box::new(grown)) {
                self.keep_old(pins, old);
            }
        }
        if self.masked(below).and_then(|masked| masked.insert(slot)).is_some() {
            below.set_entered(used + 1);
        }
    }

    /// False if the shard certainly does not have this slot, which it once had.
    pub(crate) fn may_have(&self, slot: Slot) -> bool {
        match self.table() {
            Some(table) if table.has(slot) => true,
            Some(Table { below: Some(below), .. }) => !self.is_masked(below, slot),
            _ => false,
        }
    }

    /// Adds the slots of the base with such tags that count.
    pub(super) fn add_below(&self, storage: &dyn Storage, table: &Table, tags: Range<u64>, slots: &mut Vec<Slot>) -> Result<()> {
        match &table.below {
            None => Ok(()),
            Some(below) if slots.is_empty() => {
                *slots = below.between(storage, self.masked(below), tags)?;
                Ok(())
            }
            Some(below) => {
                slots.append(&mut below.between(storage, self.masked(below), tags)?);
                Ok(())
            }
        }
    }

    /// Bytes of memory of what is below the table.
    pub(super) fn bytes_below(&self) -> u64 {
        let of = |below: &Below| below.memory_bytes() + self.masked(below).map_or(0, Table::bytes);
        self.table().and_then(|table| table.below.as_ref()).map_or(0, of)
    }
}

#[cfg(feature = "std")]
impl ShardGuard<'_> {
    /// The place of the base.
    pub(crate) fn base_place(&self) -> Option<BasePlace> {
        Some(self.table()?.below.as_ref()?.place())
    }

    /// Of these slots of a base those that are not masked; false if it is not the base of the shard any more.
    pub(crate) fn retain_counting(&self, base: BasePlace, slots: &mut Vec<Slot>) -> bool {
        let Some(below) = self.table().and_then(|table| table.below.as_ref()).filter(|below| below.place() == base) else {
            return false;
        };
        slots.retain(|slot| !self.is_masked(below, *slot));
        true
    }

    /// Bytes of the base in the file.
    pub(crate) fn base_bytes(&self) -> u64 {
        self.table().and_then(|table| table.below.as_ref()).map_or(0, Below::file_bytes)
    }

    /// Bytes of memory of what is newer than the base: the next whole part takes its place.
    pub(crate) fn newer_bytes(&self) -> u64 {
        let masked = |below: &Below| self.masked(below).map_or(0, Table::bytes);
        self.table().map_or(0, |table| table.bytes() + table.below.as_ref().map_or(0, masked))
    }

    /// True when it holds this slot in memory.
    pub(crate) fn has_in_memory(&self, slot: Slot) -> bool {
        self.table().is_some_and(|table| table.has(slot))
    }

    /// Replaces the content of the shard by what the log has, which no snapshot has. The calendar stays, with what the copy adds to it.
    pub(crate) fn load_anew(&mut self, pins: &Pins, mut image: ShardImage) {
        let expiring = core::mem::take(&mut image.expiring);
        self.load(pins, image);
        self.forget_changes();
        for (from, slot) in expiring.iter().flat_map(|one| one.slots.iter().map(|slot| (one.from, *slot))) {
            self.expires(slot, from);
        }
    }

    /// Replaces the content of the shard by a copy, whose slots are sorted, of which only what differs from a base is kept in memory. `slots`
    /// are those of the base.
    pub(crate) fn load_over(&mut self, pins: &Pins, image: ShardImage, base: Base, slots: &[Slot]) {
        self.set_counts(image.counts);
        self.put_over(pins, &image.slots, base, slots);
    }

    /// Puts another base below the shard, which keeps its content. `slots` are those of the base; `None` for a shard that is in memory as a
    /// whole from now on.
    ///
    /// # Errors
    ///
    /// Those of the base before, if it cannot be read; then it stays.
    pub(crate) fn rebase(&mut self, storage: &dyn Storage, pins: &Pins, base: Option<(Base, Vec<Slot>)>) -> Result<()> {
        let now = self.slots(storage)?;
        match base {
            Some((base, slots)) => self.put_over(pins, &Slot::sort(now), base, &slots),
            None => self.put(pins, Filled::new(lines_for(now.len()), now.into_iter())),
        }
        Ok(())
    }

    fn put_over(&mut self, pins: &Pins, now: &[Slot], base: Base, slots: &[Slot]) {
        let (added, masked) = (without(now, slots), without(slots, now));
        let mut filled = Filled::new(if added.is_empty() { 1 } else { lines_for(added.len()) }, added.into_iter());
        let masks = Filled::new(if masked.is_empty() { 1 } else { lines_for(masked.len()) }, masked.iter().copied()).table;
        filled.table.below = Some(Below::new(base, masks, masked.len()));
        self.put(pins, filled);
    }
}

/// Those slots that are not among `others`. Both are sorted.
#[cfg(feature = "std")]
fn without(slots: &[Slot], others: &[Slot]) -> Vec<Slot> {
    let mut others = others.iter().peekable();
    let mut is_other = |slot: &Slot| {
        while others.next_if(|other| *other < slot).is_some() {}
        others.next_if_eq(&slot).is_some()
    };
    slots.iter().copied().filter(|slot| !is_other(slot)).collect()
}
