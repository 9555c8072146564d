//! `verify`: every byte that counts against its checksum.

use super::store::Store;
use crate::error::{Error, Result};
use crate::limits::DATA_START;
use crate::log::{
    CheckpointPlace, Front, Geometry, SEGMENT_HEADER_LEN, SLOT_LEN, Segment, SegmentHeader, Superblock, SuperblockPair, Window,
    read_superblocks,
};
use crate::recover::Chain;
#[cfg(feature = "salvage")]
use crate::salvage::survey_report;
use crate::scan::{Damage, Found, Stretch, scan};
use crate::storage::Storage;
use alloc::vec::Vec;

/// What verifying found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Records that check, dead ones and tombstones included.
    pub records: u64,
    /// Bytes that were looked at.
    pub bytes_checked: u64,
    /// Segments of the log.
    pub segments: u64,
    /// Everything that does not check.
    pub damage: Vec<Damage>,
}

impl VerifyReport {
    /// True when everything checks.
    pub fn is_ok(&self) -> bool {
        self.damage.is_empty()
    }
}

impl Store {
    pub(super) fn verify(&self) -> Result<VerifyReport> {
        let log = &self.engine.log;
        // No superblock, snapshot or segment changes its place meanwhile; records may still be appended behind what is looked at.
        let _maintenance = self.maintenance.lock();
        let (segments, active) = {
            let tail = log.tail.lock();
            let segments: Vec<Segment> = tail.segments.values().copied().collect();
            (segments, tail.active)
        };
        let position =
            |segment: &Segment| active.filter(|active| active.segment.order == segment.order).map(|active| active.position);
        let ends = segments.iter().map(|segment| Segment { end: position(segment).unwrap_or(segment.end), ..*segment });
        let mut report = VerifyReport::default();
        // The first write of a session writes a superblock: not while they are looked at.
        let pair = {
            let pair = log.superblocks.lock();
            check_front(&*log.storage, &mut report)?;
            *pair
        };
        check_store(&*log.storage, &pair, &ends.collect::<Vec<_>>(), &mut report)?;
        if log.is_poisoned() {
            // A write that failed half way may have left the other superblock torn, and bytes behind the end of the log.
            report.damage.retain(|damage| damage.offset != pair.slot.other().offset());
            return Ok(report);
        }
        let tail = log.tail.lock();
        forgive_torn(&mut report, &tail.torn_headers);
        if let Some(active) = tail.active {
            let segment = Segment { end: active.position, ..active.segment };
            check_untouched(&*log.storage, &pair.current, &segment, &mut report)?;
        }
        Ok(report)
    }
}

fn check_store(storage: &dyn Storage, pair: &SuperblockPair, segments: &[Segment], report: &mut VerifyReport) -> Result<()> {
    let superblock = pair.current;
    let geometry = Geometry::new(superblock.segment_size);
    for segment in segments {
        check_segment(storage, geometry, superblock.store_id, segment, report)?;
    }
    if let Some(place) = superblock.checkpoint {
        check_snapshot(storage, geometry, superblock.store_id, &place, report)?;
    }
    Ok(())
}

fn damage(report: &mut VerifyReport, offset: u64, len: u64, what: &'static str) {
    report.damage.push(Damage { offset, len, key: None, what });
}

/// Both superblocks, and the bytes around them that must be zero.
fn check_front(storage: &dyn Storage, report: &mut VerifyReport) -> Result<()> {
    if let Front::Store(pair) = read_superblocks(storage)?
        && pair.other_damaged
    {
        damage(report, pair.slot.other().offset(), 512, "a superblock; the other one serves");
    }
    let holder = 2 * SLOT_LEN;
    for zeros in [512..SLOT_LEN, SLOT_LEN + 512..holder, holder + 64..DATA_START] {
        check_zeros(storage, zeros.start, zeros.end, "a byte between the superblocks that should be zero", report)?;
    }
    report.bytes_checked += 1024;
    Ok(())
}

/// Both copies of a segment header; the header, if one checks.
fn check_headers(
    storage: &dyn Storage,
    geometry: Geometry,
    store_id: [u8; 16],
    extent: u32,
    report: &mut VerifyReport,
) -> Result<Option<SegmentHeader>> {
    let start = geometry.start(extent);
    let mut window = Window::new(storage, start + SEGMENT_HEADER_LEN as u64);
    let Some(bytes) = window.bytes(start, SEGMENT_HEADER_LEN)?.first_chunk() else {
        return Ok(None);
    };
    let (first, second) = SegmentHeader::decode_both(bytes, store_id, start);
    for (copy, offset) in [(first, start), (second, start + SEGMENT_HEADER_LEN as u64 / 2)] {
        if copy.is_none() {
            damage(report, offset, SEGMENT_HEADER_LEN as u64 / 2, "a copy of a segment header");
        }
    }
    Ok(first.or(second))
}

/// A crash may leave one copy of a header that it met on its way to the medium: what a crash does is no damage.
fn forgive_torn(report: &mut VerifyReport, torn: &[(u64, SegmentHeader)]) {
    let is_torn = |at: u64| torn.iter().any(|&(start, _)| (start..start + SEGMENT_HEADER_LEN as u64).contains(&at));
    report.damage.retain(|damage| !is_torn(damage.offset));
}

fn check_segment(
    storage: &dyn Storage,
    geometry: Geometry,
    store_id: [u8; 16],
    segment: &Segment,
    report: &mut VerifyReport,
) -> Result<()> {
    check_headers(storage, geometry, store_id, segment.extent, report)?;
    let stretch = Stretch { salt: segment.salt, from: segment.first_frame(geometry), to: segment.end, full: true };
    scan(storage, stretch, &mut |found| {
        match found {
            Found::Frame { header, .. } if !header.kind.is_control() => report.records += 1,
            Found::Frame { .. } => {}
            Found::Damage(damage) => report.damage.push(damage),
        }
        Ok(())
    })?;
    report.segments += 1;
    report.bytes_checked += segment.end - geometry.start(segment.extent);
    Ok(())
}

/// What stands behind the last record of the segment that takes appends has never been written.
fn check_untouched(storage: &dyn Storage, superblock: &Superblock, segment: &Segment, report: &mut VerifyReport) -> Result<()> {
    let geometry = Geometry::new(superblock.segment_size);
    let header = SegmentHeader::read(storage, superblock.store_id, geometry.start(segment.extent))?;
    if header.is_some_and(|header| header.fresh) {
        check_zeros(
            storage,
            segment.end,
            segment.limit(geometry),
            "a byte behind the end of the log that should be zero",
            report,
        )?;
    }
    Ok(())
}

fn check_zeros(storage: &dyn Storage, from: u64, to: u64, what: &'static str, report: &mut VerifyReport) -> Result<()> {
    let to = to.min(storage.len()?);
    let mut window = Window::new(storage, to);
    let mut position = from;
    while position < to {
        let len = (64 * 1024).min(to - position);
        if let Some(at) = window.bytes(position, len as usize)?.iter().position(|&byte| byte != 0) {
            damage(report, position + at as u64, 1, what);
            return Ok(());
        }
        position += len;
    }
    report.bytes_checked += to.saturating_sub(from);
    Ok(())
}

fn check_snapshot(
    storage: &dyn Storage,
    geometry: Geometry,
    store_id: [u8; 16],
    place: &CheckpointPlace,
    report: &mut VerifyReport,
) -> Result<()> {
    if place.snapshot_offset == 0 {
        return Ok(());
    }
    let header = check_headers(storage, geometry, store_id, geometry.extent_of(place.snapshot_offset), report)?;
    let loaded = crate::snapshot::load(storage, place.snapshot_offset, place.snapshot_len, place.snapshot_salt);
    let decode = |part| crate::snapshot::load_shard(storage, part, place.snapshot_salt).map(drop);
    match loaded.and_then(|loaded| loaded.shards.into_iter().try_for_each(|(_, part)| decode(part))) {
        Ok(()) => {}
        Err(Error::Corrupt { offset, what }) => damage(report, offset, 1, what),
        Err(error) => return Err(error),
    }
    report.bytes_checked += place.snapshot_len;
    if header.is_some_and(|header| header.fresh) {
        let end = place.snapshot_offset + SEGMENT_HEADER_LEN as u64 + place.snapshot_len;
        let limit = geometry.start(geometry.extent_of(end - 1) + 1);
        check_zeros(storage, end, limit, "a byte behind the index snapshot that should be zero", report)?;
    }
    Ok(())
}

/// Verifies a store that is not open, and may not open at all. Never changes it.
///
/// # Errors
///
/// [`Error::NotAStore`], [`Error::NewerVersion`], and errors of the storage. Damage is no error: it is in the report.
pub fn verify_storage(storage: &dyn Storage) -> Result<VerifyReport> {
    let pair = match read_superblocks(storage)? {
        Front::Store(pair) => pair,
        Front::Blank => {
            return Err(Error::NotAStore { detail: "it is empty" });
        }
    };
    match Chain::follow(storage, &pair) {
        Ok(chain) => {
            let segments = chain.live_segments();
            let mut report = VerifyReport::default();
            check_front(storage, &mut report)?;
            check_store(storage, &pair, &segments, &mut report)?;
            forgive_torn(&mut report, &chain.torn_headers);
            if let Some(last) = segments.last().filter(|_| chain.clean && !pair.current.torn_end) {
                check_untouched(storage, &pair.current, last, &mut report)?;
            }
            Ok(report)
        }
        Err(Error::Corrupt { offset, what }) => {
            #[cfg(feature = "salvage")]
            let mut report = survey_report(storage, &pair)?;
            #[cfg(not(feature = "salvage"))]
            let mut report = VerifyReport::default();
            check_front(storage, &mut report)?;
            if report.damage.is_empty() {
                damage(&mut report, offset, 1, what);
            }
            Ok(report)
        }
        Err(error) => Err(error),
    }
}
