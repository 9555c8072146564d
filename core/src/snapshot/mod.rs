//! The index snapshot: the index as of a checkpoint, in separate segments, so that opening loads it instead of rebuilding it. Losing it
//! costs time, never data.
//!
//! ```text
//! segment header | names | shard | shard | ... | directory
//! segment header | changes of a shard | ... | directory
//! ```
//!
//! Each part is a chunk: length, checksum bound to salt and offset, bytes. A checkpoint writes the parts that changed, and a directory
//! with the places of all parts. Of a shard it writes everything, or what changed since the previous part; beside it, if records of it expire, the
//! calendar of these.

mod directory;
mod load;
mod merge;
mod parts;
#[cfg(feature = "encrypt")]
mod sealed;
mod write;

#[cfg(feature = "events")]
pub(crate) use directory::EventParts;
#[cfg(any(feature = "std", feature = "events", feature = "ordered"))]
pub(crate) use directory::PartPlace;
pub(crate) use directory::{Directory, ShardPlace};
#[cfg(feature = "ordered")]
pub(crate) use directory::{OrderPart, OrderParts};
#[cfg(feature = "std")]
pub(crate) use load::load_base;
#[cfg(feature = "salvage")]
pub(crate) use load::load_names;
#[cfg(any(feature = "events", feature = "ordered"))]
pub(crate) use load::read_part;
pub(crate) use load::{check_chunks, load, load_shard, read_directory};
#[cfg(feature = "ordered")]
pub(crate) use parts::decode_order;
pub(crate) use parts::{NamedNumber, SegmentUse};
#[cfg(feature = "events")]
pub(crate) use parts::{Reader, put, put_long};
pub(crate) use write::{SnapshotWriter, estimate};

/// Bytes of length and checksum before a chunk.
const CHUNK_HEADER_LEN: usize = 8;
