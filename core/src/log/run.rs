//! Where a segment lies: a run of adjacent extents; and where in it frames begin and end.

use super::Geometry;
use crate::frame::NEXT_LEN;

/// Bytes before the first frame: two copies of the header, and zeros between them.
pub(crate) const SEGMENT_HEADER_LEN: usize = 704;
/// Length of the trailer in bytes: kept free at the end of a segment for the frame that names the next one.
pub(crate) const TRAILER_LEN: u64 = NEXT_LEN as u64;

/// A live segment of the log: a run of adjacent extents with consecutive log positions.
///
/// A log position ("lsn") counts bytes in log order. It only ever grows, while an offset in the file comes back when an extent is
/// reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Log position of its first byte.
    pub(crate) base: u64,
    pub(crate) extent: u32,
    pub(crate) extents: u32,
    /// File offset of the end of its last frame. Out of date for the active segment: see `Active::position`.
    pub(crate) end: u64,
    pub(crate) salt: u64,
    /// Its trailer names the next segment.
    pub(crate) linked: bool,
}

impl Segment {
    /// Offset of the first frame.
    pub(crate) const fn first_frame(&self, geometry: Geometry) -> u64 {
        geometry.start(self.extent) + SEGMENT_HEADER_LEN as u64
    }

    /// File offset at which frames must end: the trailer begins there.
    pub(crate) const fn limit(&self, geometry: Geometry) -> u64 {
        self.behind(geometry) - TRAILER_LEN
    }

    /// File offset of the end of its last extent.
    pub(crate) const fn behind(&self, geometry: Geometry) -> u64 {
        geometry.start(self.extent.saturating_add(self.extents))
    }

    /// Its length in bytes, header and trailer included.
    pub(crate) const fn len(&self, geometry: Geometry) -> u64 {
        geometry.len_of(self.extent, self.extents)
    }

    /// Log position of its end: where the next segment may begin.
    pub(crate) const fn next_base(&self, geometry: Geometry) -> u64 {
        self.base + self.len(geometry)
    }

    /// The log position of `offset`, which lies in this segment.
    pub(crate) const fn lsn(&self, geometry: Geometry, offset: u64) -> u64 {
        self.base + (offset - geometry.start(self.extent))
    }
}

/// A segment that holds parts of the index snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SnapshotSegment {
    pub(crate) extent: u32,
    pub(crate) extents: u32,
    pub(crate) salt: u64,
    /// File offset of the end of its last part.
    pub(crate) end: u64,
    /// This session has reserved its space.
    pub(crate) own: bool,
}

impl SnapshotSegment {
    /// File offset of the end of its last extent.
    pub(crate) const fn behind(&self, geometry: Geometry) -> u64 {
        geometry.start(self.extent.saturating_add(self.extents))
    }

    /// Its length in bytes.
    pub(crate) const fn len(&self, geometry: Geometry) -> u64 {
        geometry.len_of(self.extent, self.extents)
    }

    /// The same segment without the extents after its last part.
    pub(crate) const fn used(self, geometry: Geometry) -> Self {
        Self { extents: geometry.extent_of(self.end - 1) + 1 - self.extent, ..self }
    }
}
