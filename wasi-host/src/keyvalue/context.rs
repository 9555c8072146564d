//! Which stores guests may open, by what names, and what their handles may keep.

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]
mod tests;

use super::quota::{Failure, Ledger, Limits, Quota};
use super::store_file::{Engine, Place, Presets, StoreFile};
use pipkin::Db;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct WasiKeyValueCtxBuilder {
    directory: PathBuf,
    stores: BTreeMap<String, Listed>,
    quotas: BTreeMap<String, Quota>,
    presets: BTreeMap<String, Presets>,
    read_only: BTreeSet<String>,
    total: Quota,
    handles: Handles,
    told: Option<Told>,
}

impl fmt::Debug for WasiKeyValueCtxBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Presets may be what nobody should read in a log.
        f.debug_struct("WasiKeyValueCtxBuilder")
            .field("directory", &self.directory)
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}

/// Whom errors are told to.
type Told = Arc<dyn Fn(&str, &pipkin::Error) + Send + Sync>;

#[derive(Clone, Debug)]
enum Listed {
    Denied,
    File(SyncPolicy),
    Memory,
    Engine(Db, SyncPolicy),
}

/// What the handles of one guest may be, and keep.
#[derive(Clone, Copy, Debug)]
struct Handles {
    count: usize,
    kept_bytes: usize,
}

impl Default for Handles {
    fn default() -> Self {
        Self { count: 100_000, kept_bytes: 64 << 20 }
    }
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

    /// Lists a store that is in memory, and gone with the last clone of the context.
    pub fn store_in_memory(mut self, name: impl Into<String>) -> Self {
        self.stores.insert(name.into(), Listed::Memory);
        self
    }

    /// Lists a store that the embedder has open, and goes on using.
    pub fn engine(mut self, name: impl Into<String>, db: Db, sync: SyncPolicy) -> Self {
        self.stores.insert(name.into(), Listed::Engine(db, sync));
        self
    }

    /// The store without a name, in memory and with these records: what `wasmtime-wasi-keyvalue` calls so. See [`Self::presets`].
    pub fn in_memory_data<I, K, V>(self, data: I) -> Self
    where
        I: IntoIterator<Item = (K, V)>,
        K: Into<String>,
        V: Into<Vec<u8>>,
    {
        self.store_in_memory("").presets("", data)
    }

    /// Records with which a listed store begins: they are written, as one commit, whenever the store is opened and holds no record.
    pub fn presets<I, K, V>(mut self, name: impl Into<String>, data: I) -> Self
    where
        I: IntoIterator<Item = (K, V)>,
        K: Into<String>,
        V: Into<Vec<u8>>,
    {
        let records = data.into_iter().map(|(key, value)| (key.into().into_bytes(), value.into())).collect();
        self.presets.insert(name.into(), records);
        self
    }

    /// Lets guests only read a listed store: writes answer `access-denied`.
    pub fn read_only(mut self, name: impl Into<String>) -> Self {
        self.read_only.insert(name.into());
        self
    }

    /// Answers `access-denied` to a name, instead of `no-such-store`.
    pub fn deny(mut self, name: impl Into<String>) -> Self {
        self.stores.insert(name.into(), Listed::Denied);
        self
    }

    /// The most that a listed store may take. Names of one file share the strictest of theirs. An engine of the embedder has no quota of
    /// bytes.
    pub fn quota(mut self, name: impl Into<String>, quota: Quota) -> Self {
        self.quotas.insert(name.into(), quota);
        self
    }

    /// The most that all stores of this context may take together: what one guest may, where each guest has a context of its own. Files
    /// count from the start, records, memory and namespaces once a store has been opened.
    pub fn total_quota(mut self, quota: Quota) -> Self {
        self.total = quota;
        self
    }

    /// The most handles that a guest may have: buckets, stores, namespaces, walks and `cas`. Default: 100,000. A guest is whoever works with
    /// one clone of the context.
    pub fn handles_per_guest(mut self, most: usize) -> Self {
        self.handles.count = most;
        self
    }

    /// The most that the handles of a guest may keep of keys and prefixes, in bytes. Default: 64 MiB.
    pub fn kept_bytes_per_guest(mut self, most: usize) -> Self {
        self.handles.kept_bytes = most;
        self
    }

    /// Tells the host of each error for which a store could not be opened or written, with the name of the store. What guests are told of
    /// it names no path, no process and nothing that the system has said.
    pub fn on_error(mut self, told: impl Fn(&str, &pipkin::Error) + Send + Sync + 'static) -> Self {
        self.told = Some(Arc::new(told));
        self
    }

    /// The context.
    pub fn build(self) -> WasiKeyValueCtx {
        let Self { directory, stores, quotas, presets, read_only, total, handles, told } = self;
        let ledger = Arc::new(Ledger::new(total));
        let mut files = BTreeMap::<PathBuf, Arc<StoreFile>>::new();
        let of_file = |name: &str| file_name(name);
        let quota_of = |name: &str| {
            let file = of_file(name);
            quotas.iter().filter(|(other, _)| of_file(other) == file).fold(Quota::default(), |all, (_, quota)| all.and(*quota))
        };
        let entry = |(name, listed): (String, Listed)| {
            let first = || presets.get(&name).cloned().unwrap_or_default();
            let quota = quota_of(&name);
            let new = |place| Arc::new(StoreFile::new(place, quota, ledger.clone(), first()));
            let (sync, store) = match listed {
                Listed::Denied => return (name, None),
                Listed::Engine(db, sync) => (sync, new(Place::Embedder(db))),
                Listed::Memory => (SyncPolicy::Manual, new(Place::Memory)),
                Listed::File(sync) => {
                    let path = directory.join(of_file(&name));
                    // The names "" and "default" are one file.
                    (sync, files.entry(path.clone()).or_insert_with(|| new(Place::File(path))).clone())
                }
            };
            let shared = Shared { store, sync, read_only: read_only.contains(&name), told: told.clone(), name: name.clone() };
            (name, Some(Entry(Arc::new(shared))))
        };
        let stores = stores.into_iter().map(entry).collect();
        WasiKeyValueCtx { stores: Arc::new(stores), guest: Arc::new(Guest::new(handles)) }
    }
}

/// The stores that guests may open. Clones share the engines; what is open closes with the last one. Each clone counts the handles of the
/// guest that works with it for itself.
#[derive(Debug)]
pub struct WasiKeyValueCtx {
    stores: Arc<BTreeMap<String, Option<Entry>>>,
    guest: Arc<Guest>,
}

impl Clone for WasiKeyValueCtx {
    fn clone(&self) -> Self {
        Self { stores: self.stores.clone(), guest: Arc::new(Guest::new(self.guest.most)) }
    }
}

/// The handles of one guest.
#[derive(Debug)]
struct Guest {
    most: Handles,
    count: AtomicUsize,
    kept_bytes: AtomicUsize,
}

impl Guest {
    fn new(most: Handles) -> Self {
        Self { most, count: AtomicUsize::new(0), kept_bytes: AtomicUsize::new(0) }
    }
}

/// A handle, and so many bytes that it keeps, until it is dropped.
#[derive(Debug)]
pub(super) struct Kept {
    bytes: usize,
    guest: Arc<Guest>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.guest.count.fetch_sub(1, Ordering::Relaxed);
        self.guest.kept_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// One listed store: names of one file share it.
#[derive(Clone)]
pub(super) struct Entry(Arc<Shared>);

struct Shared {
    name: String,
    store: Arc<StoreFile>,
    sync: SyncPolicy,
    read_only: bool,
    told: Option<Told>,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("store", &self.0.store).finish_non_exhaustive()
    }
}

impl Entry {
    pub(super) fn store(&self) -> &StoreFile {
        &self.0.store
    }

    /// Whether writes are synced before they return.
    pub(super) fn syncs(&self) -> bool {
        self.0.sync == SyncPolicy::EachSet
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.0.read_only
    }

    /// Tells the host, and not the guest, what there is to say.
    #[cold]
    pub(super) fn tell(&self, error: &pipkin::Error) {
        if let Some(told) = &self.0.told {
            told(&self.0.name, error);
        }
    }

    /// What went wrong with a write, once the host has been told.
    #[cold]
    pub(super) fn failed(&self, failure: Failure, limits: &Limits) -> Failure {
        let failure = limits.explain(failure);
        if let Failure::Engine(error) = &failure {
            self.tell(error);
        }
        failure
    }

    /// The engine that `open` gives.
    pub(super) fn opened(&self, open: impl FnOnce(&StoreFile) -> pipkin::Result<Engine>) -> pipkin::Result<Engine> {
        open(self.store()).inspect_err(|error| self.tell(error))
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
        let open = self.stores.values().flatten().filter_map(|entry| entry.store().opened());
        let results: Vec<pipkin::Result<()>> = open.map(|engine| engine.call()?.flush().map(drop)).collect();
        results.into_iter().collect()
    }

    pub(super) fn entry(&self, name: &str) -> Result<&Entry, Unlisted> {
        self.stores.get(name).ok_or(Unlisted::Unknown)?.as_ref().ok_or(Unlisted::Denied)
    }

    /// A handle of this guest that keeps so many bytes; none when all of its handles are too many, or keep too much.
    pub(super) fn keep(&self, bytes: usize) -> Result<Kept, &'static str> {
        let kept = Kept { bytes, guest: self.guest.clone() };
        let Guest { most, count, kept_bytes } = &*self.guest;
        let count = count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let all = kept_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if count > most.count {
            return Err("this component has as many handles as the host allows; drop some of them");
        }
        if all > most.kept_bytes {
            return Err("the handles of this component keep as many bytes of keys as the host allows; drop some of them");
        }
        Ok(kept)
    }
}

/// A name as the name of a file, whatever is in it: see `wit/world.wit`.
fn file_name(name: &str) -> String {
    let name = if name.is_empty() { "default" } else { name };
    let mut file = String::new();
    for (at, byte) in name.bytes().enumerate() {
        let is_inner_dot = byte == b'.' && at > 0 && at + 1 < name.len();
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => file.push(char::from(byte)),
            _ if is_inner_dot => file.push('.'),
            other => file.push_str(&format!("%{other:02X}")),
        }
    }
    file + ".pipkin"
}
