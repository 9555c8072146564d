//! A storage that counts the bytes that go through it, for progress bars over calls that report none themselves.

use pipkin::{Durability, Storage, StorageError};

/// Forwards all calls and tells `moved` how many bytes were read or written. It offers no views, so that every read byte is counted.
pub(crate) struct Counting<S, F> {
    storage: S,
    moved: F,
}

impl<S: Storage, F: Fn(u64) + Send + Sync> Counting<S, F> {
    pub(crate) fn new(storage: S, moved: F) -> Self {
        Self { storage, moved }
    }

    fn count(&self, bytes: usize) {
        (self.moved)(u64::try_from(bytes).unwrap_or(u64::MAX));
    }
}

impl<S: Storage, F: Fn(u64) + Send + Sync> Storage for Counting<S, F> {
    fn len(&self) -> Result<u64, StorageError> {
        self.storage.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.storage.set_len(len)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.count(out.len());
        self.storage.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.count(parts.iter().map(|part| part.len()).sum());
        self.storage.write_at(offset, parts)
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.storage.sync()
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.storage.reserve(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.storage.discard(offset, len)
    }
}
