//! [`Storage`] over one synchronous access handle of the origin private file system.
//!
//! A call costs 3 to 26 us in Chromium and 22 to 90 us in Firefox, whatever its size up to 64 KiB: so the parts of a write
//! travel together, and the length is kept in wasm. The counts that `read` and `write` return are checked: Firefox answers
//! a full quota with a short count or with zero, not with an error.

use alloc::format;
use core::sync::atomic::{AtomicU64, Ordering};

use pipkin::storage::{CacheOptions, CachedStorage};
use pipkin::{Durability, Storage, StorageError, StorageErrorKind};

use crate::calls;
use crate::error::storage_error;

/// Parts up to this many bytes in all are copied together into one call.
const GATHER_BYTES_MAX: usize = 1024 * 1024;
/// Records that are read stand near others that will be, and a call costs no more for so many bytes.
const READ_BYTES: usize = 16 * 1024;
/// Up to here every whole number is a number of JavaScript.
const FILE_LEN_MAX: u64 = (1 << 53) - 1;

#[cfg(target_feature = "atomics")]
compile_error!("threads share a memory, but the numbers of open files mean something to one worker only");

/// One file of the origin, held alone until the storage is dropped.
#[derive(Debug)]
pub struct OpfsStorage {
    /// Its number; the handle itself is an object of JavaScript, which stays there.
    file: u32,
    /// Kept here, because to ask the browser costs up to 14 us.
    len: AtomicU64,
}

impl OpfsStorage {
    /// Takes over an open file.
    pub(crate) fn of_file(file: u32) -> Result<Self, StorageError> {
        let storage = Self { file, len: AtomicU64::new(0) };
        let len = calls::size(file);
        if len < 0.0 {
            return Err(storage_error("len"));
        }
        storage.set_known(len as u64);
        Ok(storage)
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
            let count = calls::write(self.file, rest, at as f64);
            if count < 0.0 {
                return Err(self.failed("write"));
            }
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

    /// The error of a call that may have changed the length on its way.
    fn failed(&self, operation: &'static str) -> StorageError {
        let error = storage_error(operation);
        let len = calls::size(self.file);
        if len >= 0.0 {
            self.set_known(len as u64);
        }
        error
    }
}

/// The file with at most `cache_bytes` of it in memory. What was written has been handed to the browser: a tab may end at any time.
pub fn cached(file: OpfsStorage, cache_bytes: usize) -> Result<CachedStorage<OpfsStorage>, StorageError> {
    CachedStorage::new(file, CacheOptions { cache_bytes, read_bytes: READ_BYTES })
}

impl Drop for OpfsStorage {
    fn drop(&mut self) {
        calls::close(self.file);
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
        if calls::truncate(self.file, len as f64) < 0.0 {
            return Err(self.failed("set_len"));
        }
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
            let count = calls::read(self.file, rest, at as f64);
            if count < 0.0 {
                return Err(storage_error("read"));
            }
            let Some((_, unfilled)) = rest.split_at_mut_checked(count as usize).filter(|(filled, _)| !filled.is_empty()) else {
                // As a whole number: the code that prints others would be a thirtieth of the module.
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
        if calls::flush(self.file) < 0.0 {
            return Err(storage_error("sync"));
        }
        // Browsers pass `flush` on to the system, but none promises what the system does with it.
        Ok(Durability::Os)
    }
}
