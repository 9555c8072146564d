//! Salt, log position, live and dead bytes of every extent of the file, readable without a lock while the file grows.

use super::{Geometry, Segment};
use crate::sync::{AtomicU64, Ordering};
use alloc::boxed::Box;
use once_cell::race::OnceBox;

/// Entries of the first chunk, enough for a store of a few records; each further chunk doubles the total.
const FIRST_CHUNK: u32 = 8;
/// Enough for a file of the longest length in segments of the smallest size.
const CHUNKS: usize = 29;

#[derive(Debug, Default)]
struct Entry {
    salt: AtomicU64,
    /// Log position of the extent's first byte.
    lsn: AtomicU64,
    /// Number of records in the segment that begins at this extent that only notes for snapshots point at.
    noted: AtomicU64,
    /// Bytes of live records whose segment begins at this extent.
    live: AtomicU64,
    /// The part of `live` that was added or removed in shards that the running dump of the index had already copied.
    late: AtomicU64,
    /// Bytes of tombstones in the segment that begins at this extent.
    tombstones: AtomicU64,
    /// Number of records in the sealed segment that begins at this extent, if this session has begun it. Of a follower: how many slots of its index
    /// point into the segment.
    records: AtomicU64,
    /// First extent of the segment that this extent belongs to.
    head: AtomicU64,
}

/// Salt and live bytes by extent.
#[derive(Debug, Default)]
pub(crate) struct SegmentStats {
    chunks: [OnceBox<Box<[Entry]>>; CHUNKS],
}

impl SegmentStats {
    fn place(extent: u32) -> (usize, usize) {
        let chunk = (u64::from(extent / FIRST_CHUNK) + 1).ilog2();
        let before = FIRST_CHUNK as u64 * ((1u64 << chunk) - 1);
        (chunk as usize, (u64::from(extent) - before) as usize)
    }

    #[inline]
    fn entry(&self, extent: u32) -> Option<&Entry> {
        let (chunk, index) = Self::place(extent);
        self.chunks.get(chunk)?.get()?.get(index)
    }

    fn entry_or_create(&self, extent: u32) -> Option<&Entry> {
        let (chunk, index) = Self::place(extent);
        self.chunks
            .get(chunk)?
            .get_or_init(|| {
                let len = (FIRST_CHUNK as usize) << chunk;
                Box::new((0..len).map(|_| Entry::default()).collect())
            })
            .get(index)
    }

    /// Adds a segment: all its extents get its salt and log positions, and point at its first one.
    pub(crate) fn enter(&self, geometry: Geometry, segment: &Segment) {
        let Segment { extent, extents, base, salt, .. } = *segment;
        for index in extent..extent.saturating_add(extents) {
            if let Some(entry) = self.entry_or_create(index) {
                entry.head.store(u64::from(extent), Ordering::Relaxed);
                entry.lsn.store(base + geometry.len_of(extent, index - extent), Ordering::Relaxed);
                entry.live.store(0, Ordering::Relaxed);
                entry.tombstones.store(0, Ordering::Relaxed);
                #[cfg(feature = "followers")]
                entry.records.store(0, Ordering::Relaxed);
                entry.salt.store(salt, Ordering::Release);
            }
        }
    }

    /// Takes over what another one knows of the same file. The salts last: they count only once all else is there.
    pub(crate) fn adopt(&self, other: &Self) {
        for (chunk, entries) in other.chunks.iter().enumerate().filter_map(|(chunk, place)| Some((chunk, place.get()?))) {
            let before = u64::from(FIRST_CHUNK) * ((1u64 << chunk) - 1);
            for (extent, theirs) in (before..).zip(entries.iter()) {
                let Some(own) = u32::try_from(extent).ok().and_then(|extent| self.entry_or_create(extent)) else { continue };
                let fields = [
                    (&own.head, &theirs.head),
                    (&own.lsn, &theirs.lsn),
                    (&own.live, &theirs.live),
                    (&own.tombstones, &theirs.tombstones),
                    (&own.records, &theirs.records),
                    (&own.salt, &theirs.salt),
                ];
                fields.into_iter().for_each(|(own, theirs)| own.store(theirs.load(Ordering::Acquire), Ordering::Release));
            }
        }
    }

    /// Log position of the first byte of the extent. The caller keeps its segment from being reused.
    #[inline]
    pub(crate) fn lsn(&self, extent: u32) -> u64 {
        self.entry(extent).map_or(0, |entry| entry.lsn.load(Ordering::Relaxed))
    }

    /// A note for a snapshot points at a record in the segment of `extent` that the index no longer has.
    pub(crate) fn add_note(&self, extent: u32) {
        if let Some(entry) = self.entry(self.head(extent)) {
            entry.noted.fetch_add(1, Ordering::AcqRel);
        }
    }

    pub(crate) fn drop_note(&self, extent: u32) {
        if let Some(entry) = self.entry(self.head(extent)) {
            entry.noted.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Number of records that notes for snapshots point at, in the segment that begins at `extent`.
    pub(crate) fn noted(&self, extent: u32) -> u64 {
        self.entry(extent).map_or(0, |entry| entry.noted.load(Ordering::Acquire))
    }

    /// The salt of the segment that the extent belongs to; zero without one, under which no frame is valid.
    #[inline]
    pub(crate) fn salt(&self, extent: u32) -> u64 {
        self.entry(extent).map_or(0, |entry| entry.salt.load(Ordering::Acquire))
    }

    /// First extent of the segment that `extent` belongs to.
    pub(crate) fn head(&self, extent: u32) -> u32 {
        self.entry(extent).map_or(extent, |entry| entry.head.load(Ordering::Relaxed) as u32)
    }

    /// Adds `change` to the live bytes of the segment of `extent`; `late` if the running dump has already copied the record's shard.
    pub(crate) fn change_live(&self, extent: u32, change: i64, late: bool) {
        if let Some(entry) = self.entry(self.head(extent)) {
            entry.live.fetch_add(change as u64, Ordering::Relaxed);
            if late {
                entry.late.fetch_add(change as u64, Ordering::Relaxed);
            }
        }
    }

    /// Counts live bytes; merges consecutive changes to one segment.
    pub(crate) const fn tally(&self) -> Tally<'_> {
        Tally { segment_stats: self, extent: 0, live: 0, late: 0 }
    }

    /// Counts a tombstone of `len` bytes appended to the segment of `extent`.
    pub(crate) fn add_tombstone(&self, extent: u32, len: u64) {
        if let Some(entry) = self.entry(self.head(extent)) {
            entry.tombstones.fetch_add(len, Ordering::Relaxed);
        }
    }

    /// Bytes of tombstones in the segment that begins at `extent`.
    pub(crate) fn tombstones(&self, extent: u32) -> u64 {
        self.entry(extent).map_or(0, |entry| entry.tombstones.load(Ordering::Relaxed))
    }

    /// Number of records in the sealed segment that begins at `extent`; 0 if it is not known, as in builds without followers.
    pub(crate) fn records(&self, extent: u32) -> u64 {
        if cfg!(feature = "followers") { self.entry(extent).map_or(0, |entry| entry.records.load(Ordering::Relaxed)) } else { 0 }
    }

    pub(crate) fn set_records(&self, extent: u32, records: u64) {
        if cfg!(feature = "followers")
            && let Some(entry) = self.entry(extent)
        {
            entry.records.store(records, Ordering::Relaxed);
        }
    }

    /// Number of slots of a follower's index that point into the segment that begins at `extent`.
    pub(crate) fn slots(&self, extent: u32) -> u64 {
        self.records(extent)
    }

    /// A follower's index has a slot more, or less, that points into the segment of `extent`. The caller holds its shard.
    pub(crate) fn change_slots(&self, extent: u32, change: i64) {
        if cfg!(feature = "followers")
            && let Some(entry) = self.entry(self.head(extent))
        {
            entry.records.fetch_add(change as u64, Ordering::Relaxed);
        }
    }

    /// Begins to count the slots of a follower's index anew.
    pub(crate) fn forget_slots(&self) {
        for entry in self.chunks.iter().filter_map(OnceBox::get).flat_map(|chunk| chunk.iter()) {
            entry.records.store(0, Ordering::Relaxed);
        }
    }

    /// Begins a dump of the index.
    pub(crate) fn clear_late(&self) {
        for entry in self.chunks.iter().filter_map(OnceBox::get).flat_map(|chunk| chunk.iter()) {
            entry.late.store(0, Ordering::Relaxed);
        }
    }

    /// Live bytes of the segment that begins at `extent`, as of the dump of the index. All shards must be locked.
    pub(crate) fn live_at_dump(&self, extent: u32) -> u64 {
        self.entry(extent).map_or(0, |entry| {
            let bytes = entry.live.load(Ordering::Relaxed).wrapping_sub(entry.late.load(Ordering::Relaxed));
            (bytes as i64).max(0) as u64
        })
    }

    /// Bytes of live records of the segment that begins at `extent`.
    ///
    /// One thread can replace a record before another has counted it, so the sum may drop below zero for a moment.
    pub(crate) fn live(&self, extent: u32) -> u64 {
        self.entry(extent).map_or(0, |entry| (entry.live.load(Ordering::Relaxed) as i64).max(0) as u64)
    }

    /// Sets the figures of the segment that begins at `extent`, from a snapshot.
    pub(crate) fn set(&self, extent: u32, live: u64, tombstones: u64) {
        if let Some(entry) = self.entry_or_create(extent) {
            entry.live.store(live, Ordering::Relaxed);
            entry.tombstones.store(tombstones, Ordering::Relaxed);
        }
    }
}

/// Changes of live bytes that have not been counted yet; dropping it counts the rest. An atomic change of the shared counter
/// waits for all earlier writes to reach memory, so one per record would cost as much as the rest of publishing it.
///
/// Must be dropped before the shards that the records are in are unlocked.
pub(crate) struct Tally<'a> {
    segment_stats: &'a SegmentStats,
    extent: u32,
    live: i64,
    late: i64,
}

impl Tally<'_> {
    /// As [`SegmentStats::change_live`].
    pub(crate) fn add(&mut self, extent: u32, change: i64, late: bool) {
        if extent != self.extent {
            self.settle();
            self.extent = extent;
        }
        self.live += change;
        self.late += if late { change } else { 0 };
    }

    fn settle(&mut self) {
        let (live, late) = (core::mem::take(&mut self.live), core::mem::take(&mut self.late));
        if live != late {
            self.segment_stats.change_live(self.extent, live - late, false);
        }
        if late != 0 {
            self.segment_stats.change_live(self.extent, late, true);
        }
    }
}

impl Drop for Tally<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn every_extent_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for extent in 0..10_000 {
            assert_eq!(SegmentStats::place(extent), expected);
            expected.1 += 1;
            if expected.1 == (FIRST_CHUNK as usize) << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(SegmentStats::place(u32::MAX / 4).0 < CHUNKS);
    }

    #[test]
    fn live_bytes_of_a_run_are_counted_at_its_head() {
        let (segment_stats, geometry) = (SegmentStats::default(), Geometry::new(4096, 4096));
        let segment = Segment { base: 1 << 20, extent: 62, extents: 4, end: 0, salt: 9, linked: false };
        segment_stats.enter(geometry, &segment);
        segment_stats.change_live(65, 100, false);
        segment_stats.change_live(62, 10, true);
        assert_eq!((segment_stats.live(62), segment_stats.live_at_dump(62)), (110, 100));
        assert_eq!((segment_stats.salt(64), segment_stats.salt(66)), (9, 0));
        assert_eq!((segment_stats.lsn(62), segment_stats.lsn(65)), (1 << 20, (1 << 20) + 3 * 4096));
        segment_stats.add_note(65);
        assert_eq!(segment_stats.noted(62), 1);
        segment_stats.drop_note(63);
        assert_eq!(segment_stats.noted(62), 0);
    }

    #[test]
    fn a_tally_counts_what_changes_one_by_one_would() {
        let (segment_stats, geometry) = (SegmentStats::default(), Geometry::new(4096, 4096));
        for extent in 0..3 {
            let segment = Segment { base: 1 << 20, extent, extents: 1, end: 0, salt: 9, linked: false };
            segment_stats.enter(geometry, &segment);
        }
        let mut tally = segment_stats.tally();
        for (extent, change, late) in
            [(0, 100, false), (0, 30, true), (0, -40, false), (1, 7, true), (2, 50, true), (2, -10, true)]
        {
            tally.add(extent, change, late);
        }
        drop(tally);
        let figures = |extent| (segment_stats.live(extent), segment_stats.live_at_dump(extent));
        assert_eq!([figures(0), figures(1), figures(2)], [(90, 60), (7, 0), (40, 0)]);
    }
}
