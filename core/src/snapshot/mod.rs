//! The index snapshot: the index as it was at a checkpoint, in segments of its own, so that opening loads instead of rebuilding. Losing it
//! costs time, never data.
//!
//! ```text
//! segment header | names | shard | shard | ... | directory
//! segment header | changes of a shard | ... | directory
//! ```
//!
//! Each part is a chunk: length, checksum bound to salt and place, bytes. A checkpoint writes the parts that changed, and a directory that
//! says where all of them stand. Of a shard it writes everything, or what changed since the part before.

mod directory;
mod load;
mod merge;
mod parts;
mod write;

pub(crate) use directory::{Directory, PartPlace};
#[cfg(feature = "salvage")]
pub(crate) use load::load_names;
pub(crate) use load::{check_chunks, load, load_shard, read_directory};
pub(crate) use parts::{NamedNumber, SegmentUse};
pub(crate) use write::{SnapshotWriter, estimate};

/// Length and checksum in front of a chunk.
const CHUNK_HEADER_LEN: usize = 8;
