//! Ranges of a group: those of its namespace, with keys that begin after the name of the group and the dot.

use super::focus::Focus;
use super::in_order::Order;
use super::key_range::KeyRange;
use super::range::{Range, bounds_of_prefix};
use crate::error::Result;
use alloc::vec::Vec;
use core::ops::Bound;

/// Records of a group in the order of their keys, from either end; each key without the name of the group and the dot. See
/// [`Focus::range`].
pub struct FocusRange<'a> {
    range: Range<'a>,
    /// Leading bytes of each key that are not returned.
    stripped: usize,
}

impl Focus {
    /// Records of the group whose keys lie in a range, in the order of the keys; see [`Namespace::range`](crate::Namespace::range).
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// let days = db.focus("log.2026");
    /// days.insert_many([("01", "a"), ("02", "b"), ("03", "c")])?;
    /// let keys = days.range("02"..)?.map(|record| Ok(record?.0)).collect::<pipkin::Result<Vec<_>>>()?;
    /// assert_eq!(keys, [b"02", b"03"]);
    /// assert_eq!(days.range(..)?.next_back().transpose()?, Some((b"03".to_vec(), b"c".to_vec())));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotOrdered`](crate::Error::NotOrdered) when the store was opened without [`Builder::ordered`](crate::Builder::ordered).
    pub fn range(&self, range: impl KeyRange) -> Result<FocusRange<'_>> {
        let whole = |key: &[u8]| [&self.prefix, key].concat();
        let (first, behind) = bounds_of_prefix(&self.prefix);
        let bounds = match range.bounds() {
            (Bound::Unbounded, Bound::Unbounded) => (first, behind),
            (Bound::Unbounded, end) => (first, end.map(whole)),
            (start, Bound::Unbounded) => (start.map(whole), behind),
            (start, end) => (start.map(whole), end.map(whole)),
        };
        Ok(FocusRange { range: self.records.range(bounds)?, stripped: self.prefix.len() })
    }

    /// Records of the group whose keys begin with `prefix`, in the order of the keys. See [`Self::range`].
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// let days = db.focus("log");
    /// days.insert_many([("2025-12", "a"), ("2026-01", "b"), ("2026-02", "c")])?;
    /// assert_eq!(days.range_prefix("2026-")?.count(), 2);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn range_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<FocusRange<'_>> {
        let range = self.records.range_prefix([&self.prefix, prefix.as_ref()].concat())?;
        Ok(FocusRange { range, stripped: self.prefix.len() })
    }

    /// Records of the group from `key` on, `key` included, in the order of the keys. See [`Self::range`].
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// let days = db.focus("log");
    /// days.insert_many([("01", "a"), ("02", "b"), ("03", "c")])?;
    /// assert_eq!(days.iter_from("02")?.count(), 2);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn iter_from(&self, key: impl AsRef<[u8]>) -> Result<FocusRange<'_>> {
        self.range(key.as_ref()..)
    }

    /// Records of the group after `key`, `key` excluded, in the order of the keys. See [`Self::range`].
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// let days = db.focus("log");
    /// days.insert_many([("01", "a"), ("02", "b"), ("03", "c")])?;
    /// assert_eq!(days.iter_after("02")?.count(), 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn iter_after(&self, key: impl AsRef<[u8]>) -> Result<FocusRange<'_>> {
        self.range((Bound::Excluded(key.as_ref()), Bound::Unbounded))
    }
}

impl Focus {
    /// The record of the group with the first key; see [`Namespace::first_key_value`](crate::Namespace::first_key_value).
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// let jobs = db.focus("jobs");
    /// jobs.insert_many([("2", "b"), ("1", "a")])?;
    /// assert_eq!(jobs.first_key_value()?, Some((b"1".to_vec(), b"a".to_vec())));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        Ok(self.without_prefix(self.records.end_of(&bounds_of_prefix(&self.prefix), Order::Rising)?))
    }

    /// The record of the group with the last key.
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// let jobs = db.focus("jobs");
    /// jobs.insert_many([("2", "b"), ("1", "a")])?;
    /// assert_eq!(jobs.last_key_value()?, Some((b"2".to_vec(), b"b".to_vec())));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        Ok(self.without_prefix(self.records.end_of(&bounds_of_prefix(&self.prefix), Order::Falling)?))
    }

    /// Removes the record of the group with the first key and returns it; see [`Namespace::pop_first`](crate::Namespace::pop_first).
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// let jobs = db.focus("jobs");
    /// jobs.insert_many([("2", "b"), ("1", "a")])?;
    /// assert_eq!(jobs.pop_first()?, Some((b"1".to_vec(), b"a".to_vec())));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        Ok(self.without_prefix(self.records.pop(&bounds_of_prefix(&self.prefix), Order::Rising)?))
    }

    /// Removes the record of the group with the last key and returns it.
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// let jobs = db.focus("jobs");
    /// jobs.insert_many([("2", "b"), ("1", "a")])?;
    /// assert_eq!(jobs.pop_last()?, Some((b"2".to_vec(), b"b".to_vec())));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        Ok(self.without_prefix(self.records.pop(&bounds_of_prefix(&self.prefix), Order::Falling)?))
    }

    fn without_prefix(&self, record: Option<(Vec<u8>, Vec<u8>)>) -> Option<(Vec<u8>, Vec<u8>)> {
        record.map(|(key, value)| (stripped(key, self.prefix.len()), value))
    }
}

/// A key without its first bytes.
fn stripped(mut key: Vec<u8>, bytes: usize) -> Vec<u8> {
    key.drain(..bytes.min(key.len()));
    key
}

impl FocusRange<'_> {
    fn strip(&self, record: Result<(Vec<u8>, Vec<u8>)>) -> Result<(Vec<u8>, Vec<u8>)> {
        record.map(|(key, value)| (stripped(key, self.stripped), value))
    }
}

impl Iterator for FocusRange<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = self.range.next()?;
        Some(self.strip(record))
    }
}

impl DoubleEndedIterator for FocusRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        let record = self.range.next_back()?;
        Some(self.strip(record))
    }
}
