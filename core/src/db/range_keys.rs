//! The keys of a range, without their values.

use super::handle::Namespace;
use super::key_range::KeyRange;
use super::range::Range;
use crate::error::Result;
use alloc::vec::Vec;
use core::ops::Bound;

/// The keys of a range in their order, from either end. See [`Db::range_keys`](crate::Namespace::range_keys). Like [`Range`], it
/// continues after damage.
pub struct RangeKeys<'a>(Range<'a>);

impl Namespace {
    /// The keys that lie in a range, in their order. As [`Self::range`], without a copy of the values: each record is still read, so that
    /// a damaged one is an error here, too.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// db.insert_many([("b", "2"), ("a", "1"), ("c", "3")])?;
    /// let keys: Vec<_> = db.range_keys("b"..)?.collect::<Result<_, _>>()?;
    /// assert_eq!(keys, [b"b", b"c"]);
    /// assert_eq!(db.range_keys(..)?.next_back().transpose()?, Some(b"c".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::range`].
    pub fn range_keys(&self, range: impl KeyRange) -> Result<RangeKeys<'_>> {
        Ok(RangeKeys::of(self.range(range)?))
    }
}

impl<'a> RangeKeys<'a> {
    pub(super) fn of(range: Range<'a>) -> Self {
        Self(range.without_values())
    }
}

impl RangeKeys<'_> {
    /// The part of the range that has not been returned yet; see [`Range::rest`].
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2")])?;
    /// let mut keys = db.range_keys(..)?;
    /// keys.next().transpose()?;
    /// assert_eq!(db.range_keys(keys.rest())?.count(), 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn rest(&self) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
        self.0.rest()
    }
}

impl Iterator for RangeKeys<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|(key, _)| key))
    }
}

impl DoubleEndedIterator for RangeKeys<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        Some(self.0.next_back()?.map(|(key, _)| key))
    }
}
