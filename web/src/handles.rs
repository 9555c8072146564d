//! The open files of this worker.
//!
//! A JavaScript object belongs to the thread that made it, while a [`Storage`](pipkin::Storage) may be sent to any. So the
//! objects stay here, and a storage holds the number of its file: anywhere else that number means nothing, and every call
//! answers with an error.

use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::{AtomicU32, Ordering};

use pipkin::{StorageError, StorageErrorKind};
use web_sys::{FileSystemReadWriteOptions, FileSystemSyncAccessHandle};

/// One open file.
pub(crate) struct OpenFile {
    pub(crate) handle: FileSystemSyncAccessHandle,
    /// Kept here, because to ask the browser costs up to 14 us.
    pub(crate) len: u64,
    /// The argument of every call, made once.
    options: FileSystemReadWriteOptions,
}

impl OpenFile {
    pub(crate) fn new(handle: FileSystemSyncAccessHandle, len: u64) -> Self {
        Self { handle, len, options: FileSystemReadWriteOptions::new() }
    }

    /// The options of a call at `offset`.
    pub(crate) fn at(&self, offset: u64) -> &FileSystemReadWriteOptions {
        self.options.set_at_f64(offset as f64);
        &self.options
    }
}

/// What belongs to the only thread that there is.
struct OfOneThread<T>(T);

#[cfg(target_feature = "atomics")]
compile_error!("a memory that threads share needs a list of open files for each of them");

// SAFETY: without atomics a module has one thread; another worker has a module and a memory of its own.
unsafe impl<T> Sync for OfOneThread<T> {}

/// Few files are open: a list is searched as fast as anything.
static OPEN: OfOneThread<RefCell<Vec<(u32, OpenFile)>>> = OfOneThread(RefCell::new(Vec::new()));

fn with_open<T>(work: impl FnOnce(&mut Vec<(u32, OpenFile)>) -> T) -> T {
    work(&mut OPEN.0.borrow_mut())
}

/// Numbers are never used twice.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Takes a file in and returns its number.
pub(crate) fn insert(file: OpenFile) -> u32 {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    with_open(|open| open.push((id, file)));
    id
}

/// Works on a file of this thread.
pub(crate) fn with<T>(
    id: u32,
    operation: &'static str,
    work: impl FnOnce(&mut OpenFile) -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    with_open(|open| match open.iter_mut().find(|(number, _)| *number == id) {
        Some((_, file)) => work(file),
        None => Err(StorageError::new(
            StorageErrorKind::Other,
            operation,
            "the file is not open in this worker; use it in the worker that opened it",
        )),
    })
}

/// Closes a file, if it is open in this thread, and with that gives up its lock.
pub(crate) fn remove(id: u32) {
    with_open(|open| {
        open.retain(|(number, file)| {
            if *number == id {
                file.handle.close();
            }
            *number != id
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use wasm_bindgen_test::{wasm_bindgen_test, wasm_bindgen_test_configure};

    wasm_bindgen_test_configure!(run_in_dedicated_worker);

    #[wasm_bindgen_test]
    fn a_number_of_another_thread_is_answered_with_an_error() {
        let foreign = NEXT.fetch_add(1, Ordering::Relaxed);
        let error = with(foreign, "read", |_| Ok(())).err();
        assert_eq!(error.map(|error| (error.kind, error.operation)), Some((StorageErrorKind::Other, "read")));
        remove(foreign);
    }
}
