//! Figures about a store.

use super::store::Store;
use crate::error::Result;

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
    /// What compaction could free: overwritten and removed records, tombstones, book-keeping.
    pub dead_bytes: u64,
    /// Live segments of the log.
    pub segments: u64,
    /// Segments that are free for new records.
    pub free_segments: u64,
    /// Size of a segment.
    pub segment_size: u64,
    /// Memory that the index takes.
    pub index_bytes: u64,
    /// Log that a reopen would have to replay.
    pub replay_debt: u64,
    /// Named namespaces.
    pub namespaces: u64,
}

impl Store {
    pub(super) fn stats(&self) -> Result<Stats> {
        let engine = &self.engine;
        engine.build_all(|| false)?;
        let namespaces = self.list_namespaces().len() as u64;
        let records = engine.index.len_all() - engine.count(crate::frame::NAMESPACE_OF_NAMES)?;
        let index_bytes = engine.index.bytes();
        let log = &engine.log;
        let tail = log.tail.lock();
        let active = tail.active.map(|active| (active.segment.order, active.position));
        let (mut used, mut live) = (0, 0);
        for segment in tail.segments.values() {
            let end = active.filter(|(order, _)| *order == segment.order).map_or(segment.end, |(_, position)| position);
            used += end - segment.first_frame(log.geometry);
            live += log.ledger.live(segment.extent);
        }
        Ok(Stats {
            records,
            file_bytes: log.storage.len()?,
            live_bytes: live,
            dead_bytes: used.saturating_sub(live),
            segments: tail.segments.len() as u64,
            free_segments: u64::from(tail.space.free_count()),
            segment_size: log.geometry.segment_size(),
            index_bytes,
            replay_debt: log.replay_debt(),
            namespaces,
        })
    }
}
