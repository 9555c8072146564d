//! Which stores guests may open, by what names, and what their handles may keep.

use super::store_file::StoreFile;
use pipkin::Db;
use std::collections::BTreeMap;
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
                    let path = directory.join(file_name(&name));
                    // The names "" and "default" are one file.
                    let store = files.entry(path.clone()).or_insert_with(|| Arc::new(StoreFile::new(path)));
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed step is a failed test")]
mod tests {
    use super::{WasiKeyValueCtx, file_name};

    #[test]
    fn no_name_is_a_path() {
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
        let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("").store("default").build();
        let open = |name: &str| ctx.entry(name).unwrap().store.open(true, 0).unwrap();
        open("").call().unwrap().insert("k", "v").unwrap();
        assert_eq!(open("default").call().unwrap().get("k").unwrap().unwrap(), b"v");
    }
}
