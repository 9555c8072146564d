//! Segments of a sealed store whose headers are lost: what their records are sealed with.

use crate::error::Result;
use crate::log::{Segment, SegmentHeader, Superblock, keys_of};
use crate::storage::Storage;
use alloc::vec::Vec;

/// The segments that the superblock names: with the checkpoint, and the one that took appends.
fn named(superblock: &Superblock) -> Vec<Segment> {
    let geometry = superblock.geometry();
    let of = |base: u64, salt: u64, extent: u32, extents: u32| Segment { base, extent, extents, end: 0, salt, linked: false };
    let checkpoint = superblock.checkpoint.map(|place| of(place.base, place.salt, geometry.extent_of(place.offset), 1));
    let active = superblock.active;
    let active = (active.base != 0).then(|| of(active.base, active.salt, active.extent, active.extents));
    checkpoint.into_iter().chain(active).collect()
}

/// The last one that begins in front of a segment.
fn before<'a>(headers: impl Iterator<Item = &'a SegmentHeader>, segment: &Segment) -> Option<&'a SegmentHeader> {
    headers.filter(|header| header.base < segment.base).max_by_key(|header| header.base)
}

/// Makes segments readable: those whose headers have tags that fit, and those without a header that the superblock names, by the seal of the one
/// before. Most often that is of the same session, and a tag of each record says whether it is.
pub(super) fn enter(storage: &dyn Storage, superblock: &Superblock) -> Result<()> {
    let geometry = superblock.geometry();
    let Some(keys) = keys_of(storage) else { return Ok(()) };
    let mut headers = Vec::new();
    for extent in 0..geometry.extents_in(storage.len()?) {
        headers.extend(SegmentHeader::read(storage, superblock.store_id, geometry.start(extent))?);
    }
    let is_unknown = |segment: &&Segment| keys.listed_seal(segment.salt).is_none() && !keys.is_plain_from(segment.base);
    for segment in named(superblock).iter().filter(is_unknown) {
        if let Some(before) = before(headers.iter(), segment) {
            before.enter_next(keys, segment, geometry.start(segment.extent))?;
        }
    }
    Ok(())
}

/// Adds the segment that took appends, if it has lost both copies of its header.
pub(super) fn add_active(storage: &dyn Storage, superblock: &Superblock, headers: &mut Vec<(u32, SegmentHeader)>) -> Result<()> {
    let Some(keys) = keys_of(storage) else { return Ok(()) };
    let Some(active) = named(superblock).pop().filter(|active| active.base == superblock.active.base) else { return Ok(()) };
    let start = superblock.geometry().start(active.extent);
    let is_there = headers.iter().any(|(_, header)| header.salt == active.salt);
    if is_there || start >= storage.len()? || SegmentHeader::read(storage, superblock.store_id, start)?.is_some() {
        return Ok(());
    }
    let Some(&last) = before(headers.iter().map(|(_, header)| header), &active) else { return Ok(()) };
    let last = if keys.is_plain_from(active.base) { SegmentHeader { seal: None, ..last } } else { last };
    last.enter_next(keys, &active, start)?;
    let header = SegmentHeader { salt: active.salt, base: active.base, extents: active.extents, carried_over: 0, ..last };
    headers.push((active.extent, SegmentHeader { previous_base: last.base, previous_salt: last.salt, ..header }));
    Ok(())
}
