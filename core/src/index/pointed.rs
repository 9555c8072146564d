//! Which records of some segments the bases of the shards point at. Who empties many segments asks that for each record, and where the slots are in no
//! cache each answer is a read of the medium. Here the bases are read once, in order, for many segments.
//!
//! Only of the bases: tables and masked slots are in memory, and are asked at each look-up, so that an answer stays true while others write. It counts
//! for a shard as long as that has the base which was read, and for a segment until that is retired.

use super::base::BasePlace;
use super::slot::Slot;
use crate::frame::FRAME_LEN_MIN;
use crate::planted::{Bug, is};
use alloc::vec::Vec;
use core::ops::Range;

/// A bit stands for so many bytes of a segment: no two records begin in them.
const GRAIN: u64 = 4;
const _: () = assert!(GRAIN <= FRAME_LEN_MIN as u64);

/// Which records of some segments the bases of the shards point at.
#[derive(Debug, Default)]
pub(crate) struct Pointed {
    /// In the order of their places in the file.
    segments: Vec<Marked>,
    /// By shard: the base that was read, if it has one.
    bases: Vec<Option<BasePlace>>,
}

#[derive(Debug)]
struct Marked {
    /// The log position at which the segment begins, which tells it from others in the same place.
    base: u64,
    /// File offsets of its frames.
    range: Range<u64>,
    bits: Vec<u64>,
}

impl Pointed {
    /// Bytes of memory that this many bytes of a segment take.
    pub(crate) const fn bytes_for(len: u64) -> u64 {
        len / (8 * GRAIN)
    }

    /// Nothing yet, for segments that begin at these log positions and have their frames at these file offsets.
    pub(crate) fn into(segments: impl Iterator<Item = (u64, Range<u64>)>) -> Self {
        let marked = |(base, range): (u64, Range<u64>)| {
            let words = (range.end - range.start).div_ceil(64 * GRAIN) as usize;
            Marked { base, range, bits: alloc::vec![0; words] }
        };
        let mut segments: Vec<Marked> = segments.map(marked).collect();
        segments.sort_unstable_by_key(|marked| marked.range.start);
        Self { segments, bases: Vec::new() }
    }

    fn segment(&self, offset: u64) -> Option<usize> {
        let behind = self.segments.partition_point(|marked| marked.range.start <= offset);
        let number = behind.checked_sub(1)?;
        self.segments.get(number).filter(|marked| marked.range.contains(&offset)).map(|_| number)
    }

    /// Of these slots those that point into the segments.
    pub(crate) fn sift(&self, slots: &mut Vec<Slot>) {
        slots.retain(|slot| self.segment(slot.offset()).is_some());
    }

    /// Takes the next shard: its base, if it has one, and all slots of that which count and point into the segments.
    pub(crate) fn add(&mut self, base: Option<BasePlace>, slots: &[Slot]) {
        self.bases.push(base);
        let taken = if is(Bug::BasesReadInPart) { slots.len() / 2 } else { slots.len() };
        for slot in slots.iter().take(taken) {
            if let Some(marked) = self.segment(slot.offset()).and_then(|number| self.segments.get_mut(number)) {
                let bit = (slot.offset() - marked.range.start) / GRAIN;
                if let Some(word) = marked.bits.get_mut(bit as usize / 64) {
                    *word |= 1 << (bit % 64);
                }
            }
        }
    }

    /// True if the segment that begins at this log position is one of them.
    pub(crate) fn covers(&self, base: u64) -> bool {
        self.segments.iter().any(|marked| marked.base == base)
    }

    /// True while a shard has the base that was read.
    pub(super) fn has_read(&self, shard: usize, base: BasePlace) -> bool {
        self.bases.get(shard).is_some_and(|read| *read == Some(base)) || is(Bug::BasesReadBefore)
    }

    /// True while the shards have the bases that were read.
    pub(crate) fn is_of(&self, mut bases: impl Iterator<Item = Option<BasePlace>>) -> bool {
        self.bases.iter().all(|read| bases.next() == Some(*read)) || is(Bug::BasesReadBefore)
    }

    /// True if a slot that is not masked is one of the base of this shard; `None` if that must be looked up.
    pub(super) fn is_in_base(&self, shard: usize, base: BasePlace, slot: Slot) -> Option<bool> {
        if !self.has_read(shard, base) {
            return None;
        }
        let marked = self.segments.get(self.segment(slot.offset())?)?;
        let bit = (slot.offset() - marked.range.start) / GRAIN;
        Some(marked.bits.get(bit as usize / 64)? >> (bit % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    const BASE: BasePlace = BasePlace { part: 100, salt: 7, slots: 116, width: 4 };

    #[test]
    fn every_record_of_the_segments_is_told_and_no_other() {
        // Out of order, and the second one begins right behind the first one.
        let mut pointed = Pointed::into([(9_000, 5_000..5_003), (1_000, 2_000..5_000)].into_iter());
        let mut slots: Vec<Slot> = [1_999, 2_000, 2_007, 4_996, 5_000, 5_003, 9_000].map(|offset| Slot::new(3, offset)).into();
        pointed.sift(&mut slots);
        assert_eq!(slots.iter().map(|slot| slot.offset()).collect::<Vec<_>>(), [2_000, 2_007, 4_996, 5_000]);
        pointed.add(None, &[]);
        pointed.add(Some(BASE), &slots);
        let told = |shard, base, offset| pointed.is_in_base(shard, base, Slot::new(3, offset));
        for (offset, expected) in [(2_000, true), (2_007, true), (2_014, false), (4_996, true), (4_988, false), (5_000, true)] {
            assert_eq!(told(1, BASE, offset), Some(expected), "{offset}");
        }
        // Outside of the segments, and of what was read.
        for (shard, base, offset) in
            [(1, BASE, 1_999), (1, BASE, 5_003), (0, BASE, 2_000), (2, BASE, 2_000), (1, BasePlace { part: 200, ..BASE }, 2_000)]
        {
            assert_eq!(told(shard, base, offset), None, "{shard} {offset}");
        }
        assert!(pointed.covers(1_000) && pointed.covers(9_000) && !pointed.covers(2_000));
        assert!(pointed.is_of([None, Some(BASE)].into_iter()) && !pointed.is_of([Some(BASE), Some(BASE)].into_iter()));
        assert!(!pointed.is_of([None].into_iter()));
    }

    #[test]
    fn a_segment_takes_a_bit_for_four_of_its_bytes() {
        let pointed = Pointed::into([(0, 4_096..4_096 + 4_000_001)].into_iter());
        let bytes = 8 * pointed.segments.first().unwrap().bits.len() as u64;
        assert!((Pointed::bytes_for(4_000_001)..=Pointed::bytes_for(4_000_001) + 8).contains(&bytes), "{bytes}");
    }
}
