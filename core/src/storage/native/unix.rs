//! Platform calls: Unix.

use super::LockHolder;
use crate::storage::Durability;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, IoSlice};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Parts that together are no longer than this are copied into one write: cheaper than a list of slices.
const COPY_LEN_MAX: usize = 1024;
/// Slices per call: the limit of every kernel (`IOV_MAX` of Linux and macOS).
const SLICES_MAX: usize = 1024;

/// Creates files with mode 0600: only the owner can read a store until they allow others to.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600)
}

/// No effect on Unix.
pub(super) const fn write_through(_options: &mut OpenOptions) {}

pub(super) fn read_exact_at(file: &File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(out, offset)
}

/// Whether [`is_cached`] can tell.
#[cfg(feature = "async")]
pub(super) const CAN_PROBE: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// True when the byte can be read without waiting for the medium, or when that cannot be determined.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn is_cached(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    let result = rustix::io::preadv2(file, &mut [io::IoSliceMut::new(&mut byte)], offset, rustix::io::ReadWriteFlags::NOWAIT);
    result != Err(rustix::io::Errno::AGAIN)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) const fn is_cached(_file: &File, _offset: u64) -> bool {
    true
}

/// Most bytes of one announcement. Linux reads no more for it than the disk's read-ahead (usually these 128 KiB) or its longest request, and ignores the
/// rest. On a disk with these limits a cold store of 529 MB took 14 s to verify without pieces, and takes 0.7 s with them.
#[cfg(any(target_os = "linux", target_os = "android"))]
const ANNOUNCED_MAX: u64 = 128 * 1024;

/// Starts reading the range into the system's cache, without waiting for it.
///
/// Measured against one submission of reads to io_uring, with 32 and with 128 records at a time: as fast or faster, and it needs no ring.
/// See `bench/benches/cold_reads.rs`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn will_read(file: &File, offset: u64, len: u64) {
    let end = offset.saturating_add(len);
    let mut from = offset;
    while from < end {
        let piece = ANNOUNCED_MAX.min(end - from);
        // A hint: its result changes nothing.
        let _ = rustix::fs::fadvise(file, from, std::num::NonZeroU64::new(piece), rustix::fs::Advice::WillNeed);
        from += piece;
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) const fn will_read(_file: &File, _offset: u64, _len: u64) {}

/// Starts writing the range to the medium, without waiting for it. Makes nothing durable, but leaves less for the next sync, which
/// otherwise has to write everything since the last one.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn write_behind(file: &File, offset: u64, len: u64) {
    use std::os::fd::AsRawFd;
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else { return };
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call touches no memory of this process.
    let result = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
    // A hint: the next sync reports a failed write.
    let _ = result;
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) const fn write_behind(_file: &File, _offset: u64, _len: u64) {}

/// Writes the parts one after the other, with as few system calls as possible.
pub(super) fn write_parts(file: &File, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
    let mut copied;
    let whole = match parts {
        [part] => part,
        _ => {
            copied = [0; COPY_LEN_MAX];
            let mut len = 0;
            for part in parts {
                match copied.get_mut(len..len + part.len()) {
                    Some(target) => target.copy_from_slice(part),
                    None => return write_slices(file, offset, parts),
                }
                len += part.len();
            }
            copied.get(..len).unwrap_or_default()
        }
    };
    file.write_all_at(whole, offset)
}

fn write_slices(file: &File, offset: u64, parts: &[&[u8]]) -> io::Result<()> {
    let mut at = offset;
    for group in parts.chunks(SLICES_MAX) {
        let mut slices: Vec<IoSlice<'_>> = group.iter().map(|part| IoSlice::new(part)).collect();
        let mut left = slices.as_mut_slice();
        // Drops empty slices at the front, so that a count of zero means that the medium accepts nothing.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match rustix::io::pwritev(file, left, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    at += written as u64;
                    IoSlice::advance_slices(&mut left, written);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

#[cfg(not(target_vendor = "apple"))]
pub(super) fn sync(file: &File) -> io::Result<Durability> {
    file.sync_data()?;
    Ok(Durability::Device)
}

/// The standard library asks the drive itself (`F_FULLFSYNC`); network volumes refuse that and get a plain `fsync`, which leaves
/// the bytes in the cache of the drive.
#[cfg(target_vendor = "apple")]
pub(super) fn sync(file: &File) -> io::Result<Durability> {
    match file.sync_all() {
        Ok(()) => Ok(Durability::Device),
        Err(error) if is_unsupported(rustix::io::Errno::from_io_error(&error)) => {
            rustix::fs::fsync(file)?;
            Ok(Durability::Os)
        }
        Err(error) => Err(error),
    }
}

/// How often this process has come out of a fork since [`watch_forks`] was first called.
#[cfg(any(target_os = "linux", target_os = "android"))]
static FORKS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Begins to count forks.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn watch_forks() {
    static WATCH: std::sync::Once = std::sync::Once::new();
    extern "C" fn forked() {
        FORKS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
    WATCH.call_once(|| {
        // SAFETY: the handler only adds to an atomic number, which a child may do right after the fork.
        let watched = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
        // If it fails, a forked child is not noticed.
        let _ = watched;
    });
}

/// A number that is another one in a forked child.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn forks() -> u32 {
    FORKS.load(std::sync::atomic::Ordering::Relaxed)
}

/// No effect on these systems.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) const fn watch_forks() {}

/// Forks are not noticed on these systems.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) const fn forks() -> u32 {
    0
}

/// Allocates blocks for the range. False when the file system cannot.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn reserve(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    allocate(file, rustix::fs::FallocateFlags::empty(), offset, len)
}

/// True for file systems that are known to overwrite in place and never to share blocks between copies. A list, because on XFS, Btrfs and
/// others new blocks are allocated only when the page is written.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn writes_in_place(file: &File) -> bool {
    const EXT: rustix::fs::FsWord = 0xef53;
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|stat| [EXT, TMPFS].contains(&stat.f_type))
}

/// Always false: nothing is stored through a map on these systems.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn writes_in_place(_file: &File) -> bool {
    false
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn reserve(_file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
    Ok(false)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn discard(file: &File, offset: u64, len: u64) -> io::Result<()> {
    use rustix::fs::FallocateFlags;
    allocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len).map(drop)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn discard(_file: &File, _offset: u64, _len: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn allocate(file: &File, mode: rustix::fs::FallocateFlags, offset: u64, len: u64) -> io::Result<bool> {
    loop {
        match rustix::fs::fallocate(file, mode, offset, len) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) if is_unsupported(Some(error)) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_unsupported(error: Option<rustix::io::Errno>) -> bool {
    use rustix::io::Errno;
    // `OPNOTSUPP` and `NOTSUP` are one number on Linux and two elsewhere.
    error.is_some_and(|error| [Errno::OPNOTSUPP, Errno::NOTSUP, Errno::NOSYS, Errno::INVAL, Errno::NOTTY].contains(&error))
}

/// An advisory lock of the open file itself, so that a second open in the same process is refused, too.
pub(super) fn try_lock(file: &File, shared: bool) -> io::Result<bool> {
    loop {
        match if shared { file.try_lock_shared() } else { file.try_lock() } {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Gives the lock back. Closing the file alone does not, for as long as a child process between fork and exec has it, too.
pub(super) fn unlock(file: &File) {
    let _ = file.unlock();
}

/// False when no process has this number any more.
pub(super) fn is_alive(process: u32) -> bool {
    let Some(pid) = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw) else { return false };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// What the system tells of the process that is said to have the file open.
pub(super) fn describe(file: &File, pid: u32) -> LockHolder {
    #[cfg(target_os = "linux")]
    if let Some(proven) = super::holder::look(file, pid) {
        return proven;
    }
    let _ = file;
    LockHolder { pid, program: None, host: None, since: None }
}

/// True when the path still names this open file.
pub(super) fn is_file_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => (open.dev(), open.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// The folder that holds the path.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// True if some name leads to an open file.
#[cfg(all(feature = "encrypt", feature = "salvage"))]
pub(super) fn has_name(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

/// Makes the name of a new file durable. Does nothing for a folder that may not be read, or on a file system that cannot sync folders.
pub(super) fn sync_parent(path: &Path) -> io::Result<()> {
    let synced = File::open(parent(path)).and_then(|folder| folder.sync_all());
    match synced {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        Err(error) if is_unsupported(rustix::io::Errno::from_io_error(&error)) => Ok(()),
        result => result,
    }
}

/// Always false: on Unix a mapped file can be shortened.
pub(super) fn is_refused_by_map(_error: &io::Error) -> bool {
    false
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]
    use crate::storage::{NativeOptions, NativeStorage};
    use crate::{Db, Error};

    /// A store that was closed while another thread began a program answered `Locked` when it was opened again, on a machine under load.
    #[test]
    fn a_file_that_a_child_has_not_closed_yet_is_not_locked_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.pipkin");
        let storage = NativeStorage::open(&path, NativeOptions::default()).unwrap();
        let inherited = storage.file.try_clone().unwrap();
        let is_locked = || matches!(NativeStorage::open(&path, NativeOptions::default()), Err(Error::Locked { .. }));
        assert!(is_locked());
        drop(storage);
        assert!(!is_locked());
        drop(inherited);
    }

    /// A child that had inherited an open store wrote to its parent's log: both were told that their records were safe, and one of them
    /// overwrote those of the other.
    #[test]
    fn a_forked_child_writes_nothing_to_the_store_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        for mmap in [true, false] {
            let path = folder.path().join(format!("mmap {mmap}"));
            let db = Db::builder().path(&path).mmap(mmap).background(false).open().unwrap();
            for key in 0..100_u32 {
                db.insert(key.to_le_bytes(), "parent").unwrap();
            }
            // SAFETY: the child only calls the store, whose locks no other thread holds, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let is_refused = matches!(db.insert("child", "lost"), Err(Error::Storage(_))) && db.flush().is_err();
                let reads = db.get(7_u32.to_le_bytes()).is_ok_and(|value| value.is_some());
                drop(db);
                // SAFETY: ends the process without running anything of the test's.
                unsafe { libc::_exit(i32::from(!is_refused || !reads)) };
            }
            let mut status = -1;
            // SAFETY: `status` is valid for the call.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!((waited, status), (child, 0), "mmap {mmap}: the child wrote");
            assert!(matches!(Db::open(&path), Err(Error::Locked { .. })), "mmap {mmap}: the child has given the lock back");
            db.insert("after", "the fork").unwrap();
            db.close().unwrap();
            let db = Db::open(&path).unwrap();
            assert_eq!((db.len().unwrap(), db.verify().unwrap().is_ok()), (101, true));
        }
    }
}
