//! A bucket of `wasi:keyvalue`: a store with keys that are text.

use super::context::{SyncPolicy, Unlisted, WasiKeyValueCtx};
use super::store_file::{Call, Engine};
use pipkin::Version;
use pipkin_wasi_shared::{Answer, counted, keys};
use std::fmt::Display;
use std::str::FromStr;

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
        Ok(keys(&*self.db()?, cursor)?)
    }

    pub(super) fn get_many(&self, keys: Vec<String>) -> Result<Vec<Option<Record>>, Refused> {
        let (db, mut records, mut answer) = (self.db()?, Vec::new(), Answer::default());
        for key in keys {
            let value = db.get(&key)?;
            answer.add(key.len().saturating_add(value.as_ref().map_or(0, Vec::len)))?;
            records.push(value.map(|value| (key, value)));
        }
        Ok(records)
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
            let new = counted(seen.as_ref().map(|(value, _)| value.as_slice()), &add)?;
            // Somebody else may have counted meanwhile.
            if self.swap(key, seen.map(|(_, version)| version), new.to_string().as_bytes())? {
                return Ok(new);
            }
        }
    }
}
