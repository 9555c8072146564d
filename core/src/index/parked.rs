//! Shards that nobody has needed since the store was opened. Opening notes what each would be built from and leaves it at that, so that
//! it takes the same time however many records there are.

use alloc::vec::Vec;

/// What a shard will be built from, beside its parts of the snapshot.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    /// Offsets of the records behind the snapshot, in the order of the log.
    pub(crate) later: Vec<u64>,
}
