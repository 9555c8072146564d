//! A bucket of `wasi:keyvalue`: a store with keys that are text.

use super::context::{Entry, Kept, Unlisted, WasiKeyValueCtx};
use super::quota::{Admitted, Failure};
use super::store_file::{Call, Engine};
use pipkin::{Db, Version};
use pipkin_wasi_shared::{Answer, counted, each_value, keys, words};
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use wasmtime::component::ResourceTableError;

/// Why a call of the standard failed; converted to the error type of the draft in use.
#[derive(Debug)]
pub(super) enum Refused {
    NoSuchStore,
    AccessDenied,
    Other(String),
}

impl From<pipkin::Error> for Refused {
    fn from(error: pipkin::Error) -> Self {
        Self::Other(words(&error))
    }
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Engine(error) => error.into(),
            Failure::Quota(words) => Self::Other(words.to_owned()),
        }
    }
}

impl From<&str> for Refused {
    fn from(words: &str) -> Self {
        Self::Other(words.to_owned())
    }
}

impl From<ResourceTableError> for Refused {
    fn from(error: ResourceTableError) -> Self {
        Self::Other(error.to_string())
    }
}

/// A key and its value.
pub(super) type Record = (String, Vec<u8>);

/// An open bucket, in the resource table of the embedder.
#[derive(Clone)]
pub struct Bucket {
    engine: Engine,
    entry: Entry,
    /// Another process writes the store.
    follows: bool,
    _kept: Arc<Kept>,
}

impl Bucket {
    /// Looks up what opening needs. Opening itself may take long and runs without access to the resource table.
    pub(super) fn find(ctx: &WasiKeyValueCtx, identifier: &str) -> Result<(Entry, Kept), Refused> {
        let entry = ctx.entry(identifier).map_err(|why| match why {
            Unlisted::Unknown => Refused::NoSuchStore,
            Unlisted::Denied => Refused::AccessDenied,
        })?;
        Ok((entry.clone(), ctx.keep(0)?))
    }

    pub(super) fn open((entry, kept): (Entry, Kept)) -> Result<Self, Refused> {
        let engine = entry.opened(|store| match (entry.follows(), entry.is_read_only()) {
            (true, _) => store.open_to_follow(),
            (false, true) => store.open_to_read(),
            (false, false) => store.open(true, 0),
        })?;
        let follows = entry.follows() && engine.call()?.stats()?.follows;
        Ok(Self { engine, entry, follows, _kept: Arc::new(kept) })
    }

    /// Whether writes wait for the device.
    pub(super) fn syncs(&self) -> bool {
        self.entry.syncs()
    }

    /// The engine of the store, for the host itself.
    pub(super) fn engine(&self) -> Result<Call<'_>, Refused> {
        self.db()
    }

    /// The store; one that another process writes is brought up to date.
    fn db(&self) -> Result<Call<'_>, Refused> {
        let db = self.engine.call()?;
        if self.follows {
            db.refresh()?;
        }
        Ok(db)
    }

    /// Writes, and syncs the write if the store's policy demands it. `admitted` is held while the write runs.
    fn write<'a, T>(
        &'a self,
        admit: impl FnOnce(&Call<'a>) -> Result<Admitted<'a>, Failure>,
        mut write: impl FnMut(&Db) -> pipkin::Result<T>,
    ) -> Result<T, Refused> {
        if self.entry.is_read_only() {
            return Err(Refused::AccessDenied);
        }
        let db = self.db()?;
        let admitted = admit(&db)?;
        let answer = db.limits().with_room(&db, || Ok(write(&db)?)).map_err(|failure| self.entry.failed(failure, db.limits()))?;
        drop(admitted);
        if self.syncs() {
            db.flush().map_err(|error| self.entry.failed(error.into(), db.limits()))?;
        }
        Ok(answer)
    }

    /// [`Self::write`] for a write that adds at most one record.
    fn store<T>(&self, key: &str, write: impl FnMut(&Db) -> pipkin::Result<T>) -> Result<T, Refused> {
        self.write(|db| db.admit(1, || Ok(u64::from(!db.contains_key(key)?))), write)
    }

    /// [`Self::write`] for a write that adds no record.
    fn remove<T>(&self, write: impl FnMut(&Db) -> pipkin::Result<T>) -> Result<T, Refused> {
        self.write(|_| Ok(Admitted::none()), write)
    }

    pub(super) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Refused> {
        Ok(self.db()?.get(key)?)
    }

    pub(super) fn get_versioned(&self, key: &str) -> Result<Option<(Vec<u8>, Version)>, Refused> {
        Ok(self.db()?.get_versioned(key)?)
    }

    pub(super) fn set(&self, key: &str, value: &[u8]) -> Result<(), Refused> {
        self.store(key, |db| db.insert(key, value))
    }

    pub(super) fn delete(&self, key: &str) -> Result<(), Refused> {
        self.remove(|db| db.remove(key)).map(drop)
    }

    pub(super) fn exists(&self, key: &str) -> Result<bool, Refused> {
        Ok(self.db()?.contains_key(key)?)
    }

    pub(super) fn swap(&self, key: &str, seen: Option<Version>, value: &[u8]) -> Result<bool, Refused> {
        self.store(key, |db| db.compare_version_and_swap(key, seen, Some(value)))
    }

    /// A page of keys, and where the next one begins.
    pub(super) fn list_keys(&self, cursor: Option<u64>) -> Result<(Vec<String>, Option<u64>), Refused> {
        Ok(keys(&*self.db()?, cursor)?)
    }

    /// Reads many keys; `record` converts each key and its value, if it has one.
    pub(super) fn get_many<R>(
        &self,
        keys: Vec<String>,
        record: impl Fn(String, Option<Vec<u8>>) -> R,
    ) -> Result<Vec<R>, Refused> {
        let (db, mut values, mut answer) = (self.db()?, Vec::new(), Answer::default());
        let begin = || Ok::<_, Refused>(());
        each_value(&db, &keys, begin, |key, value| {
            answer.add(key.len().saturating_add(value.map_or(0, <[u8]>::len)))?;
            values.push(value.map(<[u8]>::to_vec));
            Ok(())
        })?;
        Ok(keys.into_iter().zip(values).map(|(key, value)| record(key, value)).collect())
    }

    pub(super) fn set_many(&self, records: &[Record]) -> Result<(), Refused> {
        let new = |db: &Db| records.iter().try_fold(0, |new, (key, _)| Ok(new + u64::from(!db.contains_key(key)?)));
        self.write(|db| db.admit(records.len(), || new(db)), |db| db.insert_many(records.iter().map(|(key, value)| (key, value))))
    }

    pub(super) fn delete_many(&self, keys: &[String]) -> Result<(), Refused> {
        self.remove(|db| keys.iter().fold(db.batch(), pipkin::Batch::remove).commit())
    }

    /// Adds to a counter, which is stored as decimal text; a missing one counts as zero.
    pub(super) fn increment<N: Copy + Default + Display + FromStr>(
        &self,
        key: &str,
        add: impl Fn(N) -> Option<N>,
    ) -> Result<N, Refused> {
        let mut sum = N::default();
        self.store(key, |db| {
            db.try_update(key, |old| {
                sum = counted(old, &add)?;
                Ok(Some(sum.to_string().into_bytes()))
            })
        })?
        .map_err(Refused::Other)?;
        Ok(sum)
    }
}
