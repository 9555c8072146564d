//! The async face: what its futures answer, what waits where, and that nothing is torn, lost or stuck whatever becomes of them.
//! A program of its own: it needs the feature `async`, and runtimes.
#![cfg(all(feature = "async", feature = "testing"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::expect_used, reason = "a test fails by panicking")]

mod answers;
mod attacked;
mod dropped;
mod shared;
mod streams;
mod verbs;

use futures_lite::future::{block_on, poll_once};
use pipkin::storage::{Durability, MemoryStorage, StorageError};
use pipkin::{AsyncDb, Db, Storage};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A store in memory, over a storage that the test keeps.
fn opened(storage: impl Storage + 'static) -> AsyncDb {
    Db::builder().segment_size(64 * 1024).background(false).open_storage(Box::new(storage)).unwrap().to_async()
}

/// What a future answers in its first poll, if it does.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    block_on(poll_once(pin!(future)))
}

/// Waits until something is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A storage in memory whose syncs wait for a gate, and which says which threads read.
#[derive(Clone, Default)]
struct Gated {
    bytes: MemoryStorage,
    state: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    /// Syncs wait.
    is_shut: bool,
    /// Reads come from a medium: nothing is at hand.
    is_cold: bool,
    /// Syncs that have begun.
    syncs: usize,
    /// Names of the threads that have read or synced.
    threads: Vec<String>,
}

impl Gated {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.0.lock().unwrap()
    }

    fn shut(&self) {
        self.state().is_shut = true;
    }

    fn open(&self) {
        self.state().is_shut = false;
        self.state.1.notify_all();
    }

    fn note(&self) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self.state().threads.push(name);
    }
}

impl Storage for Gated {
    fn len(&self) -> Result<u64, StorageError> {
        self.bytes.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.bytes.set_len(len)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.note();
        self.bytes.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.bytes.write_at(offset, parts)
    }
    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.bytes.reserve(offset, len)
    }
    fn is_at_hand(&self, _offset: u64, _len: usize) -> bool {
        !self.state().is_cold
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.note();
        let mut state = self.state();
        state.syncs += 1;
        while state.is_shut {
            state = self.state.1.wait(state).unwrap();
        }
        drop(state);
        self.bytes.sync()?;
        Ok(Durability::Device)
    }
}

/// A file of its own.
fn in_a_file() -> (tempfile::TempDir, AsyncDb) {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::builder().path(folder.path().join("app.pipkin")).open().unwrap();
    (folder, db.to_async())
}
