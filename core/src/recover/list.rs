//! The list of live segments at the newest checkpoint.

use crate::error::{Error, Result};
use crate::frame::Kind;
use crate::limits::DATA_START;
use crate::log::{Geometry, SegmentList, Step, Superblock, Walk};
#[cfg(feature = "encrypt")]
use crate::log::{is_sealed, keys_of};
use crate::storage::Storage;

/// The list of live segments at the checkpoint that the superblock points at.
pub(crate) fn read_segment_list(storage: &dyn Storage, geometry: Geometry, superblock: &Superblock) -> Result<SegmentList> {
    let Some(place) = superblock.checkpoint else {
        return Ok(SegmentList::default());
    };
    let what = "the checkpoint that the superblock points at";
    let len = storage.len()?;
    if !(DATA_START..len).contains(&place.offset) {
        return Err(Error::corrupt(place.offset.min(len), what));
    }
    let mut walk = Walk::new(storage, place.salt, place.offset, len);
    let Step::Frame { offset, header } = walk.step()? else {
        return Err(Error::corrupt(place.offset, what));
    };
    if header.kind != Kind::Checkpoint {
        return Err(Error::corrupt(offset, what));
    }
    let segment_list = SegmentList::decode(walk.value(offset, &header)?, geometry, geometry.extents_in(len));
    let holds_it = |segment_list: &SegmentList| {
        segment_list.segments.last().is_some_and(|last| {
            (last.base, last.end, last.salt) == (place.base, place.offset, place.salt)
                && last.extent <= geometry.extent_of(offset)
        })
    };
    #[cfg(feature = "encrypt")]
    let segment_list = segment_list.filter(|list| fits(storage, place.base, list));
    segment_list.filter(holds_it).ok_or(Error::corrupt(offset, what))
}

/// True unless a list in a sealed segment has no seals, or one in a plain segment has some. Without the key, nobody knows which it is in a store that is
/// being made plain.
#[cfg(feature = "encrypt")]
fn fits(storage: &dyn Storage, base: u64, list: &SegmentList) -> bool {
    let has_seals = !list.seals.is_empty();
    match keys_of(storage) {
        None => is_sealed(storage) || !has_seals,
        Some(keys) => has_seals != keys.is_plain_from(base),
    }
}
