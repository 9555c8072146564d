//! A storage that only reads, and only into memory of its own: what it reads may be written meanwhile, by another session.

use super::{Durability, Storage, StorageError, StorageErrorKind};
use alloc::boxed::Box;
use alloc::sync::Arc;

/// The file of another session's store. Views are refused, since that session may write to their bytes or cut them off.
#[derive(Clone)]
pub(crate) struct ByCopy(Arc<dyn Storage>);

impl ByCopy {
    pub(crate) fn new(storage: Box<dyn Storage>) -> Self {
        Self(storage.into())
    }
}

fn refused(operation: &'static str) -> StorageError {
    StorageError::new(StorageErrorKind::ReadOnly, operation, "a follower never writes to the store that it follows")
}

impl Storage for ByCopy {
    fn len(&self) -> Result<u64, StorageError> {
        self.0.len()
    }

    fn set_len(&self, _: u64) -> Result<(), StorageError> {
        Err(refused("set length"))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.0.read_at(offset, out)
    }

    fn write_at(&self, _: u64, _: &[&[u8]]) -> Result<(), StorageError> {
        Err(refused("write"))
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        Err(refused("sync"))
    }

    fn read_now(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.0.read_now(offset, out)
    }

    fn refresh(&self) -> Result<(), StorageError> {
        self.0.refresh()
    }

    #[cfg(feature = "encrypt")]
    fn vault(&self) -> Option<&crate::seal::Vault> {
        self.0.vault()
    }
}
