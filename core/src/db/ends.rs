//! The first and the last record of an ordered store, and taking them out.

use super::handle::Namespace;
use super::in_order::Order;
use super::range::{Bounds, as_slice};
use crate::error::Result;
use alloc::vec::Vec;
use core::ops::Bound;

const ALL: Bounds = (Bound::Unbounded, Bound::Unbounded);

impl Namespace {
    /// The record with the first key; `None` if there is no record.
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// db.insert_many([("b", "2"), ("a", "1")])?;
    /// assert_eq!(db.first_key_value()?, Some((b"a".to_vec(), b"1".to_vec())));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotOrdered`](crate::Error::NotOrdered) when the store was opened without [`Builder::ordered`](crate::Builder::ordered);
    /// [`Error::Corrupt`](crate::Error::Corrupt) when that record is damaged: [its key](crate::Error::damaged_key) is in the error.
    pub fn first_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.end_of(&ALL, Order::Rising)
    }

    /// The record with the last key; see [`Self::first_key_value`].
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// db.insert_many([("b", "2"), ("a", "1")])?;
    /// assert_eq!(db.last_key_value()?, Some((b"b".to_vec(), b"2".to_vec())));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn last_key_value(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.end_of(&ALL, Order::Falling)
    }

    /// Removes the record with the first key and returns it; `None` if there is no record. Of several callers each gets another record. It
    /// was the first at some moment of the call: another thread may have inserted one before it since.
    ///
    /// ```
    /// let queue = pipkin::Db::builder().ordered(true).in_memory()?;
    /// queue.insert_many([("2026-02", "later"), ("2026-01", "now")])?;
    /// assert_eq!(queue.pop_first()?, Some((b"2026-01".to_vec(), b"now".to_vec())));
    /// assert_eq!(queue.len()?, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Self::first_key_value`] and of [`Self::take`]: nothing was removed.
    pub fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(&ALL, Order::Rising)
    }

    /// Removes the record with the last key and returns it; see [`Self::pop_first`].
    ///
    /// ```
    /// let stack = pipkin::Db::builder().ordered(true).in_memory()?;
    /// stack.insert_many([("1", "below"), ("2", "above")])?;
    /// assert_eq!(stack.pop_last()?, Some((b"2".to_vec(), b"above".to_vec())));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(&ALL, Order::Falling)
    }

    /// The record at the end of a range where this order begins.
    pub(super) fn end_of(&self, bounds: &Bounds, order: Order) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut found = None;
        self.store.range_with(&self.name, (as_slice(&bounds.0), as_slice(&bounds.1)), order, |key, value| {
            found = Some((key.to_vec(), value.to_vec()));
            false
        })?;
        Ok(found)
    }

    /// Removes the record at the end of a range where this order begins, and returns it.
    pub(super) fn pop(&self, bounds: &Bounds, order: Order) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.store.writable()?;
        // Somebody else may take it first: then the next one is at the end.
        while let Some((key, _)) = self.end_of(bounds, order)? {
            if let Some(value) = self.take(&key)? {
                return Ok(Some((key, value)));
            }
        }
        Ok(None)
    }
}
