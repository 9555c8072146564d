//! One slot of the index: 64 bits, the upper 22 of hash (the tag), the lower 42 of offset.

use crate::limits::{DATA_START, OFFSET_BITS};
use crate::sorted::sort;
use alloc::vec::Vec;

/// Bits of the hash that a slot keeps.
pub(super) const TAG_BITS: u32 = u64::BITS - OFFSET_BITS;

/// A slot. No record is before [`DATA_START`], so the smallest offsets have other meanings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(u64);

impl Slot {
    /// One more than the largest tag.
    pub(crate) const TAGS: u64 = 1 << TAG_BITS;
    /// Never used: a search ends here.
    pub(super) const EMPTY: Self = Self(0);
    /// Removed: a search continues past it.
    pub(super) const DEAD: Self = Self(1);

    pub(crate) const fn new(tag: u64, offset: u64) -> Self {
        Self(tag << OFFSET_BITS | offset)
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(crate) const fn bits(self) -> u64 {
        self.0
    }

    pub(crate) const fn tag(self) -> u64 {
        self.0 >> OFFSET_BITS
    }

    pub(crate) const fn offset(self) -> u64 {
        self.0 & ((1 << OFFSET_BITS) - 1)
    }

    #[cfg(feature = "salvage")]
    pub(crate) fn has_tag_of(self, hash: super::KeyHash) -> bool {
        self.tag() == hash.slot(0).tag()
    }

    /// Sorts slots by tag, then by offset.
    pub(crate) fn sort(slots: Vec<Self>) -> Vec<Self> {
        let mut bits: Vec<u64> = slots.into_iter().map(Self::bits).collect();
        sort(&mut bits);
        bits.into_iter().map(Self::from_bits).collect()
    }

    /// True when it points at a record.
    pub(crate) const fn is_live(self) -> bool {
        self.offset() >= DATA_START
    }
}
