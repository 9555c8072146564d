//! Figures about a store.

use super::handle::Db;
use super::store::Store;
use crate::error::Result;
use crate::log::{Log, Segment, Tail};
use crate::nested::Held;
use crate::sorted::Map;
use alloc::vec::Vec;

/// Figures about a store. All sizes are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Live records in all namespaces.
    pub records: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// Live records with their headers.
    pub live_bytes: u64,
    /// What is not live: overwritten and removed records, tombstones, padding, book-keeping, and what sessions that ended without a close
    /// have left unused. Compaction frees most of it: it leaves
    /// segments alone where that is too little for the work, and the padding behind values that fill theirs.
    pub dead_bytes: u64,
    /// Live segments of the log.
    pub segments: u64,
    /// Segments that are free for new records.
    pub free_segments: u64,
    /// Their bytes. A compaction frees about this and what is dead; those at the end of the file make it shorter.
    pub free_bytes: u64,
    /// Size of a segment.
    pub segment_size: u64,
    /// Memory that the index takes.
    pub index_bytes: u64,
    /// Log that a reopen would have to replay.
    pub replay_debt: u64,
    /// Named namespaces.
    pub namespaces: u64,
    /// Segments that compaction could not free, for they hold a damaged record that still counts: write its key again or remove it, and they
    /// go. [`Db::verify`](super::Db::verify) says where it is.
    pub damaged_segments: u64,
}

/// What one stretch of the file is used for. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SegmentUse {
    /// A segment of the log; several lengths long where a record was larger than one.
    Log {
        /// Where it begins in the file.
        offset: u64,
        /// Its length.
        len: u64,
        /// Records in it, dead ones included.
        used: u64,
        /// Of these the live ones.
        live: u64,
    },
    /// Free for new records.
    Free {
        /// Where it begins in the file.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// Holds the index snapshot, or waits until nobody reads it any more.
    Other {
        /// Where it begins in the file.
        offset: u64,
        /// Its length.
        len: u64,
    },
}

/// Bytes that the segments keep from others, and those of live records in them.
fn used_and_live(log: &Log, tail: &Tail) -> (u64, u64) {
    let active = tail.active.map(|active| (active.segment.base, active.position));
    let (mut used, mut live) = (0, 0);
    for segment in tail.segments.values() {
        // Behind the last record of a segment that a crash has ended nothing will come.
        let end = active.filter(|(base, _)| *base == segment.base);
        let end = end.map_or(segment.limit(log.geometry), |(_, position)| position);
        used += end - segment.first_frame(log.geometry);
        live += log.ledger.live(segment.extent);
    }
    (used, live)
}

impl Db {
    /// Figures about the store.
    pub fn stats(&self) -> Result<Stats> {
        self.store.seen(self.store.stats())
    }

    /// What the file is used for, front to back. As [`Db::stats`] it builds what is not built yet of the index.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) and errors of the storage, when that cannot be done.
    pub fn segments(&self) -> Result<Vec<SegmentUse>> {
        self.store.seen(self.store.segments())
    }
}

impl Store {
    pub(super) fn segments(&self) -> Result<Vec<SegmentUse>> {
        self.engine.refuse_inside(&[Held::Shard])?;
        self.engine.build_all(&|| false)?;
        let log = &self.engine.log;
        let tail = log.tail.lock();
        let by_extent = Map::collect(tail.segments.values().map(|segment| (segment.extent.into(), *segment)));
        let position = |segment: &Segment| {
            let active = tail.active.filter(|active| active.segment.base == segment.base);
            active.map_or(segment.end, |active| active.position)
        };
        let mut uses = Vec::new();
        let mut extent = 0;
        while extent < tail.space.total {
            let (offset, size) = (log.geometry.start(extent), log.geometry.size_of(extent));
            let segment = by_extent.get(extent.into());
            uses.push(match segment {
                Some(segment) => SegmentUse::Log {
                    offset,
                    len: segment.len(log.geometry),
                    used: position(segment) - segment.first_frame(log.geometry),
                    live: log.ledger.live(extent),
                },
                None if tail.space.is_free(extent) => SegmentUse::Free { offset, len: size },
                None => SegmentUse::Other { offset, len: size },
            });
            extent += segment.map_or(1, |segment| segment.extents.max(1));
        }
        Ok(uses)
    }

    pub(super) fn stats(&self) -> Result<Stats> {
        let engine = &self.engine;
        engine.refuse_inside(&[Held::Shard])?;
        engine.build_all(&|| false)?;
        let namespaces = self.names.read().list().len() as u64;
        let records = engine.index.len_all().saturating_sub(engine.count(crate::frame::NAMESPACE_OF_NAMES)?);
        let index_bytes = engine.index.bytes();
        let damaged_segments = engine.count_set_aside();
        let log = &engine.log;
        let tail = log.tail.lock();
        let (used, live) = used_and_live(log, &tail);
        Ok(Stats {
            records,
            file_bytes: log.storage.len()?,
            live_bytes: live,
            dead_bytes: used.saturating_sub(live),
            segments: tail.segments.len() as u64,
            free_segments: u64::from(tail.space.free_count()),
            free_bytes: tail.space.free_bytes(),
            segment_size: log.geometry.segment_size(),
            index_bytes,
            replay_debt: log.replay_debt(),
            namespaces,
            damaged_segments,
        })
    }
}
