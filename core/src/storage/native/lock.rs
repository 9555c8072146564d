//! The file lock, one writer or many readers, and a note of who holds it.
//!
//! The lock is the operating system's, on the file itself: no lock file can be left over. The system does not report who holds
//! a lock, so a writer leaves its process number (PID) in the holder page of a store. The note counts only while the lock is held.

use super::open::{check_kind, open_error};
use super::{platform, storage_error};
use crate::error::{Error, Result};
use crate::storage::{HOLDER_LEN, HOLDER_OFFSET};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const MAGIC: [u8; 8] = *b"PIPKHOLD";
/// Waits between attempts, in milliseconds. A lock can be held for an instant by a process that only probes it, and by a child
/// process between fork and exec.
const WAITS_MS: [u64; 4] = [1, 2, 4, 8];

/// Locks the file for a writer, or shared for a reader. Fails with [`Error::Locked`].
pub(super) fn acquire(file: &File, path: &Path, shared: bool) -> Result<()> {
    for wait_ms in WAITS_MS.into_iter().map(Some).chain([None]) {
        match platform::try_lock(file, shared) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => return Err(storage_error("lock", path, &error).into()),
        }
        if let Some(wait_ms) = wait_ms {
            std::thread::sleep(Duration::from_millis(wait_ms));
        }
    }
    Err(Error::Locked { path: path.display().to_string(), holder: holder(file, path) })
}

/// The process that has a store open for writing.
///
/// Beside its number only what is proven: Linux shows which files a process of the same user has open, and if the store is among them,
/// that process is the holder and runs on this host. A number alone may be one on another host, where the file is on a network drive.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockHolder {
    /// The process number, from the note that a writer leaves in the file.
    pub pid: u32,
    /// The file of its program, where known.
    pub program: Option<PathBuf>,
    /// The name of the host that it runs on, where known.
    pub host: Option<String>,
    /// When the process began, where known: it cannot have had the store open for longer.
    pub since: Option<SystemTime>,
}

/// See [`Db::lock_holder`](crate::Db::lock_holder).
pub(crate) fn lock_holder(path: &Path) -> Result<Option<LockHolder>> {
    let file = open_to_look(path)?;
    Ok(holder(&file, path).map(|pid| platform::describe(&file, pid)))
}

/// Takes the lock of a writer and releases it. See [`Db::break_lock`](crate::Db::break_lock).
pub(crate) fn check_lock(path: &Path) -> Result<()> {
    acquire(&open_to_look(path)?, path, false)
}

fn open_to_look(path: &Path) -> Result<File> {
    check_kind(path)?;
    File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound { path: path.display().to_string() },
        _ => open_error(path, &error),
    })
}

/// The writer's process number; `None` without a writer or a note.
fn holder(file: &File, path: &Path) -> Option<u32> {
    // Probes through a second handle, since a lock would replace the one that `file` may have by now. If the shared lock can be
    // taken, only readers hold the file, and the note is an old one.
    let is_free = File::open(path).and_then(|probe| platform::try_lock(&probe, true)).unwrap_or(false);
    if is_free {
        return None;
    }
    let mut bytes = [0; HOLDER_LEN];
    platform::read_exact_at(file, HOLDER_OFFSET, &mut bytes).ok()?;
    read_note(&bytes).filter(|process| platform::is_alive(*process))
}

/// The note of a process: magic, number, check of the number, zeros.
pub(super) fn note(process: u32) -> [u8; HOLDER_LEN] {
    let mut bytes = [0; HOLDER_LEN];
    let fields = MAGIC.into_iter().chain(process.to_le_bytes()).chain(check(process).to_le_bytes());
    for (target, source) in bytes.iter_mut().zip(fields) {
        *target = source;
    }
    bytes
}

fn read_note(bytes: &[u8; HOLDER_LEN]) -> Option<u32> {
    let process = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?);
    (*bytes == note(process)).then_some(process)
}

/// Check value that tells a whole note from a torn or foreign one.
fn check(process: u32) -> u32 {
    (process ^ 0x6B69_6E21).wrapping_mul(0x9E37_79B1)
}

#[cfg(test)]
mod tests {
    use super::{HOLDER_LEN, note, read_note};

    #[test]
    fn a_note_reads_back_and_a_damaged_one_does_not() {
        for process in [0, 1, 4711, u32::MAX] {
            assert_eq!(read_note(&note(process)), Some(process));
            for byte in 0..HOLDER_LEN {
                let mut damaged = note(process);
                if let Some(byte) = damaged.get_mut(byte) {
                    *byte ^= 0x10;
                }
                assert_eq!(read_note(&damaged), None);
            }
        }
        assert_eq!(read_note(&[0; HOLDER_LEN]), None);
    }
}
