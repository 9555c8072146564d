//! Finding the segment headers that count.

use crate::error::Result;
use crate::log::{Geometry, Segment, SegmentHeader, SegmentKind, SegmentList, Step, SuperblockPair, Walk, read_next};
use crate::planted::{Bug, is};
use crate::sorted::Map;
use crate::storage::Storage;
use alloc::vec::Vec;

/// How far the headers of a sealed file have come; zeros in a plain one, whose headers may be parts of values.
#[cfg(feature = "encrypt")]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Noted {
    /// The highest number.
    pub(super) number: u64,
    /// The highest log position behind a segment.
    pub(super) base: u64,
}

/// Every segment header in the file, by its extent, except those inside of records, which are parts of values.
pub(crate) fn find_headers(
    storage: &dyn Storage,
    geometry: Geometry,
    store_id: [u8; 16],
    listed: &SegmentList,
) -> Result<Map<u32, SegmentHeader>> {
    let mut headers = Map::default();
    for extent in 0..geometry.extents_in(storage.len()?) {
        if let Some(header) = SegmentHeader::read(storage, store_id, geometry.start(extent))? {
            headers.insert(extent, header);
        }
    }
    for segment in listed.segments.iter().filter(|segment| segment.extents > 1) {
        drop_inside(storage, geometry, &mut headers, segment)?;
    }
    // Leftovers in free space may be such a value, too, and a header in there would be taken for evidence.
    let runs = headers.iter().filter(|(_, header)| header.extents > 1);
    let runs: Vec<Segment> = runs.map(|(extent, header)| header.segment(geometry, extent)).collect();
    for run in runs {
        if headers.contains(run.extent) {
            drop_inside(storage, geometry, &mut headers, &run)?;
        }
    }
    Ok(headers)
}

/// The headers of the tail of a closed store, found by following the trailers: one read at the end of each segment. `None` when that does
/// not lead to the end that the superblock names.
pub(super) fn headers_along(
    storage: &dyn Storage,
    geometry: Geometry,
    pair: &SuperblockPair,
    listed: &SegmentList,
) -> Result<Option<Map<u32, SegmentHeader>>> {
    let superblock = pair.current;
    let (Some(end), Some(&last)) = (superblock.clean_end, listed.segments.last()) else { return Ok(None) };
    if pair.other_damaged || superblock.torn_end {
        return Ok(None);
    }
    let mut headers = Map::default();
    let mut segment = last;
    loop {
        let Some(header) = SegmentHeader::read(storage, superblock.store_id, geometry.start(segment.extent))? else {
            return Ok(None);
        };
        let fits = (header.kind, header.base, header.salt, header.extents)
            == (SegmentKind::Log, segment.base, segment.salt, segment.extents);
        if !fits || headers.contains(segment.extent) {
            return Ok(None);
        }
        headers.insert(segment.extent, header);
        let limit = segment.lsn(geometry, segment.limit(geometry));
        if end < limit {
            return Ok((end >= segment.base).then_some(headers));
        }
        match read_next(storage, geometry, &segment)? {
            Some(next) => {
                segment = Segment {
                    base: next.base,
                    extent: next.extent,
                    extents: next.extents,
                    end: 0,
                    salt: next.salt,
                    linked: false,
                };
            }
            None if end == limit => return Ok(Some(headers)),
            _ => return Ok(None),
        }
    }
}

/// Removes the headers that lie inside of a record of `segment`: whatever they contain, they are parts of a value. Where the extent has
/// been reused since, no such record is valid any more.
pub(crate) fn drop_inside(
    storage: &dyn Storage,
    geometry: Geometry,
    headers: &mut Map<u32, SegmentHeader>,
    segment: &Segment,
) -> Result<()> {
    let behind = segment.extent.saturating_add(segment.extents);
    let inside = |extent: &u32| *extent > segment.extent && *extent < behind;
    let mut left: Vec<u32> = headers.iter().map(|(extent, _)| extent).filter(inside).collect();
    // Reversed, so that `pop_if` takes the extents in the order in which the walk reaches them.
    left.reverse();
    let mut walk = Walk::new(storage, segment.salt, segment.first_frame(geometry), segment.limit(geometry).min(storage.len()?));
    while !left.is_empty()
        && !is(Bug::HeadersInValuesCount)
        && let Step::Frame { offset, .. } = walk.step()?
    {
        while let Some(extent) = left.pop_if(|extent| geometry.start(*extent) < walk.position()) {
            if offset <= geometry.start(extent) {
                headers.remove(extent);
            }
        }
    }
    Ok(())
}

/// Removes all headers inside of a segment of the tail. No segment after the checkpoint has been retired, so all of its space, whole or
/// torn, belongs to it.
pub(super) fn drop_within(headers: &mut Map<u32, SegmentHeader>, segment: &Segment) {
    let behind = segment.extent.saturating_add(segment.extents);
    headers.retain(|extent| extent <= segment.extent || extent >= behind || is(Bug::HeadersInValuesCount));
}

/// True when the two have no extent in common.
pub(super) fn are_apart(one: &Segment, other: &Segment) -> bool {
    // A forged header can name any number of extents.
    let behind = |segment: &Segment| segment.extent.saturating_add(segment.extents);
    behind(one) <= other.extent || behind(other) <= one.extent
}

/// True when a valid record of `segment` spans the start of `extent`.
pub(super) fn is_inside_a_record(storage: &dyn Storage, geometry: Geometry, segment: &Segment, extent: u32) -> Result<bool> {
    let place = geometry.start(extent);
    let mut walk = Walk::new(storage, segment.salt, segment.first_frame(geometry), segment.limit(geometry).min(storage.len()?));
    while let Step::Frame { offset, .. } = walk.step()? {
        if walk.position() > place {
            return Ok(offset <= place);
        }
    }
    Ok(false)
}
