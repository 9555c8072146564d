//! Keys in their order.

use alloc::vec::Vec;
use core::ops::{Bound, RangeBounds};

/// Keys in their order, byte by byte.
#[derive(Clone, Debug)]
pub struct KeyRange {
    /// The first key.
    pub start: Bound<Vec<u8>>,
    /// The last key.
    pub end: Bound<Vec<u8>>,
    /// The last key comes first.
    pub reverse: bool,
}

impl KeyRange {
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        RangeBounds::<[u8]>::contains::<[u8]>(&self.bounds(), key)
    }

    pub(crate) fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (self.start.as_ref().map(Vec::as_slice), self.end.as_ref().map(Vec::as_slice))
    }

    /// Begins behind `key`.
    pub(crate) fn go_on_behind(&mut self, key: Vec<u8>) {
        let bound = if self.reverse { &mut self.end } else { &mut self.start };
        *bound = Bound::Excluded(key);
    }
}

/// Passes records to `each`, from either end, until it returns `false`.
#[cfg(feature = "ordered")]
pub(crate) fn pass(
    mut records: impl DoubleEndedIterator<Item = pipkin::Result<(Vec<u8>, Vec<u8>)>>,
    reverse: bool,
    each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
) -> pipkin::Result<()> {
    while let Some(record) = if reverse { records.next_back() } else { records.next() } {
        let (key, value) = record?;
        if !each(&key, &value) {
            break;
        }
    }
    Ok(())
}
