//! Platform calls: Windows.

use super::LockHolder;
use crate::storage::Durability;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::{FileExt, OpenOptionsExt};
use std::os::windows::io::AsRawHandle;
use std::path::Path;
use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, ERROR_LOCK_VIOLATION, ERROR_USER_MAPPED_FILE};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_WRITE_THROUGH, GetFileInformationByHandle, LOCKFILE_EXCLUSIVE_LOCK,
    LOCKFILE_FAIL_IMMEDIATELY, LockFileEx,
};
use windows_sys::Win32::System::IO::{OVERLAPPED, OVERLAPPED_0, OVERLAPPED_0_0};

/// Parts that together are no longer than this are copied into one write: there is no positional write of several parts.
const COPY_LEN_MAX: usize = 64 * 1024;

/// No effect on Windows.
pub(super) const fn watch_forks() {}

/// Windows has no fork.
pub(super) const fn forks() -> u32 {
    0
}

/// No effect: a new file inherits the access rights of its folder.
pub(super) const fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// What the system tells of the process that is said to have the file open: only its number.
pub(super) const fn describe(_file: &File, pid: u32) -> LockHolder {
    LockHolder { pid, program: None, host: None, since: None }
}

/// Writes go to the device at once.
pub(super) fn write_through(options: &mut OpenOptions) {
    options.custom_flags(FILE_FLAG_WRITE_THROUGH);
}

pub(super) fn read_exact_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    let (mut at, mut rest) = (offset, out);
    while !rest.is_empty() {
        match file.seek_read(rest, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                at += read as u64;
                rest = rest.get_mut(read..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

pub(super) fn write_parts(file: &File, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
    let total: usize = parts.iter().map(|part| part.len()).sum();
    if parts.len() > 1 && total <= COPY_LEN_MAX {
        return write_all(file, offset, &parts.concat());
    }
    let mut at = offset;
    for part in parts {
        write_all(file, at, part)?;
        at += part.len() as u64;
    }
    Ok(())
}

fn write_all(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let (mut at, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        match file.seek_write(rest, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                at += written as u64;
                rest = rest.get(written..).unwrap_or_default();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `FlushFileBuffers`: the system empties its cache and tells the drive to do the same.
pub(super) fn sync(file: &File) -> io::Result<Durability> {
    file.sync_all()?;
    Ok(Durability::Device)
}

/// Always false: nothing is stored through a map on Windows.
pub(super) const fn writes_in_place(_file: &File) -> bool {
    false
}

/// Always false: setting the length allocates clusters on Windows.
pub(super) fn reserve(_file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
    Ok(false)
}

/// Does nothing: only sparse files can have holes, and a sparse file would break the promise of `reserve`.
pub(super) fn discard(_file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

/// [`is_cached`] cannot tell.
#[cfg(feature = "async")]
pub(super) const CAN_PROBE: bool = false;

/// Always true: `will_read` does nothing on Windows.
pub(super) const fn is_cached(_file: &File, _offset: u64) -> bool {
    true
}

/// Does nothing: the system reads ahead by itself where it detects a pattern.
pub(super) const fn will_read(_file: &File, _offset: u64, _len: u64) {}

/// Does nothing: Windows has no such call.
pub(super) const fn write_behind(_file: &File, _offset: u64, _len: u64) {}

/// Locks one byte past any data. Locks are mandatory on Windows: one over the data would prevent others from reading the holder's note.
pub(super) fn try_lock(file: &File, shared: bool) -> io::Result<bool> {
    let flags = LOCKFILE_FAIL_IMMEDIATELY | if shared { 0 } else { LOCKFILE_EXCLUSIVE_LOCK };
    let place = OVERLAPPED_0_0 { Offset: u32::MAX - 1, OffsetHigh: i32::MAX as u32 };
    let mut overlapped = OVERLAPPED { Anonymous: OVERLAPPED_0 { Anonymous: place }, ..OVERLAPPED::default() };
    // SAFETY: the handle is open for as long as `file` is borrowed, and `overlapped` outlives the call, which does not go on in the
    // background: the handle was opened for synchronous use.
    let locked = unsafe { LockFileEx(file.as_raw_handle(), flags, 0, 1, 0, &mut overlapped) };
    if locked != 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error().map(|code| code as u32) {
        Some(ERROR_LOCK_VIOLATION | ERROR_IO_PENDING) => Ok(false),
        _ => Err(error),
    }
}

/// Does nothing: no child process inherits the file, and closing it gives the lock back.
pub(super) const fn unlock(_file: &File) {}

/// Always true, so the note is trusted: a check would need one more handle and access right.
pub(super) fn is_alive(_process: u32) -> bool {
    true
}

/// True when the path still names this open file: every opener shares it for renaming, as the standard library does.
pub(super) fn is_file_at(file: &File, path: &Path) -> bool {
    // Without any access right, so that it opens whatever others have locked or refuse to share.
    let named = OpenOptions::new().access_mode(0).open(path).and_then(|named| identity(&named));
    match (identity(file), named) {
        (Ok(open), Ok(named)) => open == named,
        _ => false,
    }
}

/// Volume and number of an open file.
fn identity(file: &File) -> io::Result<(u32, u32, u32)> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the handle is open for as long as `file` lives, and `found` is a structure of the expected type for the system to fill.
    if unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut found) } == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((found.dwVolumeSerialNumber, found.nFileIndexHigh, found.nFileIndexLow))
}

/// The folder that holds the path.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file that is open has a name here.
#[cfg(all(feature = "encrypt", feature = "salvage"))]
pub(super) const fn has_name(_: &File) -> bool {
    true
}

/// Makes the name of a new file durable by a flush of the file: that also flushes the journal that holds the name. Does nothing for a
/// folder.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    match File::options().write(true).open(path).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        result => result,
    }
}

/// True for the error of shortening a mapped file.
pub(super) fn is_refused_by_map(error: &io::Error) -> bool {
    error.raw_os_error() == Some(ERROR_USER_MAPPED_FILE as i32)
}
