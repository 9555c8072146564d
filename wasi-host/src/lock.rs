//! The lock on a store's file while a component has it open: WASI has none, so the host holds it.

use crate::{Error, Options, Result};
use pipkin::Storage;
use pipkin::storage::{NativeOptions, NativeStorage};
use std::path::Path;

/// A lock of the same kind as that of the native engine, on the file itself, under the number of this process. It goes with the value.
#[derive(Debug)]
pub(crate) struct Lock(NativeStorage);

impl Lock {
    /// Locks the file, which is made if that is wanted and there is none.
    pub(crate) fn take(path: &Path, options: &Options) -> Result<Self> {
        let Options { create, read_only, .. } = *options;
        let native = NativeOptions { read_only, create, mmap: false, write_through: false };
        NativeStorage::open(path, native).map(Self).map_err(Error::Lock)
    }

    /// Leaves the number of this process in the file, now that the component has recognised it as a store.
    pub(crate) fn sign(&self) -> Result<()> {
        let len = std::fs::metadata(self.0.path()).map(|metadata| metadata.len()).unwrap_or(0);
        // The component has made the file longer behind the back of this handle, which must know that before it writes.
        let signed = if self.0.is_read_only() { Ok(()) } else { self.0.set_len(len).and_then(|()| self.0.claim()) };
        signed.map_err(|error| Error::Lock(error.into()))
    }
}
