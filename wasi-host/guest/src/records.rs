//! The resources `namespace` and `scan`.

use crate::bindings::exports::pipkin::kv::store::{GuestNamespace, GuestScan, Namespace as Handle, Scan};
use crate::bindings::exports::pipkin::kv::types::{
    self, Durability, Entry, Error, KeyRange, Packed, PackedValues, Version, Versioned,
};
use crate::open::{Closed, Open};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::time::Duration;
use pipkin::{Namespace, Ttl};
use pipkin_wasi_shared::{Packing, PackingValues, Source, Walk, millis, records, values_of};

/// The records of one namespace, as one handle has opened them.
pub(crate) struct Records {
    open: Arc<Open>,
    namespace: Namespace,
    durability: Durability,
}

impl Records {
    pub(crate) fn new(open: Arc<Open>, namespace: Namespace, durability: Durability) -> Self {
        Self { open, namespace, durability }
    }

    /// The engine's handle, for one call of it.
    pub(crate) fn namespace(&self) -> Result<&Namespace, Closed> {
        self.open.end_call()?;
        Ok(&self.namespace)
    }

    fn settled<T>(&self, answer: pipkin::Result<T>) -> Result<T, Error> {
        let answer = answer?;
        self.open.settle(self.durability)?;
        Ok(answer)
    }
}

impl GuestNamespace for Records {
    fn get(&self, key: Vec<u8>) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.namespace()?.get(key)?)
    }

    fn get_versioned(&self, key: Vec<u8>) -> Result<Option<Versioned>, Error> {
        let found = self.namespace()?.get_versioned(key)?;
        Ok(found.map(|(value, version)| Versioned { value, version: version.into() }))
    }

    fn get_many(&self, keys: Vec<Vec<u8>>) -> Result<Vec<Option<Vec<u8>>>, Error> {
        values_of(&self.namespace, &keys, || Ok(self.open.end_call()?))
    }

    fn get_packed(&self, keys: Packed) -> Result<PackedValues, Error> {
        let begin = || Ok::<_, Error>(self.open.end_call()?);
        let found = PackingValues::of_records(&self.namespace, &keys.lengths, &keys.bytes, begin)?;
        Ok(PackedValues { lengths: found.lengths, bytes: found.bytes })
    }

    fn contains(&self, key: Vec<u8>) -> Result<bool, Error> {
        Ok(self.namespace()?.contains_key(key)?)
    }

    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<(), Error> {
        self.settled(self.namespace()?.insert(key, value))
    }

    fn put_with_ttl(&self, key: Vec<u8>, value: Vec<u8>, ttl: types::Ttl) -> Result<(), Error> {
        self.settled(self.namespace()?.insert_with_ttl(key, value, Ttl::from(ttl)))
    }

    fn with_ttl(&self, ttl: Option<types::Ttl>) -> Handle {
        let namespace = self.namespace.with_ttl(ttl.map_or(Ttl::Default, Into::into));
        Handle::new(Self { open: self.open.clone(), namespace, durability: self.durability })
    }

    fn expires_at(&self, key: Vec<u8>) -> Result<Option<u64>, Error> {
        Ok(self.namespace()?.expires_at(key)?)
    }

    fn persist(&self, key: Vec<u8>) -> Result<bool, Error> {
        self.settled(self.namespace()?.persist(key))
    }

    fn set_default_ttl(&self, ttl: Option<u64>) -> Result<(), Error> {
        self.settled(self.namespace()?.set_default_ttl(ttl.map(Duration::from_millis)))
    }

    fn default_ttl(&self) -> Result<Option<u64>, Error> {
        Ok(self.namespace()?.default_ttl().map(millis))
    }

    fn set_compression(&self, compression: types::Compression) -> Result<(), Error> {
        self.settled(self.namespace()?.set_compression(Some(compression.into())))
    }

    fn compression(&self) -> Result<types::Compression, Error> {
        Ok(self.namespace()?.compression().into())
    }

    fn put_packed(&self, packed: Packed, durability: Durability) -> Result<(), Error> {
        self.open.writable()?;
        self.namespace()?.insert_many(records(&packed.lengths, &packed.bytes)?)?;
        self.open.settle(durability)?;
        Ok(())
    }

    fn delete(&self, key: Vec<u8>) -> Result<bool, Error> {
        self.settled(self.namespace()?.remove(key))
    }

    fn compare_and_swap(&self, key: Vec<u8>, expected: Option<Vec<u8>>, new: Option<Vec<u8>>) -> Result<bool, Error> {
        self.settled(self.namespace()?.compare_and_swap(key, expected.as_deref(), new.as_deref()))
    }

    fn compare_version_and_swap(&self, key: Vec<u8>, expected: Option<Version>, new: Option<Vec<u8>>) -> Result<bool, Error> {
        self.settled(self.namespace()?.compare_version_and_swap(key, expected.map(Into::into), new.as_deref()))
    }

    fn len(&self) -> Result<u64, Error> {
        Ok(self.namespace()?.len()?)
    }

    fn clear(&self) -> Result<(), Error> {
        self.settled(self.namespace()?.clear())
    }

    fn delete_group(&self, name: Vec<u8>) -> Result<u64, Error> {
        self.settled(self.namespace()?.delete_group(name))
    }

    fn scan(&self, prefix: Vec<u8>) -> Scan {
        Pages::scan(&self.open, self.namespace.clone(), prefix)
    }

    fn range(&self, range: KeyRange) -> Result<Scan, Error> {
        Ok(Pages::range(&self.open, self.namespace()?.clone(), range))
    }
}

/// A walk, and the store that it reads.
pub(crate) struct Pages {
    open: Arc<Open>,
    walk: RefCell<Walk>,
}

impl Pages {
    /// A handle to a walk over `records`.
    pub(crate) fn scan(open: &Arc<Open>, records: impl Into<Source>, prefix: Vec<u8>) -> Scan {
        Scan::new(Self { open: open.clone(), walk: RefCell::new(Walk::new(records, prefix)) })
    }

    /// A handle to a walk over a range of `records`.
    pub(crate) fn range(open: &Arc<Open>, records: impl Into<Source>, range: KeyRange) -> Scan {
        Scan::new(Self { open: open.clone(), walk: RefCell::new(Walk::range(records, range.into())) })
    }

    fn page(&self, max_entries: u32, max_bytes: u32, take: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        self.walk.borrow_mut().page(max_entries, max_bytes, || Ok(self.open.end_call()?), take)
    }
}

impl GuestScan for Pages {
    fn next(&self, max_entries: u32, max_bytes: u32) -> Result<Vec<Entry>, Error> {
        let mut page = Vec::new();
        self.page(max_entries, max_bytes, &mut |key, value| page.push(Entry { key: key.to_vec(), value: value.to_vec() }))?;
        Ok(page)
    }

    fn next_packed(&self, max_entries: u32, max_bytes: u32) -> Result<Packed, Error> {
        let mut page = Packing::default();
        self.page(max_entries, max_bytes, &mut |key, value| {
            page.push(key);
            page.push(value);
        })?;
        Ok(Packed { lengths: page.lengths, bytes: page.bytes })
    }
}
