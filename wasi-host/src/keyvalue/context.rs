//! Which stores there are, and the engines of those that are in use.

use pipkin::Db;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

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
    /// and `%XX` for whatever is no letter, digit, `-` or `_`; it is made and opened when the first guest asks for it.
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
        let entry = |(name, listed): (String, Listed)| {
            let path = directory.join(file_name(&name));
            let (sync, db) = match listed {
                Listed::Denied => return (name, None),
                Listed::File(sync) => (sync, None),
                Listed::Engine(db, sync) => (sync, Some(db)),
            };
            let path = db.is_none().then_some(path);
            (name, Some(Arc::new(Entry { path, sync, db: Mutex::new(db) })))
        };
        WasiKeyValueCtx { stores: Arc::new(stores.into_iter().map(entry).collect()) }
    }
}

/// The stores that guests may open. Clones share the engines; what is open closes with the last one.
#[derive(Clone, Debug)]
pub struct WasiKeyValueCtx {
    stores: Arc<BTreeMap<String, Option<Arc<Entry>>>>,
}

/// One listed store.
#[derive(Debug)]
pub(super) struct Entry {
    /// Where its file is; none for an engine that belongs to the embedder.
    pub(super) path: Option<PathBuf>,
    pub(super) sync: SyncPolicy,
    db: Mutex<Option<Db>>,
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
        let open = self.stores.values().flatten().filter_map(|entry| entry.opened());
        let results: Vec<pipkin::Result<()>> = open.map(|db| db.flush().map(drop)).collect();
        results.into_iter().collect()
    }

    pub(super) fn entry(&self, name: &str) -> Result<&Arc<Entry>, Unlisted> {
        self.stores.get(name).ok_or(Unlisted::Unknown)?.as_ref().ok_or(Unlisted::Denied)
    }
}

impl Entry {
    /// The engine, if somebody has opened it.
    pub(super) fn opened(&self) -> Option<Db> {
        self.db.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The engine, which the first caller opens.
    pub(super) fn open(&self, create: bool, segment_bytes: u32) -> pipkin::Result<Db> {
        let mut db = self.db.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(db) = &*db {
            return Ok(db.clone());
        }
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        if create && let Some(folder) = path.parent() {
            // What is wrong with the folder, opening the file will say.
            let _ = std::fs::create_dir_all(folder);
        }
        let mut builder = Db::builder().path(path).create(create);
        if segment_bytes > 0 {
            builder = builder.segment_size(segment_bytes);
        }
        Ok(db.insert(builder.open()?).clone())
    }
}

/// A name as the name of a file, whatever is in it.
fn file_name(name: &str) -> String {
    let name = if name.is_empty() { "default" } else { name };
    let mut file = String::new();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => file.push(char::from(byte)),
            other => file.push_str(&format!("%{other:02X}")),
        }
    }
    file + ".pipkin"
}

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn no_name_is_a_path() {
        assert_eq!(file_name(""), "default.pipkin");
        assert_eq!(file_name("user-sessions_2"), "user-sessions_2.pipkin");
        assert_eq!(file_name("../etc/passwd"), "%2E%2E%2Fetc%2Fpasswd.pipkin");
        assert_eq!(file_name("C:\\x\0"), "C%3A%5Cx%00.pipkin");
        assert_eq!(file_name("ä"), "%C3%A4.pipkin");
    }
}
