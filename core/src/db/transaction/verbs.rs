//! Writing in a transaction: into memory, and back to a savepoint.

use super::Transaction;
use super::writes::{Savepoint, Write, Writes};
use crate::db::handle::Namespace;
use crate::error::{Error, Result};
use crate::names::Name;
use crate::store::{Store, check_key, check_value};
use crate::ttl::Ttl;
use alloc::sync::Arc;

impl Transaction {
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
    ///
    /// # Errors
    ///
    /// [`Error::KeyTooLong`], [`Error::ValueTooLong`], [`Error::ReadOnly`], [`Error::Poisoned`], [`Error::Closed`],
    /// [`Error::NamespaceDropped`]; the transaction goes on without the write.
    pub fn insert(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let Self { home, writes, .. } = self;
        write(&home.store, writes, (&home.name, home.ttl), key.as_ref(), Some(value.as_ref()))
    }

    /// [`Self::insert`] of a record that lives this long from the commit on. Until then this transaction reads it as any other of its writes.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # use std::time::Duration;
    /// db.transaction(|tx| tx.insert_with_ttl("session", "ada", Duration::from_secs(3600)))?;
    /// assert!(db.expires_at("session")?.is_some());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Self::insert`]; the commit answers [`Error::NoClock`] where the store has no clock.
    pub fn insert_with_ttl(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: impl Into<Ttl>) -> Result<()> {
        let Self { home, writes, .. } = self;
        write(&home.store, writes, (&home.name, ttl.into()), key.as_ref(), Some(value.as_ref()))
    }

    /// Removes a key; returns whether it had a value, so the key counts as read.
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
        let name = self.home.name.clone();
        self.take(&name, key.as_ref())
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
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a namespace of another store; the other methods with a namespace answer the same.
    pub fn insert_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let name = namespace.name_in(&self.home.store)?;
        write(&self.home.store, &mut self.writes, (name, namespace.ttl), key.as_ref(), Some(value.as_ref()))
    }

    /// [`Self::insert_with_ttl`] in another namespace.
    pub fn insert_in_with_ttl(
        &mut self,
        namespace: &Namespace,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        ttl: impl Into<Ttl>,
    ) -> Result<()> {
        let name = namespace.name_in(&self.home.store)?;
        write(&self.home.store, &mut self.writes, (name, ttl.into()), key.as_ref(), Some(value.as_ref()))
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
        let name = namespace.name_in(&self.home.store)?;
        self.take(name, key.as_ref())
    }

    /// A place to which [`Self::rollback_to`] takes the writes back.
    pub fn savepoint(&mut self) -> Savepoint {
        self.writes.savepoint(&self.taken.moment)
    }

    /// Takes back what was written since a savepoint, which stays valid; later ones end. What was read since counts as read.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let mut tx = db.begin()?;
    /// tx.insert("a", "1")?;
    /// let before = tx.savepoint();
    /// tx.insert("a", "2")?;
    /// tx.insert("b", "2")?;
    /// tx.rollback_to(&before)?;
    /// tx.commit()?;
    /// assert_eq!((db.get("a")?, db.get("b")?), (Some(b"1".to_vec()), None));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a savepoint of another transaction, or one that has ended.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        self.writes.rollback_to(savepoint, &self.taken.moment)
    }

    fn take(&mut self, name: &Arc<Name>, key: &[u8]) -> Result<bool> {
        let there = self.view(name)?.contains_key(key)?;
        if there {
            write(&self.home.store, &mut self.writes, (name, Ttl::Never), key, None)?;
        }
        Ok(there)
    }
}

/// Keeps a write in memory.
fn write(store: &Store, writes: &mut Writes, (name, ttl): (&Arc<Name>, Ttl), key: &[u8], value: Option<&[u8]>) -> Result<()> {
    store.writable()?;
    check_key(key)?;
    check_value(value.unwrap_or_default())?;
    if name.number().is_none() {
        return Err(Error::NamespaceDropped);
    }
    writes.write(name, key, Write { value: value.map(<[u8]>::to_vec), ttl });
    Ok(())
}
