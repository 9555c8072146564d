//! Plain segments of a store that is being sealed: a keyed digest of each, over all bytes up to its end.

use super::{Geometry, Log, Segment, keys_of};
use crate::error::Result;
use crate::planted::{Bug, is};
use crate::seal::{KeySet, PlainDigest, is_same};
use crate::sorted::Map;
use crate::storage::Storage;
use alloc::vec::Vec;

/// Bytes that are read together.
const PIECE: u64 = 256 * 1024;

/// Digests of segments, by salt, each with the end up to which it was made.
pub(crate) type Digests = Map<u64, (u64, PlainDigest)>;

/// The digest of a segment. Where the file ends in front of it, it reads as zeros.
pub(super) fn digest_of(
    storage: &dyn Storage,
    geometry: Geometry,
    (set, store_id): (&KeySet, &[u8; 16]),
    segment: &Segment,
) -> Result<PlainDigest> {
    let start = geometry.start(segment.extent);
    let mut fields = [0; 32];
    let (places, extents) = ([segment.base, segment.salt, segment.end - start], [segment.extent, segment.extents]);
    let bytes = places.iter().flat_map(|place| place.to_le_bytes()).chain(extents.iter().flat_map(|place| place.to_le_bytes()));
    fields.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
    let mut digesting = set.derived.digest_plain(store_id, &fields)?;
    let (len, mut buffer) = (storage.len()?, Vec::new());
    let mut at = start;
    while at < segment.end {
        let piece = (segment.end - at).min(PIECE);
        buffer.clear();
        buffer.resize(piece as usize, 0);
        let there = len.saturating_sub(at).min(piece) as usize;
        if let Some(front) = buffer.get_mut(..there).filter(|front| !front.is_empty()) {
            storage.read_at(at, front)?;
        }
        digesting.update(&buffer);
        at += piece;
    }
    Ok(digesting.finish())
}

/// True unless a plain segment that counts has other bytes than its digest says.
pub(crate) fn is_as_listed(storage: &dyn Storage, geometry: Geometry, segment: &Segment) -> Result<bool> {
    let Some(keys) = keys_of(storage) else { return Ok(true) };
    let Some(listed) = keys.plain_digest(segment.salt) else { return Ok(true) };
    let found = digest_of(storage, geometry, (&keys.current(), keys.store_id()), segment)?;
    Ok(is_same(&found, &listed) || is(Bug::PlainUndigested))
}

impl Log {
    /// Digests of the segments that are full, those of history included; `known` ones are not made again.
    pub(crate) fn digest_full(&self, set: &KeySet, known: &mut Digests) -> Result<()> {
        let full: Vec<Segment> = {
            let tail = self.tail.lock();
            let active = tail.active.map_or(u64::MAX, |active| active.segment.base);
            tail.segments.values().chain(tail.history_segments()).filter(|segment| segment.base != active).copied().collect()
        };
        full.iter().try_for_each(|segment| self.digest(set, segment, known).map(drop))
    }

    pub(super) fn digest(&self, set: &KeySet, segment: &Segment, known: &mut Digests) -> Result<PlainDigest> {
        if let Some((_, digest)) = known.get(segment.salt).filter(|(end, _)| *end == segment.end) {
            return Ok(*digest);
        }
        let digest = digest_of(&*self.storage, self.geometry, (set, &self.store_id), segment)?;
        known.insert(segment.salt, (segment.end, digest));
        Ok(digest)
    }
}
