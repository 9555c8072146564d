//! The file of an operating system: positional reads and writes, a map for reads, a lock that dies with its process.
//!
//! What a file system or a platform cannot do is skipped silently only where the contract calls it a hint.

#[cfg(not(any(unix, windows)))]
compile_error!("the feature `native` needs Unix or Windows; build pipkin with `default-features = false` for other hosts");

mod followed;
#[cfg(target_os = "linux")]
mod holder;
mod lock;
mod map;
mod open;
mod path;
#[cfg(unix)]
#[path = "unix.rs"]
mod platform;
#[cfg(windows)]
#[path = "windows.rs"]
mod platform;

#[cfg(feature = "io-uring")]
mod ring;

pub(crate) use followed::FollowedFile;
pub use lock::LockHolder;
pub(crate) use lock::{check_lock, lock_holder};
pub use path::{data_path, publish};
#[cfg(all(feature = "encrypt", feature = "salvage"))]
pub(crate) use path::{remove_leftover, replace};
#[cfg(feature = "io-uring")]
pub use ring::{IoUring, IoUringState};

use open::{open_error, open_file};

use super::{Durability, Storage, StorageError, StorageErrorKind};
use crate::error::Result;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Longest file in bytes that the host's signed offsets can address.
const HOST_LEN_MAX: u64 = i64::MAX as u64;
/// Zeros are written in pieces of this length.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
/// Limit of attempts to lock a path whose file is replaced at the same time.
const LOCK_ATTEMPTS_MAX: u32 = 16;

/// Least unit in which a system keeps a file in memory.
#[cfg(feature = "async")]
const PAGE: u64 = 4096;

/// `will_read` of ranges shorter than this comes from lookups, group after group: not every group is worth a probe of the cache.
const SAMPLED_LEN_MAX: u64 = 16 * 1024;
/// Consecutive probes that must find their byte in memory before the file counts as cached again.
const COLD_FOR: u32 = 32;

/// How [`NativeStorage::open`] opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeOptions {
    /// Refuse every change, and share the file with other readers. Default: `false`.
    pub read_only: bool,
    /// Create the file if there is none, for this user alone (Unix: mode 0600); without effect for `read_only`. Default: `true`.
    pub create: bool,
    /// Map the file, so that [`view`](Storage::view) works. A damaged medium or another program that shortens the file then ends the
    /// process with a bus error where a read would have failed: switch it off for media that cannot be trusted. Default: `true`.
    pub mmap: bool,
    /// Open the file so that writes go through the system's cache to the device at once (Windows: `FILE_FLAG_WRITE_THROUGH`).
    /// No effect elsewhere: there a write followed by a sync makes bytes durable in any case. A
    /// [`sync`](Storage::sync) is needed everywhere, for the cache of the device. Default: `false`.
    pub write_through: bool,
}

impl Default for NativeOptions {
    fn default() -> Self {
        Self { read_only: false, create: true, mmap: true, write_through: false }
    }
}

/// An open and locked file.
///
/// One writer, or any number of readers; the operating system releases the lock when the storage is dropped or its process ends,
/// even by a crash.
///
/// ```
/// use pipkin::storage::{NativeOptions, NativeStorage};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.pipkin");
/// let file = NativeStorage::open(&path, NativeOptions { mmap: false, ..NativeOptions::default() })?;
/// let db = pipkin::Db::builder().open_storage(Box::new(file))?;
/// # db.insert("color", "green")?;
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Debug)]
pub struct NativeStorage {
    #[cfg(feature = "encrypt")]
    keys: crate::seal::KeyCell,
    map: Option<map::Map>,
    file: File,
    path: PathBuf,
    read_only: bool,
    claimed: AtomicBool,
    /// Opening has created the file.
    is_new: bool,
    /// A new file that is still empty at the end is removed.
    removed_if_empty: bool,
    /// PID of the opener; a forked child neither removes the holder's note nor cuts the file.
    process: u32,
    /// The system's count of forks when the file was opened: in a forked child it is another one.
    forks: u32,
    /// Length that the engine sees, in bytes.
    len: AtomicU64,
    /// Actual length of the file: more than `len` where Windows refused to cut a mapped file. Locked while `len` changes.
    file_len: Mutex<u64>,
    /// True when the file system overwrites blocks in place. One that copies on write, or shares blocks between copies, needs space for an
    /// overwrite: on a full disk a store through the map would end the process where a write would only fail.
    in_place: bool,
    /// True when the last `reserve` allocated blocks that are overwritten in place: then a store through a map never meets a full disk.
    can_store: AtomicBool,
    /// More than zero while lookups read parts of the file that are not in memory; counts down from `COLD_FOR`.
    cold: AtomicU32,
}

impl NativeStorage {
    /// Opens and locks the file at `path`.
    ///
    /// An existing file is not changed.
    ///
    /// # Errors
    ///
    /// [`InvalidArgument`](crate::Error::InvalidArgument) when the path is empty or names a device, a pipe or a socket,
    /// [`IsDirectory`](crate::Error::IsDirectory), [`NotFound`](crate::Error::NotFound), [`Locked`](crate::Error::Locked),
    /// [`ReadOnly`](crate::Error::ReadOnly) when the file is write-protected (even if the user could write to it), or
    /// [`Storage`](crate::Error::Storage).
    pub fn open(path: &Path, options: NativeOptions) -> Result<Self> {
        for _ in 0..LOCK_ATTEMPTS_MAX {
            let (file, is_new) = open_file(path, options)?;
            lock::acquire(&file, path, options.read_only)?;
            // Between open and lock another process may have put a new file at the path; the lock would then be on the old one.
            if !platform::is_file_at(&file, path) {
                continue;
            }
            let len = file.metadata().map_err(|error| open_error(path, &error))?.len();
            if len == 0 && !options.read_only {
                platform::sync_parent(path).map_err(|error| storage_error("sync folder", path, &error))?;
            }
            let in_place = platform::writes_in_place(&file);
            platform::watch_forks();
            return Ok(Self {
                #[cfg(feature = "encrypt")]
                keys: crate::seal::KeyCell::new(),
                map: options.mmap.then(|| map::Map::new(&file, len)),
                file,
                path: path.to_path_buf(),
                read_only: options.read_only,
                claimed: AtomicBool::new(false),
                is_new,
                removed_if_empty: false,
                process: std::process::id(),
                forks: platform::forks(),
                len: AtomicU64::new(len),
                file_len: Mutex::new(len),
                in_place,
                can_store: AtomicBool::new(false),
                cold: AtomicU32::new(COLD_FOR),
            });
        }
        Err(StorageError::new(StorageErrorKind::Other, "open", "the path names another file each time")
            .with_path(words(path))
            .into())
    }

    /// A file that this has created goes again if nothing has been written to it when the storage is dropped: a store that could not be
    /// created, because the medium is full, leaves nothing.
    pub(crate) fn removed_if_empty(mut self) -> Self {
        self.removed_if_empty = true;
        self
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True when the file was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// True when the file could be mapped: then most of it can be [viewed](Storage::view).
    pub fn is_mapped(&self) -> bool {
        self.map.as_ref().is_some_and(map::Map::is_usable)
    }

    /// True in a child process that has inherited the open file.
    fn is_forked(&self) -> bool {
        platform::forks() != self.forks
    }

    fn known_len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    #[inline]
    fn check_writable(&self, operation: &'static str) -> Result<(), StorageError> {
        if self.read_only || self.is_forked() { Err(self.not_writable(operation)) } else { Ok(()) }
    }

    #[cold]
    fn not_writable(&self, operation: &'static str) -> StorageError {
        if self.read_only {
            return StorageError::new(StorageErrorKind::ReadOnly, operation, "the file was opened read-only");
        }
        let detail =
            "this process was forked from the one that opened the file, which still writes to it; open the file after the fork";
        StorageError::new(StorageErrorKind::Other, operation, detail).with_path(words(&self.path))
    }

    /// Makes the file longer. `file_len` is the locked field of this storage.
    fn grow(&self, file_len: &mut u64, len: u64) -> io::Result<()> {
        self.clear_stale(*file_len, len)?;
        if len > *file_len {
            self.file.set_len(len)?;
            *file_len = len;
        }
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// Writes zeros over the bytes that a refused shrink left between the end that the engine sees and `until`.
    fn clear_stale(&self, file_len: u64, until: u64) -> io::Result<()> {
        let until = until.min(file_len);
        let mut offset = self.known_len();
        while offset < until {
            let len = (until - offset).min(ZEROS.len() as u64);
            platform::write_parts(&self.file, offset, &[ZEROS.get(..len as usize).unwrap_or_default()])?;
            offset += len;
        }
        Ok(())
    }

    fn write_and_grow(&self, offset: u64, parts: &[&[u8]], end: u64) -> io::Result<()> {
        let mut file_len = self.file_len.lock();
        self.clear_stale(*file_len, offset)?;
        let result = platform::write_parts(&self.file, offset, parts);
        // A failed write may have made the file longer all the same.
        let reached = if result.is_ok() { end } else { self.file.metadata().map_or(0, |metadata| metadata.len()).min(end) };
        *file_len = reached.max(*file_len);
        self.len.fetch_max(reached, Ordering::AcqRel);
        result
    }
}

impl Storage for NativeStorage {
    #[cfg(feature = "encrypt")]
    fn key_cell(&self) -> Option<&crate::seal::KeyCell> {
        Some(&self.keys)
    }

    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.known_len())
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.check_writable("set length")?;
        if len > HOST_LEN_MAX {
            return Err(too_long("set length"));
        }
        let mut file_len = self.file_len.lock();
        let old = self.known_len();
        if len >= old {
            return self.grow(&mut file_len, len).map_err(|error| storage_error("set length", &self.path, &error));
        }
        // Lower `len` first, so that nobody gets a view of bytes that are about to be cut off.
        self.len.store(len, Ordering::Release);
        match self.file.set_len(len) {
            Ok(()) => *file_len = len,
            // The file keeps its length until it is closed; the bytes past `len` are zeroed when `len` grows over them.
            Err(error) if platform::is_refused_by_map(&error) => {}
            Err(error) => {
                self.len.store(old, Ordering::Release);
                return Err(storage_error("set length", &self.path, &error));
            }
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let len = self.known_len();
        if offset.checked_add(out.len() as u64).is_none_or(|end| end > len) {
            return Err(StorageError::out_of_range(offset, out.len(), len));
        }
        match platform::read_exact_at(&self.file, offset, out) {
            // Only another program can have shortened the file under the lock.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(StorageError::out_of_range(offset, out.len(), len)),
            result => result.map_err(|error| storage_error("read", &self.path, &error)),
        }
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.check_writable("write")?;
        let total: u64 = parts.iter().map(|part| part.len() as u64).sum();
        if total == 0 {
            return Ok(());
        }
        let end = offset.checked_add(total).filter(|end| *end <= HOST_LEN_MAX).ok_or_else(|| too_long("write"))?;
        let result = if end <= self.known_len() {
            platform::write_parts(&self.file, offset, parts)
        } else {
            self.write_and_grow(offset, parts, end)
        };
        result.map_err(|error| storage_error("write", &self.path, &error))
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.check_writable("sync")?;
        platform::sync(&self.file).map_err(|error| storage_error("sync", &self.path, &error))
    }

    unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
        if self.read_only || !self.can_store.load(Ordering::Relaxed) || self.is_forked() {
            return false;
        }
        let Some(map) = &self.map else { return false };
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        // Past the end of the file there are only addresses: the engine then uses `write_at`, which makes the file longer.
        if offset.checked_add(len).is_none_or(|end| end > self.known_len()) {
            return false;
        }
        // SAFETY: the caller's promise is handed on, and the range lies inside the file.
        unsafe { map.store(&self.file, offset, parts) }
    }

    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let map = self.map.as_ref()?;
        let file_len = self.known_len();
        if offset.checked_add(len as u64)? > file_len {
            return None;
        }
        // SAFETY: the range lies inside the file now; the caller promises that it stays there, unwritten, while the slice lives.
        unsafe { map.view(&self.file, file_len, offset, len) }
    }

    #[cfg(feature = "async")]
    fn is_at_hand(&self, offset: u64, len: usize) -> bool {
        let (first, last) = (offset / PAGE, offset.saturating_add((len as u64).saturating_sub(1)) / PAGE);
        platform::CAN_PROBE && (first..=last).all(|page| platform::is_cached(&self.file, page * PAGE))
    }

    fn will_read(&self, offsets: &[u64], len: usize) -> bool {
        let Some(&sample) = offsets.first().filter(|_| len > 0) else { return false };
        let cold = self.cold.load(Ordering::Relaxed);
        // A probe costs as much as reading a record from memory: while everything was cached, probe only one in eight of the short ranges.
        let is_short = (len as u64) < SAMPLED_LEN_MAX;
        if is_short && cold == 0 && (sample / 64) % 8 != 0 {
            return false;
        }
        if platform::is_cached(&self.file, sample.saturating_add(len as u64 - 1)) {
            if cold == 0 || !is_short {
                return false;
            }
            self.cold.store(cold - 1, Ordering::Relaxed);
        } else if is_short {
            self.cold.store(COLD_FOR, Ordering::Relaxed);
        }
        for &offset in offsets {
            platform::will_read(&self.file, offset, len as u64);
        }
        true
    }

    fn will_sync(&self, offset: u64, len: u64) {
        platform::write_behind(&self.file, offset, len);
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.check_writable("reserve")?;
        if len == 0 {
            return Ok(());
        }
        let end = offset.checked_add(len).filter(|end| *end <= HOST_LEN_MAX).ok_or_else(|| too_long("reserve"))?;
        let mut file_len = self.file_len.lock();
        let reserved =
            platform::reserve(&self.file, offset, len).map_err(|error| storage_error("reserve", &self.path, &error))?;
        self.can_store.store(reserved && self.in_place, Ordering::Relaxed);
        if end > self.known_len() {
            // The reservation has made the file longer already, and its bytes read as zero.
            let grown = if reserved { self.clear_stale(*file_len, end) } else { self.grow(&mut file_len, end) };
            grown.map_err(|error| storage_error("reserve", &self.path, &error))?;
        }
        if reserved {
            *file_len = end.max(*file_len);
            self.len.fetch_max(end, Ordering::AcqRel);
        }
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.check_writable("discard")?;
        let len = offset.saturating_add(len).min(self.known_len()).saturating_sub(offset);
        if len == 0 {
            return Ok(());
        }
        platform::discard(&self.file, offset, len).map_err(|error| storage_error("discard", &self.path, &error))
    }

    fn claim(&self) -> Result<(), StorageError> {
        let fits = self.known_len() >= super::HOLDER_OFFSET + super::HOLDER_LEN as u64;
        if self.read_only || !fits {
            return Ok(());
        }
        match self.write_at(super::HOLDER_OFFSET, &[&lock::note(std::process::id())]) {
            Ok(()) => self.claimed.store(true, Ordering::Release),
            // A file system that copies on write needs space even to overwrite. The note is only information for others: the store is
            // locked without it, too, and it must be possible to open a store on a full medium in order to remove records.
            Err(error) if error.kind == StorageErrorKind::NoSpace => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn release(&self) -> Result<(), StorageError> {
        let fits = self.known_len() >= super::HOLDER_OFFSET + super::HOLDER_LEN as u64;
        if self.claimed.swap(false, Ordering::AcqRel) && fits {
            self.write_at(super::HOLDER_OFFSET, &[&[0; super::HOLDER_LEN]])?;
        }
        Ok(())
    }
}

impl Drop for NativeStorage {
    /// Removes the holder's note, makes a shrink that a map had prevented, and unlocks. A failure of any does no harm. A forked process does
    /// nothing, since its length may be out of date, and the lock is that of the process that opened the file.
    fn drop(&mut self) {
        self.map = None;
        if std::process::id() != self.process {
            return;
        }
        let _ = self.release();
        let len = *self.len.get_mut();
        // The file is locked: whoever has opened it meanwhile finds that the path does not name it any more.
        if self.removed_if_empty && self.is_new && len == 0 && platform::is_file_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
        if *self.file_len.get_mut() > len {
            let _ = self.file.set_len(len);
        }
        platform::unlock(&self.file);
    }
}

fn words(path: &Path) -> String {
    path.display().to_string()
}

/// The host's error as a [`StorageError`], with the host's error as its source.
fn storage_error(operation: &'static str, path: &Path, error: &io::Error) -> StorageError {
    let kind = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => StorageErrorKind::NoSpace,
        io::ErrorKind::ReadOnlyFilesystem => StorageErrorKind::ReadOnly,
        io::ErrorKind::PermissionDenied => StorageErrorKind::PermissionDenied,
        io::ErrorKind::UnexpectedEof => StorageErrorKind::OutOfRange,
        _ => StorageErrorKind::Other,
    };
    let cause = match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    };
    StorageError::new(kind, operation, error.to_string()).with_path(words(path)).with_cause(cause)
}

fn too_long(operation: &'static str) -> StorageError {
    StorageError::new(StorageErrorKind::NoSpace, operation, "the host has no files as long as that")
}
