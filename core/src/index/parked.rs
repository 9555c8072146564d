//! Parked shards: not needed since the store was opened. Opening only notes what each would be built from, so that it takes the same
//! time however many records there are.

use alloc::vec::Vec;

/// What a shard will be built from, beside its parts of the snapshot.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    /// Offsets of the records after the snapshot, in log order.
    pub(crate) later: Vec<u64>,
}
