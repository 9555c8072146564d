//! Opening the file of a store: no device, no pipe, nothing that is write-protected, and errors that say what to do.

use super::{NativeOptions, platform, storage_error, words};
use crate::error::{Error, Result};
use crate::storage::{StorageError, StorageErrorKind};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Limit of attempts to open a path whose file is removed and created again at the same time.
const ATTEMPTS_MAX: u32 = 16;

/// Opens the file at `path`, or creates it; the flag says which.
pub(super) fn open_file(path: &Path, options: NativeOptions) -> Result<(File, bool)> {
    check_kind(path)?;
    // A write-protected file stays unchanged, even where the system would let this user write (root).
    if !options.read_only && std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly()) {
        return Err(Error::ReadOnly);
    }
    let mut open = OpenOptions::new();
    open.read(true).write(!options.read_only);
    if options.write_through {
        platform::write_through(&mut open);
    }
    let opened =
        |result: io::Result<File>, is_new| result.map(|file| (file, is_new)).map_err(|error| explain_open(path, options, &error));
    for _ in 0..ATTEMPTS_MAX {
        match open.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return opened(result, false),
        }
        if options.read_only || !options.create {
            return Err(Error::NotFound { path: path.display().to_string() });
        }
        match platform::private(open.clone().create_new(true)).open(path) {
            // Another process was faster: open its file.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return opened(result, true),
        }
    }
    Err(StorageError::new(StorageErrorKind::Other, "open", "the path names a file and none in turn; is it a broken link?")
        .with_path(words(path))
        .into())
}

/// Refuses what is not a file before it is opened: opening a pipe would wait for its other end.
pub(super) fn check_kind(path: &Path) -> Result<()> {
    if path.as_os_str().is_empty() {
        return Err(Error::InvalidArgument("the path is empty; name a file"));
    }
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Err(Error::IsDirectory { path: path.display().to_string() }),
        Ok(metadata) if !metadata.is_file() => {
            Err(Error::InvalidArgument("the path names a device, a pipe or a socket; a store needs a regular file"))
        }
        _ => Ok(()),
    }
}

pub(super) fn explain_open(path: &Path, options: NativeOptions, error: &io::Error) -> Error {
    let parent = platform::parent(path);
    match error.kind() {
        io::ErrorKind::NotFound if !parent.exists() => {
            let detail = format!("there is no folder {}; create it first", parent.display());
            StorageError::new(StorageErrorKind::Other, "open", detail).with_path(words(path)).into()
        }
        io::ErrorKind::PermissionDenied if !options.read_only && File::open(path).is_ok() => Error::ReadOnly,
        _ => open_error(path, error),
    }
}

pub(super) fn open_error(path: &Path, error: &io::Error) -> Error {
    storage_error("open", path, error).into()
}
