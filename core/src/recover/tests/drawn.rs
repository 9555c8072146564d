//! Files drawn by hand: headers, frames and trailers wherever a test wants them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::forged_header;
use crate::Error;
use crate::frame::{FrameSpec, Kind, Mark, Meta, Next};
use crate::log::{
    CheckpointPlace, Figures, Geometry, Segment, SegmentHeader, SegmentList, Superblock, SuperblockPair, SuperblockSlot,
};
use crate::recover::Chain;
use crate::storage::MemoryStorage;
use alloc::vec;
use alloc::vec::Vec;

pub(super) const ID: [u8; 16] = [3; 16];
/// Where the log begins.
pub(super) const BASE: u64 = 16_384;
/// Length in bytes of a record with a key of one byte and no value.
pub(super) const RECORD: u64 = 8;

pub(super) const GEOMETRY: Geometry = Geometry::new(4096, 4096);

/// The file, and what its superblocks say.
pub(super) struct Drawn {
    pub(super) bytes: Vec<u8>,
    pub(super) pair: SuperblockPair,
}

/// The header of a segment of session 1, one extent long, behind `before`, where that ends now.
pub(super) fn header(base: u64, salt: u64, before: Option<&Segment>) -> SegmentHeader {
    let previous = before.map_or((0, 0, 0), |before| (before.base, before.salt, before.end));
    SegmentHeader { salt, synced: 0, number: 1, ..forged_header(base, previous, 1) }
}

/// A record with this key.
pub(super) fn record(key: &str) -> FrameSpec<'_> {
    FrameSpec { kind: Kind::Put, continues: false, meta: Meta::plain(0), key: key.as_bytes(), value: &[] }
}

/// A record behind which its commit goes on.
pub(super) fn open(key: &str) -> FrameSpec<'_> {
    FrameSpec { continues: true, ..record(key) }
}

/// A file of eight extents, in whose first one is a segment with these frames.
pub(super) fn first_of(frames: &[FrameSpec<'_>]) -> (Drawn, Segment) {
    let mut file = Drawn::new(8);
    let mut first = file.segment(0, header(BASE, 1, None));
    for spec in frames {
        file.append(&mut first, spec);
    }
    (file, first)
}

impl Drawn {
    /// A file of so many extents of 4096 bytes without a segment, in session 1.
    pub(super) fn new(extents: u32) -> Self {
        let current = Superblock { session: 1, headers: 1, ..Superblock::first(4096, ID, [5; 16]) };
        let pair = SuperblockPair { current, slot: SuperblockSlot::A, other_damaged: false };
        Self { bytes: vec![0; GEOMETRY.start(extents) as usize], pair }
    }

    pub(super) fn storage(&self) -> MemoryStorage {
        MemoryStorage::from_vec(self.bytes.clone())
    }

    pub(super) fn chain(&self) -> Result<Chain, Error> {
        Chain::follow(&self.storage(), &self.pair)
    }

    /// Where opening finds damage.
    pub(super) fn corrupt_at(&self) -> Option<u64> {
        match self.chain() {
            Err(Error::Corrupt { offset, .. }) => Some(offset),
            _ => None,
        }
    }

    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Begins a segment; its `end` is where the next frame goes.
    pub(super) fn segment(&mut self, extent: u32, header: SegmentHeader) -> Segment {
        let start = GEOMETRY.start(extent);
        self.put(start, &header.encode(ID, start));
        let segment = header.segment(GEOMETRY, extent);
        Segment { end: segment.first_frame(GEOMETRY), ..segment }
    }

    /// Takes the second copy of a header away, as a crash does.
    pub(super) fn tear_header(&mut self, segment: &Segment) {
        self.put(GEOMETRY.start(segment.extent) + 512, &[0; 192]);
    }

    pub(super) fn frame(&mut self, at: u64, salt: u64, spec: &FrameSpec<'_>) -> u64 {
        let mut bytes = Vec::new();
        spec.encode_into(&mut bytes, salt, at);
        self.put(at, &bytes);
        at + bytes.len() as u64
    }

    /// Appends a frame, and returns where it begins.
    pub(super) fn append(&mut self, segment: &mut Segment, spec: &FrameSpec<'_>) -> u64 {
        let at = segment.end;
        segment.end = self.frame(at, segment.salt, spec);
        at
    }

    /// Appends a mark that the log is synced up to `synced`.
    pub(super) fn mark(&mut self, segment: &mut Segment, synced: u64) {
        let value = Mark { synced, clock: 0 }.encode();
        self.append(segment, &FrameSpec::control(Kind::Mark, &value));
    }

    /// Appends a record that ends in front of `to`, and whose value is what stands there.
    pub(super) fn cover(&mut self, segment: &mut Segment, to: u64, continues: bool) {
        let value = self.bytes[segment.end as usize + 8..to as usize].to_vec();
        let spec = FrameSpec { kind: Kind::Put, continues, meta: Meta::plain(0), key: &[], value: &value };
        self.append(segment, &spec);
        assert_eq!(segment.end, to, "the value has no length of two bytes");
    }

    /// Fills a segment up.
    pub(super) fn fill(&mut self, segment: &mut Segment) {
        let limit = segment.limit(GEOMETRY);
        self.cover(segment, limit, false);
    }

    /// The trailer of `segment` names the place of `next`.
    pub(super) fn trailer(&mut self, segment: &Segment, next: &Segment) {
        let value = Next { extent: next.extent, extents: next.extents, base: next.base, salt: next.salt }.encode();
        self.frame(segment.limit(GEOMETRY), segment.salt, &FrameSpec::control(Kind::Next, &value));
    }

    /// Appends the list of these segments to the last one of them, and makes it the checkpoint.
    pub(super) fn checkpoint(&mut self, segments: &mut [Segment], change: impl Fn(&mut SegmentList)) {
        let figures = vec![Figures::default(); segments.len()];
        let mut list = SegmentList { segments: segments.to_vec(), figures, ..SegmentList::default() };
        change(&mut list);
        let last = segments.last_mut().unwrap();
        let offset = self.append(last, &FrameSpec::control(Kind::Checkpoint, &list.encode(GEOMETRY)));
        self.pair.current.checkpoint = Some(CheckpointPlace { base: last.base, salt: last.salt, offset, directory: None });
        self.pair.current.synced = last.lsn(GEOMETRY, last.end);
    }
}
