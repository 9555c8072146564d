//! Typed views: a namespace as a map from one type to another.

use super::handle::Namespace;
use super::typed_key::TypedKey;
use crate::error::{Error, Result};
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;
#[cfg(feature = "ordered")]
use core::ops::{Bound, RangeBounds};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A view of a namespace as a map from keys of the type `K` to values of the type `V`. From [`Db::typed`](crate::Namespace::typed).
///
/// Keys are stored in their order, see [`TypedKey`]; values as [postcard](https://docs.rs/postcard) writes what serde gives it: without
/// the names of fields, so a type that gets a field needs another namespace, or an enum of its versions. Nothing about the types is kept in
/// the file, and the namespace can be used without the view: [`Self::namespace`].
///
/// ```
/// # fn main() -> pipkin::Result<()> {
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct User {
///     name: String,
///     born: u16,
/// }
///
/// let db = pipkin::Db::builder().ordered(true).in_memory()?;
/// let users = db.namespace("users")?.typed::<u64, User>();
/// users.insert(&7, &User { name: "Ada".into(), born: 1815 })?;
/// users.insert(&300, &User { name: "Bob".into(), born: 1990 })?;
/// assert_eq!(users.get(&7)?.map(|user| user.born), Some(1815));
///
/// let known: Vec<u64> = users.range(..=200)?.map(|user| Ok(user?.0)).collect::<pipkin::Result<_>>()?;
/// assert_eq!(known, [7]);
/// # Ok(())
/// # }
/// ```
pub struct TypedNamespace<K, V> {
    records: Namespace,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K, V> Clone for TypedNamespace<K, V> {
    fn clone(&self) -> Self {
        Self { records: self.records.clone(), types: PhantomData }
    }
}

impl<K, V> fmt::Debug for TypedNamespace<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedNamespace").field(&self.records).finish()
    }
}

impl Namespace {
    /// This namespace as a map from keys of the type `K` to values of the type `V`. See [`TypedNamespace`].
    pub fn typed<K: TypedKey, V: Serialize + DeserializeOwned>(&self) -> TypedNamespace<K, V> {
        TypedNamespace { records: self.clone(), types: PhantomData }
    }
}

fn of_key<K: TypedKey>(bytes: &[u8]) -> Result<K> {
    K::decode(bytes).ok_or(Error::NotOfType { what: "key", type_name: core::any::type_name::<K>() })
}

pub(super) fn of_value<V: DeserializeOwned>(bytes: &[u8]) -> Result<V> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        _ => Err(Error::NotOfType { what: "value", type_name: core::any::type_name::<V>() }),
    }
}

pub(super) fn to_value<V: Serialize>(value: &V) -> Result<Vec<u8>> {
    let refused = "serde cannot write this value: a sequence or a map without a known length, or an error of its own `Serialize`";
    postcard::to_allocvec(value).map_err(|_| Error::InvalidArgument(refused))
}

fn of_record<K: TypedKey, V: DeserializeOwned>(record: Result<(Vec<u8>, Vec<u8>)>) -> Result<(K, V)> {
    record.and_then(|(key, value)| Ok((of_key(&key)?, of_value(&value)?)))
}

impl<K: TypedKey, V: Serialize + DeserializeOwned> TypedNamespace<K, V> {
    /// The namespace itself, for everything that needs no types: `len`, `clear`, batches and transactions.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let coins = db.typed::<String, u32>();
    /// db.transaction(|tx| {
    ///     tx.insert_in(coins.namespace(), coins.key("ada"), coins.value(&3)?)?;
    ///     let read = tx.get_in(coins.namespace(), coins.key("ada"))?;
    ///     assert_eq!(read.map(|bytes| coins.decode(&bytes)).transpose()?, Some(3));
    ///     Ok(())
    /// })?;
    /// assert_eq!((coins.namespace().len()?, coins.get("ada")?), (1, Some(3)));
    /// # Ok(())
    /// # }
    /// ```
    pub const fn namespace(&self) -> &Namespace {
        &self.records
    }

    /// The bytes of a key.
    pub fn key(&self, key: &K::Ref) -> Vec<u8> {
        let mut bytes = Vec::new();
        K::encode(key, &mut bytes);
        bytes
    }

    /// The bytes of a value.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when serde cannot write it.
    pub fn value(&self, value: &V) -> Result<Vec<u8>> {
        to_value(value)
    }

    /// The value of these bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotOfType`].
    pub fn decode(&self, bytes: &[u8]) -> Result<V> {
        of_value(bytes)
    }

    /// [`Namespace::insert`].
    pub fn insert(&self, key: &K::Ref, value: &V) -> Result<()> {
        self.records.insert(self.key(key), self.value(value)?)
    }

    /// [`Namespace::insert_many`].
    pub fn insert_many(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let encoded = records.into_iter().map(|(key, value)| Ok((self.key(key.borrow()), self.value(&value)?)));
        self.records.insert_many(encoded.collect::<Result<Vec<_>>>()?)
    }

    /// [`Namespace::get`].
    ///
    /// # Errors
    ///
    /// As there, and [`Error::NotOfType`].
    pub fn get(&self, key: &K::Ref) -> Result<Option<V>> {
        self.records.get_zerocopy(self.key(key))?.map(|bytes| of_value(&bytes)).transpose()
    }

    /// [`Namespace::contains_key`].
    pub fn contains_key(&self, key: &K::Ref) -> Result<bool> {
        self.records.contains_key(self.key(key))
    }

    /// [`Namespace::remove`].
    pub fn remove(&self, key: &K::Ref) -> Result<bool> {
        self.records.remove(self.key(key))
    }

    /// Atomic read-modify-write with an answer, as [`Namespace::modify`]; what `body` leaves is stored, and `None` removes the key. A value
    /// that is not of the type is an error, and stays.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let visits = db.typed::<String, u64>();
    /// let count = |visits: &mut Option<u64>| *visits.insert(visits.unwrap_or(0) + 1);
    /// assert_eq!(visits.modify("/about", count)?, 1);
    /// assert_eq!(visits.modify("/about", count)?, 2);
    /// assert_eq!(visits.modify("/about", Option::take)?, Some(2));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As there, [`Error::NotOfType`], and those of [`Self::value`].
    pub fn modify<T>(&self, key: &K::Ref, body: impl FnOnce(&mut Option<V>) -> T) -> Result<T> {
        self.records.modify(self.key(key), |bytes| {
            let mut value = bytes.as_deref().map(of_value).transpose()?;
            let answer = body(&mut value);
            *bytes = value.map(|value| self.value(&value)).transpose()?;
            Ok(answer)
        })?
    }

    /// [`Namespace::iter`]. A record that is not of the types is an error, and the walk goes on after it.
    pub fn iter(&self) -> impl Iterator<Item = Result<(K, V)>> {
        self.records.iter().map(of_record)
    }

    /// [`Namespace::keys`].
    pub fn keys(&self) -> impl Iterator<Item = Result<K>> {
        self.records.keys().map(|key| of_key(&key?))
    }

    /// [`Namespace::range`]: the records whose keys lie in a range, in the order of the keys, from either end.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// let readings = db.typed::<(u32, i64), f64>(); // of each sensor, by time
    /// readings.insert_many([((1, -5), 0.5), ((1, 60), 1.5), ((2, 0), 7.0)])?;
    /// let newest = readings.range((1, i64::MIN)..=(1, i64::MAX))?.next_back().transpose()?;
    /// assert_eq!(newest, Some(((1, 60), 1.5)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As there. A record that is not of the types is an error, and the range goes on after it.
    #[cfg(feature = "ordered")]
    pub fn range(&self, range: impl RangeBounds<K>) -> Result<impl DoubleEndedIterator<Item = Result<(K, V)>>> {
        let bytes = |bound: Bound<&K>| bound.map(|key| self.key(key.borrow()));
        Ok(self.records.range((bytes(range.start_bound()), bytes(range.end_bound())))?.map(of_record))
    }
}
