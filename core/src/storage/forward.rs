//! `Storage` for pointers to a storage: `&S`, `Box<S>`, `Arc<S>`.

use super::{Durability, Storage, StorageError};
use alloc::boxed::Box;
use alloc::sync::Arc;

macro_rules! forward_storage {
    ($($pointer:ty),*) => {$(
        impl<S: Storage + ?Sized> Storage for $pointer {
            fn len(&self) -> Result<u64, StorageError> { (**self).len() }
            #[cfg(feature = "encrypt")]
            fn key_cell(&self) -> Option<&crate::seal::KeyCell> { (**self).key_cell() }
            #[cfg(feature = "encrypt")]
            fn vault(&self) -> Option<&crate::seal::Vault> { (**self).vault() }
            #[cfg(feature = "encrypt")]
            fn forgives(&self) -> bool { (**self).forgives() }
            fn set_len(&self, len: u64) -> Result<(), StorageError> { (**self).set_len(len) }
            fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> { (**self).read_at(offset, out) }
            fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> { (**self).write_at(offset, parts) }
            fn rewrite(&self, offset: u64, len: u64) -> Result<(), StorageError> { (**self).rewrite(offset, len) }
            fn sync(&self) -> Result<Durability, StorageError> { (**self).sync() }
            unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
                // SAFETY: the caller's promise is handed on unchanged.
                unsafe { (**self).view(offset, len) }
            }
            fn is_checked(&self, offset: u64, salt: u64) -> Option<bool> { (**self).is_checked(offset, salt) }
            fn set_checked(&self, offset: u64, salt: u64) { (**self).set_checked(offset, salt) }
            unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
                // SAFETY: the caller's promise is handed on unchanged.
                unsafe { (**self).store(offset, parts) }
            }
            #[cfg(feature = "async")]
            fn is_at_hand(&self, offset: u64, len: usize) -> bool { (**self).is_at_hand(offset, len) }
            fn will_read(&self, offsets: &[u64], len: usize) -> bool { (**self).will_read(offsets, len) }
            fn will_sync(&self, offset: u64, len: u64) { (**self).will_sync(offset, len) }
            fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> { (**self).reserve(offset, len) }
            fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> { (**self).discard(offset, len) }
            fn is_exclusive(&self) -> bool { (**self).is_exclusive() }
            fn read_now(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> { (**self).read_now(offset, out) }
            fn hand_over(&self) -> Result<(), StorageError> { (**self).hand_over() }
            fn refresh(&self) -> Result<(), StorageError> { (**self).refresh() }
            fn claim(&self) -> Result<(), StorageError> { (**self).claim() }
            fn release(&self) -> Result<(), StorageError> { (**self).release() }
        }
    )*};
}
forward_storage!(&S, Box<S>, Arc<S>);

/// The named calls of a [`Storage`] of a test, as those of its field `file`.
#[cfg(test)]
macro_rules! as_its_file {
    (@len) => {
        fn len(&self) -> core::result::Result<u64, $crate::storage::StorageError> {
            self.file.len()
        }
    };
    (@set_len) => {
        fn set_len(&self, len: u64) -> core::result::Result<(), $crate::storage::StorageError> {
            self.file.set_len(len)
        }
    };
    (@read_at) => {
        fn read_at(&self, offset: u64, out: &mut [u8]) -> core::result::Result<(), $crate::storage::StorageError> {
            self.file.read_at(offset, out)
        }
    };
    (@write_at) => {
        fn write_at(&self, offset: u64, parts: &[&[u8]]) -> core::result::Result<(), $crate::storage::StorageError> {
            self.file.write_at(offset, parts)
        }
    };
    (@sync) => {
        fn sync(&self) -> core::result::Result<$crate::storage::Durability, $crate::storage::StorageError> {
            self.file.sync()
        }
    };
    ($($call:ident),*) => { $($crate::storage::as_its_file!(@$call);)* };
}
#[cfg(test)]
pub(crate) use as_its_file;
