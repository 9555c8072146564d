//! The file of a store that another process writes: opened for reading, without a lock, and never mapped.

use super::open::{open_error, open_file};
use super::{NativeOptions, platform, storage_error, words};
use crate::error::Result;
use crate::storage::{Durability, Storage, StorageError, StorageErrorKind};
use crate::sync::{AtomicU64, Ordering};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The file as a follower reads it.
#[derive(Debug)]
pub(crate) struct FollowedFile {
    file: File,
    path: PathBuf,
    /// Its length at the last refresh.
    len: AtomicU64,
}

impl FollowedFile {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let options = NativeOptions { read_only: true, create: false, mmap: false, write_through: false };
        let (file, _) = open_file(path, options)?;
        let len = file.metadata().map_err(|error| open_error(path, &error))?.len();
        Ok(Self { file, path: path.to_path_buf(), len: AtomicU64::new(len) })
    }

    fn refuse(&self, operation: &'static str) -> StorageError {
        StorageError::new(StorageErrorKind::ReadOnly, operation, "the file was opened to follow it").with_path(words(&self.path))
    }
}

impl Storage for FollowedFile {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.len.load(Ordering::Acquire))
    }

    fn set_len(&self, _: u64) -> Result<(), StorageError> {
        Err(self.refuse("set length"))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let len = self.len.load(Ordering::Acquire);
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > len) {
            return Err(StorageError::out_of_range(offset, out.len(), len));
        }
        match platform::read_exact_at(&self.file, offset, out) {
            // The writer has cut the file.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(StorageError::out_of_range(offset, out.len(), len)),
            result => result.map_err(|error| storage_error("read", &self.path, &error)),
        }
    }

    fn write_at(&self, _: u64, _: &[&[u8]]) -> Result<(), StorageError> {
        Err(self.refuse("write"))
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        Err(self.refuse("sync"))
    }

    fn refresh(&self) -> Result<(), StorageError> {
        if !platform::is_file_at(&self.file, &self.path) {
            let detail = "the path names another file by now, or none: the store was replaced or removed. Open it again";
            return Err(StorageError::new(StorageErrorKind::Other, "follow", detail).with_path(words(&self.path)));
        }
        let len = self.file.metadata().map_err(|error| storage_error("follow", &self.path, &error))?.len();
        self.len.store(len, Ordering::Release);
        Ok(())
    }
}
