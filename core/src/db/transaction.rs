//! Transactions: writes are buffered, reads see them, and at the end they become one commit or are dropped.

use super::commit::{BatchOp, Read, Seen};
use super::handle::Namespace;
use crate::clock::Now;
use crate::error::{Error, Result};
use crate::names::Name;
use crate::nested::Held;
use crate::position::Position;
use crate::store::{check_key, check_value};
use crate::ttl::Ttl;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Key, then name of the namespace: in this order, because comparing keys decides sooner; names are mostly the same, and often empty.
type Place = (Vec<u8>, String);

/// What is to be written to a key.
struct Write {
    name: Arc<Name>,
    /// `None` removes it.
    value: Option<Vec<u8>>,
    ttl: Ttl,
}

/// How often [`Db::try_transaction`](crate::Namespace::try_transaction) runs its body.
const ATTEMPTS_MAX: usize = 100;

/// The writes and reads of a running transaction. See [`Db::transaction`](crate::Namespace::transaction).
///
/// ```
/// # let db = pipkin::Db::open_in_memory()?;
/// # db.insert("stock", [3])?;
/// let sold = db.transaction(|tx| {
///     let left = tx.get("stock")?.map_or(0, |stock| stock[0]);
///     if left > 0 {
///         tx.insert("stock", [left - 1])?;
///     }
///     Ok(left > 0)
/// })?;
/// assert!(sold);
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct Transaction<'a> {
    /// The namespace of the methods that take none.
    home: &'a Namespace,
    writes: BTreeMap<Place, Write>,
    /// Its time: what had expired then reads as gone.
    now: Now<'a>,
    /// The record of each key when it was first read.
    reads: BTreeMap<Place, (Arc<Name>, Option<Read>)>,
}

impl Namespace {
    /// Runs `body` and commits its writes atomically, across namespaces; if it returns an error, nothing is written. Reads inside see the
    /// writes. Transactions of a store run one at a time; other writes are not blocked. [`Transaction::get`] and the other methods without
    /// a namespace use this one.
    ///
    /// While `body` runs, its reads come from different moments and need not be consistent with each other; if the call returns without
    /// [`Error::Conflict`](crate::Error::Conflict), they were. At the end, each key that was read must have the value that it had at first.
    /// A value that was changed and changed back passes, unless it is longer than 64 KiB: those conflict even when only compaction has
    /// moved them. Keys are read one by one: there is no iteration and no range inside, and what `body` reads in other ways than through
    /// its [`Transaction`] is not checked.
    ///
    /// # Errors
    ///
    /// The error that `body` returns; [`Error::Conflict`](crate::Error::Conflict) when another writer changed what it had read: run it
    /// again; [`Error::Nested`](crate::Error::Nested) inside another transaction of this store (without the feature `std` that deadlocks),
    /// or inside the closure of an update.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("a", [5])?;
    /// db.transaction(|tx| {
    ///     let moved = tx.get("a")?.unwrap_or_default();
    ///     tx.insert("b", moved)?;
    ///     tx.remove("a")?;
    ///     Ok(())
    /// })?;
    /// assert_eq!((db.get("a")?, db.get("b")?), (None, Some(vec![5])));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction<T>(&self, body: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.run_once(body)?.map(|(answer, _)| answer)
    }

    /// Like [`Self::transaction`]; also returns the position of the commit, or, if nothing was written, that of the store.
    pub fn transaction_with_position<T>(&self, body: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<(T, Position)> {
        self.store.engine.log.make_positions_unique()?;
        let (answer, position) = self.run_once(body)??;
        Ok((answer, position.map_or_else(|| self.store.position(), Ok)?))
    }

    /// [`Self::transaction`] with a body that returns an error of the caller's, and that runs again when another writer changed what it had
    /// read, at most 100 times.
    ///
    /// ```
    /// # #[derive(Debug)]
    /// enum Failed {
    ///     Store(pipkin::Error),
    ///     NoCoinLeft,
    /// }
    ///
    /// impl From<pipkin::Error> for Failed {
    ///     fn from(error: pipkin::Error) -> Self {
    ///         Self::Store(error)
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Failed> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("ada", [1])?;
    /// let move_coin = || {
    ///     db.try_transaction(|tx| {
    ///         let coins = tx.get("ada")?.map_or(0, |coins| coins[0]);
    ///         let left = coins.checked_sub(1).ok_or(Failed::NoCoinLeft)?;
    ///         tx.insert("ada", [left])?;
    ///         Ok::<_, Failed>(left)
    ///     })
    /// };
    /// assert_eq!(move_coin()?, 0);
    /// assert!(matches!(move_coin(), Err(Failed::NoCoinLeft)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The error that `body` returns: nothing was written, and it is not run again. Those of [`Self::transaction`], turned into the
    /// caller's; [`Error::Conflict`] among them only when other writers were faster each of the 100 times.
    pub fn try_transaction<T, E: From<Error>>(&self, mut body: impl FnMut(&mut Transaction<'_>) -> Result<T, E>) -> Result<T, E> {
        for _ in 1..ATTEMPTS_MAX {
            match self.run_once(&mut body) {
                Err(Error::Conflict) => {}
                done => return done?.map(|(answer, _)| answer),
            }
        }
        self.run_once(body)?.map(|(answer, _)| answer)
    }

    /// Runs `body` and commits. The inner result is that of `body`, with the position of the commit, or `None` if nothing was written.
    fn run_once<T, E>(
        &self,
        body: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Result<Result<(T, Option<Position>), E>> {
        let store = &self.store;
        store.engine.refuse_inside(&[Held::Shard, Held::Transaction])?;
        let _one_at_a_time = store.transactions.lock();
        let mut transaction =
            Transaction { home: self, writes: BTreeMap::new(), reads: BTreeMap::new(), now: store.engine.moment_of_now() };
        let answer = {
            let _inside = store.engine.inside(Held::Transaction);
            body(&mut transaction)
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Ok(Err(error)),
        };
        let Transaction { writes, reads, .. } = &transaction;
        let ops: Vec<BatchOp<'_>> =
            writes.iter().map(|((key, _), Write { name, value, .. })| BatchOp { name, key, value: value.as_deref() }).collect();
        let ttls = writes.values().enumerate().map(|(place, write)| (place, write.ttl));
        let ttls: Vec<(usize, Ttl)> = ttls.filter(|(_, ttl)| *ttl != Ttl::Default).collect();
        let seen: Vec<Seen<'_>> = reads.iter().map(|((key, _), (name, read))| Seen { name, key, read: read.as_ref() }).collect();
        let position = store.commit(&ops, &ttls, &seen)?.end;
        Ok(Ok((answer, position)))
    }
}

impl Transaction<'_> {
    /// The value of a key: the one that this transaction has written, else the one in the store.
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
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let home = self.home;
        self.read(&home.name, key.as_ref())
    }

    /// True if the key has a value.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.transaction(|tx| {
    ///     assert!(!tx.contains_key("a")?);
    ///     tx.insert("a", "1")?; // a Conflict if somebody else has written "a" by now
    ///     Ok(())
    /// })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn contains_key(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Stores a value.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.transaction(|tx| {
    ///     tx.insert("a", "1")?;
    ///     tx.insert("b", "2")?; // both, or none
    ///     Ok(())
    /// })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let home = self.home;
        self.write(&home.name, home.ttl, key.as_ref(), Some(value.as_ref()))
    }

    /// [`Self::insert`] of a record that lives this long from the commit on.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # use std::time::Duration;
    /// db.transaction(|tx| tx.insert_with_ttl("session", "ada", Duration::from_secs(3600)))?;
    /// assert!(db.expires_at("session")?.is_some());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert_with_ttl(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: impl Into<Ttl>) -> Result<()> {
        let home = self.home;
        self.write(&home.name, ttl.into(), key.as_ref(), Some(value.as_ref()))
    }

    /// Removes a key; returns whether it had a value.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.transaction(|tx| {
    ///     if tx.remove("a")? {
    ///         tx.insert("removed", "a")?;
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let home = self.home;
        self.take(&home.name, key.as_ref())
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
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a namespace of another store; the other methods with a namespace
    /// answer the same.
    pub fn get_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.read(namespace.name_in(&self.home.store)?, key.as_ref())
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
    pub fn contains_key_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_in(namespace, key)?.is_some())
    }

    /// [`Self::insert`] in another namespace.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// db.transaction(|tx| {
    ///     tx.insert_in(&users, "7", "Ada")?;
    ///     tx.insert("users", [1])?;
    ///     Ok(())
    /// })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(namespace.name_in(&self.home.store)?, namespace.ttl, key.as_ref(), Some(value.as_ref()))
    }

    /// [`Self::insert_with_ttl`] in another namespace.
    pub fn insert_in_with_ttl(
        &mut self,
        namespace: &Namespace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: impl Into<Ttl>,
    ) -> Result<()> {
        self.write(namespace.name_in(&self.home.store)?, ttl.into(), key.as_ref(), Some(value.as_ref()))
    }

    /// [`Self::remove`] in another namespace.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// db.transaction(|tx| {
    ///     if tx.remove_in(&users, "7")? {
    ///         tx.insert("users", [0])?;
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn remove_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.take(namespace.name_in(&self.home.store)?, key.as_ref())
    }

    fn read(&mut self, name: &Arc<Name>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let place = (key.to_vec(), name.name.clone());
        if let Some(write) = self.writes.get(&place) {
            return Ok(write.value.clone());
        }
        let found = self.home.store.get_versioned_by(name, key, &self.now)?;
        let read = || found.as_ref().map(|(value, version)| Read::of(value, *version));
        self.reads.entry(place).or_insert_with(|| (name.clone(), read()));
        Ok(found.map(|(value, _)| value))
    }

    fn write(&mut self, name: &Arc<Name>, ttl: Ttl, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.home.store.writable()?;
        check_key(key)?;
        check_value(value.unwrap_or_default())?;
        let place = (key.to_vec(), name.name.clone());
        self.writes.insert(place, Write { name: name.clone(), value: value.map(<[u8]>::to_vec), ttl });
        Ok(())
    }

    fn take(&mut self, name: &Arc<Name>, key: &[u8]) -> Result<bool> {
        let there = self.read(name, key)?.is_some();
        if there {
            self.write(name, Ttl::Never, key, None)?;
        }
        Ok(there)
    }
}
