//! Queries of the log: its live segments, the space around them, and the newest superblock.

use super::{Active, CheckpointPlace, Log, Segment, Superblock, SuperblockPair, Tail};
use crate::sorted::Map;
use alloc::vec::Vec;

/// Figures of the file, all taken at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Live segments.
    pub(crate) segments: u64,
    /// Extents of the file.
    pub(crate) extents: u32,
    pub(crate) free_extents: u32,
    pub(crate) free_bytes: u64,
    /// The last extent in which a live segment begins.
    pub(crate) last_extent: u32,
    /// Bytes of records, up to the last one of each segment.
    pub(crate) written: u64,
    /// Bytes that the segments occupy: records, and, except in the active segment, the unused rest after the last record.
    pub(crate) kept: u64,
    /// Bytes of live records.
    pub(crate) live: u64,
}

/// What an extent of the file is used for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Occupant {
    /// A live segment begins there.
    Segment(Segment),
    Free,
    /// The index snapshot, or a retired segment that waits for its sync and its readers.
    Other,
}

impl Tail {
    /// The live segments, oldest first, the active one up to its last record.
    fn live(&self) -> impl Iterator<Item = Segment> + Clone + '_ {
        let active = self.active;
        self.segments.values().map(move |segment| match active {
            Some(Active { segment: Segment { base, .. }, position, .. }) if base == segment.base => {
                Segment { end: position, ..*segment }
            }
            _ => *segment,
        })
    }
}

impl Log {
    /// The live segments, oldest first, the active one up to its last record.
    pub(crate) fn segments(&self) -> Vec<Segment> {
        self.tail.lock().live().collect()
    }

    /// The same, and the base of the active one.
    pub(crate) fn segments_and_active(&self) -> (Vec<Segment>, Option<u64>) {
        let tail = self.tail.lock();
        (tail.live().collect(), tail.active.map(|active| active.segment.base))
    }

    /// Number of live segments.
    pub(crate) fn segment_count(&self) -> usize {
        self.tail.lock().segments.len()
    }

    /// The oldest live segment for which `is_passed` is false.
    pub(crate) fn oldest(&self, is_passed: &dyn Fn(&Segment) -> bool) -> Option<Segment> {
        self.tail.lock().segments.values().find(|segment| !is_passed(segment)).copied()
    }

    /// Calls `look` with the active segment, up to its end, and the headers of which a crash has left only a part.
    pub(crate) fn with_active<T>(&self, look: impl FnOnce(Option<Segment>, &[(u64, super::SegmentHeader)]) -> T) -> T {
        let tail = self.tail.lock();
        look(tail.active.map(|active| Segment { end: active.position, ..active.segment }), &tail.torn_headers)
    }

    /// True when the reserve for removals and compaction is there.
    pub(crate) fn has_reserve(&self) -> bool {
        self.tail.lock().space.has_reserve()
    }

    /// True when the session has begun to write.
    pub(crate) fn is_announced(&self) -> bool {
        self.tail.lock().announced
    }

    pub(crate) fn usage(&self) -> Usage {
        let tail = self.tail.lock();
        let active = tail.active.map(|active| active.segment.base);
        let (mut written, mut kept, mut live, mut last_extent) = (0, 0, 0, 0);
        for segment in tail.live() {
            let first = segment.first_frame(self.geometry);
            written += segment.end - first;
            kept += if active == Some(segment.base) { segment.end } else { segment.limit(self.geometry) } - first;
            live += self.segment_stats.live(segment.extent);
            last_extent = last_extent.max(segment.extent);
        }
        Usage {
            segments: tail.segments.len() as u64,
            extents: tail.space.total,
            free_extents: tail.space.free_count(),
            free_bytes: tail.space.free_bytes(),
            last_extent,
            written,
            kept,
            live,
        }
    }

    /// The use of each extent, from the front of the file to its end. A segment is listed once, at its first extent.
    pub(crate) fn layout(&self) -> Vec<(u32, Occupant)> {
        let tail = self.tail.lock();
        let by_extent = Map::collect(tail.live().map(|segment| (segment.extent.into(), segment)));
        let mut layout = Vec::new();
        let mut extent = 0;
        while extent < tail.space.total {
            let (occupant, extents) = match by_extent.get(extent.into()) {
                Some(segment) => (Occupant::Segment(*segment), segment.extents.max(1)),
                None if tail.space.is_free(extent) => (Occupant::Free, 1),
                None => (Occupant::Other, 1),
            };
            layout.push((extent, occupant));
            extent += extents;
        }
        layout
    }

    /// The newest superblock.
    pub(crate) fn superblock(&self) -> Superblock {
        self.superblocks.lock().current
    }

    /// Calls `look` with the superblocks locked: none is written meanwhile.
    pub(crate) fn with_superblocks<T>(&self, look: impl FnOnce(&SuperblockPair) -> T) -> T {
        look(&self.superblocks.lock())
    }

    /// The newest checkpoint.
    pub(crate) fn newest_checkpoint(&self) -> Option<CheckpointPlace> {
        self.superblock().checkpoint
    }

    /// The number of the next event. Only who holds the lock of appending events may rely on it.
    #[cfg(feature = "events")]
    pub(crate) fn next_event(&self) -> u64 {
        self.tail.lock().next_event.max(1)
    }

    /// An id for an event whose user has given none: no other event has it.
    #[cfg(feature = "events")]
    pub(crate) fn event_id(&self, number: u64) -> [u8; 16] {
        let generation = self.generation.load(crate::sync::Ordering::Relaxed);
        let mut bytes = [0; 32];
        bytes[..16].copy_from_slice(&self.store_id);
        bytes[16..24].copy_from_slice(&generation.to_le_bytes());
        bytes[24..].copy_from_slice(&number.to_le_bytes());
        xxhash_rust::xxh3::xxh3_128_with_seed(&bytes, self.entropy).to_le_bytes()
    }

    /// Makes the next event number higher than this one.
    #[cfg(any(feature = "salvage", feature = "events"))]
    pub(crate) fn saw_event(&self, number: u64) {
        let mut tail = self.tail.lock();
        tail.next_event = tail.next_event.max(number + 1);
    }
}
