//! A guest's handle to a namespace, and its operations.

use super::wit::pipkin::kv::types::{self, Durability, Error, Packed, PackedValues, Version};
use super::{ClientDb, lost};
use crate::keyvalue::context::Kept;
use crate::keyvalue::quota::Admitted;
use crate::keyvalue::store_file::Engine;
use crate::keyvalue::view::WasiKeyValue;
use pipkin::{Namespace, Ttl};
use pipkin_wasi_shared::{PackingValues, Walk, records, values_of};
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::Resource;

/// A guest's handle to a namespace, in the resource table of the embedder.
#[derive(Clone)]
pub struct ClientNamespace {
    records: Namespace,
    pub(super) store: ClientDb,
    _kept: Arc<Kept>,
}

impl ClientNamespace {
    pub(super) fn new(records: Namespace, store: ClientDb, kept: Arc<Kept>) -> Self {
        Self { records, store, _kept: kept }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Namespace) -> pipkin::Result<T>) -> Result<T, Error> {
        let _in = self.store.engine.call()?;
        Ok(read(&self.records)?)
    }

    /// The engine's handle, for a call of a transaction.
    pub(super) fn records(&self) -> Result<Namespace, Error> {
        self.read(|records| Ok(records.clone()))
    }

    /// Runs a write that adds at most one record.
    fn store<T>(&self, key: &[u8], write: impl Fn(&Namespace) -> pipkin::Result<T>) -> Result<T, Error> {
        let new = || Ok(u64::from(!self.records.contains_key(key)?));
        self.store.write(self.store.durability, |db| db.admit(1, new), |_| write(&self.records))
    }

    /// Runs a write that adds no record.
    fn remove<T>(&self, write: impl Fn(&Namespace) -> pipkin::Result<T>) -> Result<T, Error> {
        self.store.write(self.store.durability, |_| Ok(Admitted::none()), |_| write(&self.records))
    }

    pub(super) fn get_many(&self, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let _in = self.store.engine.call()?;
        Ok(values_of(&self.records, &keys, || Ok::<_, pipkin::Error>(()))?)
    }

    pub(super) fn get_packed(&self, keys: &Packed) -> Result<PackedValues, Error> {
        let _in = self.store.engine.call()?;
        let begin = || Ok::<_, pipkin::Error>(());
        let found = PackingValues::of_records(&self.records, &keys.lengths, &keys.bytes, begin)?;
        Ok(PackedValues { lengths: found.lengths, bytes: found.bytes })
    }

    /// A walk over the records, and the engine that it reads from.
    pub(super) fn scan(&self, prefix: Vec<u8>) -> (Walk, Engine) {
        (Walk::new(self.records.clone(), prefix), self.store.engine.clone())
    }

    /// The same over a range.
    pub(super) fn range(&self, range: types::KeyRange) -> Result<(Walk, Engine), Error> {
        Ok((Walk::range(self.records()?, range.into()), self.store.engine.clone()))
    }

    pub(super) fn put(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.store(key, |records| records.insert(key, value))
    }

    pub(super) fn put_with_ttl(&self, key: &[u8], value: &[u8], ttl: types::Ttl) -> Result<(), Error> {
        self.store(key, |records| records.insert_with_ttl(key, value, Ttl::from(ttl)))
    }

    /// The same namespace, for writes of records that live this long.
    pub(super) fn with_ttl(&self, ttl: Option<types::Ttl>, kept: Kept) -> Self {
        let records = self.records.with_ttl(ttl.map_or(Ttl::Default, Into::into));
        Self { records, store: self.store.clone(), _kept: Arc::new(kept) }
    }

    pub(super) fn persist(&self, key: &[u8]) -> Result<bool, Error> {
        self.remove(|records| records.persist(key))
    }

    pub(super) fn set_default_ttl(&self, ms: Option<u64>) -> Result<(), Error> {
        self.remove(|records| records.set_default_ttl(ms.map(Duration::from_millis)))
    }

    pub(super) fn set_compression(&self, compression: types::Compression) -> Result<(), Error> {
        self.remove(|records| records.set_compression(Some(compression.into())))
    }

    pub(super) fn put_packed(&self, packed: &Packed, durability: Durability) -> Result<(), Error> {
        let pairs = || records(&packed.lengths, &packed.bytes);
        let new = || pairs()?.try_fold(0, |new, (key, _)| Ok(new + u64::from(!self.records.contains_key(key)?)));
        self.store.write(durability, |db| db.admit(packed.lengths.len() / 2, new), |_| self.records.insert_many(pairs()?))
    }

    pub(super) fn delete(&self, key: &[u8]) -> Result<bool, Error> {
        self.remove(|records| records.remove(key))
    }

    pub(super) fn swap(&self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool, Error> {
        let swap = |records: &Namespace| records.compare_and_swap(key, expected, new);
        if new.is_some() { self.store(key, swap) } else { self.remove(swap) }
    }

    pub(super) fn swap_version(&self, key: &[u8], expected: Option<Version>, new: Option<&[u8]>) -> Result<bool, Error> {
        let swap = |records: &Namespace| records.compare_version_and_swap(key, expected.map(Into::into), new);
        if new.is_some() { self.store(key, swap) } else { self.remove(swap) }
    }

    pub(super) fn delete_group(&self, name: &[u8]) -> Result<u64, Error> {
        self.remove(|records| records.delete_group(name))
    }

    pub(super) fn clear(&self) -> Result<(), Error> {
        self.remove(Namespace::clear)
    }
}

impl WasiKeyValue<'_> {
    pub(super) fn namespace(&self, namespace: &Resource<ClientNamespace>) -> Result<&ClientNamespace, Error> {
        self.table.get(namespace).map_err(lost)
    }
}
