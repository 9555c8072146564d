//! Copies of a shard for an index snapshot.

use super::slot::Slot;
use alloc::vec::Vec;

/// Records that expire, not before this time in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Expiring {
    pub(crate) from: u64,
    pub(crate) slots: Vec<Slot>,
}

fn sort(expiring: &mut [Expiring]) {
    expiring.iter_mut().for_each(|one| one.slots = Slot::sort(core::mem::take(&mut one.slots)));
}

/// A copy of a shard's content.
#[derive(Debug, Default)]
pub(crate) struct ShardImage {
    pub(crate) slots: Vec<Slot>,
    pub(crate) counts: Vec<(u32, u64)>,
    /// Those of its records that expire, as far as its calendar knows, the earliest first.
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
