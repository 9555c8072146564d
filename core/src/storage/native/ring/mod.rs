//! Reads past the system's cache, many at a time, through io_uring: for files that do not fit into memory.
//!
//! Every call of the contract keeps its meaning, and writes and syncs go the way of [`NativeStorage`]. What the engine announces
//! ([`Storage::will_read`]) is handed to the kernel at once, and the reads that follow take it from there; a lone read is a plain `pread`,
//! which costs no more than a ring. Nothing that is in the system's cache is read from the medium.

#[cfg(target_os = "linux")]
mod cached;
#[cfg(target_os = "linux")]
mod direct;
#[cfg(target_os = "linux")]
mod epochs;
#[cfg(target_os = "linux")]
mod lane;
#[cfg(target_os = "linux")]
mod lone;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod range;
#[cfg(target_os = "linux")]
mod room;
#[cfg(target_os = "linux")]
mod storage;
#[cfg(all(test, target_os = "linux", not(miri), not(shuttle)))]
mod tests;

use super::NativeStorage;
use crate::storage::Storage;

/// Smallest and largest [`IoUring::depth`].
#[cfg(target_os = "linux")]
const DEPTHS: core::ops::RangeInclusive<u32> = 1..=1024;

/// How a store reads through io_uring: for [`Builder::io_uring`](crate::Builder::io_uring).
///
/// ```
/// use pipkin::IoUring;
///
/// let always = IoUring { auto: false, depth: 128, ..IoUring::default() };
/// assert!(always.direct && !always.sqpoll);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoUring {
    /// Use it only for a file that is longer than the memory which this process may use (of the machine, or of its control group) when it is
    /// opened: for a file that fits, the map is several times as fast. Default: `true`.
    pub auto: bool,
    /// Most announced records that a thread has in flight, from 1 to 1024; what is announced beyond it is read one by one. With fewer than 32
    /// `get_many` is cut short. Each takes 16 KiB of memory, in each of up to 16 rings. Default: 64.
    pub depth: u32,
    /// A thread of the kernel takes requests without a system call. It keeps a processor busy; on two processors it made reads slower.
    /// Default: `false`.
    pub sqpoll: bool,
    /// Read past the system's cache (`O_DIRECT`) what is not in it. With `false` the ring fills the cache as other reads do, which was no faster
    /// than reads without a ring. The system tells only users who may write to a file what the cache has of it; for others, all reads go through the
    /// cache. Default: `true`.
    pub direct: bool,
}

impl Default for IoUring {
    fn default() -> Self {
        Self { auto: true, depth: 64, sqpoll: false, direct: true }
    }
}

/// Whether a store that was asked to read through io_uring does: in [`OpenReport::io_uring`](crate::OpenReport::io_uring).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IoUringState {
    /// It does.
    #[non_exhaustive]
    Used {
        /// Past the system's cache.
        direct: bool,
        /// The kernel keeps the memory for records mapped. `false` where it refuses that, which the limit of locked memory
        /// (`RLIMIT_MEMLOCK`) can cause: the reads then take a little more processor time.
        registered: bool,
    },
    /// The file fits into memory ([`IoUring::auto`]); the store reads as if nothing had been asked.
    #[non_exhaustive]
    FitsMemory {
        /// Length of the file in bytes, when it was opened.
        file: u64,
        /// Memory that this process may use, in bytes.
        memory: u64,
    },
    /// The system refuses it, or the store is a follower; the store reads as if nothing had been asked. The text says why.
    Refused(String),
}

impl NativeStorage {
    /// The same file, read through io_uring; or, where that is refused or of no use, as it was.
    ///
    /// ```
    /// use pipkin::IoUring;
    /// use pipkin::storage::{NativeOptions, NativeStorage, Storage};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let file = NativeStorage::open(&path, NativeOptions::default())?;
    /// let (storage, state) = file.with_io_uring(IoUring { auto: false, ..IoUring::default() });
    /// println!("{state:?}");
    /// let db = pipkin::Db::builder().open_storage(storage)?;
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn with_io_uring(self, options: IoUring) -> (Box<dyn Storage>, IoUringState) {
        #[cfg(target_os = "linux")]
        return storage::RingStorage::over(self, options);
        #[cfg(not(target_os = "linux"))]
        {
            let _ = options;
            (Box::new(self), IoUringState::Refused("only Linux has io_uring".to_owned()))
        }
    }
}
