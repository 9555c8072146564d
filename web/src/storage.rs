//! [`Storage`] over one synchronous access handle of the origin private file system.
//!
//! A call costs 3 to 26 us in Chromium and 22 to 90 us in Firefox, whatever its size up to 64 KiB: so the parts of a write
//! travel together, and the length is kept in wasm. The counts that `read` and `write` return are checked: Firefox answers
//! a full quota with a short count or with zero, not with an error.

use alloc::format;

use pipkin::{Durability, Error, Storage, StorageError, StorageErrorKind};
use wasm_bindgen::JsCast;
use wasm_bindgen_futures::JsFuture;
use web_sys::{FileSystemDirectoryHandle, FileSystemFileHandle, FileSystemGetFileOptions, FileSystemSyncAccessHandle};

use crate::error::{open_error, storage_error};
use crate::handles::{self, OpenFile};

/// Parts up to this many bytes in all are copied together into one call.
const GATHER_BYTES_MAX: usize = 1024 * 1024;
/// Up to here every whole number is a number of JavaScript.
const FILE_LEN_MAX: u64 = (1 << 53) - 1;

/// Whether a missing file is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The file must be there.
    Existing,
    /// The file is made if there is none.
    Create,
}

/// One file of the origin, held alone until the storage is dropped.
///
/// It belongs to the worker that opened it: used in another one, every call fails and changes nothing.
#[derive(Debug)]
pub struct OpfsStorage {
    id: u32,
}

impl OpfsStorage {
    /// Opens the file `name` in `directory`.
    ///
    /// [`Error::Locked`] while another tab or worker has it open; [`Error::NotFound`] if it is missing and may not be made.
    pub async fn open(directory: &FileSystemDirectoryHandle, name: &str, access: Access) -> Result<Self, Error> {
        let failed = |thrown| open_error(name, &thrown);
        let options = FileSystemGetFileOptions::new();
        options.set_create(access == Access::Create);
        let file = JsFuture::from(directory.get_file_handle_with_options(name, &options)).await.map_err(failed)?;
        let file: FileSystemFileHandle = file.unchecked_into();
        let handle = JsFuture::from(file.create_sync_access_handle()).await.map_err(failed)?;
        Ok(Self::from_handle(handle.unchecked_into())?)
    }

    /// Takes over a handle that is already open.
    pub fn from_handle(handle: FileSystemSyncAccessHandle) -> Result<Self, StorageError> {
        let len = handle.get_size().map_err(|thrown| storage_error("len", &thrown))?;
        Ok(Self { id: handles::insert(OpenFile::new(handle, len as u64)) })
    }
}

impl Drop for OpfsStorage {
    fn drop(&mut self) {
        handles::remove(self.id);
    }
}

impl Storage for OpfsStorage {
    fn len(&self) -> Result<u64, StorageError> {
        handles::with(self.id, "len", |file| Ok(file.len))
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        handles::with(self.id, "set_len", |file| file.set_len(len))
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        handles::with(self.id, "read", |file| file.read_all(offset, out))
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        handles::with(self.id, "write", |file| {
            let len: usize = parts.iter().map(|part| part.len()).sum();
            if offset.checked_add(len as u64).is_none_or(|end| end > FILE_LEN_MAX) {
                return Err(StorageError::new(StorageErrorKind::NoSpace, "write", "no file can be that long"));
            }
            if let [whole] = parts {
                return file.write_all(offset, whole);
            }
            if len <= GATHER_BYTES_MAX {
                return file.write_all(offset, &parts.concat());
            }
            let mut at = offset;
            for part in parts {
                file.write_all(at, part)?;
                at += part.len() as u64;
            }
            Ok(())
        })
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        handles::with(self.id, "sync", |file| {
            file.handle.flush().map_err(|thrown| storage_error("sync", &thrown))?;
            // Browsers pass `flush` on to the system, but none promises what the system does with it.
            Ok(Durability::Os)
        })
    }
}

impl OpenFile {
    fn set_len(&mut self, len: u64) -> Result<(), StorageError> {
        if len > FILE_LEN_MAX {
            return Err(StorageError::new(StorageErrorKind::NoSpace, "set_len", "no file can be that long"));
        }
        match self.handle.truncate_with_f64(len as f64) {
            Ok(()) => {
                self.len = len;
                Ok(())
            }
            Err(thrown) => Err(self.failed("set_len", &thrown)),
        }
    }

    fn read_all(&mut self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let wanted = out.len();
        if offset.checked_add(wanted as u64).is_none_or(|end| end > self.len) {
            return Err(StorageError::out_of_range(offset, wanted, self.len));
        }
        let mut at = offset;
        let mut rest = out;
        while !rest.is_empty() {
            let count =
                self.handle.read_with_u8_array_and_options(rest, self.at(at)).map_err(|thrown| storage_error("read", &thrown))?;
            let Some((_, unfilled)) = rest.split_at_mut_checked(count as usize).filter(|(filled, _)| !filled.is_empty()) else {
                // As a whole number: the code that prints others would be a thirtieth of the module.
                let (count, len) = (count as u64, self.len);
                let detail = format!("the browser returned {count} bytes at offset {at} of a file of {len} bytes");
                return Err(StorageError::new(StorageErrorKind::Other, "read", detail));
            };
            at += count as u64;
            rest = unfilled;
        }
        Ok(())
    }

    fn write_all(&mut self, offset: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let mut at = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = match self.handle.write_with_u8_array_and_options(rest, self.at(at)) {
                Ok(count) => count,
                Err(thrown) => return Err(self.failed("write", &thrown)),
            };
            if count == 0.0 {
                return Err(StorageError::new(StorageErrorKind::NoSpace, "write", "the browser took none of the bytes"));
            }
            let Some(unwritten) = rest.get(count as usize..) else {
                let detail = "the browser claims to have written more than it was given";
                return Err(StorageError::new(StorageErrorKind::Other, "write", detail));
            };
            at += count as u64;
            self.len = self.len.max(at);
            rest = unwritten;
        }
        Ok(())
    }

    /// The error of a call that may have changed the length on its way.
    fn failed(&mut self, operation: &'static str, thrown: &wasm_bindgen::JsValue) -> StorageError {
        if let Ok(len) = self.handle.get_size() {
            self.len = len as u64;
        }
        storage_error(operation, thrown)
    }
}
