//! Copies of a locked shard for an index snapshot, and back.

use super::dump::{Dump, Expiring, ShardChanges, ShardImage};
use super::shard::{DUMPED, Filled, ShardGuard, lines_for};
use super::slot::Slot;
use super::state::Changes;
use super::table::Table;
use crate::error::Result;
use crate::pins::Pins;
use crate::storage::Storage;
use alloc::vec::Vec;

impl ShardGuard<'_> {
    /// A copy for a snapshot: later changes are not part of it. With `since`, which is true for offsets of records appended after
    /// the previous snapshot, only the changes, if they take less than the whole.
    ///
    /// # Errors
    ///
    /// Those of a base that cannot be read; the next dump is of the whole shard.
    pub(crate) fn dump(&mut self, storage: &dyn Storage, since: Option<&dyn Fn(u64) -> bool>) -> Result<Dump> {
        self.set_mark(DUMPED, true);
        if self.state.is_unused() {
            return Ok(Dump::Whole(ShardImage::default()));
        }
        let whole = |shard: &mut Self| {
            let image = shard.image(storage);
            if image.is_err() {
                shard.state.changes = Changes::Unknown;
            }
            image.map(Dump::Whole)
        };
        match (core::mem::replace(&mut self.state.changes, Changes::none()), since) {
            (Changes::Known { any: false, .. }, Some(_)) => Ok(Dump::Unchanged),
            (Changes::Known { removed, .. }, Some(is_new)) => {
                // What is below the table is older than the previous snapshot.
                let added: Vec<Slot> =
                    self.table().into_iter().flat_map(Table::live).filter(|slot| is_new(slot.offset())).collect();
                if (added.len() + removed.len()) * 2 > self.len() {
                    return whole(self);
                }
                let expiring = self.expiring(is_new);
                Ok(Dump::Changes(ShardChanges { added, removed, counts: self.state.counts.clone(), expiring }))
            }
            _ => whole(self),
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
    pub(crate) fn image(&self, storage: &dyn Storage) -> Result<ShardImage> {
        let mut slots = self.table().map(Table::live_slots).unwrap_or_default();
        if let Some(table) = self.table() {
            self.add_below(storage, table, 0..Slot::TAGS, &mut slots)?;
        }
        Ok(ShardImage { slots, counts: self.state.counts.clone(), expiring: self.expiring(&|_| true) })
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
