//! Shards that nobody has needed since the store was opened. Opening notes what each would be built from and leaves it at that, so that
//! it takes the same time however many records there are.

use alloc::vec::Vec;

/// What a shard will be built from.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    /// Where its part of the snapshot stands; none when the snapshot has nothing of it.
    pub(crate) part: Option<u64>,
    /// Offsets of the records behind the snapshot, in the order of the log.
    pub(crate) later: Vec<u64>,
}
