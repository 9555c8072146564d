//! The records of one namespace.

use crate::bindings::exports::pipkin::kv::store::GuestNamespace;
use crate::packed::{Strings, packed};
use crate::sandbox::Sandbox;
use crate::session::{Answer, Session};
use crate::{Compression, Result, Scan, Ttl, Version, Versioned};
use pipkin_wasi_shared::{Packing, millis};
use std::time::Duration;
use wasmtime::Store;
use wasmtime::component::ResourceAny;

/// The records of one namespace of an open store; from [`Db::records`](crate::Db::records).
pub struct Records<'a> {
    session: &'a mut Session,
    name: Option<&'a str>,
}

impl<'a> Records<'a> {
    pub(crate) fn new<'n: 'a>(session: &'a mut Session, name: Option<&'n str>) -> Self {
        Self { session, name }
    }

    fn call<T>(&mut self, call: impl FnOnce(GuestNamespace<'_>, &mut Store<Sandbox>, ResourceAny) -> Answer<T>) -> Result<T> {
        let name = self.name;
        self.session.call(|instance, _| {
            let namespace = match instance.namespace(name)? {
                Ok(namespace) => namespace,
                Err(error) => return Ok(Err(error)),
            };
            call(instance.provider.pipkin_kv_store().namespace(), &mut instance.store, namespace)
        })
    }

    /// Stores a value, replacing the one that the key had.
    pub fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.call(|guest, store, namespace| guest.call_put(store, namespace, key, value))
    }

    /// Stores a value that lives for some time or until a time, as a [`Ttl`] says; a [`Duration`] is one, too.
    pub fn insert_with_ttl(&mut self, key: &[u8], value: &[u8], ttl: impl Into<Ttl>) -> Result<()> {
        let ttl = ttl.into();
        self.call(|guest, store, namespace| guest.call_put_with_ttl(store, namespace, key, value, ttl))
    }

    /// When a record expires, in milliseconds since 1970; `None` if it never does, or if there is none.
    pub fn expires_at(&mut self, key: &[u8]) -> Result<Option<u64>> {
        self.call(|guest, store, namespace| guest.call_expires_at(store, namespace, key))
    }

    /// Lets a record live for ever that would expire; returns whether there was such a one.
    pub fn persist(&mut self, key: &[u8]) -> Result<bool> {
        self.call(|guest, store, namespace| guest.call_persist(store, namespace, key))
    }

    /// Sets how long records live whose write does not say; `None`: for ever. It is kept in the file, and counts for what is written from now
    /// on.
    pub fn set_default_ttl(&mut self, ttl: Option<Duration>) -> Result<()> {
        let ttl = ttl.map(millis);
        self.call(|guest, store, namespace| guest.call_set_default_ttl(store, namespace, ttl))
    }

    /// How long that is.
    pub fn default_ttl(&mut self) -> Result<Option<Duration>> {
        let ttl = self.call(|guest, store, namespace| guest.call_default_ttl(store, namespace))?;
        Ok(ttl.map(Duration::from_millis))
    }

    /// Sets when the values of this namespace are compressed. It is kept in the file, and counts for what is written or compacted from now on.
    pub fn set_compression(&mut self, compression: Compression) -> Result<()> {
        self.call(|guest, store, namespace| guest.call_set_compression(store, namespace, compression))
    }

    /// When they are compressed.
    pub fn compression(&mut self) -> Result<Compression> {
        self.call(|guest, store, namespace| guest.call_compression(store, namespace))
    }

    /// Stores many records as one commit, in one call: the fastest way to write.
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&mut self, records: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let mut packing = Packing::default();
        for (key, value) in records {
            packing.push(key.as_ref());
            packing.push(value.as_ref());
        }
        let (packed, durability) = (packed(packing), self.session.durability());
        self.call(|guest, store, namespace| guest.call_put_packed(store, namespace, &packed, durability))
    }

    /// The value of a key.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.call(|guest, store, namespace| guest.call_get(store, namespace, key))
    }

    /// The value of a key and the version of its record.
    pub fn get_versioned(&mut self, key: &[u8]) -> Result<Option<Versioned>> {
        self.call(|guest, store, namespace| guest.call_get_versioned(store, namespace, key))
    }

    /// The values of many keys, in their order, in one call.
    pub fn get_many<K: AsRef<[u8]>>(&mut self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let mut packing = Packing::default();
        keys.into_iter().for_each(|key| packing.push(key.as_ref()));
        let keys = packed(packing);
        let found = self.call(|guest, store, namespace| guest.call_get_packed(store, namespace, &keys))?;
        let mut values = Strings::new(found.bytes);
        Ok(found.lengths.into_iter().map(|length| length.map(|length| values.next(length))).collect())
    }

    /// True if the key has a value.
    pub fn contains_key(&mut self, key: &[u8]) -> Result<bool> {
        self.call(|guest, store, namespace| guest.call_contains(store, namespace, key))
    }

    /// Removes a key; true if it had a value.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        self.call(|guest, store, namespace| guest.call_delete(store, namespace, key))
    }

    /// Writes `new` (`None` removes the key) if the current value is `expected`. Returns whether it did.
    pub fn compare_and_swap(&mut self, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        self.call(|guest, store, namespace| guest.call_compare_and_swap(store, namespace, key, expected, new))
    }

    /// Writes `new` (`None` removes the key) if the key's record still has the version `expected`. Returns whether it did.
    pub fn compare_version_and_swap(&mut self, key: &[u8], expected: Option<Version>, new: Option<&[u8]>) -> Result<bool> {
        self.call(|guest, store, namespace| guest.call_compare_version_and_swap(store, namespace, key, expected, new))
    }

    /// The number of records in the namespace.
    pub fn len(&mut self) -> Result<u64> {
        self.call(|guest, store, namespace| guest.call_len(store, namespace))
    }

    /// True when the namespace has no record.
    pub fn is_empty(&mut self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Removes all records, as one commit.
    pub fn clear(&mut self) -> Result<()> {
        self.call(|guest, store, namespace| guest.call_clear(store, namespace))
    }

    /// All records whose keys begin with `prefix`, in no particular order.
    pub fn scan(self, prefix: &[u8]) -> Result<Scan<'a>> {
        Scan::new(self.session, self.name, prefix)
    }
}
