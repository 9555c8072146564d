//! Copies of a shard for an index snapshot.

use super::slot::Slot;
use alloc::vec::Vec;

/// A record that expires, not before this time in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Expiring {
    pub(crate) slot: Slot,
    pub(crate) from: u64,
}

/// Sorts them, and keeps the earliest of each slot.
fn sort(expiring: &mut Vec<Expiring>) {
    expiring.sort_unstable();
    expiring.dedup_by_key(|one| one.slot);
}

/// A copy of a shard's content.
#[derive(Debug, Default)]
pub(crate) struct ShardImage {
    pub(crate) slots: Vec<Slot>,
    pub(crate) counts: Vec<(u32, u64)>,
    /// Those of its records that expire, as far as its calendar knows.
    pub(crate) expiring: Vec<Expiring>,
}

impl ShardImage {
    /// Sorts the slots by tag. Not done while the shard is locked: it takes longer than all of the rest.
    pub(crate) fn sort(&mut self) {
        self.slots = Slot::sort(core::mem::take(&mut self.slots));
        sort(&mut self.expiring);
    }
}

/// What has changed in a shard since an earlier copy.
#[derive(Debug, Default)]
pub(crate) struct ShardChanges {
    pub(crate) added: Vec<Slot>,
    pub(crate) removed: Vec<Slot>,
    /// Number of records by namespace, as of now.
    pub(crate) counts: Vec<(u32, u64)>,
    /// Those of the added ones that expire, as far as the calendar of the shard knows.
    pub(crate) expiring: Vec<Expiring>,
}

impl ShardChanges {
    /// As [`ShardImage::sort`].
    pub(crate) fn sort(&mut self) {
        for slots in [&mut self.added, &mut self.removed] {
            *slots = Slot::sort(core::mem::take(slots));
            slots.dedup();
        }
        sort(&mut self.expiring);
    }
}

/// A copy of a shard for a snapshot.
#[derive(Debug)]
pub(crate) enum Dump {
    /// The shard has not changed since the previous snapshot.
    Unchanged,
    Changes(ShardChanges),
    Whole(ShardImage),
}
