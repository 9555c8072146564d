//! Transactions: writes are gathered, reads see them, and the end is one commit or nothing.

use super::batch::{BatchOp, Seen, value_hash};
use super::namespace::Namespace;
use super::store::{Store, check_key, check_value};
use crate::error::Result;
use crate::names::Name;
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
    /// The hash of each value that was read, or none.
    reads: BTreeMap<Place, (Arc<Name>, Option<u64>)>,
}

impl Store {
    pub(super) fn transaction<T>(&self, body: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        let _one_at_a_time = self.transactions.lock();
        let mut transaction = Transaction { store: self, writes: BTreeMap::new(), reads: BTreeMap::new() };
        let answer = body(&mut transaction)?;
        let Transaction { writes, reads, .. } = &transaction;
        let ops: Vec<BatchOp<'_>> =
            writes.iter().map(|((key, _), (name, value))| BatchOp { name, key, value: value.as_deref() }).collect();
        let seen: Vec<Seen<'_>> = reads.iter().map(|((key, _), (name, value))| Seen { name, key, value: *value }).collect();
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
    pub fn get_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.read(&namespace.name, key.as_ref())
    }

    /// [`Self::contains_key`] in a namespace.
    pub fn contains_key_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.get_in(namespace, key)?.is_some())
    }

    /// [`Self::insert`] in a namespace.
    pub fn insert_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(&namespace.name, key.as_ref(), Some(value.as_ref()))
    }

    /// [`Self::remove`] in a namespace.
    pub fn remove_in(&mut self, namespace: &Namespace, key: impl AsRef<[u8]>) -> Result<bool> {
        self.take(&namespace.name, key.as_ref())
    }

    fn read(&mut self, name: &Arc<Name>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let place = (key.to_vec(), name.name.clone());
        if let Some((_, value)) = self.writes.get(&place) {
            return Ok(value.clone());
        }
        let value = self.store.get(name, key)?;
        let seen = value.as_deref().map(value_hash);
        self.reads.entry(place).or_insert((name.clone(), seen));
        Ok(value)
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
