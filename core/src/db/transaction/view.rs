//! Reading in a namespace of a transaction.

use super::Transaction;
#[cfg(feature = "ordered")]
use super::range::{TransactionRange, TransactionRangeKeys};
use super::walk::{TransactionIter, TransactionKeys};
use super::writes::Own;
#[cfg(feature = "ordered")]
use crate::db::key_range::KeyRange;
#[cfg(feature = "ordered")]
use crate::db::range::{bounds, bounds_of_prefix};
use crate::db::read::{DECODED_SUM_MAX, count_decoded};
use crate::db::value::Value;
use crate::error::Result;
use crate::log::{Frame, ValueBytes};
use crate::past::MAY_BE_MAPPED;
use crate::pins::Pin;
use crate::store::check_key;
use alloc::vec::Vec;
#[cfg(feature = "ordered")]
use core::ops::Bound;

/// A namespace as a [`Transaction`] sees it, for reading: the store when it began, with its own writes over that. From
/// [`Transaction::namespace`]. Whatever is read through it counts as read by the transaction.
///
/// ```
/// let db = pipkin::Db::builder().ordered(true).in_memory()?;
/// let users = db.namespace("users")?;
/// users.insert("7", "Ada")?;
/// let mut tx = db.begin()?;
/// tx.insert_in(&users, "8", "Bob")?;
/// let names = tx.namespace(&users)?.range(..)?.map(|record| Ok(record?.1)).collect::<pipkin::Result<Vec<_>>>()?;
/// assert_eq!(names, [b"Ada", b"Bob"]);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct TransactionNamespace<'a> {
    pub(super) transaction: &'a Transaction,
    /// Its number in the snapshot; `None` if there was none.
    pub(super) number: Option<u32>,
    /// What the transaction has written in it.
    pub(super) own: Option<&'a Own>,
}

impl core::fmt::Debug for TransactionNamespace<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TransactionNamespace").field("number", &self.number).finish_non_exhaustive()
    }
}

impl<'a> TransactionNamespace<'a> {
    pub(super) const fn new(transaction: &'a Transaction, number: Option<u32>, own: Option<&'a Own>) -> Self {
        Self { transaction, number, own }
    }

    /// What the transaction has written for a key: a value, or `None` for a removal.
    fn own(&self, key: &[u8]) -> Option<Option<&'a Vec<u8>>> {
        self.own?.get(key).map(|write| write.value.as_ref())
    }

    /// The record of a key in the snapshot, for as long as the pin lives; the key counts as read.
    fn stored<'p>(&'p self, pin: &'p Pin<'_>, key: &[u8]) -> Result<Option<Frame<'p>>> {
        self.stored_kept(pin, key)
    }

    /// The value of a key by the fast path, for a caller that keeps the pin for as long; `None` is no result. It counts as read.
    fn plain(&self, pin: &Pin<'_>, key: &[u8]) -> Option<&'a [u8]> {
        if !MAY_BE_MAPPED || check_key(key).is_err() {
            return None;
        }
        let engine = self.transaction.taken.engine();
        let full_key = engine.full_key(self.number?, key);
        self.transaction.reads.lock().set.key(full_key.hash);
        engine.value_at(pin, &self.transaction.taken.moment, full_key)
    }

    /// [`Self::stored`] for a caller that keeps the pin for as long as the frame: nothing else sees to that.
    fn stored_kept(&self, pin: &Pin<'_>, key: &[u8]) -> Result<Option<Frame<'a>>> {
        check_key(key)?;
        let Some(number) = self.number else { return Ok(None) };
        let engine = self.transaction.taken.engine();
        let full_key = engine.full_key(number, key);
        self.transaction.reads.lock().set.key(full_key.hash);
        let frame = self.transaction.seen(engine.find_at_kept(pin, &self.transaction.taken.moment, full_key))?;
        frame.map(|frame| engine.decoded(frame).map(|frame| self.transaction.met(frame))).transpose()
    }

    /// Returns a copy of the value of a key; `None` if it has none.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        match self.own(key.as_ref()) {
            Some(value) => Ok(value.cloned()),
            None => {
                let pin = self.transaction.taken.engine().pin();
                if let Some(value) = self.plain(&pin, key.as_ref()) {
                    return Ok(Some(value.to_vec()));
                }
                let frame = self.stored(&pin, key.as_ref())?;
                Ok(frame.map(|frame| frame.into_value().into_vec()))
            }
        }
    }

    /// Returns the value of a key, without a copy where the host can map the file. See [`Value`].
    pub fn get_zerocopy(&self, key: impl AsRef<[u8]>) -> Result<Option<Value<'a>>> {
        let pin = self.transaction.taken.engine().pin();
        match self.own(key.as_ref()) {
            Some(value) => Ok(value.map(|value| Value::new(ValueBytes::Mapped(value), pin))),
            None => {
                if let Some(value) = self.plain(&pin, key.as_ref()) {
                    return Ok(Some(Value::new(ValueBytes::Mapped(value), pin)));
                }
                Ok(self.stored_kept(&pin, key.as_ref())?.map(|frame| Value::new(frame.into_value(), pin)))
            }
        }
    }

    /// True if the key has a value.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        match self.own(key.as_ref()) {
            Some(value) => Ok(value.is_some()),
            None => Ok(self.stored(&self.transaction.taken.engine().pin(), key.as_ref())?.is_some()),
        }
    }

    /// The values of many keys, in the order of the keys.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let mut decoded = DECODED_SUM_MAX;
        let mut get = |key: K| {
            if let Some(value) = self.own(key.as_ref()) {
                return Ok(value.cloned());
            }
            let pin = self.transaction.taken.engine().pin();
            let frame = self.stored(&pin, key.as_ref())?;
            count_decoded(frame.as_ref(), &mut decoded)?;
            Ok(frame.map(|frame| frame.into_value().into_vec()))
        };
        keys.into_iter().map(&mut get).collect()
    }

    /// All records, in no order. All of the namespace counts as read.
    pub fn iter(&self) -> TransactionIter<'a> {
        TransactionIter::new(self.transaction, self.number, self.own)
    }

    /// All keys; see [`Self::iter`].
    pub fn keys(&self) -> TransactionKeys<'a> {
        TransactionKeys(self.iter())
    }
}

#[cfg(feature = "ordered")]
impl<'a> TransactionNamespace<'a> {
    /// Records whose keys lie in a range, in the order of the keys. See [`TransactionRange`].
    ///
    /// # Errors
    ///
    /// [`Error::NotOrdered`](crate::Error::NotOrdered) when the store was opened without [`Builder::ordered`](crate::Builder::ordered).
    pub fn range(&self, range: impl KeyRange) -> Result<TransactionRange<'a>> {
        TransactionRange::new(self.transaction, self.number, self.own, bounds(&range))
    }

    /// Records whose keys begin with `prefix`, in the order of the keys.
    pub fn range_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<TransactionRange<'a>> {
        TransactionRange::new(self.transaction, self.number, self.own, bounds_of_prefix(prefix.as_ref()))
    }

    /// The keys that lie in a range, in their order.
    pub fn range_keys(&self, range: impl KeyRange) -> Result<TransactionRangeKeys<'a>> {
        Ok(TransactionRangeKeys::of(self.range(range)?))
    }

    /// Records from `key` on, `key` included, in the order of the keys.
    pub fn iter_from(&self, key: impl AsRef<[u8]>) -> Result<TransactionRange<'a>> {
        self.range(key.as_ref()..)
    }

    /// Records after `key`, `key` excluded, in the order of the keys.
    pub fn iter_after(&self, key: impl AsRef<[u8]>) -> Result<TransactionRange<'a>> {
        self.range((Bound::Excluded(key.as_ref()), Bound::Unbounded))
    }
}
