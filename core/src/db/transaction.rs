//! Transactions: writes are gathered, reads see them, and the end is one commit or nothing.

use super::batch::{BatchOp, Read, Seen};
use super::namespace::Namespace;
use super::store::{Store, check_key, check_value};
use crate::error::Result;
use crate::names::Name;
use crate::nested::Held;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Key, and name of the namespace: in this order, for names are mostly the same, and often empty.
type Place = (Vec<u8>, String);

/// The writes and reads of a transaction that is under way. See [`Db::transaction`](super::Db::transaction).
pub struct Transaction<'a> {
    store: &'a Store,
    writes: BTreeMap<Place, (Arc<Name>, Option<Vec<u8>>)>,
    /// What each key had when it was read first.
    reads: BTreeMap<Place, (Arc<Name>, Option<Read>)>,
}

impl Store {
    pub(super) fn transaction<T>(&self, body: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.engine.refuse_inside(&[Held::Shard, Held::Transaction])?;
        let _one_at_a_time = self.transactions.lock();
        let mut transaction = Transaction { store: self, writes: BTreeMap::new(), reads: BTreeMap::new() };
        let answer = {
            let _inside = self.engine.inside(Held::Transaction);
            body(&mut transaction)?
        };
        let Transaction { writes, reads, .. } = &transaction;
        let ops: Vec<BatchOp<'_>> =
            writes.iter().map(|((key, _), (name, value))| BatchOp { name, key, value: value.as_deref() }).collect();
        let seen: Vec<Seen<'_>> = reads.iter().map(|((key, _), (name, read))| Seen { name, key, read: read.as_ref() }).collect();
        self.commit(&ops, &seen)?;
        Ok(answer)
    }
}

impl Transaction<'_> {
    /// The value of a key, as this transaction has written it or as it stands in the store.
    pub fn get(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let name = self.store.default.clone();
        self.read(&name, key.as_ref())
    }

    /// True if the key has a value.
    pub fn contains_key(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get(key)?.is_some())
    }

    /// Stores a value.
    pub fn insert(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let name = self.store.default.clone();
        self.write(&name, key.as_ref(), Some(value.as_ref()))
    }

    /// Removes a key; true if it had a value.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        let name = self.store.default.clone();
        self.take(&name, key.as_ref())
    }

    /// [`Self::get`] in a namespace.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a namespace of another store, here and below.
    pub fn get_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.read(namespace.name_in(self.store)?, key.as_ref())
    }

    /// [`Self::contains_key`] in a namespace.
    pub fn contains_key_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_in(namespace, key)?.is_some())
    }

    /// [`Self::insert`] in a namespace.
    pub fn insert_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(namespace.name_in(self.store)?, key.as_ref(), Some(value.as_ref()))
    }

    /// [`Self::remove`] in a namespace.
    pub fn remove_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.take(namespace.name_in(self.store)?, key.as_ref())
    }

    fn read(&mut self, name: &Arc<Name>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let place = (key.to_vec(), name.name.clone());
        if let Some((_, value)) = self.writes.get(&place) {
            return Ok(value.clone());
        }
        let found = self.store.get_versioned(name, key)?;
        let read = || found.as_ref().map(|(value, version)| Read::of(value, *version));
        self.reads.entry(place).or_insert_with(|| (name.clone(), read()));
        Ok(found.map(|(value, _)| value))
    }

    fn write(&mut self, name: &Arc<Name>, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.store.writable()?;
        check_key(key)?;
        check_value(value.unwrap_or_default())?;
        let place = (key.to_vec(), name.name.clone());
        self.writes.insert(place, (name.clone(), value.map(<[u8]>::to_vec)));
        Ok(())
    }

    fn take(&mut self, name: &Arc<Name>, key: &[u8]) -> Result<bool> {
        let there = self.read(name, key)?.is_some();
        if there {
            self.write(name, key, None)?;
        }
        Ok(there)
    }
}
