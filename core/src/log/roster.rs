//! The list of live segments, as a checkpoint frame carries it: with it the log alone knows which of the segments in the file
//! count, and a missing one is noticed.

use super::{Geometry, Segment};
use crate::limits::LOG_POSITION_MAX;
use crate::sorted::Set;
use alloc::vec::Vec;

const WORDS: usize = 4;

/// Live segments in log order, and the next number for a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Roster {
    pub(crate) segments: Vec<Segment>,
    pub(crate) next_namespace: u32,
}

impl Roster {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.segments.len() * WORDS * 8);
        out.extend_from_slice(&(self.segments.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.next_namespace.to_le_bytes());
        for segment in &self.segments {
            let extents = u64::from(segment.extent) | u64::from(segment.extents) << 32;
            for word in [segment.order, extents, segment.end, segment.salt] {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        out
    }

    /// `None` when the bytes are no roster of a file with `extents_in_file` extents: orders that do not rise, places outside of
    /// the file or taken twice.
    pub(crate) fn decode(bytes: &[u8], geometry: Geometry, extents_in_file: u32) -> Option<Self> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let head = u64::from_le_bytes(*head);
        let (count, next_namespace) = (head as u32 as usize, (head >> 32) as u32);
        let words = rest.as_chunks::<8>().0;
        if rest.len() != count.checked_mul(WORDS * 8)? {
            return None;
        }
        let mut segments: Vec<Segment> = Vec::with_capacity(count);
        for entry in words.as_chunks::<WORDS>().0 {
            let [order, extents, end, salt] = entry.map(u64::from_le_bytes);
            let segment = Segment { order, extent: extents as u32, extents: (extents >> 32) as u32, end, salt };
            let rises = segments.last().map_or(order > 0, |last| order >= last.order.saturating_add(last.extents.into()));
            let inside = segment.extents > 0 && segment.extent.checked_add(segment.extents)? <= extents_in_file;
            if segment.order.saturating_mul(geometry.segment_size()) > LOG_POSITION_MAX
                || !rises
                || !inside
                || !(segment.first_frame(geometry)..=segment.limit(geometry)).contains(&end)
            {
                return None;
            }
            segments.push(segment);
        }
        let places = Set::collect(segments.iter().map(|segment| u64::from(segment.extent) << 32 | u64::from(segment.extents)));
        let (starts, behind) = (|place: u64| place >> 32, |place: u64| (place >> 32) + u64::from(place as u32));
        let apart = places.iter().zip(places.iter().skip(1)).all(|(left, right)| behind(left) <= starts(right));
        (apart && places.len() == segments.len()).then_some(Self { segments, next_namespace })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;

    fn segment(order: u64, extent: u32, extents: u32) -> Segment {
        Segment { order, extent, extents, end: 16_384 + u64::from(extent) * 4096 + 128, salt: order * 3 }
    }

    #[test]
    fn a_roster_reads_back_and_a_nonsensical_one_is_refused() {
        let geometry = Geometry::new(4096);
        let decode = |segments: &[Segment]| {
            let bytes = Roster { segments: segments.to_vec(), next_namespace: 9 }.encode();
            Roster::decode(&bytes, geometry, 8)
        };
        let good = [segment(1, 3, 1), segment(2, 0, 2), segment(9, 7, 1)];
        assert_eq!(decode(&good).unwrap().segments, good);
        assert_eq!(decode(&[segment(2, 3, 1), segment(1, 4, 1)]), None, "orders fall");
        assert_eq!(decode(&[segment(1, 3, 2), segment(3, 4, 1)]), None, "two at one place");
        assert_eq!(decode(&[segment(1, 8, 1)]), None, "outside of the file");
    }
}
