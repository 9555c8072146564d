//! Reading in a transaction: in the namespace that it was begun in, and in others.

#[cfg(feature = "ordered")]
use super::range::{TransactionRange, TransactionRangeKeys};
use super::walk::{TransactionIter, TransactionKeys};
use super::{Transaction, TransactionNamespace};
use crate::db::handle::Namespace;
#[cfg(feature = "ordered")]
use crate::db::key_range::KeyRange;
use crate::db::value::Value;
use crate::error::Result;
use alloc::vec::Vec;

impl Transaction {
    fn home(&self) -> Result<TransactionNamespace<'_>> {
        self.view(&self.home.name)
    }

    /// Another namespace, for reading in it as this transaction sees it: the one that had the name of `namespace` when the transaction began.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a namespace of another store.
    pub fn namespace(&self, namespace: &Namespace) -> Result<TransactionNamespace<'_>> {
        self.view(namespace.name_in(&self.home.store)?)
    }

    /// The value of a key: the one that this transaction has written, else the one that the store had when it began.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.transaction(|tx| {
    ///     tx.insert("a", "1")?;
    ///     assert_eq!(tx.get("a")?, Some(b"1".to_vec())); // its own write
    ///     Ok(())
    /// })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the record does not match its checksum, and
    /// [`Conflict::SnapshotEnded`](crate::Conflict::SnapshotEnded); the other reads answer the same.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.home()?.get(key)
    }

    /// The value of a key, without a copy where the host can map the file. See [`Value`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("photo", [7; 100_000])?;
    /// let tx = db.begin()?;
    /// assert_eq!(tx.get_zerocopy("photo")?.map(|photo| photo.len()), Some(100_000));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn get_zerocopy(&self, key: impl AsRef<[u8]>) -> Result<Option<Value<'_>>> {
        self.home()?.get_zerocopy(key)
    }

    /// True if the key has a value.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.transaction(|tx| {
    ///     assert!(!tx.contains_key("a")?);
    ///     tx.insert("a", "1")?; // a conflict if somebody else has written "a" by the commit
    ///     Ok(())
    /// })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.home()?.contains_key(key)
    }

    /// The values of many keys, in the order of the keys.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        self.home()?.get_many(keys)
    }

    /// [`Self::get`] in another namespace.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// db.transaction(|tx| {
    ///     let name = tx.get_in(&users, "7")?.unwrap_or_default();
    ///     tx.insert("latest user", name)?;
    ///     Ok(())
    /// })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Self::get`] and of [`Self::namespace`].
    pub fn get_in(&self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.namespace(namespace)?.get(key)
    }

    /// [`Self::contains_key`] in another namespace.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// db.transaction(|tx| {
    ///     if !tx.contains_key_in(&users, "7")? {
    ///         tx.insert_in(&users, "7", "Ada")?;
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn contains_key_in(&self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.namespace(namespace)?.contains_key(key)
    }

    /// All records, in no order. All of the namespace counts as read: whoever writes anything in it makes this transaction conflict.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("a", "1")?;
    /// let mut tx = db.begin()?;
    /// tx.insert("b", "2")?;
    /// assert_eq!(tx.iter()?.count(), 2);
    /// db.insert("c", "3")?;
    /// assert!(tx.commit().is_err());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn iter(&self) -> Result<TransactionIter<'_>> {
        Ok(self.home()?.iter())
    }

    /// All keys; see [`Self::iter`].
    pub fn keys(&self) -> Result<TransactionKeys<'_>> {
        Ok(self.home()?.keys())
    }
}

#[cfg(feature = "ordered")]
impl Transaction {
    /// Records whose keys lie in a range, in the order of the keys. See [`TransactionRange`].
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// # db.insert_many([("seat/1", "ada"), ("seat/2", "")])?;
    /// let seat = db.transaction(|tx| {
    ///     let free = tx.range_prefix("seat/")?.find(|seat| seat.as_ref().is_ok_and(|(_, who)| who.is_empty()));
    ///     let Some((seat, _)) = free.transpose()? else { return Ok(None) };
    ///     tx.insert(&seat, "bob")?;
    ///     Ok(Some(seat))
    /// })?;
    /// assert_eq!(seat.as_deref(), Some(&b"seat/2"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NotOrdered`](crate::Error::NotOrdered) when the store was opened without [`Builder::ordered`](crate::Builder::ordered).
    pub fn range(&self, range: impl KeyRange) -> Result<TransactionRange<'_>> {
        self.home()?.range(range)
    }

    /// Records whose keys begin with `prefix`, in the order of the keys.
    pub fn range_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<TransactionRange<'_>> {
        self.home()?.range_prefix(prefix)
    }

    /// The keys that lie in a range, in their order.
    pub fn range_keys(&self, range: impl KeyRange) -> Result<TransactionRangeKeys<'_>> {
        self.home()?.range_keys(range)
    }

    /// Records from `key` on, `key` included, in the order of the keys.
    pub fn iter_from(&self, key: impl AsRef<[u8]>) -> Result<TransactionRange<'_>> {
        self.home()?.iter_from(key)
    }

    /// Records after `key`, `key` excluded, in the order of the keys.
    pub fn iter_after(&self, key: impl AsRef<[u8]>) -> Result<TransactionRange<'_>> {
        self.home()?.iter_after(key)
    }
}
