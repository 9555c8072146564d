//! The lock on a store's file while a component has it open: WASI has none, so the host holds it.

use crate::{Error, Options, Result};
use pipkin::Storage;
use pipkin::storage::{NativeOptions, NativeStorage};
use std::fs::{Metadata, metadata};
use std::path::Path;

/// A lock of the same kind as that of the native engine, on the file itself, under the number of this process. It goes with the value.
#[derive(Debug)]
pub(crate) struct Lock {
    file: NativeStorage,
    identity: Option<Identity>,
}

/// What tells a file from another one that got its name.
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(file: &Metadata) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Option<Identity> {
    None
}

impl Lock {
    /// Locks the file, which is made if that is wanted and there is none.
    pub(crate) fn take(path: &Path, options: &Options) -> Result<Self> {
        let Options { create, read_only, .. } = *options;
        let native = NativeOptions { read_only, create, mmap: false, write_through: false };
        let file = NativeStorage::open(path, native).map_err(Error::Lock)?;
        let identity = metadata(path).ok().and_then(|file| identity(&file));
        Ok(Self { file, identity })
    }

    /// The component opens files by their names. One that took the name of the locked file meanwhile is not locked, and has none of
    /// what was acknowledged.
    pub(crate) fn is_still_named(&self) -> Result<Metadata> {
        let path = self.file.path();
        let found = metadata(path).ok().filter(|file| identity(file) == self.identity);
        found.ok_or_else(|| Error::Moved(path.to_owned()))
    }

    /// Leaves the number of this process in the file, now that the component has recognised it as a store.
    pub(crate) fn sign(&self) -> Result<()> {
        let len = self.is_still_named()?.len();
        // The component has made the file longer behind the back of this handle, which must know that before it writes.
        let signed = if self.file.is_read_only() { Ok(()) } else { self.file.set_len(len).and_then(|()| self.file.claim()) };
        signed.map_err(|error| Error::Lock(error.into()))
    }
}
