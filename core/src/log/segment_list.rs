//! The list of live segments, as a checkpoint frame carries it: with it the log alone knows which of the segments in the file
//! count, and a missing one is noticed.

use super::{Geometry, Segment};
use crate::frame::{decode_u64, encode_u64};
use crate::limits::LOG_POSITION_MAX;
#[cfg(feature = "encrypt")]
use crate::seal::LISTED_LEN;
use crate::sorted::Set;
use alloc::vec::Vec;

/// Version of the list's shape: the first byte of its value.
const VERSION: u64 = 1;
/// That of a sealed store: behind the entries stands the seal of each.
#[cfg(feature = "encrypt")]
const VERSION_SEALED: u64 = 2;

/// What a list records about a segment beside its place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Kept only for history; its records do not count.
    pub(crate) history: bool,
    /// Bytes of live records.
    pub(crate) live: u64,
    /// Bytes of tombstones.
    pub(crate) tombstones: u64,
    /// Number of records, dead ones and tombstones included; 0 if not counted.
    pub(crate) records: u64,
    /// Earliest and latest expiry of its records, in milliseconds since 1970; 0 without.
    pub(crate) expiries: (u64, u64),
}

/// The live segments in log order, their figures, and the next unused numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentList {
    pub(crate) segments: Vec<Segment>,
    /// One for each segment, in the same order.
    pub(crate) figures: Vec<Figures>,
    pub(crate) next_namespace: u32,
    /// Log position from which on history is kept; 0: none is.
    pub(crate) floor: u64,
    /// Number of the next event.
    pub(crate) next_event: u64,
    /// The seal of each segment, in the same order; none in a plain store.
    #[cfg(feature = "encrypt")]
    pub(crate) seals: Vec<[u8; LISTED_LEN]>,
}

/// Bit of an entry's flags: the segment is history.
const FLAG_HISTORY: u64 = 1;
/// Bit of an entry's flags: its trailer names the next segment.
const FLAG_LINKED: u64 = 2;
/// Upper bound of an entry's length in bytes.
pub(crate) const LIST_ENTRY_LEN_MAX: u64 = 64;
/// Bytes that the list of a sealed store has more for each entry.
#[cfg(feature = "encrypt")]
pub(crate) const LIST_SEAL_LEN: u64 = LISTED_LEN as u64;
/// See above.
#[cfg(not(feature = "encrypt"))]
pub(crate) const LIST_SEAL_LEN: u64 = 0;

impl SegmentList {
    pub(crate) fn encode(&self, geometry: Geometry) -> Vec<u8> {
        let mut out = Vec::with_capacity(32 + self.segments.len() * 32);
        let put = |out: &mut Vec<u8>, number: u64| encode_u64(number, |byte| out.push(byte));
        #[cfg(feature = "encrypt")]
        let version = if self.seals.is_empty() { VERSION } else { VERSION_SEALED };
        #[cfg(not(feature = "encrypt"))]
        let version = VERSION;
        let head = [version, self.segments.len() as u64, u64::from(self.next_namespace), self.floor, self.next_event];
        head.into_iter().for_each(|number| put(&mut out, number));
        let mut before = 0;
        let none = Figures::default();
        for (segment, figures) in self.segments.iter().zip(self.figures.iter().chain(core::iter::repeat(&none))) {
            let unused = segment.limit(geometry).saturating_sub(segment.end);
            let flags = if figures.history { FLAG_HISTORY } else { 0 } | if segment.linked { FLAG_LINKED } else { 0 };
            out.extend_from_slice(&segment.salt.to_le_bytes());
            let numbers = [segment.base.saturating_sub(before), segment.extent.into(), segment.extents.into(), unused, flags];
            numbers.into_iter().for_each(|number| put(&mut out, number));
            let (earliest, latest) = figures.expiries;
            let numbers = [figures.records, figures.live, figures.tombstones, earliest, latest.saturating_sub(earliest)];
            numbers.into_iter().for_each(|number| put(&mut out, number));
            before = segment.base;
        }
        #[cfg(feature = "encrypt")]
        self.seals.iter().for_each(|seal| out.extend_from_slice(seal));
        out
    }

    /// Number of records in the segment with this salt; `None` if it is not listed, or they were not counted.
    pub(crate) fn records_of(&self, salt: u64) -> Option<u64> {
        let listed = self.segments.iter().zip(&self.figures).find(|(segment, _)| segment.salt == salt);
        listed.map(|(_, figures)| figures.records).filter(|&records| records > 0)
    }

    /// `None` when the bytes are not a valid list for a file with `extents_in_file` extents: positions that do not rise, extents outside
    /// the file or listed twice.
    pub(crate) fn decode(bytes: &[u8], geometry: Geometry, extents_in_file: u32) -> Option<Self> {
        let mut rest = bytes;
        let mut number = || {
            let (number, taken) = decode_u64(rest)?;
            rest = rest.get(taken..)?;
            Some(number)
        };
        let version = number()?;
        let count = usize::try_from(number()?).ok()?;
        let next_namespace = u32::try_from(number()?).ok()?;
        let (floor, next_event) = (number()?, number()?);
        #[cfg(feature = "encrypt")]
        let is_sealed = version == VERSION_SEALED;
        #[cfg(not(feature = "encrypt"))]
        let is_sealed = false;
        if (version != VERSION && !is_sealed) || count > bytes.len() {
            return None;
        }
        let (segments, figures) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut list = Self {
            segments,
            figures,
            next_namespace,
            floor,
            next_event,
            #[cfg(feature = "encrypt")]
            seals: Vec::new(),
        };
        for _ in 0..count {
            let (segment, figures) = decode_entry(&mut rest, geometry, list.segments.last())?;
            let inside = segment.extents > 0 && segment.extent.checked_add(segment.extents)? <= extents_in_file;
            if !inside
                || segment.end < segment.first_frame(geometry)
                || figures.live.checked_add(figures.tombstones)? > segment.len(geometry)
            {
                return None;
            }
            list.segments.push(segment);
            list.figures.push(figures);
        }
        #[cfg(feature = "encrypt")]
        if is_sealed {
            let (seals, behind) = rest.split_at_checked(count.checked_mul(LISTED_LEN)?)?;
            (list.seals, rest) = (seals.as_chunks().0.to_vec(), behind);
        }
        let places =
            Set::collect(list.segments.iter().map(|segment| u64::from(segment.extent) << 32 | u64::from(segment.extents)));
        let (starts, behind) = (|place: u64| place >> 32, |place: u64| (place >> 32) + u64::from(place as u32));
        let apart = places.iter().zip(places.iter().skip(1)).all(|(left, right)| behind(left) <= starts(right));
        (rest.is_empty() && apart && places.len() == list.segments.len()).then_some(list)
    }
}

fn decode_entry(rest: &mut &[u8], geometry: Geometry, before: Option<&Segment>) -> Option<(Segment, Figures)> {
    let (salt, mut after) = rest.split_first_chunk::<8>()?;
    let mut number = || {
        let (number, taken) = decode_u64(after)?;
        after = after.get(taken..)?;
        Some(number)
    };
    let base = before.map_or(0, |before| before.base).checked_add(number()?)?;
    let (extent, extents) = (u32::try_from(number()?).ok()?, u32::try_from(number()?).ok()?);
    extent.checked_add(extents)?;
    let (unused, flags) = (number()?, number()?);
    let (records, live, tombstones, earliest, spread) = (number()?, number()?, number()?, number()?, number()?);
    let segment = Segment { base, extent, extents, end: 0, salt: u64::from_le_bytes(*salt), linked: flags & FLAG_LINKED != 0 };
    let end = segment.limit(geometry).checked_sub(unused)?;
    let rises = before.map_or(base > 0, |before| base >= before.next_base(geometry));
    if base > LOG_POSITION_MAX || flags & !(FLAG_HISTORY | FLAG_LINKED) != 0 || !rises {
        return None;
    }
    *rest = after;
    let expiries = (earliest, earliest.checked_add(spread)?);
    Some((Segment { end, ..segment }, Figures { history: flags & FLAG_HISTORY != 0, live, tombstones, records, expiries }))
}

#[cfg(test)]
mod tests;
