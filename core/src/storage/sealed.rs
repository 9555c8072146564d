//! A storage whose store is sealed: the storage itself, and the keys, where they are at hand.

use super::{Durability, Storage, StorageError, StorageErrorKind};
use crate::seal::{KeyCell, Vault};
use alloc::boxed::Box;

/// A storage with keys, or with a place for them. The bytes are those of `inner`, sealed as they stand there.
pub(crate) struct SealedStorage {
    inner: Box<dyn Storage>,
    keys: KeyCell,
}

impl SealedStorage {
    /// The storage of a sealed store.
    pub(crate) fn new(inner: Box<dyn Storage>, vault: Vault) -> Self {
        Self { inner, keys: KeyCell::with(vault) }
    }

    /// The storage without the keys, for which there was no store in the end.
    pub(crate) fn into_inner(self) -> Box<dyn Storage> {
        self.inner
    }

    /// The storage of a plain store, or of one that is not known yet. Where an earlier session has left keys in it, they are hidden: each session
    /// is sealed under bytes of its own.
    pub(crate) fn without_keys_of_before(inner: Box<dyn Storage>) -> Box<dyn Storage> {
        if inner.vault().is_none() { inner } else { Box::new(Self { inner, keys: KeyCell::new() }) }
    }
}

impl Storage for SealedStorage {
    fn len(&self) -> Result<u64, StorageError> {
        self.inner.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.inner.set_len(len)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.inner.read_at(offset, out)
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.inner.write_at(offset, parts)
    }
    fn rewrite(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.inner.rewrite(offset, len)
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.inner.sync()
    }
    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { self.inner.view(offset, len) }
    }
    fn is_checked(&self, offset: u64, salt: u64) -> Option<bool> {
        self.inner.is_checked(offset, salt)
    }
    fn set_checked(&self, offset: u64, salt: u64) {
        self.inner.set_checked(offset, salt);
    }
    unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { self.inner.store(offset, parts) }
    }
    fn will_read(&self, offsets: &[u64], len: usize) -> bool {
        self.inner.will_read(offsets, len)
    }
    fn will_sync(&self, offset: u64, len: u64) {
        self.inner.will_sync(offset, len);
    }
    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.inner.reserve(offset, len)
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.inner.discard(offset, len)
    }
    fn is_exclusive(&self) -> bool {
        self.inner.is_exclusive()
    }
    fn read_now(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.inner.read_now(offset, out)
    }
    fn hand_over(&self) -> Result<(), StorageError> {
        self.inner.hand_over()
    }
    fn refresh(&self) -> Result<(), StorageError> {
        self.inner.refresh()
    }
    fn claim(&self) -> Result<(), StorageError> {
        self.inner.claim()
    }
    fn release(&self) -> Result<(), StorageError> {
        self.inner.release()
    }
    fn key_cell(&self) -> Option<&KeyCell> {
        Some(&self.keys)
    }
}

static NO_KEYS: Vault = Vault::locked();

/// A sealed store that is only read: `inner`, and never written.
pub(crate) struct ReadOnly<'a> {
    inner: &'a dyn Storage,
    vault: &'a Vault,
    forgives: bool,
}

impl<'a> ReadOnly<'a> {
    /// One whose key is not at hand: its checksums can be checked, and nothing else.
    pub(crate) fn locked(inner: &'a dyn Storage) -> Self {
        Self { inner, vault: &NO_KEYS, forgives: false }
    }

    /// One whose damage and forgeries are left out, with the keys of `vault`.
    #[cfg(feature = "salvage")]
    pub(crate) const fn forgiving(inner: &'a dyn Storage, vault: &'a Vault) -> Self {
        Self { inner, vault, forgives: true }
    }
}

fn refused(operation: &'static str) -> StorageError {
    StorageError::new(StorageErrorKind::ReadOnly, operation, "this sealed store is only read")
}

impl Storage for ReadOnly<'_> {
    fn len(&self) -> Result<u64, StorageError> {
        self.inner.len()
    }
    fn set_len(&self, _: u64) -> Result<(), StorageError> {
        Err(refused("set length"))
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.inner.read_at(offset, out)
    }
    fn write_at(&self, _: u64, _: &[&[u8]]) -> Result<(), StorageError> {
        Err(refused("write"))
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        Err(refused("sync"))
    }
    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { self.inner.view(offset, len) }
    }
    fn read_now(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.inner.read_now(offset, out)
    }
    fn refresh(&self) -> Result<(), StorageError> {
        self.inner.refresh()
    }
    fn vault(&self) -> Option<&Vault> {
        Some(self.vault)
    }
    fn forgives(&self) -> bool {
        self.forgives
    }
}
