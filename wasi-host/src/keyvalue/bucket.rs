//! A bucket of `wasi:keyvalue`: a store with keys that are text.

use super::context::{SyncPolicy, Unlisted, WasiKeyValueCtx};
use super::store_file::{Call, Engine};
use pipkin::{Cursor, Version};
use std::fmt::Display;
use std::str::FromStr;

/// A page of keys ends at either.
const PAGE_KEYS_MAX: usize = 1000;
const PAGE_BYTES_MAX: usize = 256 * 1024;
/// A guest must not make the host gather more for one answer.
pub(super) const RESULT_BYTES_MAX: usize = 128 << 20;

/// Why a call of the standard failed, before it is put into the words of one of its drafts.
#[derive(Debug)]
pub(super) enum Refused {
    NoSuchStore,
    AccessDenied,
    Other(String),
}

impl<E: Display> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Other(error.to_string())
    }
}

/// A key and its value.
pub(super) type Record = (String, Vec<u8>);

/// An open bucket, in the resource table of the embedder.
#[derive(Clone)]
pub struct Bucket {
    engine: Engine,
    sync: SyncPolicy,
}

impl Bucket {
    pub(super) fn open(ctx: &WasiKeyValueCtx, identifier: &str) -> Result<Self, Refused> {
        let entry = ctx.entry(identifier).map_err(|why| match why {
            Unlisted::Unknown => Refused::NoSuchStore,
            Unlisted::Denied => Refused::AccessDenied,
        })?;
        Ok(Self { engine: entry.store.open(true, 0)?, sync: entry.sync })
    }

    fn db(&self) -> Result<Call<'_>, Refused> {
        Ok(self.engine.call()?)
    }

    fn write<T>(&self, write: impl FnOnce(&Call<'_>) -> pipkin::Result<T>) -> Result<T, Refused> {
        let db = self.db()?;
        let answer = write(&db)?;
        if self.sync == SyncPolicy::EachSet {
            db.flush()?;
        }
        Ok(answer)
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Refused> {
        Ok(self.db()?.get(key)?)
    }

    pub(super) fn get_versioned(&self, key: &str) -> Result<Option<(Vec<u8>, Version)>, Refused> {
        Ok(self.db()?.get_versioned(key)?)
    }

    pub(super) fn set(&self, key: &str, value: &[u8]) -> Result<(), Refused> {
        self.write(|db| db.insert(key, value))
    }

    pub(super) fn delete(&self, key: &str) -> Result<(), Refused> {
        self.write(|db| db.remove(key)).map(drop)
    }

    pub(super) fn exists(&self, key: &str) -> Result<bool, Refused> {
        Ok(self.db()?.contains_key(key)?)
    }

    pub(super) fn swap(&self, key: &str, seen: Option<Version>, value: &[u8]) -> Result<bool, Refused> {
        self.write(|db| db.compare_version_and_swap(key, seen, Some(value)))
    }

    /// A page of keys, and where the next one begins.
    pub(super) fn list_keys(&self, cursor: Option<u64>) -> Result<(Vec<String>, Option<u64>), Refused> {
        let (mut keys, mut bytes) = (Vec::new(), 0);
        let from = cursor.map_or_else(Cursor::default, Cursor::from_bits);
        let next = self.db()?.page(from, |key, _| {
            if let Ok(key) = std::str::from_utf8(key) {
                bytes += key.len();
                keys.push(key.to_owned());
            }
            keys.len() < PAGE_KEYS_MAX && bytes < PAGE_BYTES_MAX
        })?;
        Ok((keys, next.map(Cursor::to_bits)))
    }

    pub(super) fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Record>>, Refused> {
        let (db, mut answer, mut bytes) = (self.db()?, Vec::new(), 0_usize);
        for key in keys {
            let value = db.get(&key)?;
            bytes = bytes.saturating_add(key.len()).saturating_add(value.as_ref().map_or(0, Vec::len));
            if bytes > RESULT_BYTES_MAX {
                return Err(Refused::Other("the values have more than 128 MiB in all; ask for fewer keys at a time".to_owned()));
            }
            answer.push(value.map(|value| (key, value)));
        }
        Ok(answer)
    }

    pub(super) fn set_many(&self, records: &[Record]) -> Result<(), Refused> {
        self.write(|db| db.insert_many(records.iter().map(|(key, value)| (key, value))))
    }

    pub(super) fn delete_many(&self, keys: &[String]) -> Result<(), Refused> {
        self.write(|db| keys.iter().fold(db.batch(), pipkin::Batch::remove).commit())
    }

    /// Counts in decimal text, from zero where there is nothing.
    pub(super) fn increment<N: Copy + Default + Display + FromStr>(
        &self,
        key: &str,
        add: impl Fn(N) -> Option<N>,
    ) -> Result<N, Refused> {
        loop {
            let seen = self.db()?.get_versioned(key)?;
            let old = match &seen {
                None => N::default(),
                Some((value, _)) => std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
                    format!("the value of {key:?} is no counter: counters are decimal text in the range of this call")
                })?,
            };
            let new = add(old).ok_or_else(|| format!("the counter {key:?} would leave its range; it stays {old}"))?;
            // Somebody else may have counted meanwhile.
            if self.swap(key, seen.map(|(_, version)| version), new.to_string().as_bytes())? {
                return Ok(new);
            }
        }
    }
}
