//! Enforces the byte quota where the file grows.

use super::{Ledger, Limits};
use pipkin::{Durability, Storage, StorageError, StorageErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A file that does not grow beyond its quota; to the engine it looks like a full medium.
pub(in crate::keyvalue) struct Metered<S> {
    below: S,
    most: u64,
    ledger: Arc<Ledger>,
    is_full: Arc<AtomicBool>,
    /// The end of the file and of the space reserved for it; the ledger counts this many bytes.
    end: Arc<Mutex<u64>>,
}

impl<S: Storage> Metered<S> {
    /// Wraps `below`. The ledger already counts `counted` bytes of it; this is corrected to the length of the file.
    pub(in crate::keyvalue) fn new(below: S, limits: &Limits, counted: Arc<Mutex<u64>>) -> Result<Self, StorageError> {
        let len = below.len()?;
        limits.ledger.count(len);
        limits.ledger.give_back(std::mem::replace(&mut *counted.lock().unwrap_or_else(PoisonError::into_inner), len));
        let (ledger, is_full) = (limits.ledger.clone(), limits.is_full.clone());
        Ok(Self { below, most: limits.quota.file_bytes.unwrap_or(u64::MAX), ledger, is_full, end: counted })
    }

    /// Runs `grow`, which extends the file to `end`. Fails with `NoSpace` if the quota does not allow that.
    fn growing<T>(&self, end: u64, grow: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
        let mut counted = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let had = *counted;
        if end <= had {
            drop(counted);
            return grow();
        }
        if end > self.most || !self.ledger.take(end - had) {
            self.is_full.store(true, Ordering::Relaxed);
            return Err(StorageError::new(StorageErrorKind::NoSpace, "reserve", "the quota of the store is used up"));
        }
        *counted = end;
        self.is_full.store(false, Ordering::Relaxed);
        let grown = grow();
        if grown.is_err() {
            // The file may have grown in part: the ledger keeps what is there.
            let len = self.below.len().unwrap_or(end).clamp(had, end);
            self.ledger.give_back(end - len);
            *counted = len;
        }
        grown
    }
}

impl<S: Storage> Storage for Metered<S> {
    #[cfg(feature = "encrypt")]
    fn key_cell(&self) -> Option<&pipkin::storage::KeyCell> {
        self.below.key_cell()
    }

    fn len(&self) -> Result<u64, StorageError> {
        self.below.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.growing(len, || self.below.set_len(len))?;
        let mut counted = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        self.ledger.give_back(counted.saturating_sub(len));
        *counted = (*counted).min(len);
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.below.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let end = if len == 0 { 0 } else { offset.saturating_add(len) };
        self.growing(end, || self.below.write_at(offset, parts))
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.below.sync()
    }

    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        // SAFETY: the caller keeps the contract of this method, which is that of the method below.
        unsafe { self.below.view(offset, len) }
    }

    fn is_checked(&self, offset: u64, salt: u64) -> Option<bool> {
        self.below.is_checked(offset, salt)
    }

    fn set_checked(&self, offset: u64, salt: u64) {
        self.below.set_checked(offset, salt);
    }

    unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
        // SAFETY: the caller keeps the contract of this method, which is that of the method below. The range lies within reserved space.
        unsafe { self.below.store(offset, parts) }
    }

    fn will_read(&self, offsets: &[u64], len: usize) -> bool {
        self.below.will_read(offsets, len)
    }

    fn will_sync(&self, offset: u64, len: u64) {
        self.below.will_sync(offset, len);
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.growing(offset.saturating_add(len), || self.below.reserve(offset, len))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.below.discard(offset, len)
    }

    fn claim(&self) -> Result<(), StorageError> {
        self.below.claim()
    }

    fn release(&self) -> Result<(), StorageError> {
        self.below.release()
    }
}
