//! What an engine keeps for shards whose slots stay in the file.

use crate::index::Rot;
use crate::log::SnapshotSegment;
use crate::pins::Ticket;
use crate::sync::{AtomicU64, Mutex};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What an engine keeps for shards whose slots stay in the file.
#[derive(Debug, Default)]
pub(crate) struct Bases {
    /// Most bytes of memory for what is newer than the bases; `None` where every slot is in memory.
    pub(super) newer_max: Option<u64>,
    /// Segments of earlier snapshots that bases may lie in. A shard's lock is taken under this one, never the other way round.
    pub(super) held: Mutex<Vec<Held>>,
    /// Whether slots in the file were found damaged.
    pub(crate) rot: Arc<Rot>,
    /// Shards that were built anew for that.
    pub(crate) built_anew: AtomicU64,
    /// After a failed attempt maintenance makes the next one at this log position.
    pub(crate) heal_next: AtomicU64,
}

/// A segment of an earlier snapshot.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) segment: SnapshotSegment,
    /// Set once no shard has a base there: it has passed when no reader is left that may read there.
    pub(super) ticket: Option<Ticket>,
}

impl Bases {
    pub(crate) fn new(newer_max: Option<u64>) -> Self {
        Self { newer_max, ..Self::default() }
    }
}
