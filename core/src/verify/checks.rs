//! Checks of each part of a store against its checksums.

use super::VerifyReport;
use super::names::Record;
use crate::error::{Error, Result};
use crate::frame::{Header, Kind, NAMESPACE_OF_NAMES};
use crate::limits::DATA_START;
use crate::log::{
    CheckpointPlace, Front, Geometry, HEADER_COPIES, SEGMENT_HEADER_LEN, SLOT_LEN, Segment, SegmentHeader, SegmentKind,
    Superblock, SuperblockPair, TRAILER_LEN, Window, read_next, read_superblocks, stranded_in,
};
use crate::planted::{Bug, is};
use crate::scan::{Damage, Found, Stretch, scan};
use crate::snapshot::{self, ShardPlace};
use crate::storage::Storage;
use alloc::vec::Vec;

pub(crate) fn check_store(
    storage: &dyn Storage,
    pair: &SuperblockPair,
    segments: &[Segment],
    report: &mut VerifyReport,
) -> Result<()> {
    let superblock = pair.current;
    let geometry = superblock.geometry();
    for segment in segments {
        check_segment(storage, geometry, superblock.store_id, segment, report)?;
    }
    #[cfg(feature = "compress")]
    super::compressed::check_compressed(storage, &stretches_of(geometry, segments), report)?;
    if let Some(place) = superblock.checkpoint {
        check_snapshot(storage, geometry, superblock.store_id, &place, report)?;
    }
    Ok(())
}

pub(super) fn damage(report: &mut VerifyReport, offset: u64, len: u64, what: &'static str) {
    report.damage.push(Damage { offset, len, key: None, what });
}

/// Checks both superblocks, and that the bytes around them are zero.
pub(crate) fn check_front(storage: &dyn Storage, report: &mut VerifyReport) -> Result<()> {
    if let Front::Store(pair) = read_superblocks(storage)?
        && pair.other_damaged
    {
        damage(report, pair.slot.other().offset(), 512, "a superblock; the other one serves");
    }
    let holder = 2 * SLOT_LEN;
    #[cfg(feature = "encrypt")]
    if let Front::Store(pair) = read_superblocks(storage)?
        && pair.current.key_page != 0
    {
        return check_sealed_front(storage, pair.current.key_page, report);
    }
    for zeros in [512..SLOT_LEN, SLOT_LEN + 512..holder, holder + 64..DATA_START] {
        check_zeros(storage, zeros.start, zeros.end, "a byte between the superblocks that should be zero", report)?;
    }
    report.bytes_checked += 1024;
    Ok(())
}

/// The copies of the page of keys, and the zeros around them.
#[cfg(feature = "encrypt")]
fn check_sealed_front(storage: &dyn Storage, version: u64, report: &mut VerifyReport) -> Result<()> {
    let holder = 2 * SLOT_LEN;
    let (mut from, mut counts) = (512, false);
    for (place, slot) in crate::unlock::PAGE_PLACES.into_iter().zip([SLOT_LEN + 512, holder + 64, DATA_START]) {
        let behind = place + crate::unlock::PAGE_LEN as u64;
        match crate::unlock::version_at(storage, place)? {
            None => damage(report, place, crate::unlock::PAGE_LEN as u64, "a copy of the page of keys"),
            // One of another version is left by a change that was cut short.
            Some(of) => counts = counts || of == version,
        }
        let what = "a byte between the superblocks that should be zero";
        check_zeros(storage, from, place, what, report)?;
        check_zeros(storage, behind, slot.min(behind.next_multiple_of(SLOT_LEN)), what, report)?;
        from = slot;
    }
    if !counts {
        let len = crate::unlock::PAGE_LEN as u64;
        damage(
            report,
            crate::unlock::PAGE_PLACES[0],
            len,
            "the page of keys, of which no copy is the one that the superblock names",
        );
    }
    report.bytes_checked += 1024 + 3 * crate::unlock::PAGE_LEN as u64;
    Ok(())
}

/// Checks both copies of a segment header; returns the header, if one copy is valid.
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
    let copies = SegmentHeader::decode_both(bytes, store_id, start);
    let header = copies.header();
    for (copy, (at, len)) in [copies.first, copies.second].into_iter().zip(HEADER_COPIES) {
        if copy.is_none() || copy != header {
            damage(report, start + at, len, "a copy of a segment header");
        }
    }
    let [(_, first_len), (second_at, _)] = HEADER_COPIES;
    check_zeros(storage, start + first_len, start + second_at, "a byte between the copies of a segment header", report)?;
    Ok(header)
}

/// Removes damage of torn headers from the report: a crash may leave a part of a header that was being written, and that is no damage.
pub(crate) fn forgive_torn(report: &mut VerifyReport, torn: &[(u64, SegmentHeader)]) {
    let is_torn = |at: u64| torn.iter().any(|&(start, _)| (start..start + SEGMENT_HEADER_LEN as u64).contains(&at));
    report.damage.retain(|damage| !is_torn(damage.offset));
}

/// Counts the valid records after the ends of segments that are not full.
pub(crate) fn check_stranded<'a>(
    storage: &dyn Storage,
    geometry: Geometry,
    segments: impl Iterator<Item = &'a Segment>,
    report: &mut VerifyReport,
) -> Result<()> {
    for segment in segments.filter(|segment| segment.end < segment.limit(geometry)) {
        let found = stranded_in(storage, geometry, segment)?;
        report.stranded_records += found.records;
        report.stranded_bytes += found.bytes;
        report.stranded_at = report.stranded_at.or(found.at);
    }
    Ok(())
}

/// Checks both copies of the header of a known segment, and that the header belongs to it.
pub(super) fn check_header(
    storage: &dyn Storage,
    geometry: Geometry,
    store_id: [u8; 16],
    segment: &Segment,
    report: &mut VerifyReport,
) -> Result<()> {
    let header = check_headers(storage, geometry, store_id, segment.extent, report)?;
    let is_its = |header: &SegmentHeader| {
        (header.kind, header.base, header.salt, header.extents) == (SegmentKind::Log, segment.base, segment.salt, segment.extents)
    };
    if header.is_some_and(|header| !is_its(&header)) && !is(Bug::VerifyTrustsHeaders) {
        let what = "a segment header that is not the one in the list";
        damage(report, geometry.start(segment.extent), SEGMENT_HEADER_LEN as u64, what);
    }
    Ok(())
}

/// The records of a segment.
const fn stretch_of(geometry: Geometry, segment: &Segment) -> Stretch {
    Stretch { salt: segment.salt, from: segment.first_frame(geometry), to: segment.end, full: true }
}

#[cfg(feature = "compress")]
fn stretches_of(geometry: Geometry, segments: &[Segment]) -> Vec<Stretch> {
    segments.iter().map(|segment| stretch_of(geometry, segment)).collect()
}

fn check_segment(
    storage: &dyn Storage,
    geometry: Geometry,
    store_id: [u8; 16],
    segment: &Segment,
    report: &mut VerifyReport,
) -> Result<()> {
    check_header(storage, geometry, store_id, segment, report)?;
    scan(storage, stretch_of(geometry, segment), &mut |found| {
        match found {
            Found::Frame { header, .. } if header.kind.is_control() => {}
            Found::Frame { offset, header } => {
                report.records += 1;
                report.compressed += u64::from(header.is_compressed());
                check_name(storage, offset, &header, report)?;
            }
            Found::Damage(damage) => report.damage.push(damage),
        }
        Ok(())
    })?;
    if segment.linked && read_next(storage, geometry, segment)?.is_none() {
        damage(report, segment.limit(geometry), TRAILER_LEN, "the frame that names the next segment");
    }
    report.segments += 1;
    report.bytes_checked += segment.end - geometry.start(segment.extent);
    Ok(())
}

/// Checks that the segment that takes appends is zero after its last record, if its header says that it was fresh.
pub(crate) fn check_untouched(
    storage: &dyn Storage,
    superblock: &Superblock,
    segment: &Segment,
    report: &mut VerifyReport,
) -> Result<()> {
    let geometry = superblock.geometry();
    let header = SegmentHeader::read(storage, superblock.store_id, geometry.start(segment.extent))?;
    if header.is_some_and(|header| header.fresh) {
        check_zeros(
            storage,
            segment.end,
            segment.behind(geometry),
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
    let Some(place) = place.directory else { return Ok(()) };
    let mut directory = match snapshot::read_directory(storage, geometry, store_id, place) {
        Ok(directory) => directory,
        Err(Error::Corrupt { offset, what, .. }) => {
            damage(report, offset, 1, what);
            return Ok(());
        }
        // Its checksum is right, and what it names cannot be read.
        #[cfg(feature = "encrypt")]
        Err(Error::KeyNeeded) => return Ok(()),
        Err(error) => return Err(error),
    };
    let loaded = snapshot::load(storage, &mut directory);
    let decode = |(shard, parts): &(usize, Vec<ShardPlace>)| snapshot::load_shard(storage, *shard, parts).map(drop);
    let chunks = || directory.segments.iter().try_for_each(|segment| snapshot::check_chunks(storage, geometry, segment));
    match chunks().and(loaded).and_then(|_| directory.shards.iter().try_for_each(decode)) {
        Ok(()) => {}
        Err(Error::Corrupt { offset, what, .. }) => damage(report, offset, 1, what),
        Err(error) => return Err(error),
    }
    for segment in &directory.segments {
        let header = check_headers(storage, geometry, store_id, segment.extent, report)?;
        report.bytes_checked += segment.end - geometry.start(segment.extent) - SEGMENT_HEADER_LEN as u64;
        if header.is_some_and(|header| header.fresh) {
            let what = "a byte behind the index snapshot that should be zero";
            check_zeros(storage, segment.end, segment.behind(geometry), what, report)?;
        }
    }
    Ok(())
}

/// Reports a name record that opening would refuse.
pub(super) fn check_name(storage: &dyn Storage, offset: u64, header: &Header, report: &mut VerifyReport) -> Result<()> {
    let is_name =
        !header.is_sealed() && header.namespace == NAMESPACE_OF_NAMES && matches!(header.kind, Kind::Put | Kind::Tombstone);
    if is_name && Record::read(storage, offset, header)?.is_none() {
        damage(report, offset, header.frame_len() as u64, "a namespace record");
    }
    Ok(())
}
