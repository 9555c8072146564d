//! The file of a listed store, and the engine that guests share while it is in use.

use super::quota::{self, Admitted, Failure, Ledger, Limits, Metered, Quota};
use pipkin::limits::{SEGMENT_SIZE_DEFAULT, SEGMENT_SIZE_MIN};
use pipkin::storage::{MemoryStorage, NativeOptions, NativeStorage};
use pipkin::{Builder, Db, Stats, Storage};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};

/// Records that are written into an empty store.
pub(super) type Presets = Vec<(Vec<u8>, Vec<u8>)>;

/// Where a store keeps its records.
pub(super) enum Place {
    File(PathBuf),
    /// In memory, for as long as the context.
    Memory,
    /// In an engine that belongs to the embedder.
    Embedder(Db),
}

/// The file of a store, and its engine while one is open.
pub(super) struct StoreFile {
    place: Place,
    quota: Quota,
    ledger: Arc<Ledger>,
    presets: Presets,
    /// Has the key of a sealed store.
    opener: Builder,
    /// How many bytes of the file the ledger counts.
    counted: Arc<Mutex<u64>>,
    opened: Mutex<Opened>,
}

impl fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFile").field("path", &self.path()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Opened {
    writer: Option<Engine>,
    /// The writer's file, which holds the lock. It is reused when a failed engine is replaced, because handles to that engine may still
    /// exist.
    file: Option<Arc<dyn Storage>>,
    /// A read-only engine is dropped with the last handle to it; then the file may be opened for writing.
    reader: Weak<Shared>,
    /// Reads a file that another process writes; it holds no lock.
    follower: Weak<Shared>,
}

impl StoreFile {
    pub(super) fn new(place: Place, quota: Quota, ledger: Arc<Ledger>, presets: Presets) -> Self {
        let counted = match &place {
            Place::File(path) => std::fs::metadata(path).map_or(0, |file| file.len()),
            Place::Memory | Place::Embedder(_) => 0,
        };
        ledger.count(counted);
        Self {
            place,
            quota,
            ledger,
            presets,
            opener: Db::builder(),
            counted: Arc::new(Mutex::new(counted)),
            opened: Mutex::default(),
        }
    }

    /// The same, opened as this builder says.
    pub(super) fn opened_by(self, opener: Builder) -> Self {
        Self { opener, ..self }
    }

    /// The path of the file, which need not exist yet; `None` for a store in memory or of the embedder.
    pub(super) fn path(&self) -> Option<&Path> {
        if let Place::File(path) = &self.place { Some(path) } else { None }
    }

    fn lock(&self) -> MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The engine that writes, if one is open.
    pub(super) fn opened(&self) -> Option<Engine> {
        self.lock().writer.clone()
    }

    /// The engine to read and write with. The first caller opens it; so does the first one after a failed write or sync.
    pub(super) fn open(&self, create: bool, segment_bytes: u32) -> pipkin::Result<Engine> {
        let mut opened = self.lock();
        let is_ours = !matches!(self.place, Place::Embedder(_));
        if let Some(failed) = opened.writer.take_if(|engine| is_ours && engine.0.db.is_poisoned()) {
            failed.take_away();
        }
        if let Some(engine) = &opened.writer {
            return Ok(engine.clone());
        }
        let limits = || Limits::new(self.quota, self.ledger.clone());
        let path = match &self.place {
            Place::Embedder(db) => return Ok(self.enter(&mut opened, Engine::new(db.clone(), limits()))),
            Place::File(path) => Some(path),
            Place::Memory => None,
        };
        let limits = limits();
        let file = match (&opened.file, path) {
            (Some(file), _) => file.clone(),
            (None, Some(path)) if opened.reader.strong_count() > 0 => {
                return Err(pipkin::Error::Locked { path: path.display().to_string(), holder: None });
            }
            (None, Some(path)) => writable(path, create)?,
            (None, None) => Arc::new(MemoryStorage::new()),
        };
        let mut builder = self.opener.clone().create(create || path.is_none()).background(true);
        let bytes = self.ledger.bytes_for(self.quota);
        match (segment_bytes, bytes) {
            (0, None) => {}
            (0, Some(bytes)) => builder = builder.segment_size(segment_for(bytes)),
            (wanted, _) => builder = builder.segment_size(wanted),
        }
        if let Some(most) = self.ledger.memory_for(self.quota) {
            builder = builder.snapshot_limit(most);
        }
        let storage: Box<dyn Storage> = match bytes {
            None => Box::new(file.clone()),
            Some(_) => Box::new(Metered::new(file.clone(), &limits, self.counted.clone())?),
        };
        let db = builder.open_storage(storage)?;
        if !self.presets.is_empty() && db.is_empty()? {
            db.insert_many(self.presets.iter().map(|(key, value)| (key, value)))?;
        }
        opened.file = Some(file);
        Ok(self.enter(&mut opened, Engine::new(db, limits)))
    }

    fn enter(&self, opened: &mut Opened, engine: Engine) -> Engine {
        let store: Weak<Shared> = Arc::downgrade(&engine.0);
        self.ledger.enter(store);
        opened.writer.insert(engine).clone()
    }

    /// An engine to read with: the writing one if it is open, else a read-only one, which leaves the file unchanged.
    pub(super) fn open_to_read(&self) -> pipkin::Result<Engine> {
        let mut opened = self.lock();
        let Some(path) = self.path().filter(|_| opened.file.is_none()) else {
            drop(opened);
            return self.open(false, 0);
        };
        if let Some(shared) = opened.reader.upgrade() {
            return Ok(Engine(shared));
        }
        let db = self.opener.clone().path(path).read_only(true).open()?;
        let engine = Engine::new(db, Limits::new(self.quota, self.ledger.clone()));
        opened.reader = Arc::downgrade(&engine.0);
        Ok(engine)
    }

    /// An engine that follows the process that writes the file; the writing one if that is this process.
    pub(super) fn open_to_follow(&self) -> pipkin::Result<Engine> {
        let mut opened = self.lock();
        let Some(path) = self.path().filter(|_| opened.file.is_none()) else {
            drop(opened);
            return self.open(false, 0);
        };
        if let Some(shared) = opened.follower.upgrade() {
            return Ok(Engine(shared));
        }
        let db = self.opener.clone().path(path).follow(true).open()?;
        let engine = Engine::new(db, Limits::new(self.quota, self.ledger.clone()));
        opened.follower = Arc::downgrade(&engine.0);
        Ok(engine)
    }

    /// Creates the file as a copy of `source`. Nobody has opened it yet.
    pub(super) fn copy_from(&self, source: &Engine) -> Result<u64, Failure> {
        let Some(path) = self.path() else { return Err(pipkin::Error::Closed.into()) };
        let _opened = self.lock();
        let source = source.call()?;
        let expected = source.stats()?.file_bytes;
        if !self.ledger.may_copy(self.quota, expected) {
            return Err(Failure::Quota(quota::FILE_BYTES));
        }
        let bytes = source.backup_to(path)?.bytes;
        self.ledger.count(bytes);
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) += bytes;
        Ok(bytes)
    }
}

/// An engine that guests share; it can be closed for all of them at once.
#[derive(Clone, Debug)]
pub(super) struct Engine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    db: Db,
    is_gone: RwLock<bool>,
    /// Held while namespaces are looked up or created, so that nobody sees one that a failing commit drops again.
    names: Mutex<()>,
    limits: Limits,
}

/// An engine during one call; it is not taken away meanwhile.
pub(super) struct Call<'a> {
    engine: &'a Shared,
    _in: RwLockReadGuard<'a, bool>,
}

impl Deref for Call<'_> {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.engine.db
    }
}

impl<'a> Call<'a> {
    /// Admits a write of `records` records, of which `new` returns how many are new. Other threads cannot count while the result is held.
    pub(super) fn admit(&self, records: usize, new: impl FnOnce() -> pipkin::Result<u64>) -> Result<Admitted<'a>, Failure> {
        self.engine.limits.admit(&self.engine.db, records as u64, new)
    }

    /// The lock to hold while namespaces are looked up or created.
    pub(super) fn names(&self) -> MutexGuard<'a, ()> {
        self.engine.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits(&self) -> &'a Limits {
        &self.engine.limits
    }
}

impl quota::Open for Shared {
    fn is_gone(&self) -> bool {
        self.enter().is_err()
    }

    fn stats(&self) -> pipkin::Result<Option<Stats>> {
        self.enter().ok().map(|call| call.stats()).transpose()
    }

    fn namespaces(&self) -> u64 {
        self.enter().map_or(0, |call| quota::named(&call))
    }

    fn forget_credit(&self) {
        self.limits.forget_credit();
    }
}

impl Shared {
    /// Begins a call; the engine is not taken away before it ends. Fails with `Closed` if it has been.
    fn enter(&self) -> pipkin::Result<Call<'_>> {
        let is_in = self.is_gone.read().unwrap_or_else(PoisonError::into_inner);
        if *is_in { Err(pipkin::Error::Closed) } else { Ok(Call { engine: self, _in: is_in }) }
    }
}

impl Engine {
    fn new(db: Db, limits: Limits) -> Self {
        Self(Arc::new(Shared { db, is_gone: RwLock::new(false), names: Mutex::new(()), limits }))
    }

    /// Begins a call; the engine is not taken away before it ends. Fails with `Closed` if it has been.
    pub(super) fn call(&self) -> pipkin::Result<Call<'_>> {
        self.0.enter()
    }

    /// Waits for running calls, then closes the engine for all handles: its successor may overwrite what they would read.
    fn take_away(&self) {
        *self.0.is_gone.write().unwrap_or_else(PoisonError::into_inner) = true;
        // The engine has failed, so closing may fail too; opening the file again recovers it.
        let _ = self.0.db.clone().close();
    }
}

/// The segment size of a new store that may have `bytes` bytes. Some segments are kept free, and compaction needs several to choose from.
fn segment_for(bytes: u64) -> u32 {
    const SEGMENTS: u64 = 32;
    let segment = (bytes / SEGMENTS).clamp(SEGMENT_SIZE_MIN.into(), SEGMENT_SIZE_DEFAULT.into());
    1 << segment.ilog2()
}

/// Opens and locks the file of a store; with `create`, also makes its folder.
fn writable(path: &Path, create: bool) -> pipkin::Result<Arc<dyn Storage>> {
    if create && let Some(folder) = path.parent() {
        // Ignored: if the folder cannot be created, opening the file reports why.
        let _ = std::fs::create_dir_all(folder);
    }
    Ok(Arc::new(NativeStorage::open(path, NativeOptions { create, ..NativeOptions::default() })?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::{Place, Quota, StoreFile, writable};
    use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
    use pipkin::{Db, Error, StorageErrorKind};
    use std::sync::Arc;

    #[test]
    fn a_store_that_has_failed_is_opened_anew_by_the_next_guest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pipkin");
        let store = StoreFile::new(Place::File(path.clone()), Quota::default(), Arc::default(), Vec::new());
        let faults = FaultStorage::new(writable(&path, true).unwrap());
        store.opened.lock().unwrap().file = Some(Arc::new(faults.clone()));
        let old = store.open(true, 0).unwrap();
        old.call().unwrap().insert("k", "v").unwrap();
        assert!(!old.call().unwrap().is_poisoned());
        faults.arm(Fault::nth(1, Io::Sync, Effect::Error(StorageErrorKind::Other)));
        assert!(old.call().unwrap().flush().is_err());
        assert!(matches!(old.call().unwrap().insert("k", "w"), Err(Error::Poisoned(_))));
        assert!(old.call().unwrap().is_poisoned());
        let new = store.open(true, 0).unwrap();
        new.call().unwrap().insert("l", "w").unwrap();
        assert!(matches!(old.call().map(drop), Err(Error::Closed)), "the new engine may write over what the old one reads");
        drop(old);
        assert!(matches!(Db::open(&path), Err(Error::Locked { .. })));
        new.call().unwrap().insert("l", "x").unwrap();
        drop((new, store));
        drop(faults);
        assert_eq!(Db::open(&path).unwrap().len().unwrap(), 2);
    }

    #[test]
    fn readers_leave_the_file_as_it_is_and_writers_wait_for_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pipkin");
        let store = StoreFile::new(Place::File(path.clone()), Quota::default(), Arc::default(), Vec::new());
        assert!(matches!(store.open_to_read(), Err(Error::NotFound { .. })));
        let db = Db::open(&path).unwrap();
        db.insert("k", "v").unwrap();
        db.close().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (one, two) = (store.open_to_read().unwrap(), store.open_to_read().unwrap());
        assert_eq!(one.call().unwrap().get("k").unwrap(), two.call().unwrap().get("k").unwrap());
        assert!(matches!(one.call().unwrap().insert("k", "w"), Err(Error::ReadOnly)));
        assert!(matches!(store.open(true, 0), Err(Error::Locked { .. })));
        drop((one, two));
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        store.open(true, 0).unwrap().call().unwrap().insert("k", "w").unwrap();
        assert_eq!(store.open_to_read().unwrap().call().unwrap().get("k").unwrap().unwrap(), b"w");
    }
}
