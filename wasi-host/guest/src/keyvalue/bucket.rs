//! A bucket: a store with keys that are text.

use crate::bindings::exports::pipkin::kv::types::Durability;
use crate::open::{Closed, How, Open, open, storage};
use crate::secret::Unlocking;
use crate::storage::Access;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Display;
use core::str::FromStr;
use pipkin::{Storage, Version};
use pipkin_wasi_shared::{Answer, counted, each_value, keys, words};
use spin::Mutex;

/// Bytes of cached blocks of a bucket's file.
const CACHE_BYTES: u32 = 8 << 20;
const NAME_LEN_MAX: usize = 64;
/// The name of the store that the empty name opens.
const DEFAULT: &str = "default";
/// A file in which the host can list the allowed names, one per line. Without it every name is allowed.
const ALLOWED_FILE: &str = "pipkin-buckets";
/// Only this much of the file is read; names after it are not allowed.
const ALLOWED_BYTES_MAX: u64 = 1 << 20;

/// A key and its value.
pub(crate) type Record = (String, Vec<u8>);

/// The errors of the standard that a bucket returns.
pub(crate) enum Refused {
    NoSuchStore,
    Other(String),
}

impl From<pipkin::Error> for Refused {
    fn from(error: pipkin::Error) -> Self {
        Self::Other(words(&error))
    }
}

impl From<Closed> for Refused {
    #[cold]
    #[inline(never)]
    fn from(closed: Closed) -> Self {
        pipkin::Error::from(closed).into()
    }
}

/// An open bucket; clones share the store.
#[derive(Clone)]
pub(crate) struct Bucket(Arc<Open>);

/// Outer `None`: not read yet; inner `None`: there is no file of allowed names; else its text.
static ALLOWED: Mutex<Option<Option<String>>> = Mutex::new(None);

/// Whether the host lets this component open that store. The file is read once: later changes of it do not affect this instance.
fn is_allowed(name: &str) -> Result<bool, pipkin::Error> {
    let mut allowed = ALLOWED.lock();
    let names = match &mut *allowed {
        Some(names) => names,
        none => none.insert(read_allowed()?),
    };
    let is_it = |line: &str| line == name || (line.is_empty() && name == DEFAULT);
    Ok(names.as_ref().is_none_or(|names| names.lines().map(str::trim).any(is_it)))
}

fn read_allowed() -> Result<Option<String>, pipkin::Error> {
    let file = match storage(ALLOWED_FILE, Access::Read) {
        Ok(file) => file,
        Err(pipkin::Error::NotFound { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = file.len()?.min(ALLOWED_BYTES_MAX);
    let mut bytes = vec![0; len as usize];
    file.read_at(0, &mut bytes)?;
    // Lossy is enough: names to open are text, so a line that is not UTF-8 matches none.
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

impl Bucket {
    /// Opens the store of that name, and creates it if there is none.
    pub(crate) fn open(identifier: &str) -> Result<Self, Refused> {
        let name = if identifier.is_empty() { DEFAULT } else { identifier };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.len() > NAME_LEN_MAX || !name.chars().all(is_plain) || name.starts_with('.') || name.ends_with('.') {
            return Err(Refused::NoSuchStore);
        }
        if !is_allowed(name)? {
            return Err(Refused::NoSuchStore);
        }
        let how =
            How { create: true, read_only: false, cache_bytes: CACHE_BYTES, segment_bytes: 0, exclusive: false, follow: false };
        Ok(Self(open(&format!("{name}.pipkin"), how, Unlocking::NONE)?))
    }

    /// Hands the write to the host, so that a set that has returned survives the end of the instance.
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

    /// A page of keys, and where the next one begins. Keys that are not UTF-8 cannot be expressed here and are left out.
    pub(crate) fn list_keys(&self, cursor: Option<u64>) -> Result<(Vec<String>, Option<u64>), Refused> {
        Ok(keys(self.0.db()?, cursor)?)
    }

    /// Reads many keys; `record` converts each key and its value, if it has one.
    pub(crate) fn get_many<R>(
        &self,
        keys: Vec<String>,
        record: impl Fn(String, Option<Vec<u8>>) -> R,
    ) -> Result<Vec<R>, Refused> {
        let (mut values, mut answer) = (Vec::with_capacity(keys.len()), Answer::default());
        let begin = || Ok::<_, Refused>(self.0.end_call()?);
        each_value(self.0.db()?, &keys, begin, |key, value| {
            answer.add(key.len().saturating_add(value.map_or(0, <[u8]>::len)))?;
            values.push(value.map(<[u8]>::to_vec));
            Ok(())
        })?;
        Ok(keys.into_iter().zip(values).map(|(key, value)| record(key, value)).collect())
    }

    pub(crate) fn set_many(&self, records: &[Record]) -> Result<(), Refused> {
        self.settled(records.iter().fold(self.0.db()?.batch(), |batch, (key, value)| batch.insert(key, value)).commit())
    }

    pub(crate) fn delete_many(&self, keys: &[String]) -> Result<(), Refused> {
        self.settled(keys.iter().fold(self.0.db()?.batch(), pipkin::Batch::remove).commit())
    }

    /// Adds to a counter, which is stored as decimal text; a missing one counts as zero.
    pub(crate) fn increment<N: Copy + Default + Display + FromStr>(
        &self,
        key: &str,
        add: impl Fn(N) -> Option<N>,
    ) -> Result<N, Refused> {
        let mut sum = N::default();
        let count = |old: Option<&[u8]>| {
            sum = counted(old, add)?;
            Ok(Some(sum.to_string().into_bytes()))
        };
        self.settled(self.0.db()?.try_update(key, count))?.map_err(Refused::Other)?;
        Ok(sum)
    }
}
