//! Copies of a shard for an index snapshot.

use super::slot::Slot;
use alloc::vec::Vec;

/// A copy of a shard's content.
#[derive(Debug, Default)]
pub(crate) struct ShardImage {
    pub(crate) slots: Vec<Slot>,
    pub(crate) counts: Vec<(u32, u64)>,
}

impl ShardImage {
    /// Sorts the slots by tag. Not done while the shard is locked: it takes longer than all of the rest.
    pub(crate) fn sort(&mut self) {
        self.slots = Slot::sort(core::mem::take(&mut self.slots));
    }
}

/// What has changed in a shard since an earlier copy.
#[derive(Debug, Default)]
pub(crate) struct ShardChanges {
    pub(crate) added: Vec<Slot>,
    pub(crate) removed: Vec<Slot>,
    /// Number of records by namespace, as of now.
    pub(crate) counts: Vec<(u32, u64)>,
}

impl ShardChanges {
    /// As [`ShardImage::sort`].
    pub(crate) fn sort(&mut self) {
        for slots in [&mut self.added, &mut self.removed] {
            *slots = Slot::sort(core::mem::take(slots));
            slots.dedup();
        }
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
