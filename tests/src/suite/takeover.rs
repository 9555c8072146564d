//! What it costs to take a store over that earlier sessions have left in the middle, where the host has no locks.

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Durability, Storage, StorageError, StorageErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What a session has asked of its storage until it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Calls.
    pub calls: u64,
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Length of the file.
    pub len: u64,
}

#[derive(Debug, Default)]
struct Counters {
    calls: AtomicU64,
    read: AtomicU64,
    written: AtomicU64,
    is_dead: AtomicBool,
}

/// A file that nobody can lock, and a session that dies once it has written its last words.
#[derive(Clone, Debug)]
struct Counting {
    file: MemoryStorage,
    counters: Arc<Counters>,
    last: [u8; 16],
}

impl Counting {
    fn call(&self) -> Result<(), StorageError> {
        self.counters.calls.fetch_add(1, Ordering::Relaxed);
        let is_dead = self.counters.is_dead.load(Ordering::Relaxed);
        if is_dead { Err(StorageError::new(StorageErrorKind::Other, "anything", "this session has ended")) } else { Ok(()) }
    }
}

impl Storage for Counting {
    fn len(&self) -> Result<u64, StorageError> {
        self.call()?;
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.call()?;
        self.file.set_len(len)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.call()?;
        self.counters.read.fetch_add(out.len() as u64, Ordering::Relaxed);
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.call()?;
        let len: usize = parts.iter().map(|part| part.len()).sum();
        self.counters.written.fetch_add(len as u64, Ordering::Relaxed);
        self.file.write_at(offset, parts)?;
        if parts.iter().any(|part| part.windows(self.last.len()).any(|window| window == self.last)) {
            self.counters.is_dead.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.call()?;
        self.file.sync()
    }

    fn is_exclusive(&self) -> bool {
        false
    }
}

/// The costs of so many sessions, each of which takes a store over and ends right behind its first record.
pub fn costs(deaths: u64) -> Vec<Cost> {
    let file = MemoryStorage::new();
    let open = |storage: Counting, seed: u64| {
        let entropy = std::array::from_fn(|at| (seed >> (at % 8 * 8)) as u8 ^ at as u8);
        Db::builder().background(false).entropy(entropy).open_storage(Box::new(storage))
    };
    let new = |last: [u8; 16]| Counting { file: file.clone(), counters: Arc::default(), last };
    let db = open(new([0xff; 16]), u64::MAX).expect("a new store");
    for key in 0..2000_u32 {
        db.insert(key.to_le_bytes(), [7; 100]).expect("room in memory");
    }
    db.close().expect("a store in memory");
    let mut costs = Vec::new();
    for death in 0..deaths {
        let mut last = *b"last words    ::";
        last[8..].copy_from_slice(&(death | 1 << 63).to_be_bytes());
        let storage = new(last);
        let db = open(storage.clone(), death).unwrap_or_else(|error| panic!("after {death} unclean ends: {error}"));
        let _ = db.insert("last words", last);
        let Counters { calls, read, written, .. } = &*storage.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        costs.push(Cost { calls: get(calls), read: get(read), written: get(written), len: file.len().expect("in memory") });
        assert!(storage.counters.is_dead.load(Ordering::Relaxed), "session {death} has written its record");
        drop(db);
    }
    costs
}
