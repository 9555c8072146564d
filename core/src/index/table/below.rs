//! What lies below the table of a shard whose index is kept in the file: the base, and which of its slots do not count any more.
//!
//! A table with something below it holds the slots that are newer than the base. A slot of the base that was replaced or removed is *masked*: it
//! is entered into a second table. Only the shard's lock holder changes either, and readers take no lock:
//!
//! - Who replaces a slot of the base enters the new slot into the table first, and then masks the old one. A reader looks into the table first,
//!   and then into the base. So it may find neither only where it has looked into the table before the new slot came, and into the base after
//!   the old one was masked. It sees that: a masked slot with its tag. It looks again, and its load of the mask, which was stored with
//!   `Release`, orders the second look into the table behind the new slot, also where the table has grown and is another one by now.
//! - It looks again until it has seen as many masked slots of the tag as the time before, over the same table: then whatever replaced them was
//!   entered before that look, and is gone again.
//! - A mask is never taken back. An offset that comes again, because its segment was used again, stands in the table, which counts before the base.
//! - A new base comes with a new table (`ShardGuard::rebase`). Nobody changes the old table from then on, so that a reader who still uses it
//!   sees the state of that moment; the old base stays in the file until such readers have gone (`bases/`).

#[cfg(feature = "std")]
pub(in crate::index) use in_file::Below;
#[cfg(not(feature = "std"))]
pub(in crate::index) use nowhere::Below;

use super::Table;
use crate::error::Result;
use crate::index::Known;
use crate::index::slot::Slot;
use crate::storage::Storage;

impl Table {
    /// True when the slot is here, or counts in the base below, whose masked slots `masked` gives. Where the base has been read, one of the two tables is
    /// asked.
    pub(in crate::index) fn has_anywhere<'a>(
        &'a self,
        storage: &dyn Storage,
        slot: Slot,
        known: Known<'_>,
        masked: impl FnOnce(&'a Below) -> Option<&'a Self>,
    ) -> Result<bool> {
        let Some(below) = &self.below else { return Ok(self.has(slot)) };
        match below.is_known(known, slot) {
            Some(true) => Ok(!masked(below).is_some_and(|masked| masked.has(slot))),
            Some(false) => Ok(self.has(slot)),
            None => Ok(self.has(slot) || below.has(storage, masked(below), slot)?),
        }
    }
}

#[cfg(feature = "std")]
mod in_file {
    use crate::error::Result;
    use crate::index::Known;
    use crate::index::base::{Base, BasePlace};
    use crate::index::slot::Slot;
    use crate::index::table::{Table, TableCell};
    use crate::planted::{Bug, is};
    use crate::storage::Storage;
    use crate::sync::{AtomicU32, Ordering};
    use alloc::boxed::Box;
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use core::ops::Range;

    /// A base and its masked slots. Tables that follow each other by growth share it.
    #[derive(Clone, Debug)]
    pub(in crate::index) struct Below(Arc<Under>);

    #[derive(Debug)]
    struct Under {
        base: Base,
        masked: TableCell,
        /// Number of slots in that table. These two change under the shard's lock only.
        entered: AtomicU32,
        /// Number of those that are in the base: others were in the shard's table, and the calendar must know that they have gone.
        count: AtomicU32,
    }

    impl Below {
        pub(in crate::index) fn new(base: Base, masked: Table, count: usize) -> Self {
            let cell = TableCell::default();
            let _ = cell.swap(Box::new(masked));
            let count = || AtomicU32::new(count as u32);
            Self(Arc::new(Under { base, masked: cell, entered: count(), count: count() }))
        }

        /// The masked slots.
        pub(in crate::index) fn masked(&self) -> &TableCell {
            &self.0.masked
        }

        pub(in crate::index) fn count(&self) -> usize {
            self.0.count.load(Ordering::Relaxed) as usize
        }

        pub(in crate::index) fn set_count(&self, count: usize) {
            self.0.count.store(count as u32, Ordering::Relaxed);
        }

        pub(in crate::index) fn entered(&self) -> usize {
            self.0.entered.load(Ordering::Relaxed) as usize
        }

        pub(in crate::index) fn set_entered(&self, entered: usize) {
            self.0.entered.store(entered as u32, Ordering::Relaxed);
        }

        /// Slots of the base that count.
        pub(in crate::index) fn live(&self) -> usize {
            self.0.base.len().saturating_sub(self.count())
        }

        pub(in crate::index) fn place(&self) -> BasePlace {
            self.0.base.place()
        }

        pub(in crate::index) fn memory_bytes(&self) -> u64 {
            self.0.base.memory_bytes()
        }

        pub(in crate::index) fn place_of(&self, tag: u64) -> u64 {
            self.0.base.place_of(tag)
        }

        pub(in crate::index) fn file_bytes(&self) -> u64 {
            self.0.base.file_bytes()
        }

        /// Calls `found` with the offsets of the slots of the base with `tag` that count, until it returns a result; also returns how many
        /// masked ones it has met.
        pub(in crate::index) fn find<T>(
            &self,
            storage: &dyn Storage,
            masked: Option<&Table>,
            tag: u64,
            mut found: impl FnMut(u64) -> Result<Option<T>>,
        ) -> Result<(Option<T>, usize)> {
            let mut met = 0;
            let answer = self.0.base.find(storage, tag, |slot| {
                if masked.is_some_and(|masked| masked.has(slot)) && !is(Bug::IndexMaskIgnored) {
                    met += 1;
                    return Ok(None);
                }
                found(slot.offset())
            })?;
            Ok((answer, met))
        }

        /// True when the base has this slot, and it counts.
        pub(in crate::index) fn has(&self, storage: &dyn Storage, masked: Option<&Table>, slot: Slot) -> Result<bool> {
            if masked.is_some_and(|masked| masked.has(slot)) {
                return Ok(false);
            }
            Ok(self.0.base.find(storage, slot.tag(), |other| Ok((other == slot).then_some(())))?.is_some())
        }

        /// Whether the base has this slot, masked or not, where that has been read.
        pub(in crate::index) fn is_known(&self, known: Known<'_>, slot: Slot) -> Option<bool> {
            let (pointed, shard) = known?;
            pointed.is_in_base(shard, self.place(), slot)
        }

        /// The slots with such tags that count, in order.
        pub(in crate::index) fn between(
            &self,
            storage: &dyn Storage,
            masked: Option<&Table>,
            tags: Range<u64>,
        ) -> Result<Vec<Slot>> {
            let mut slots = self.0.base.between(storage, tags.clone())?;
            let masked = masked.filter(|_| self.entered() > 0).map_or_else(Vec::new, |masked| masked.between(tags));
            let mut masked = Slot::sort(masked).into_iter().peekable();
            slots.retain(|slot| {
                while masked.next_if(|other| other < slot).is_some() {}
                masked.next_if_eq(slot).is_none()
            });
            Ok(slots)
        }
    }
}

/// Without the standard library every index is in memory, and nothing of this is compiled.
#[cfg(not(feature = "std"))]
mod nowhere {
    use crate::error::Result;
    use crate::index::Known;
    use crate::index::slot::Slot;
    use crate::index::table::{Table, TableCell};
    use crate::storage::Storage;
    use alloc::vec::Vec;
    use core::ops::Range;

    #[derive(Clone, Debug)]
    pub(in crate::index) enum Below {}

    impl Below {
        pub(in crate::index) fn masked(&self) -> &TableCell {
            match *self {}
        }

        pub(in crate::index) fn count(&self) -> usize {
            match *self {}
        }

        pub(in crate::index) fn set_count(&self, _: usize) {
            match *self {}
        }

        pub(in crate::index) fn entered(&self) -> usize {
            match *self {}
        }

        pub(in crate::index) fn set_entered(&self, _: usize) {
            match *self {}
        }

        pub(in crate::index) fn live(&self) -> usize {
            match *self {}
        }

        pub(in crate::index) fn memory_bytes(&self) -> u64 {
            match *self {}
        }

        pub(in crate::index) fn find<T>(
            &self,
            _: &dyn Storage,
            _: Option<&Table>,
            _: u64,
            _: impl FnMut(u64) -> Result<Option<T>>,
        ) -> Result<(Option<T>, usize)> {
            match *self {}
        }

        pub(in crate::index) fn has(&self, _: &dyn Storage, _: Option<&Table>, _: Slot) -> Result<bool> {
            match *self {}
        }

        pub(in crate::index) fn is_known(&self, _: Known<'_>, _: Slot) -> Option<bool> {
            match *self {}
        }

        pub(in crate::index) fn between(&self, _: &dyn Storage, _: Option<&Table>, _: Range<u64>) -> Result<Vec<Slot>> {
            match *self {}
        }
    }
}
