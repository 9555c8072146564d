//! Commits of several records across keys and namespaces; atomic after a crash. What a caller gathers; `commit` writes it.

use super::batch_bytes::BatchBytes;
use super::commit::BatchOp;
#[cfg(feature = "events")]
use super::events::Appends;
use super::handle::Namespace;
#[cfg(not(feature = "events"))]
use super::no_events::Appends;
use crate::error::{Error, Result};
use crate::names::Name;
use crate::position::Position;
use crate::ttl::Ttl;
use alloc::borrow::Cow;
#[cfg(feature = "events")]
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Writes and removals that become one commit, across namespaces; from [`Db::batch`](crate::Namespace::batch).
///
/// It borrows what it is given by reference, and owns what it is given by value, so it can be filled in a loop. It reads nothing, so it never
/// conflicts. Of several writes of one key the last one counts. After a crash all of it is there or nothing. So it is for concurrent
/// [`get_many`](crate::Namespace::get_many), [snapshots](crate::Db::snapshot) and [transactions](crate::Namespace::transaction); single reads,
/// one after the other, and walks may see a part of it.
///
/// ```
/// # fn main() -> pipkin::Result<()> {
/// let db = pipkin::Db::open_in_memory()?;
/// let log = db.namespace("log")?;
/// db.insert("old", "1")?;
/// db.batch().insert("new", "2").remove("old").insert_in(&log, "1", "renamed").commit()?;
/// assert_eq!((db.get("old")?, db.len()?, log.len()?), (None, 1, 1));
/// let mut batch = db.batch();
/// for number in 0..3_u32 {
///     batch = batch.insert(format!("key {number}"), number.to_be_bytes());
/// }
/// batch.commit()?;
/// assert_eq!(db.len()?, 4);
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch does nothing until `commit`"]
pub struct Batch<'a> {
    /// The namespace of [`Self::insert`] and [`Self::remove`].
    home: &'a Namespace,
    ops: Vec<BatchOp<'a>>,
    /// How long some of the records live, by their place in `ops`.
    ttls: Vec<(usize, Ttl)>,
    /// Where `ops` has a place holder: what is put there at the end.
    owned: Vec<Owned<'a>>,
    /// Events that are appended in the same commit.
    #[cfg(feature = "events")]
    pub(super) appends: Option<Box<super::events::BatchAppends<'a>>>,
    /// The error that [`Self::commit`] returns: an operation named a namespace of another store.
    pub(super) refused: Option<Error>,
}

/// A write or removal that the batch owns at least in part.
struct Owned<'a> {
    /// Index of its place holder.
    place: usize,
    key: Cow<'a, [u8]>,
    value: Option<Cow<'a, [u8]>>,
}

impl<'a> Batch<'a> {
    /// Stores a value in the namespace that the batch was made from.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.batch().insert("a", "1").insert("b", "2").commit()?;
    /// assert_eq!(db.len()?, 2);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert(self, key: impl BatchBytes<'a>, value: impl BatchBytes<'a>) -> Self {
        let home = self.home;
        self.living(home.ttl).push(&home.name, key.into_bytes(), Some(value.into_bytes()))
    }

    /// [`Self::insert`] of a record that lives this long.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # use std::time::Duration;
    /// db.batch().insert_with_ttl("code", "1234", Duration::from_secs(60)).insert("user", "ada").commit()?;
    /// assert!(db.expires_at("code")?.is_some() && db.expires_at("user")?.is_none());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert_with_ttl(self, key: impl BatchBytes<'a>, value: impl BatchBytes<'a>, ttl: impl Into<Ttl>) -> Self {
        let home = self.home;
        self.living(ttl.into()).push(&home.name, key.into_bytes(), Some(value.into_bytes()))
    }

    /// Removes a key of that namespace, if it is there.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("a", "1")?;
    /// db.batch().remove("a").remove("none").commit()?;
    /// assert!(db.is_empty()?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn remove(self, key: impl BatchBytes<'a>) -> Self {
        let home = self.home;
        self.push(&home.name, key.into_bytes(), None)
    }

    /// [`Self::insert`] in another namespace. If that belongs to another store, the commit fails.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// db.batch().insert_in(&users, "7", "Ada").insert("users", "1").commit()?;
    /// assert!(users.contains_key("7")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert_in(self, namespace: &'a Namespace, key: impl BatchBytes<'a>, value: impl BatchBytes<'a>) -> Self {
        self.living(namespace.ttl).push_in(namespace, key.into_bytes(), Some(value.into_bytes()))
    }

    /// [`Self::insert_with_ttl`] in another namespace. If that belongs to another store, the commit fails.
    pub fn insert_in_with_ttl(
        self,
        namespace: &'a Namespace,
        key: impl BatchBytes<'a>,
        value: impl BatchBytes<'a>,
        ttl: impl Into<Ttl>,
    ) -> Self {
        self.living(ttl.into()).push_in(namespace, key.into_bytes(), Some(value.into_bytes()))
    }

    /// [`Self::remove`] in another namespace. If that belongs to another store, the commit fails.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// users.insert("7", "Ada")?;
    /// db.batch().remove_in(&users, "7").remove("users").commit()?;
    /// assert!(users.is_empty()?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn remove_in(self, namespace: &'a Namespace, key: impl BatchBytes<'a>) -> Self {
        self.push_in(namespace, key.into_bytes(), None)
    }

    /// How long the record lives that is pushed next.
    #[inline(always)]
    fn living(mut self, ttl: Ttl) -> Self {
        if ttl != Ttl::Default {
            self.ttls.push((self.ops.len(), ttl));
        }
        self
    }

    fn push_in(mut self, namespace: &'a Namespace, key: Cow<'a, [u8]>, value: Option<Cow<'a, [u8]>>) -> Self {
        match namespace.name_in(&self.home.store) {
            Ok(name) => self.push(name, key, value),
            Err(error) => {
                self.refused = Some(error);
                self
            }
        }
    }

    // Inlined, so that the kinds of the bytes are known: batches of borrowed bytes took 3 % more instructions.
    #[inline(always)]
    fn push(self, name: &'a Arc<Name>, key: Cow<'a, [u8]>, value: Option<Cow<'a, [u8]>>) -> Self {
        match (key, value) {
            (Cow::Borrowed(key), None) => self.push_borrowed(name, key, None),
            (Cow::Borrowed(key), Some(Cow::Borrowed(value))) => self.push_borrowed(name, key, Some(value)),
            (key, value) => self.push_owned(name, key, value),
        }
    }

    fn push_borrowed(mut self, name: &'a Arc<Name>, key: &'a [u8], value: Option<&'a [u8]>) -> Self {
        self.ops.push(BatchOp { name, key, value });
        self
    }

    fn push_owned(mut self, name: &'a Arc<Name>, key: Cow<'a, [u8]>, value: Option<Cow<'a, [u8]>>) -> Self {
        self.owned.push(Owned { place: self.ops.len(), key, value });
        self.push_borrowed(name, &[], None)
    }

    /// Writes everything: after a crash all of it is there, or nothing.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let mut batch = db.batch();
    /// for (key, value) in [("a", "1"), ("b", "2")] {
    ///     batch = batch.insert(key, value);
    /// }
    /// batch.commit()?; // nothing was written before
    /// assert_eq!(db.len()?, 2);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::insert`](crate::Namespace::insert), and [`Error::InvalidArgument`] for a namespace of another store; after an error
    /// nothing was written, unless the store is poisoned.
    pub fn commit(self) -> Result<()> {
        self.write().map(drop)
    }

    /// Returns the position of the commit, or `None` if nothing was to be written.
    fn write(self) -> Result<Option<Position>> {
        match self.refused {
            Some(error) => Err(error),
            None => {
                let mut ops: Vec<BatchOp<'_>> = self.ops;
                for Owned { place, key, value } in &self.owned {
                    if let Some(op) = ops.get_mut(*place) {
                        *op = BatchOp { name: op.name, key, value: value.as_deref() };
                    }
                }
                #[cfg(feature = "events")]
                let appends = self
                    .appends
                    .as_deref()
                    .map_or_else(|| Ok(Appends::default()), |appends| appends.planned(&self.home.store))?;
                #[cfg(not(feature = "events"))]
                let appends = Appends::default();
                Ok(self.home.store.commit_all(&ops, &self.ttls, None, &appends)?.end)
            }
        }
    }

    /// Like [`Self::commit`]; returns the position of the commit, or, if nothing was to be written, that of the store.
    pub fn commit_with_position(self) -> Result<Position> {
        let store = &self.home.store;
        store.engine.log.make_positions_unique()?;
        let position = self.write()?;
        position.map_or_else(|| store.position(), Ok)
    }
}

impl Namespace {
    /// Stores many records as one commit: after a crash all of them are there or none. Concurrent reads, except in a [`Self::transaction`],
    /// may find some of them and not yet the others.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2")])?;
    /// assert_eq!(db.len()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let (name, records) = (&self.name, records.into_iter().collect::<Vec<(K, V)>>());
        let ops: Vec<BatchOp<'_>> =
            records.iter().map(|(key, value)| BatchOp { name, key: key.as_ref(), value: Some(value.as_ref()) }).collect();
        let ttls: Vec<(usize, Ttl)> = match self.ttl {
            Ttl::Default => Vec::new(),
            ttl => (0..ops.len()).map(|place| (place, ttl)).collect(),
        };
        self.store.commit(&ops, &ttls, None).map(drop)
    }

    /// Removes many keys as one commit. Returns how many existed; faster than single removes.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2")])?;
    /// assert_eq!(db.remove_many(["a", "c"])?, 1);
    /// assert_eq!(db.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<usize> {
        let (name, keys) = (&self.name, keys.into_iter().collect::<Vec<K>>());
        let ops: Vec<BatchOp<'_>> = keys.iter().map(|key| BatchOp { name, key: key.as_ref(), value: None }).collect();
        Ok(self.store.commit(&ops, &[], None)?.removed)
    }

    /// Begins a commit of writes and removals, in this namespace and others. See [`Batch`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("old", "1")?;
    /// db.batch().insert("new", "1").remove("old").commit()?; // renamed
    /// assert_eq!(db.len()?, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub const fn batch(&self) -> Batch<'_> {
        Batch {
            home: self,
            ops: Vec::new(),
            ttls: Vec::new(),
            owned: Vec::new(),
            #[cfg(feature = "events")]
            appends: None,
            refused: None,
        }
    }
}
