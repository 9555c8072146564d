//! A bucket: a store with keys that are text.

use crate::bindings::exports::pipkin::kv::types::Durability;
use crate::open::{Closed, How, Open, open};
use crate::{ANSWER_BYTES_MAX, ANSWER_TOO_LONG};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Display;
use core::str::FromStr;
use pipkin::{Cursor, Version};

/// A page of keys ends at either.
const PAGE_KEYS_MAX: usize = 1000;
const PAGE_BYTES_MAX: usize = 256 * 1024;
/// Blocks of the file that a bucket keeps in memory.
const CACHE_BYTES: u32 = 8 << 20;
const NAME_LEN_MAX: usize = 64;

/// A key and its value.
pub(crate) type Record = (String, Vec<u8>);

/// The errors of the standard that a bucket gives.
pub(crate) enum Refused {
    NoSuchStore,
    Other(String),
}

impl From<pipkin::Error> for Refused {
    fn from(error: pipkin::Error) -> Self {
        Self::Other(error.to_string())
    }
}

impl From<Closed> for Refused {
    #[cold]
    #[inline(never)]
    fn from(closed: Closed) -> Self {
        pipkin::Error::from(closed).into()
    }
}

/// An open bucket; its copies are the same store.
#[derive(Clone)]
pub(crate) struct Bucket(Arc<Open>);

impl Bucket {
    /// The store of that name, made if need be.
    pub(crate) fn open(identifier: &str) -> Result<Self, Refused> {
        let name = if identifier.is_empty() { "default" } else { identifier };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.len() > NAME_LEN_MAX || !name.chars().all(is_plain) || name.starts_with('.') || name.ends_with('.') {
            return Err(Refused::NoSuchStore);
        }
        let how = How { create: true, read_only: false, cache_bytes: CACHE_BYTES, segment_bytes: 0 };
        Ok(Self(open(&format!("{name}.pipkin"), how)?))
    }

    /// A set survives the end of the instance when it returns.
    fn settled<T>(&self, answer: pipkin::Result<T>) -> Result<T, Refused> {
        let answer = answer?;
        self.0.settle(Durability::Written)?;
        Ok(answer)
    }

    pub(crate) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Refused> {
        Ok(self.0.db()?.get(key)?)
    }

    pub(crate) fn get_versioned(&self, key: &str) -> Result<Option<(Vec<u8>, Version)>, Refused> {
        Ok(self.0.db()?.get_versioned(key)?)
    }

    pub(crate) fn set(&self, key: &str, value: &[u8]) -> Result<(), Refused> {
        self.settled(self.0.db()?.insert(key, value))
    }

    pub(crate) fn delete(&self, key: &str) -> Result<(), Refused> {
        self.settled(self.0.db()?.remove(key)).map(drop)
    }

    pub(crate) fn exists(&self, key: &str) -> Result<bool, Refused> {
        Ok(self.0.db()?.contains_key(key)?)
    }

    pub(crate) fn swap(&self, key: &str, seen: Option<Version>, value: &[u8]) -> Result<bool, Refused> {
        self.settled(self.0.db()?.compare_version_and_swap(key, seen, Some(value)))
    }

    /// A page of keys, and where the next one begins. Keys that are not text cannot be said here, and are left out.
    pub(crate) fn list_keys(&self, cursor: Option<u64>) -> Result<(Vec<String>, Option<u64>), Refused> {
        let (mut keys, mut bytes) = (Vec::new(), 0);
        let from = cursor.map_or_else(Cursor::default, Cursor::from_bits);
        let next = self.0.db()?.page(from, |key, _| {
            if let Ok(key) = core::str::from_utf8(key) {
                bytes += key.len();
                keys.push(String::from(key));
            }
            keys.len() < PAGE_KEYS_MAX && bytes < PAGE_BYTES_MAX
        })?;
        Ok((keys, next.map(Cursor::to_bits)))
    }

    pub(crate) fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Record>>, Refused> {
        let (mut records, mut bytes) = (Vec::with_capacity(keys.len()), 0_usize);
        for key in keys {
            let value = self.0.db()?.get(&key)?;
            bytes = bytes.saturating_add(key.len()).saturating_add(value.as_ref().map_or(0, Vec::len));
            if bytes > ANSWER_BYTES_MAX {
                return Err(Refused::Other(ANSWER_TOO_LONG.to_string()));
            }
            records.push(value.map(|value| (key, value)));
        }
        Ok(records)
    }

    pub(crate) fn set_many(&self, records: &[Record]) -> Result<(), Refused> {
        self.settled(records.iter().fold(self.0.db()?.batch(), |batch, (key, value)| batch.insert(key, value)).commit())
    }

    pub(crate) fn delete_many(&self, keys: &[String]) -> Result<(), Refused> {
        self.settled(keys.iter().fold(self.0.db()?.batch(), pipkin::Batch::remove).commit())
    }

    /// Counts in decimal text, from zero where there is nothing.
    pub(crate) fn increment<N: Copy + Default + Display + FromStr>(
        &self,
        key: &str,
        add: impl Fn(N) -> Option<N>,
    ) -> Result<N, Refused> {
        let old = match self.get(key)? {
            None => N::default(),
            Some(value) => core::str::from_utf8(&value).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
                Refused::Other(
                    "the value of this key is no counter: counters are decimal text in the range of this call".to_string(),
                )
            })?,
        };
        let new = add(old).ok_or_else(|| Refused::Other(format!("this counter would leave its range; it stays {old}")))?;
        self.set(key, new.to_string().as_bytes())?;
        Ok(new)
    }
}
