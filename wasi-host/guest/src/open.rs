//! Opening stores: names, files, and the list of those that are open in this instance.
//!
//! WASI has no file lock. Other processes and instances are kept away by the host, which says so in `options.exclusive`, or else fenced off
//! by the engine; what keeps a second engine of this instance away is the list.

use crate::bindings::exports::pipkin::kv::types::Durability;
use crate::clock::WasiClock;
use crate::secret::Unlocking;
use crate::storage::{Access, WasiStorage};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use pipkin::limits::SEGMENT_SIZE_DEFAULT;
use pipkin::storage::{CacheOptions, CachedStorage};
use pipkin::{Db, Result, StorageError};
use pipkin_wasi_shared::refused;
use spin::Mutex;
use wasip2::filesystem::preopens::get_directories;
use wasip2::filesystem::types::Descriptor;

/// The most memory for cached blocks, whatever the caller asks for.
const CACHE_BYTES_MAX: u32 = 1 << 30;
/// Small writes gather up to this many bytes. A host call costs about as much as copying some KiB, and the host copies longer writes in
/// pieces of this size.
const GATHER_BYTES: usize = 64 * 1024;

static OPEN: Mutex<Vec<Weak<Open>>> = Mutex::new(Vec::new());

/// A file with a block cache, in which small writes gather.
pub(crate) type Cached = CachedStorage<WasiStorage, GATHER_BYTES>;

/// One open store, shared by all handles to it.
pub(crate) struct Open {
    name: String,
    db: Db,
    pub(crate) storage: Arc<Cached>,
    read_only: bool,
    unlocking: Unlocking,
    /// Somebody else writes.
    follows: bool,
    /// Set by `close`. The file may have been reopened since, and the new engine may overwrite what this one would read.
    is_closed: AtomicBool,
}

/// The store was closed through another handle. Every verb checks this, and the engine's larger error type would make the code of each
/// longer.
pub(crate) struct Closed;

impl From<Closed> for pipkin::Error {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

/// Options of opening a store.
#[derive(Clone, Copy)]
pub(crate) struct How {
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) cache_bytes: u32,
    pub(crate) segment_bytes: u32,
    /// The host keeps all other processes and instances away from the file.
    pub(crate) exclusive: bool,
    /// Somebody else writes the file meanwhile.
    pub(crate) follow: bool,
}

impl Open {
    /// The engine, for one call of it. Fails if the store was closed.
    pub(crate) fn db(&self) -> Result<&Db, Closed> {
        self.end_call()?;
        Ok(&self.db)
    }

    /// Releases the cached blocks that the last call may have viewed. Called between two calls of the engine: no view outlives a call, for
    /// handles keep no borrows and everything that the engine returns here is a copy.
    pub(crate) fn end_call(&self) -> Result<(), Closed> {
        if self.is_closed.load(Relaxed) {
            return Err(Closed);
        }
        // SAFETY: an instance runs one call at a time, and this one has not called the engine yet.
        unsafe { self.storage.end_call() };
        Ok(())
    }

    /// Fails with `ReadOnly` in a read-only store, so that writes that would change nothing are refused, too.
    pub(crate) fn writable(&self) -> Result<()> {
        if self.read_only { Err(pipkin::Error::ReadOnly) } else { Ok(()) }
    }

    /// Closes the store for all handles, and removes it from the list, so that its file can be opened again.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        let db = self.db()?.clone();
        self.is_closed.store(true, Relaxed);
        OPEN.lock().retain(|other| !core::ptr::eq(other.as_ptr(), Arc::as_ptr(self)));
        db.close()
    }

    /// Makes a finished write as durable as promised; returns the durability reached.
    pub(crate) fn settle(&self, durability: Durability) -> Result<Durability> {
        match durability {
            Durability::Buffered => Ok(Durability::Buffered),
            Durability::Written => {
                self.storage.hand_over()?;
                Ok(Durability::Written)
            }
            Durability::Synced => Ok(self.db.flush()?.into()),
        }
    }
}

/// Opens the store `name`, or returns it if it is open already.
pub(crate) fn open(name: &str, how: How, unlocking: Unlocking) -> Result<Arc<Open>> {
    let access = match how {
        How { read_only: true, .. } | How { follow: true, .. } => Access::Read,
        How { create: true, .. } => Access::Create,
        How { .. } => Access::Write,
    };
    let directory = directory()?;
    let storage = WasiStorage::open(&directory, checked(name)?, access)?.exclusive(how.exclusive && !how.follow);
    let mut list = OPEN.lock();
    list.retain(|open| open.strong_count() > 0);
    let is_it = |open: &Arc<Open>| {
        // Names are compared only if the host cannot compare files: the name may belong to another file by now.
        open.storage.below().is_same_file(&storage) || open.name == name && !storage.can_be_told(&directory, name)
    };
    let found = list.iter().filter_map(Weak::upgrade).find(is_it);
    if let Some(found) = found {
        if !found.unlocking.is_same(&unlocking) {
            return Err(refused(
                "the store is open already, with another key or without one; open it as before, or close it first",
            ));
        }
        return if (found.read_only, found.follows) != (how.read_only || how.follow, how.follow) {
            // Open with other rights: the existing handles must be dropped first.
            Err(pipkin::Error::Locked { path: name.into(), holder: None })
        } else {
            Ok(found)
        };
    }
    let storage = if how.follow { storage.following(directory, name) } else { storage };
    let storage = Arc::new(cached(storage, how.cache_bytes.min(CACHE_BYTES_MAX) as usize)?);
    let mut builder = Db::builder()
        .entropy(entropy())
        .create(how.create)
        .read_only(how.read_only)
        .follow(how.follow)
        .segment_size(if how.segment_bytes == 0 { SEGMENT_SIZE_DEFAULT } else { how.segment_bytes });
    if let Some(clock) = WasiClock::of_the_host() {
        builder = builder.clock(clock);
    }
    let db = unlocking.of(builder).open_storage(Box::new(storage.clone()))?;
    storage.hand_over()?;
    let open = Arc::new(Open {
        name: name.into(),
        db,
        storage,
        read_only: how.read_only || how.follow,
        unlocking,
        follows: how.follow,
        is_closed: AtomicBool::new(false),
    });
    list.push(Arc::downgrade(&open));
    Ok(open)
}

/// Wraps the file in a cache of `cache_bytes` bytes.
pub(crate) fn cached(file: WasiStorage, cache_bytes: usize) -> Result<Cached, StorageError> {
    Cached::new(file, CacheOptions { cache_bytes, ..CacheOptions::default() })
}

/// Opens the file `name`, without opening a store in it.
pub(crate) fn storage(name: &str, access: Access) -> Result<WasiStorage> {
    WasiStorage::open(&directory()?, checked(name)?, access)
}

/// Removes a file that could not be finished; errors are ignored.
pub(crate) fn discard(name: &str) {
    let _ = directory().map(|directory| directory.unlink_file_at(name));
}

/// Refuses names that lead out of the directory. The host would refuse them as well, but with a less helpful error.
fn checked(name: &str) -> Result<&str> {
    let is_plain = |part: &str| !part.is_empty() && part != "." && part != "..";
    let is_odd = |c: char| c == '\\' || c.is_control();
    if name.split('/').all(is_plain) && !name.contains(is_odd) {
        return Ok(name);
    }
    Err(refused("this name is no path inside the directory; name a file in it, such as app.pipkin"))
}

fn directory() -> Result<Descriptor> {
    let first = get_directories().into_iter().next().map(|(directory, _)| directory);
    first.ok_or_else(|| refused("the host has opened no directory to this component; preopen one"))
}

fn entropy() -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.as_chunks_mut().0.iter_mut().for_each(|place| *place = wasip2::random::random::get_random_u64().to_le_bytes());
    bytes
}
