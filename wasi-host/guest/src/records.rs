//! The resources `namespace` and `scan`.

use crate::bindings::exports::pipkin::kv::store::{GuestNamespace, GuestScan, Scan};
use crate::bindings::exports::pipkin::kv::types::{Durability, Entry, Error, Version, Versioned};
use crate::open::{Closed, Open};
use crate::{ANSWER_BYTES_MAX, ANSWER_TOO_LONG};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use pipkin::{Cursor, Namespace};

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
    fn namespace(&self) -> Result<&Namespace, Closed> {
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
        let (mut values, mut bytes) = (Vec::with_capacity(keys.len()), 0_usize);
        for key in keys {
            let value = self.namespace()?.get(key)?;
            bytes = bytes.saturating_add(value.as_ref().map_or(0, Vec::len));
            if bytes > ANSWER_BYTES_MAX {
                return Err(pipkin::Error::InvalidArgument(ANSWER_TOO_LONG).into());
            }
            values.push(value);
        }
        Ok(values)
    }

    fn contains(&self, key: Vec<u8>) -> Result<bool, Error> {
        Ok(self.namespace()?.contains_key(key)?)
    }

    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> Result<(), Error> {
        self.settled(self.namespace()?.insert(key, value))
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

    fn scan(&self, prefix: Vec<u8>) -> Scan {
        Scan::new(Walk {
            open: self.open.clone(),
            namespace: self.namespace.clone(),
            prefix,
            next: Cell::new(Some(Cursor::default())),
        })
    }
}

/// A walk: between two pages only the place where it goes on.
pub(crate) struct Walk {
    open: Arc<Open>,
    namespace: Namespace,
    prefix: Vec<u8>,
    next: Cell<Option<Cursor>>,
}

impl GuestScan for Walk {
    fn next(&self, max_entries: u32, max_bytes: u32) -> Result<Vec<Entry>, Error> {
        let mut page = Vec::new();
        let mut bytes = 0_usize;
        let most = (max_bytes.max(1) as usize).min(ANSWER_BYTES_MAX);
        while let Some(from) = self.next.get()
            && page.is_empty()
        {
            self.open.end_call()?;
            let next = self.namespace.page(from, |key, value| {
                if key.starts_with(&self.prefix) {
                    bytes = bytes.saturating_add(key.len()).saturating_add(value.len());
                    page.push(Entry { key: key.to_vec(), value: value.to_vec() });
                }
                page.len() < max_entries.max(1) as usize && bytes < most
            })?;
            self.next.set(next);
        }
        Ok(page)
    }
}
