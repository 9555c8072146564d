//! The crash simulator: a file whose synced and unsynced bytes are kept apart, and every file that a crash could leave.
//!
//! The idea is that of pebble's crashable file system (`vfs.MemFS.CrashClone`), taken down to sectors. The model of the medium:
//!
//! - What was synced stays.
//! - Each 512-byte sector written since the last sync holds, after a power cut, any of its versions: the synced one, the latest,
//!   one in between, or a mix of two (a medium need not write a sector in one piece). Sectors are independent of each other. Bytes
//!   that are the same in all versions stay: a power cut does not reach beyond what was being written ("powersafe overwrite").
//! - Changes of the length are journalled: they reach the medium in order, up to any point, independent of the data. A growing
//!   file may stop at any sector in between. A shrink that got there takes the old bytes with it.
//! - A discarded range holds, sector by sector, zeros or what was there before.
//! - A killed process (the machine runs on) loses nothing that was written, and its last write may have landed in part.
//! - After a [failed sync](CrashStorage::fail_sync) it is unknown how much of the earlier writes has reached the medium. Linux marks
//!   their pages clean: they read well, also for the next process, and later syncs succeed without storing them, until they are written
//!   again.
//!
//! ```
//! use pipkin::storage::{Storage, crash::CrashStorage};
//!
//! let storage = CrashStorage::new();
//! storage.write_at(0, &[&[1; 512]])?;
//! storage.sync()?;
//! storage.write_at(0, &[&[2; 512]])?;
//! let images = storage.freeze().images(8).map(|image| image.to_vec()).collect::<Vec<_>>();
//! assert_eq!(images, [[2; 512], [1; 512]]);
//! # Ok::<(), pipkin::StorageError>(())
//! ```

mod image;
mod images;
mod pages;
mod point;

pub use image::CrashImage;
pub use images::Images;
pub use point::{CrashPoint, PendingOp};

use super::random::Rng;
use super::{Durability, Storage, StorageError, StorageErrorKind};
use crate::sync::{Mutex, MutexGuard};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pages::{Pages, SECTOR_LEN};

/// A file in memory that can crash. A clone is another handle to the same file.
#[derive(Clone, Default)]
pub struct CrashStorage {
    #[cfg(feature = "encrypt")]
    keys: crate::seal::KeyCell,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    point: CrashPoint,
    /// Calls so far that could change what the medium holds.
    io_count: u64,
    stop_at: Option<u64>,
    /// Number of syncs until one fails, that one included.
    fail_sync_in: Option<u64>,
    stopped: bool,
}

impl CrashStorage {
    /// An empty file.
    pub fn new() -> Self {
        Self::default()
    }

    /// A file that holds `bytes`, all of them synced.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_pages(Pages::from_bytes(bytes))
    }

    /// Continues from what a crash left: all of it counts as synced. Costs one counter per page; the image is not changed.
    pub fn from_image(image: &CrashImage) -> Self {
        Self::from_pages(image.pages())
    }

    fn from_pages(pages: Pages) -> Self {
        let state = State { point: CrashPoint::synced(pages), ..State::default() };
        Self {
            #[cfg(feature = "encrypt")]
            keys: crate::seal::KeyCell::new(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Number of calls of `write_at`, `set_len`, `sync`, `reserve` and `discard` so far. Reads and calls that cannot change
    /// anything (an empty write, the length set to what it is) are not counted: a crash there looks like one before the next call.
    pub fn io_count(&self) -> u64 {
        self.state.lock().io_count
    }

    /// Crashes in the `n`th counted call (the first is 1): that call may have taken effect in part, a `sync` has not, and it and all
    /// later calls fail. `None` cancels this.
    pub fn stop_at(&self, n: Option<u64>) {
        self.state.lock().stop_at = n;
    }

    /// Makes the `nth` sync from now on (the first is 1) fail as on Linux: what was written since the last successful sync counts as clean
    /// from then on, and no later sync stores it unless it is written again. Later calls work. `None` cancels this.
    pub fn fail_sync(&self, nth: Option<u64>) {
        self.state.lock().fail_sync_in = nth;
    }

    /// Number of sectors that a failed sync has marked clean and that have not been written since: a power cut may lose them.
    pub fn marked_clean_sectors(&self) -> usize {
        self.state.lock().point.marked_clean_sectors()
    }

    /// Crashes now: all later calls fail.
    pub fn stop(&self) {
        self.state.lock().stopped = true;
    }

    /// True after the crash.
    pub fn is_stopped(&self) -> bool {
        self.state.lock().stopped
    }

    /// The state of the file at this moment, from which images can be made while the store runs on.
    pub fn freeze(&self) -> CrashPoint {
        self.state.lock().point.clone()
    }

    /// Number of sectors written or discarded since the last sync.
    pub fn unsynced_sectors(&self) -> usize {
        self.state.lock().point.unsynced_sectors()
    }

    /// [`CrashPoint::random_image`] of this moment.
    pub fn random_image(&self, rng: &mut Rng) -> CrashImage {
        self.state.lock().point.random_image(rng)
    }

    /// [`CrashPoint::latest_image`] of this moment: what the next process finds when this one ended and the machine did not.
    pub fn latest_image(&self) -> CrashImage {
        self.state.lock().point.latest_image()
    }

    /// Bit rot while the file is open: flips one bit of the synced bytes, `bit` 0 to 7 of the byte at `offset`. A reader sees it
    /// unless the sector was written since. False when the synced file ends before it.
    pub fn flip_synced_bit(&self, offset: u64, bit: u32) -> bool {
        self.state.lock().point.flip_synced_bit(offset, bit)
    }

    /// The state; an error after the crash.
    fn running(&self, operation: &'static str) -> Result<MutexGuard<'_, State>, StorageError> {
        let state = self.state.lock();
        if state.stopped { Err(crashed(operation)) } else { Ok(state) }
    }

    /// Runs one call and counts it, unless it changes nothing; fails if the crash comes before or during it.
    fn counted(
        &self,
        operation: &'static str,
        changes: impl FnOnce(&CrashPoint) -> bool,
        call: impl FnOnce(&mut CrashPoint) -> Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        let mut state = self.running(operation)?;
        if !changes(&state.point) {
            return Ok(());
        }
        state.io_count += 1;
        let stops = state.stop_at.is_some_and(|n| state.io_count >= n);
        if stops {
            state.stopped = true;
            if operation != "sync" {
                call(&mut state.point)?;
                state.point.mark_in_flight();
            }
            return Err(crashed(operation));
        }
        call(&mut state.point)
    }
}

impl fmt::Debug for CrashStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("CrashStorage")
            .field("io_count", &state.io_count)
            .field("stopped", &state.stopped)
            .field("point", &state.point)
            .finish()
    }
}

impl Storage for CrashStorage {
    #[cfg(feature = "encrypt")]
    fn key_cell(&self) -> Option<&crate::seal::KeyCell> {
        Some(&self.keys)
    }

    fn len(&self) -> Result<u64, StorageError> {
        Ok(self.running("length")?.point.len())
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.counted(
            "set length",
            |point| point.len() != len,
            |point| {
                point.set_len(len);
                Ok(())
            },
        )
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.running("read")?.point.read(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        range_end("write", offset, total_len(parts))?;
        self.counted("write", |_| total_len(parts) > 0, |point| point.write(offset, parts))
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        {
            let mut state = self.running("sync")?;
            state.fail_sync_in = state.fail_sync_in.map(|left| left.saturating_sub(1));
            if state.fail_sync_in == Some(0) {
                state.fail_sync_in = None;
                state.io_count += 1;
                state.point.fail_sync();
                return Err(StorageError::new(StorageErrorKind::Other, "sync", "simulated failure of the medium"));
            }
        }
        self.counted(
            "sync",
            |_| true,
            |point| {
                point.sync();
                Ok(())
            },
        )?;
        Ok(Durability::Device)
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let end = range_end("reserve", offset, len)?;
        self.counted(
            "reserve",
            |point| len > 0 && point.len() < end,
            |point| {
                point.set_len(end);
                Ok(())
            },
        )
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.counted(
            "discard",
            |point| len > 0 && offset < point.len(),
            |point| {
                point.discard(offset, len);
                Ok(())
            },
        )
    }
}

fn crashed(operation: &'static str) -> StorageError {
    StorageError::new(StorageErrorKind::Other, operation, "simulated crash")
}

/// The sectors wholly inside a range of the file that may hold anything but zeros.
fn whole_sectors(pages: &Pages, offset: u64, len: u64) -> Vec<u64> {
    let end = offset.saturating_add(len).min(pages.len()) / SECTOR_LEN as u64;
    let first = offset.div_ceil(SECTOR_LEN as u64);
    pages.stored_sectors(first).take_while(|sector| *sector < end).collect()
}

fn total_len(parts: &[&[u8]]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}

/// The end of a range, if a file can be that long.
fn range_end(operation: &'static str, offset: u64, len: u64) -> Result<u64, StorageError> {
    offset
        .checked_add(len)
        .ok_or_else(|| StorageError::new(StorageErrorKind::NoSpace, operation, "the file would be longer than 2^64 bytes"))
}
