//! The lock on a store's file while a component has it open: WASI has none, so the host holds it.

use crate::{Error, Options, Result};
use pipkin::Storage;
use pipkin::storage::{NativeOptions, NativeStorage};
use std::fs::{Metadata, metadata};
use std::path::Path;

/// A lock on the file itself, of the same kind that the native engine takes, with the PID of this process. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Lock {
    file: NativeStorage,
    identity: Option<Identity>,
}

/// Device and inode of a file (known on Unix only), which tell it from another file of the same name.
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
    /// Locks the file. A missing file is created if `options.create` is set.
    pub(crate) fn take(path: &Path, options: &Options) -> Result<Self> {
        let Options { create, read_only, .. } = *options;
        let native = NativeOptions { read_only, create, mmap: false, write_through: false };
        let file = NativeStorage::open(path, native).map_err(Error::Lock)?;
        let identity = metadata(path).ok().and_then(|file| identity(&file));
        Ok(Self { file, identity })
    }

    /// Fails with [`Error::Moved`] unless the locked file still has its name. The component opens files by name: another file under that
    /// name would not be locked, and would lack the acknowledged writes.
    pub(crate) fn is_still_named(&self) -> Result<Metadata> {
        let path = self.file.path();
        let found = metadata(path).ok().filter(|file| identity(file) == self.identity);
        found.ok_or_else(|| Error::Moved(path.to_owned()))
    }

    /// Writes the PID of this process into the file. To be called once the component has recognised it as a store.
    pub(crate) fn sign(&self) -> Result<()> {
        let len = self.is_still_named()?.len();
        // The component has extended the file without this handle's knowledge; the handle must know the length before it writes.
        let signed = if self.file.is_read_only() { Ok(()) } else { self.file.set_len(len).and_then(|()| self.file.claim()) };
        signed.map_err(|error| Error::Lock(error.into()))
    }
}
