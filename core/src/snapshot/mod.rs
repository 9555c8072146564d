//! The index snapshot: the index table as it was at a checkpoint, in a segment of its own, so that opening loads instead of
//! rebuilding. Losing it costs time, never data.
//!
//! ```text
//! segment header | names | shard | shard | ... | use of segments
//! ```
//!
//! Each part is a chunk: length, checksum bound to salt and place, bytes.

mod load;
mod parts;
mod write;

#[cfg(feature = "salvage")]
pub(crate) use load::load_names;
pub(crate) use load::{load, load_shard};
pub(crate) use parts::SegmentUse;
pub(crate) use write::{SnapshotWriter, estimate};

/// Length and checksum in front of a chunk.
const CHUNK_HEADER_LEN: usize = 8;
