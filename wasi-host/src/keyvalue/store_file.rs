//! The file of a listed store, and the engine that guests share while it is in use.

use pipkin::storage::{NativeOptions, NativeStorage};
use pipkin::{Db, Storage};
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

/// A file, and the engine of it if somebody has opened it.
pub(super) struct StoreFile {
    /// None for an engine that belongs to the embedder.
    path: Option<PathBuf>,
    opened: Mutex<Opened>,
}

impl fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFile").field("path", &self.path).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Opened {
    writer: Option<Engine>,
    /// The locked file of the writer. It stays when an engine that has failed is replaced, for handles to that may live on.
    file: Option<Arc<dyn Storage>>,
    /// An engine that only reads goes with the last handle to it: then the file may be opened for writing.
    reader: Weak<Shared>,
}

impl StoreFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path: Some(path), opened: Mutex::default() }
    }

    pub(super) fn of_embedder(db: Db) -> Self {
        Self { path: None, opened: Mutex::new(Opened { writer: Some(Engine::new(db)), ..Opened::default() }) }
    }

    /// Where the file is, or will be; none for an engine that belongs to the embedder.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The engine, if somebody has opened it to write.
    pub(super) fn opened(&self) -> Option<Engine> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).writer.clone()
    }

    /// The engine to read and write with, which the first caller opens, and whoever comes after a write or sync has failed.
    pub(super) fn open(&self, create: bool, segment_bytes: u32) -> pipkin::Result<Engine> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |engine: &mut Engine| self.path.is_some() && engine.0.db.is_poisoned();
        if let Some(failed) = opened.writer.take_if(is_over) {
            failed.take_away();
        }
        if let Some(engine) = &opened.writer {
            return Ok(engine.clone());
        }
        let path = self.path().ok_or(pipkin::Error::Closed)?;
        let file = match &opened.file {
            Some(file) => file.clone(),
            None if opened.reader.strong_count() > 0 => {
                return Err(pipkin::Error::Locked { path: path.display().to_string(), holder: None });
            }
            None => writable(path, create)?,
        };
        let mut builder = Db::builder().create(create).background(true);
        if segment_bytes > 0 {
            builder = builder.segment_size(segment_bytes);
        }
        let engine = Engine::new(builder.open_storage(Box::new(file.clone()))?);
        opened.file = Some(file);
        Ok(opened.writer.insert(engine).clone())
    }

    /// An engine to read with: the one that writes if there is one, or else one that leaves the file as it is.
    pub(super) fn open_to_read(&self) -> pipkin::Result<Engine> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = self.path().filter(|_| opened.file.is_none()) else {
            drop(opened);
            return self.open(false, 0);
        };
        if let Some(shared) = opened.reader.upgrade() {
            return Ok(Engine(shared));
        }
        let engine = Engine::new(Db::builder().path(path).read_only(true).open()?);
        opened.reader = Arc::downgrade(&engine.0);
        Ok(engine)
    }
}

/// An engine in the hands of guests, from whom it can be taken away.
#[derive(Clone, Debug)]
pub(super) struct Engine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    db: Db,
    is_gone: RwLock<bool>,
}

/// An engine during a call.
pub(super) struct Call<'a> {
    db: &'a Db,
    _in: RwLockReadGuard<'a, bool>,
}

impl Deref for Call<'_> {
    type Target = Db;

    fn deref(&self) -> &Db {
        self.db
    }
}

impl Engine {
    fn new(db: Db) -> Self {
        Self(Arc::new(Shared { db, is_gone: RwLock::new(false) }))
    }

    /// For one call, during which nobody takes it away.
    pub(super) fn call(&self) -> pipkin::Result<Call<'_>> {
        let is_in = self.0.is_gone.read().unwrap_or_else(PoisonError::into_inner);
        if *is_in { Err(pipkin::Error::Closed) } else { Ok(Call { db: &self.0.db, _in: is_in }) }
    }

    /// Waits for the calls that are under way, and ends it for all handles: what they would read, its successor may write over.
    fn take_away(&self) {
        *self.0.is_gone.write().unwrap_or_else(PoisonError::into_inner) = true;
        // It has failed: what closing cannot do, opening again will.
        let _ = self.0.db.clone().close();
    }
}

/// The locked file of a store.
fn writable(path: &Path, create: bool) -> pipkin::Result<Arc<dyn Storage>> {
    if create && let Some(folder) = path.parent() {
        // What is wrong with the folder, opening the file will say.
        let _ = std::fs::create_dir_all(folder);
    }
    Ok(Arc::new(NativeStorage::open(path, NativeOptions { create, ..NativeOptions::default() })?))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::{StoreFile, writable};
    use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
    use pipkin::{Db, Error, StorageErrorKind};
    use std::sync::Arc;

    #[test]
    fn a_store_that_has_failed_is_opened_anew_by_the_next_guest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pipkin");
        let store = StoreFile::new(path.clone());
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
        let store = StoreFile::new(path.clone());
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
