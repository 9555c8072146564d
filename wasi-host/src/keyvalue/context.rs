//! Which stores there are, and the engines of those that are in use.

use pipkin::storage::{NativeOptions, NativeStorage};
use pipkin::{Db, Storage};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

/// When the sets of a store become durable to a power cut. The end of the process they survive in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// When the host says so with [`WasiKeyValueCtx::flush`], when a guest of `pipkin:kv` flushes, and when the store is closed.
    #[default]
    Manual,
    /// Each set and each batch, before it returns: the price is a sync of the device.
    EachSet,
}

/// Lists the stores of a [`WasiKeyValueCtx`].
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct WasiKeyValueCtxBuilder {
    directory: PathBuf,
    stores: BTreeMap<String, Listed>,
}

#[derive(Clone, Debug)]
enum Listed {
    Denied,
    File(SyncPolicy),
    Engine(Db, SyncPolicy),
}

impl WasiKeyValueCtxBuilder {
    /// No stores, in the current directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The directory of the stores, made when the first one is. Default: the current one.
    pub fn directory(mut self, path: impl AsRef<Path>) -> Self {
        self.directory = path.as_ref().into();
        self
    }

    /// Lists a store under the name by which guests open it. Its file is named after it, `NAME.pipkin`, with `default` for the empty name
    /// and `%XX` for whatever is no letter, digit, `-`, `_` or inner dot, as the component names it; it is made and opened when the first
    /// guest asks for it.
    pub fn store(self, name: impl Into<String>) -> Self {
        self.store_with(name, SyncPolicy::default())
    }

    /// [`Self::store`], and when its sets become durable.
    pub fn store_with(mut self, name: impl Into<String>, sync: SyncPolicy) -> Self {
        self.stores.insert(name.into(), Listed::File(sync));
        self
    }

    /// Lists a store that the embedder has open, and goes on using.
    pub fn engine(mut self, name: impl Into<String>, db: Db, sync: SyncPolicy) -> Self {
        self.stores.insert(name.into(), Listed::Engine(db, sync));
        self
    }

    /// Answers `access-denied` to a name, instead of `no-such-store`.
    pub fn deny(mut self, name: impl Into<String>) -> Self {
        self.stores.insert(name.into(), Listed::Denied);
        self
    }

    /// The context.
    pub fn build(self) -> WasiKeyValueCtx {
        let Self { directory, stores } = self;
        let mut files = BTreeMap::<PathBuf, Arc<StoreFile>>::new();
        let entry = |(name, listed): (String, Listed)| {
            let (sync, store) = match listed {
                Listed::Denied => return (name, None),
                Listed::Engine(db, sync) => (sync, Arc::new(StoreFile::of_embedder(db))),
                Listed::File(sync) => {
                    let path = directory.join(file_name(&name, is_inner_dot));
                    let older = directory.join(file_name(&name, |_, _| false));
                    // The names "" and "default" are one file.
                    let store = files.entry(path.clone()).or_insert_with(|| Arc::new(StoreFile::new(path, older)));
                    (sync, store.clone())
                }
            };
            (name, Some(Entry { store, sync }))
        };
        let stores = stores.into_iter().map(entry).collect();
        WasiKeyValueCtx { stores: Arc::new(stores), kept_bytes: Arc::default() }
    }
}

/// The stores that guests may open. Clones share the engines; what is open closes with the last one.
#[derive(Clone, Debug)]
pub struct WasiKeyValueCtx {
    stores: Arc<BTreeMap<String, Option<Entry>>>,
    kept_bytes: Arc<AtomicUsize>,
}

/// What the handles of all guests may keep of keys, in bytes. A guest can have a million handles, and a key 64 KiB.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// So much of that, until it is dropped.
#[derive(Debug)]
pub(super) struct Kept {
    bytes: usize,
    all: Arc<AtomicUsize>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// One listed store: names of one file share it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) store: Arc<StoreFile>,
    pub(super) sync: SyncPolicy,
}

/// A file, and the engine of it if somebody has opened it.
pub(super) struct StoreFile {
    /// Its name now, and the one that version 0.1.0 began with; none for an engine that belongs to the embedder.
    paths: Option<(PathBuf, PathBuf)>,
    opened: Mutex<Opened>,
}

impl fmt::Debug for StoreFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFile").field("paths", &self.paths).finish_non_exhaustive()
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

/// Why there is no store of that name.
#[derive(Debug)]
pub(super) enum Unlisted {
    Unknown,
    Denied,
}

impl WasiKeyValueCtx {
    /// Lists the stores.
    pub fn builder() -> WasiKeyValueCtxBuilder {
        WasiKeyValueCtxBuilder::new()
    }

    /// Makes everything durable that guests have written to any of the stores.
    ///
    /// # Errors
    ///
    /// The first failure, after all stores have been tried.
    pub fn flush(&self) -> pipkin::Result<()> {
        let open = self.stores.values().flatten().filter_map(|entry| entry.store.opened());
        let results: Vec<pipkin::Result<()>> = open.map(|engine| engine.call()?.flush().map(drop)).collect();
        results.into_iter().collect()
    }

    pub(super) fn entry(&self, name: &str) -> Result<&Entry, Unlisted> {
        self.stores.get(name).ok_or(Unlisted::Unknown)?.as_ref().ok_or(Unlisted::Denied)
    }

    /// Room for what a handle keeps; none when the handles of all guests keep too much.
    pub(super) fn keep(&self, bytes: usize) -> Result<Kept, &'static str> {
        let kept = Kept { bytes, all: self.kept_bytes.clone() };
        let all = self.kept_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if all > KEPT_BYTES_MAX { Err("the handles of all guests keep 64 MiB of keys; drop some of them") } else { Ok(kept) }
    }
}

impl StoreFile {
    fn new(path: PathBuf, older: PathBuf) -> Self {
        Self { paths: Some((path, older)), opened: Mutex::default() }
    }

    fn of_embedder(db: Db) -> Self {
        Self { paths: None, opened: Mutex::new(Opened { writer: Some(Engine::new(db)), ..Opened::default() }) }
    }

    /// Where the file is, or will be; none for an engine that belongs to the embedder.
    pub(super) fn path(&self) -> Option<&Path> {
        let (path, older) = self.paths.as_ref()?;
        Some(if !path.exists() && older.exists() { older } else { path })
    }

    /// The engine, if somebody has opened it to write.
    pub(super) fn opened(&self) -> Option<Engine> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner).writer.clone()
    }

    /// The engine to read and write with, which the first caller opens, and whoever comes after a write or sync has failed.
    pub(super) fn open(&self, create: bool, segment_bytes: u32) -> pipkin::Result<Engine> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = |engine: &mut Engine| self.paths.is_some() && engine.0.db.is_poisoned();
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

/// The locked file of a store.
fn writable(path: &Path, create: bool) -> pipkin::Result<Arc<dyn Storage>> {
    if create && let Some(folder) = path.parent() {
        // What is wrong with the folder, opening the file will say.
        let _ = std::fs::create_dir_all(folder);
    }
    Ok(Arc::new(NativeStorage::open(path, NativeOptions { create, ..NativeOptions::default() })?))
}

/// A name as the name of a file, whatever is in it: see `wit/world.wit`.
fn file_name(name: &str, stays: impl Fn(&str, usize) -> bool) -> String {
    let name = if name.is_empty() { "default" } else { name };
    let mut file = String::new();
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => file.push(char::from(byte)),
            other if stays(name, at) => file.push(char::from(other)),
            other => file.push_str(&format!("%{other:02X}")),
        }
    }
    file + ".pipkin"
}

/// The first files had `%2E` for these, too.
fn is_inner_dot(name: &str, at: usize) -> bool {
    name.as_bytes().get(at) == Some(&b'.') && at > 0 && at + 1 < name.len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::{StoreFile, WasiKeyValueCtx, file_name, is_inner_dot};
    use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
    use pipkin::{Db, Error, StorageErrorKind};
    use std::sync::Arc;

    #[test]
    fn no_name_is_a_path() {
        let file_name = |name| file_name(name, is_inner_dot);
        assert_eq!(file_name(""), "default.pipkin");
        assert_eq!(file_name("user-sessions_2"), "user-sessions_2.pipkin");
        assert_eq!(file_name("my.store"), "my.store.pipkin");
        assert_eq!(file_name("."), "%2E.pipkin");
        assert_eq!(file_name("../etc/passwd."), "%2E.%2Fetc%2Fpasswd%2E.pipkin");
        assert_eq!(file_name("C:\\x\0"), "C%3A%5Cx%00.pipkin");
        assert_eq!(file_name("ä"), "%C3%A4.pipkin");
    }

    #[test]
    fn a_file_has_one_engine_whatever_it_is_called() {
        let folder = tempfile::tempdir().unwrap();
        Db::open(folder.path().join("my%2Estore.pipkin")).unwrap().insert("k", "older").unwrap();
        let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("").store("default").store("my.store").build();
        let open = |name: &str| ctx.entry(name).unwrap().store.open(true, 0).unwrap();
        open("").call().unwrap().insert("k", "v").unwrap();
        assert_eq!(open("default").call().unwrap().get("k").unwrap().unwrap(), b"v");
        assert_eq!(open("my.store").call().unwrap().get("k").unwrap().unwrap(), b"older");
        assert!(!folder.path().join("my.store.pipkin").exists());
    }

    #[test]
    fn a_store_that_has_failed_is_opened_anew_by_the_next_guest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pipkin");
        let store = StoreFile::new(path.clone(), path.clone());
        let faults = FaultStorage::new(super::writable(&path, true).unwrap());
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
        let store = StoreFile::new(path.clone(), path.clone());
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
