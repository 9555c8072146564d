//! [`Storage`] over one synchronous access handle of the origin private file system.
//!
//! A call costs 3 to 26 us in Chromium and 22 to 90 us in Firefox, whatever its size up to 64 KiB: so the parts of a write
//! are sent in one call, and the length is kept in wasm. The counts that `read` and `write` return are checked: Firefox answers
//! a write at a full quota with a short count or with zero, not with an error.

use alloc::format;
use core::sync::atomic::{AtomicU64, Ordering};

use pipkin::storage::{CacheOptions, CachedStorage};
use pipkin::{Durability, Storage, StorageError, StorageErrorKind};
use wasm_bindgen::JsValue;
use web_sys::{FileSystemReadWriteOptions, FileSystemSyncAccessHandle};

use crate::error::storage_error;
use crate::one_thread::OfOneThread;

/// Writes of up to this many bytes have their parts copied together into one call.
const GATHER_BYTES_MAX: usize = 1024 * 1024;
/// Read at least this much: the records nearby are likely to be read next, and a call costs no more for it.
const READ_BYTES: usize = 16 * 1024;
/// The largest integer up to which JavaScript numbers are exact.
const FILE_LEN_MAX: u64 = (1 << 53) - 1;

/// One file of the origin, locked until the storage is dropped.
#[derive(Debug)]
pub(crate) struct OpfsStorage {
    handle: OfOneThread<FileSystemSyncAccessHandle>,
    /// The options argument of every read and write, allocated once.
    options: OfOneThread<FileSystemReadWriteOptions>,
    /// The length of the file. Kept here, because asking the browser costs up to 14 us.
    len: AtomicU64,
}

impl OpfsStorage {
    /// Takes ownership of an open file.
    pub(crate) fn from_handle(handle: FileSystemSyncAccessHandle) -> Result<Self, StorageError> {
        let options = OfOneThread(FileSystemReadWriteOptions::new());
        let storage = Self { handle: OfOneThread(handle), options, len: AtomicU64::new(0) };
        storage.set_known(storage.handle.0.get_size().map_err(|thrown| storage_error("len", &thrown))? as u64);
        Ok(storage)
    }

    /// Sets the options for a call at `offset`.
    fn at(&self, offset: u64) -> &FileSystemReadWriteOptions {
        self.options.0.set_at(offset as f64);
        &self.options.0
    }

    fn known(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    fn set_known(&self, len: u64) {
        self.len.store(len, Ordering::Relaxed);
    }

    fn write_all(&self, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = self.handle.0.write_with_u8_array_and_options(rest, self.at(at));
            let count = count.map_err(|thrown| self.failed("write", &thrown))?;
            if count == 0.0 {
                return Err(StorageError::new(StorageErrorKind::NoSpace, "write", "the browser took none of the bytes"));
            }
            let Some(unwritten) = rest.get(count as usize..) else {
                let detail = "the browser claims to have written more than it was given";
                return Err(StorageError::new(StorageErrorKind::Other, "write", detail));
            };
            at += count as u64;
            self.set_known(self.known().max(at));
            rest = unwritten;
        }
        Ok(())
    }

    /// The error of a call that may have changed the length before it failed.
    fn failed(&self, operation: &'static str, thrown: &JsValue) -> StorageError {
        let error = storage_error(operation, thrown);
        if let Ok(len) = self.handle.0.get_size() {
            self.set_known(len as u64);
        }
        error
    }
}

/// The file with at most `cache_bytes` of it in memory. Writes are handed to the browser at once, because a tab may end at any time.
pub(crate) fn cached(file: OpfsStorage, cache_bytes: usize) -> Result<CachedStorage<OpfsStorage>, StorageError> {
    CachedStorage::new(file, CacheOptions { cache_bytes, read_bytes: READ_BYTES })
}

impl Drop for OpfsStorage {
    fn drop(&mut self) {
        self.handle.0.close();
    }
}

impl Storage for OpfsStorage {
    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.known())
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        if len > FILE_LEN_MAX {
            return Err(StorageError::new(StorageErrorKind::NoSpace, "set_len", "no file can be that long"));
        }
        self.handle.0.truncate_with_f64(len as f64).map_err(|thrown| self.failed("set_len", &thrown))?;
        self.set_known(len);
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let (wanted, len) = (out.len(), self.known());
        if offset.checked_add(wanted as u64).is_none_or(|end| end > len) {
            return Err(StorageError::out_of_range(offset, wanted, len));
        }
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let count = self.handle.0.read_with_u8_array_and_options(rest, self.at(at));
            let count = count.map_err(|thrown| storage_error("read", &thrown))?;
            let Some((_, unfilled)) = rest.split_at_mut_checked(count as usize).filter(|(filled, _)| !filled.is_empty()) else {
                // As an integer: the code that prints floating-point numbers would be a thirtieth of the module.
                let count = count as u64;
                let detail = format!("the browser returned {count} bytes at offset {at} of a file of {len} bytes");
                return Err(StorageError::new(StorageErrorKind::Other, "read", detail));
            };
            at += count as u64;
            rest = unfilled;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if offset.checked_add(len as u64).is_none_or(|end| end > FILE_LEN_MAX) {
            return Err(StorageError::new(StorageErrorKind::NoSpace, "write", "no file can be that long"));
        }
        if let [whole] = parts {
            return self.write_all(offset, whole);
        }
        if len <= GATHER_BYTES_MAX {
            return self.write_all(offset, &parts.concat());
        }
        let mut at = offset;
        for part in parts {
            self.write_all(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.handle.0.flush().map_err(|thrown| storage_error("sync", &thrown))?;
        // Browsers pass `flush` on to the operating system, but none promises what the system does with it.
        Ok(Durability::Os)
    }
}
