//! Offsets and lengths of the extents, and which of them a range of the file touches.

use crate::limits::{DATA_START, EXTENT_FIRST_MAX, SEGMENT_SIZE_MIN};

/// The sizes of extents: each is twice as long as the one before, until they have the full size. So a store of one record is small, and a
/// large one has few extents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Logarithm of the full size.
    shift: u32,
    /// Logarithm of the size of the first extent.
    first_shift: u32,
    /// Number of extents shorter than the full size.
    shorter: u32,
    /// File offset of the first extent of the full size.
    full_from: u64,
}

impl Geometry {
    /// `full` and `first` are powers of two, and `first` is not larger.
    pub(crate) const fn new(full: u32, first: u32) -> Self {
        let (shift, first_shift) = (full.trailing_zeros(), first.trailing_zeros());
        // F + 2 F + 4 F and so on up to S / 2 is S - F.
        Self { shift, first_shift, shorter: shift - first_shift, full_from: DATA_START + (1 << shift) - (1 << first_shift) }
    }

    /// The size of the first extent of a store with extents of at most `full` bytes.
    pub(crate) const fn first_of(full: u32) -> u32 {
        let quarter = full / 4;
        if quarter > EXTENT_FIRST_MAX {
            EXTENT_FIRST_MAX
        } else if quarter < SEGMENT_SIZE_MIN {
            SEGMENT_SIZE_MIN
        } else {
            quarter
        }
    }

    /// The full size of an extent in bytes: all but the first few have it.
    pub(crate) const fn segment_size(self) -> u64 {
        1 << self.shift
    }

    /// Number of extents shorter than the full size.
    pub(crate) const fn shorter(self) -> u32 {
        self.shorter
    }

    /// Length in bytes of the extent `index`.
    pub(crate) const fn size_of(self, index: u32) -> u64 {
        if index < self.shorter { 1 << (self.first_shift + index) } else { 1 << self.shift }
    }

    /// Offset in the file of the extent `index`.
    #[inline]
    pub(crate) const fn start(self, index: u32) -> u64 {
        if index < self.shorter {
            DATA_START + (((1 << index) - 1) << self.first_shift)
        } else {
            self.full_from + (((index - self.shorter) as u64) << self.shift)
        }
    }

    /// Length in bytes of `extents` adjacent extents from `index` on.
    pub(crate) const fn len_of(self, index: u32, extents: u32) -> u64 {
        self.start(index.saturating_add(extents)) - self.start(index)
    }

    /// The extent that holds the byte at `offset`.
    #[inline]
    pub(crate) const fn extent_of(self, offset: u64) -> u32 {
        if offset >= self.full_from {
            ((offset - self.full_from) >> self.shift) as u32 + self.shorter
        } else {
            ((offset.saturating_sub(DATA_START) >> self.first_shift) + 1).ilog2()
        }
    }

    /// How many extents a file of `len` bytes reaches into.
    pub(crate) const fn extents_in(self, len: u64) -> u32 {
        if len <= DATA_START { 0 } else { self.extent_of(len - 1) + 1 }
    }

    /// How many extents a file of `len` bytes holds as a whole.
    pub(crate) const fn whole_extents_in(self, len: u64) -> u32 {
        if len <= DATA_START { 0 } else { self.extent_of(len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_lies_in_the_extent_that_begins_in_front_of_it() {
        for (full, first) in [(4096, 4096), (16_384, 4096), (65_536, 16_384), (4 << 20, 16_384)] {
            let geometry = Geometry::new(full, first);
            assert_eq!(geometry.start(0), DATA_START);
            let mut expected = u64::from(first);
            for index in 0..20 {
                let (start, size) = (geometry.start(index), geometry.size_of(index));
                assert_eq!((size, geometry.start(index + 1)), (expected, start + size));
                assert_eq!(geometry.len_of(index, 3), geometry.start(index + 3) - start);
                assert_eq!((geometry.extent_of(start), geometry.extent_of(start + size - 1)), (index, index));
                assert_eq!((geometry.extents_in(start), geometry.extents_in(start + 1)), (index, index + 1));
                assert_eq!(
                    (geometry.whole_extents_in(start + size - 1), geometry.whole_extents_in(start + size)),
                    (index, index + 1)
                );
                expected = (expected * 2).min(full.into());
            }
        }
        let default = Geometry::first_of(4 << 20);
        assert_eq!((default, Geometry::first_of(4096), Geometry::first_of(16_384)), (16_384, 4096, 4096));
    }
}
