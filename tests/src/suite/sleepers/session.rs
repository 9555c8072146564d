//! One session, the file as it sees it, and what the file must have.

use pipkin::storage::{CacheOptions, CachedStorage, Durability, MemoryStorage, Storage, StorageError};
use pipkin::{Db, Error};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SEGMENT: u32 = 4096;

/// A file that nobody can lock, and what sessions were told is flushed there.
#[derive(Clone)]
pub(super) struct File {
    bytes: MemoryStorage,
    is_sealed: bool,
    flushed: Arc<Mutex<BTreeMap<Vec<u8>, Vec<u8>>>>,
    sessions: Arc<AtomicU64>,
}

impl File {
    pub(super) fn new(is_sealed: bool) -> Self {
        Self { bytes: MemoryStorage::new(), is_sealed, flushed: Arc::default(), sessions: Arc::default() }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes.to_vec()
    }

    /// Opens the file and looks for everything.
    pub(super) fn check(&self) -> Result<(), String> {
        let session = Session::open(self, Seat::new(self, None), "check".into());
        let db = session.map_err(|error| format!("the store does not open: {error}"))?.db;
        super::check(&db, &self.flushed())
    }

    fn flushed(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Vec<u8>>> {
        self.flushed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a session sleeps, and what happens meanwhile.
#[derive(Default)]
pub(super) struct Sleep {
    calls: usize,
    at: usize,
    meanwhile: Option<Box<dyn FnOnce() + Send>>,
    /// The call that came late.
    pub(super) slept_before: Option<String>,
}

impl Sleep {
    /// In front of call `at`.
    pub(super) fn new(at: usize, meanwhile: impl FnOnce() + Send + 'static) -> Self {
        Self { at, meanwhile: Some(Box::new(meanwhile)), ..Self::default() }
    }
}

/// The file as one session sees it.
pub(super) struct Seat {
    file: MemoryStorage,
    pub(super) sleep: Arc<Mutex<Sleep>>,
}

impl Seat {
    pub(super) fn new(file: &File, sleep: Option<Sleep>) -> Self {
        Self { file: file.bytes.clone(), sleep: Arc::new(Mutex::new(sleep.unwrap_or_default())) }
    }

    fn call(&self, what: fmt::Arguments<'_>) {
        let mut sleep = self.sleep.lock().unwrap_or_else(PoisonError::into_inner);
        sleep.calls += 1;
        if sleep.calls == sleep.at
            && let Some(meanwhile) = sleep.meanwhile.take()
        {
            sleep.slept_before = Some(what.to_string());
            drop(sleep);
            meanwhile();
        }
    }
}

impl Storage for Seat {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.call(format_args!("set_len {len}"));
        self.file.set_len(len)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.call(format_args!("a write of {len} bytes at {offset}"));
        self.file.write_at(offset, parts)
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.call(format_args!("a sync"));
        self.file.sync()
    }
    fn is_exclusive(&self) -> bool {
        false
    }
}

/// One session.
pub(super) struct Session {
    pub(super) db: Db,
    file: File,
    name: String,
    puts: u8,
    written: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Session {
    pub(super) fn open(file: &File, seat: Seat, name: String) -> Result<Self, Error> {
        Self::open_on(file, Box::new(seat), name)
    }

    /// With the layer of the component above the file, in which writes gather.
    pub(super) fn open_cached(file: &File, seat: Seat, name: String) -> Result<Self, Error> {
        let cached = CachedStorage::<_, 65_536>::new(seat, CacheOptions::default())?;
        Self::open_on(file, Box::new(cached), name)
    }

    fn open_on(file: &File, storage: Box<dyn Storage>, name: String) -> Result<Self, Error> {
        let number = file.sessions.fetch_add(1, Ordering::Relaxed);
        let mut entropy = [0; 32];
        crate::rng::derive(number, 0).fill(&mut entropy);
        let builder = Db::builder().background(false).segment_size(SEGMENT).entropy(entropy).replay_debt_max(64 * 1024);
        let builder = if file.is_sealed { builder.encryption_key([7; 32]) } else { builder };
        let db = builder.open_storage(storage)?;
        Ok(Self { db, file: file.clone(), name, puts: 0, written: BTreeMap::new() })
    }

    /// Writes a record under a key that no other session has.
    pub(super) fn put(&mut self, len: usize) -> Result<(), Error> {
        self.puts += 1;
        let (key, value) = (format!("{}, {}", self.name, self.puts).into_bytes(), vec![self.puts; len]);
        self.db.insert(&key, &value)?;
        self.written.insert(key, value);
        Ok(())
    }

    /// Many records over the same keys: work for compaction.
    pub(super) fn churn(&mut self) -> Result<(), Error> {
        (0..8_u8).try_for_each(|round| self.db.insert([round % 2], [round; 900]))
    }

    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.db.flush()?;
        self.file.flushed().append(&mut self.written);
        Ok(())
    }

    pub(super) fn close(&mut self) -> Result<(), Error> {
        self.db.clone().close()?;
        self.file.flushed().append(&mut self.written);
        Ok(())
    }

    /// The process ends without a close.
    pub(super) fn end(self) {
        std::mem::forget(self.db);
    }
}
