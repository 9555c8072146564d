//! Which stores guests may open, under which names, and how many handles they may have.

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]
mod tests;

use super::quota::{Failure, Ledger, Limits, Quota};
use super::store_file::{Engine, Place, Presets, StoreFile};
use pipkin::{Builder, Db};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// When writes to a store become safe from a power cut. They survive the end of the process in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// When the host calls [`WasiKeyValueCtx::flush`], when a guest of `pipkin:kv` flushes, and when the store is closed.
    #[default]
    Manual,
    /// Before each set and each batch returns, at the price of a sync of the device.
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
    /// What opens sealed stores.
    openers: BTreeMap<String, Builder>,
    read_only: BTreeSet<String>,
    followed: BTreeSet<String>,
    total: Quota,
    handles: Handles,
    told: Option<Told>,
}

impl fmt::Debug for WasiKeyValueCtxBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Presets and keys are left out: they are secrets or may hold some, which must not get into a log.
        f.debug_struct("WasiKeyValueCtxBuilder")
            .field("directory", &self.directory)
            .field("stores", &self.stores)
            .finish_non_exhaustive()
    }
}

/// The callback of [`WasiKeyValueCtxBuilder::on_error`]: name of the store, error.
type Told = Arc<dyn Fn(&str, &pipkin::Error) + Send + Sync>;

#[derive(Clone, Debug)]
enum Listed {
    Denied,
    File(SyncPolicy),
    Memory,
    Engine(Db, SyncPolicy),
}

const KEPT_BYTES: &str = "the handles of this component, its transactions and its readers of changes keep as many bytes as the host allows; drop some, write less in a \
                          transaction, or take what a reader has read";

/// Limits of the handles of one guest: their number, and the bytes that they keep.
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
    /// Starts with no stores, and with the current directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The directory of the stores, created with the first one. Default: the current one.
    pub fn directory(mut self, path: impl AsRef<Path>) -> Self {
        self.directory = path.as_ref().into();
        self
    }

    /// Lists a store under the name by which guests open it. Its file is `NAME.pipkin`, with `default` for the empty name, and `%XX` for
    /// every byte that is not a letter, digit, `-`, `_` or inner dot; the component uses the same names. The file is created and opened
    /// when the first guest opens the store.
    pub fn store(self, name: impl Into<String>) -> Self {
        self.store_with(name, SyncPolicy::default())
    }

    /// [`Self::store`] with a choice of when its writes become safe from a power cut.
    pub fn store_with(mut self, name: impl Into<String>, sync: SyncPolicy) -> Self {
        self.stores.insert(name.into(), Listed::File(sync));
        self
    }

    /// Lists a store in memory; it is dropped with the last clone of the context.
    pub fn store_in_memory(mut self, name: impl Into<String>) -> Self {
        self.stores.insert(name.into(), Listed::Memory);
        self
    }

    /// Lists a store that the embedder has opened itself and may keep using.
    pub fn engine(mut self, name: impl Into<String>, db: Db, sync: SyncPolicy) -> Self {
        self.stores.insert(name.into(), Listed::Engine(db, sync));
        self
    }

    /// Lists the store with the empty name, in memory, with these records; the counterpart of the method of this name in
    /// `wasmtime-wasi-keyvalue`. See [`Self::presets`].
    pub fn in_memory_data<I, K, V>(self, data: I) -> Self
    where
        I: IntoIterator<Item = (K, V)>,
        K: Into<String>,
        V: Into<Vec<u8>>,
    {
        self.store_in_memory("").presets("", data)
    }

    /// Initial records of a listed store: they are written, as one commit, whenever the store is opened to write and holds no record.
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

    /// Seals a listed store under a key of 32 random bytes, which no guest ever sees: a new one is created with it, and one that is there is opened. Without
    /// the key that it was created with, and with one for a store that is not sealed, opening fails, and [`Self::on_error`] hears
    /// [`KeyNeeded`](pipkin::Error::KeyNeeded), [`WrongKey`](pipkin::Error::WrongKey) or [`NotSealed`](pipkin::Error::NotSealed). Names of the same file
    /// share a key. Does nothing for an engine of the embedder ([`Self::engine`]), which is open already.
    #[cfg(feature = "encrypt")]
    pub fn encryption_key(self, name: impl Into<String>, key: [u8; 32]) -> Self {
        self.opened_with(name, |opener| opener.encryption_key(key))
    }

    /// As [`Self::encryption_key`], with a passphrase, from which each opening computes a key for some tenths of a second.
    #[cfg(feature = "encrypt")]
    pub fn encryption_passphrase(self, name: impl Into<String>, passphrase: impl AsRef<[u8]>) -> Self {
        self.opened_with(name, |opener| opener.encryption_passphrase(passphrase))
    }

    /// Lets guests have the values of a sealed store compressed (`set-compression`): their lengths, which are rounded up, then tell something of what is in
    /// them, and more to a guest that writes next to the secrets of another. Without it a guest that asks is told `invalid-argument`.
    #[cfg(feature = "encrypt")]
    pub fn compress_sealed(self, name: impl Into<String>) -> Self {
        self.opened_with(name, |opener| opener.compress_sealed(true))
    }

    #[cfg(feature = "encrypt")]
    fn opened_with(mut self, name: impl Into<String>, with: impl FnOnce(Builder) -> Builder) -> Self {
        let name = name.into();
        let opener = self.openers.remove(&name).unwrap_or_else(Db::builder);
        self.openers.insert(name, with(opener));
        self
    }

    /// Makes a listed store read-only for guests: writes fail with `access-denied`.
    pub fn read_only(mut self, name: impl Into<String>) -> Self {
        self.read_only.insert(name.into());
        self
    }

    /// Makes a listed store one that another process writes meanwhile: guests read what has been appended by the time of each call, without a
    /// lock, and writes fail with `access-denied`. The file has to be there when a guest opens it.
    pub fn follow(mut self, name: impl Into<String>) -> Self {
        let name = name.into();
        self.read_only.insert(name.clone());
        self.followed.insert(name);
        self
    }

    /// Makes opening this name fail with `access-denied` instead of `no-such-store`.
    pub fn deny(mut self, name: impl Into<String>) -> Self {
        self.stores.insert(name.into(), Listed::Denied);
        self
    }

    /// Limits what a listed store may take. Names of the same file share the strictest of their quotas. The byte quota does not apply to an
    /// engine of the embedder ([`Self::engine`]).
    pub fn quota(mut self, name: impl Into<String>, quota: Quota) -> Self {
        self.quotas.insert(name.into(), quota);
        self
    }

    /// Limits what all stores of this context may take together; with a context per guest, this is a quota per guest. Files count from the
    /// start; records, memory and namespaces count once a store has been opened.
    pub fn total_quota(mut self, quota: Quota) -> Self {
        self.total = quota;
        self
    }

    /// The most handles that a guest may have: buckets, stores, namespaces, scans, snapshots, transactions, readers of changes, logs of events and their readers, and `cas`. Default: 100,000. Everything that
    /// works with one clone of the context counts as one guest.
    pub fn handles_per_guest(mut self, most: usize) -> Self {
        self.handles.count = most;
        self
    }

    /// The most bytes that the handles of a guest may keep in memory: keys, prefixes, what open transactions have written, and read, of which each
    /// key takes some 10 bytes, what readers of changes have read ahead, which goes over it by one step: 256 KiB of log, and the rest of a
    /// commit, and eight bytes for each event that a reader of kinds or tags has still to come to. Default: 64 MiB.
    pub fn kept_bytes_per_guest(mut self, most: usize) -> Self {
        self.handles.kept_bytes = most;
        self
    }

    /// Sets a callback for each error of opening or writing a store; it gets the name of the store and the error. The message for guests
    /// contains no path, no process and no text of the operating system.
    pub fn on_error(mut self, told: impl Fn(&str, &pipkin::Error) + Send + Sync + 'static) -> Self {
        self.told = Some(Arc::new(told));
        self
    }

    /// Builds the context. No store is opened yet.
    pub fn build(self) -> WasiKeyValueCtx {
        let Self { directory, stores, quotas, presets, openers, read_only, followed, total, handles, told } = self;
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
            let opener = || {
                openers
                    .iter()
                    .find(|(other, _)| of_file(other) == of_file(&name))
                    .map_or_else(Db::builder, |(_, opener)| opener.clone())
            };
            let new = |place| Arc::new(StoreFile::new(place, quota, ledger.clone(), first()).opened_by(opener()));
            let (sync, store) = match listed {
                Listed::Denied => return (name, None),
                Listed::Engine(db, sync) => (sync, new(Place::Embedder(db))),
                Listed::Memory => (SyncPolicy::Manual, new(Place::Memory)),
                Listed::File(sync) => {
                    let path = directory.join(of_file(&name));
                    // The names "" and "default" are the same file.
                    (sync, files.entry(path.clone()).or_insert_with(|| new(Place::File(path))).clone())
                }
            };
            let (read_only, follows) = (read_only.contains(&name), followed.contains(&name));
            let shared = Shared { store, sync, read_only, follows, told: told.clone(), name: name.clone() };
            (name, Some(Entry(Arc::new(shared))))
        };
        let stores = stores.into_iter().map(entry).collect();
        WasiKeyValueCtx { stores: Arc::new(stores), guest: Arc::new(Guest::new(handles)) }
    }
}

/// The stores that guests may open. Clones share the engines, and dropping the last clone closes them. Each clone counts the handles of its
/// guest separately.
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

/// Counts the handles of one guest and the bytes that they keep.
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

/// One counted handle and the bytes that it keeps; dropping it subtracts both.
#[derive(Debug)]
pub(super) struct Kept {
    bytes: usize,
    guest: Arc<Guest>,
}

impl Kept {
    /// Makes it keep `bytes` bytes, which may be more than it kept before. Fails, with a message for the guest, and changes nothing when the guest
    /// keeps too much then.
    pub(super) fn reserve(&mut self, bytes: usize) -> Result<(), &'static str> {
        let before = self.bytes;
        if self.set(bytes) > self.guest.most.kept_bytes {
            self.set(before);
            return Err(KEPT_BYTES);
        }
        Ok(())
    }

    /// Says how many bytes it keeps, whatever the limit. Returns what all handles keep.
    pub(super) fn set(&mut self, bytes: usize) -> usize {
        let change = bytes.wrapping_sub(self.bytes);
        self.bytes = bytes;
        self.guest.kept_bytes.fetch_add(change, Ordering::Relaxed).wrapping_add(change)
    }
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
    follows: bool,
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

    /// Another process writes the store meanwhile.
    pub(super) fn follows(&self) -> bool {
        self.0.follows
    }

    /// Reports an error to the host's callback. The guest does not see it in this form.
    #[cold]
    pub(super) fn tell(&self, error: &pipkin::Error) {
        if let Some(told) = &self.0.told {
            told(&self.0.name, error);
        }
    }

    /// Explains why a write failed, after reporting an engine error to the host.
    #[cold]
    pub(super) fn failed(&self, failure: Failure, limits: &Limits) -> Failure {
        let failure = limits.explain(failure);
        if let Failure::Engine(error) = &failure {
            self.tell(error);
        }
        failure
    }

    /// Opens the store with `open`, and reports an error to the host.
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

    /// Flushes all stores: everything that guests have written to them is durable when this returns.
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

    /// Counts a handle of this guest that keeps `bytes` bytes. Fails when its handles are too many or keep too much, with a message for the
    /// guest.
    pub(super) fn keep(&self, bytes: usize) -> Result<Kept, &'static str> {
        let kept = Kept { bytes, guest: self.guest.clone() };
        let Guest { most, count, kept_bytes } = &*self.guest;
        let count = count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let all = kept_bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if count > most.count {
            return Err("this component has as many handles as the host allows; drop some of them");
        }
        if all > most.kept_bytes {
            return Err(KEPT_BYTES);
        }
        Ok(kept)
    }
}

/// The file name for any store name; `wit/world.wit` has the rule.
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
