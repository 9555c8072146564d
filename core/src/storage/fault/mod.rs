//! The fault injector: wraps any storage and makes chosen calls fail, in the ways that real media do.
//!
//! ```
//! use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
//! use pipkin::storage::{MemoryStorage, Storage};
//!
//! let storage = FaultStorage::new(MemoryStorage::new());
//! storage.arm(Fault::nth(2, Io::Write, Effect::Torn { bytes: 3 }));
//! storage.write_at(0, &[b"......"])?;
//! assert!(storage.write_at(0, &[b"pipkin"]).is_err());
//! assert_eq!(storage.inner().to_vec(), b"pip...");
//! # Ok::<(), pipkin::StorageError>(())
//! ```

mod calls;
mod plan;

pub use calls::{Counts, Io};
pub use plan::{Effect, Fault};

use super::{Durability, Storage, StorageError, StorageErrorKind};
use crate::sync::{Mutex, MutexGuard};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// A storage whose calls fail when a fault is armed for them. A clone is another handle to the same one.
///
/// ```
/// use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
/// use pipkin::storage::{MemoryStorage, StorageErrorKind};
///
/// let file = FaultStorage::new(MemoryStorage::new());
/// let db = pipkin::Db::builder().open_storage(Box::new(file.clone()))?;
/// db.insert("color", "green")?;
/// file.arm(Fault::nth(1, Io::Sync, Effect::Error(StorageErrorKind::Other)));
/// assert!(db.flush().is_err() && db.is_poisoned());
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct FaultStorage<S> {
    #[cfg(feature = "encrypt")]
    keys: crate::seal::KeyCell,
    shared: Arc<Shared<S>>,
}

struct Shared<S> {
    inner: S,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    faults: Vec<Armed>,
    counts: Counts,
    len_max: Option<u64>,
    losses: Option<Losses>,
    is_shared: bool,
    before_sync: Option<Hook>,
}

type Hook = Arc<dyn Fn() + Send + Sync>;

struct Armed {
    fault: Fault,
    seen: u64,
}

/// The old content of sectors that have been written, by sector number, so that the writes can be lost.
#[derive(Default)]
struct Losses {
    /// Written since the last sync.
    dirty: BTreeMap<u64, Vec<u8>>,
    /// Marked clean by a failed sync and not written since.
    gone: BTreeMap<u64, Vec<u8>>,
}

const SECTOR_LEN: u64 = 512;

impl<S: Storage> FaultStorage<S> {
    /// Wraps `inner`. No fault is armed.
    pub fn new(inner: S) -> Self {
        Self {
            #[cfg(feature = "encrypt")]
            keys: crate::seal::KeyCell::new(),
            shared: Arc::new(Shared { inner, state: Mutex::new(State::default()) }),
        }
    }

    /// The storage inside: calls to it neither fail nor count.
    pub fn inner(&self) -> &S {
        &self.shared.inner
    }

    /// Adds a fault. Several can be armed at once; the one armed first wins. [`Effect::LostSync`] must be armed before the writes
    /// that are to be lost.
    pub fn arm(&self, fault: Fault) {
        let mut state = self.state();
        if fault.effect == Effect::LostSync && state.losses.is_none() {
            state.losses = Some(Losses::default());
        }
        state.faults.push(Armed { fault, seen: 0 });
    }

    /// Removes all faults. A capacity limit stays.
    pub fn disarm(&self) {
        self.state().faults.clear();
    }

    /// Limits the length of the file, in bytes: a call that would make it longer fails with `NoSpace`, a write after writing the part
    /// that fits. `None` lifts the limit.
    pub fn set_capacity(&self, len_max: Option<u64>) {
        self.state().len_max = len_max;
    }

    /// Whether nothing locks the file, as on a host without locks: see [`Storage::is_exclusive`]. To be set before a store opens it.
    ///
    /// ```
    /// use pipkin::storage::{MemoryStorage, Storage, fault::FaultStorage};
    ///
    /// let file = FaultStorage::new(MemoryStorage::new());
    /// file.set_shared(true);
    /// assert!(!file.is_exclusive());
    /// ```
    pub fn set_shared(&self, is_shared: bool) {
        self.state().is_shared = is_shared;
    }

    /// Calls `hook` at the beginning of each sync: for a slow medium, or for something that happens meanwhile. It may call this storage.
    ///
    /// ```
    /// use pipkin::storage::{MemoryStorage, Storage, fault::FaultStorage};
    /// use std::{thread::sleep, time::Duration};
    ///
    /// let slow = FaultStorage::new(MemoryStorage::new());
    /// slow.before_sync(|| sleep(Duration::from_millis(2)));
    /// slow.sync()?;
    /// # Ok::<(), pipkin::StorageError>(())
    /// ```
    pub fn before_sync(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.state().before_sync = Some(Arc::new(hook));
    }

    /// The counts so far.
    pub fn counts(&self) -> Counts {
        self.state().counts
    }

    /// Sets all counts to zero.
    pub fn reset_counts(&self) {
        self.state().counts = Counts::default();
    }

    /// The power cut after a [lost sync](Effect::LostSync): sectors written since the last successful sync, and those that the failed one
    /// marked clean, hold their old content again. The length stays. Does nothing if no such fault was ever armed.
    pub fn lose_unsynced(&self) -> Result<(), StorageError> {
        let mut state = self.state();
        let Some(losses) = &mut state.losses else { return Ok(()) };
        let len = self.inner().len()?;
        for (sector, content) in core::mem::take(&mut losses.dirty).into_iter().chain(core::mem::take(&mut losses.gone)) {
            let offset = sector * SECTOR_LEN;
            let inside = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX).min(content.len());
            self.inner().write_at(offset, &[content.get(..inside).unwrap_or_default()])?;
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }

    /// Counts a call. `Some` if it must fail.
    fn count(&self, io: Io, bytes: u64) -> Option<Effect> {
        let mut state = self.state();
        state.counts.add(io, bytes);
        let mut effect = None;
        for armed in &mut state.faults {
            if armed.fault.on.has(io) {
                armed.seen += 1;
                if armed.seen == armed.fault.nth || (armed.fault.for_good && armed.seen > armed.fault.nth) {
                    effect = effect.or(Some(armed.fault.effect));
                }
            }
        }
        state.counts.failed += u64::from(effect.is_some());
        effect
    }

    /// A call that does all of its work or nothing.
    fn whole<T>(&self, io: Io, bytes: u64, call: impl FnOnce(&S) -> Result<T, StorageError>) -> Result<T, StorageError> {
        match self.count(io, bytes) {
            None => call(self.inner()),
            Some(Effect::Late) => {
                call(self.inner())?;
                Err(failure(io, Effect::Late))
            }
            Some(effect) => Err(failure(io, effect)),
        }
    }

    fn check_capacity(&self, io: Io, len: u64) -> Result<(), StorageError> {
        match self.state().len_max {
            Some(len_max) if len > len_max && len > self.inner().len()? => Err(full(io, len_max)),
            _ => Ok(()),
        }
    }

    /// Writes the first `bytes` bytes of the parts, after noting the old content if a [lost sync](Effect::LostSync) was armed.
    fn write_front(&self, offset: u64, parts: &[&[u8]], bytes: u64) -> Result<(), StorageError> {
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut front = Vec::with_capacity(parts.len());
        for part in parts {
            let taken = part.get(..left).unwrap_or(part);
            left -= taken.len();
            front.push(taken);
        }
        self.note_old_content(offset, front.iter().map(|part| part.len() as u64).sum())?;
        self.inner().write_at(offset, &front)
    }

    fn note_old_content(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        let mut state = self.state();
        let Some(losses) = &mut state.losses else { return Ok(()) };
        let file_len = self.inner().len()?;
        for sector in offset / SECTOR_LEN..offset.saturating_add(len).div_ceil(SECTOR_LEN) {
            // Written again, so the next successful sync stores all of it.
            if let Some(content) = losses.gone.remove(&sector) {
                losses.dirty.insert(sector, content);
            }
            if let alloc::collections::btree_map::Entry::Vacant(vacant) = losses.dirty.entry(sector) {
                let start = sector * SECTOR_LEN;
                let inside = file_len.saturating_sub(start).min(SECTOR_LEN) as usize;
                let mut content = alloc::vec![0; SECTOR_LEN as usize];
                if let Some(stored) = content.get_mut(..inside).filter(|stored| !stored.is_empty()) {
                    self.inner().read_at(start, stored)?;
                }
                vacant.insert(content);
            }
        }
        Ok(())
    }
}

impl<S> Clone for FaultStorage<S> {
    fn clone(&self) -> Self {
        Self {
            #[cfg(feature = "encrypt")]
            keys: crate::seal::KeyCell::new(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<S> fmt::Debug for FaultStorage<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultStorage").field("counts", &self.shared.state.lock().counts).finish_non_exhaustive()
    }
}

impl<S: Storage> Storage for FaultStorage<S> {
    #[cfg(feature = "encrypt")]
    fn key_cell(&self) -> Option<&crate::seal::KeyCell> {
        Some(&self.keys)
    }

    fn len(&self) -> Result<u64, StorageError> {
        self.inner().len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.whole(Io::SetLen, 0, |inner| {
            self.check_capacity(Io::SetLen, len)?;
            inner.set_len(len)
        })
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.whole(Io::Read, out.len() as u64, |inner| inner.read_at(offset, out))
    }

    #[cfg(feature = "async")]
    fn is_at_hand(&self, offset: u64, len: usize) -> bool {
        self.inner().is_at_hand(offset, len)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let total: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let effect = self.count(Io::Write, total);
        let bytes = match effect {
            None | Some(Effect::Late) => total,
            Some(Effect::Torn { bytes }) => bytes.min(total),
            Some(effect) => return Err(failure(Io::Write, effect)),
        };
        if let Err(error) = self.check_capacity(Io::Write, offset.saturating_add(bytes)) {
            let fits = self.state().len_max.unwrap_or(u64::MAX).max(self.inner().len()?).saturating_sub(offset);
            self.write_front(offset, parts, fits.min(bytes))?;
            return Err(error);
        }
        self.write_front(offset, parts, bytes)?;
        match effect {
            None => Ok(()),
            Some(effect) => Err(failure(Io::Write, effect)),
        }
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        let hook = self.state().before_sync.clone();
        if let Some(hook) = hook {
            hook();
        }
        match self.count(Io::Sync, 0) {
            None => {
                // The sync does not cover writes made while it runs, so the list is emptied first.
                let covered = self.state().losses.as_mut().map(|losses| core::mem::take(&mut losses.dirty));
                let result = self.inner().sync();
                if let (Err(_), Some(covered), Some(losses)) = (&result, covered, &mut self.state().losses) {
                    // Content noted before the sync is older, so it wins over what was noted meanwhile.
                    losses.dirty.extend(covered);
                }
                result
            }
            Some(Effect::LostSync) => {
                if let Some(losses) = &mut self.state().losses {
                    losses.gone.append(&mut losses.dirty);
                }
                Err(failure(Io::Sync, Effect::LostSync))
            }
            Some(effect) => {
                if effect == Effect::Late {
                    self.inner().sync()?;
                }
                Err(failure(Io::Sync, effect))
            }
        }
    }

    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        // A view is a read that cannot fail: refused while a fault on reads is armed, so that the caller reads and gets the error.
        if self.state().faults.iter().any(|armed| armed.fault.on.has(Io::Read)) {
            return None;
        }
        // SAFETY: the caller's promise is handed on unchanged.
        unsafe { self.inner().view(offset, len) }
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.whole(Io::Reserve, 0, |inner| {
            self.check_capacity(Io::Reserve, offset.saturating_add(len))?;
            inner.reserve(offset, len)
        })
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.whole(Io::Discard, 0, |inner| inner.discard(offset, len))
    }

    fn is_exclusive(&self) -> bool {
        self.inner().is_exclusive() && !self.state().is_shared
    }

    fn claim(&self) -> Result<(), StorageError> {
        self.inner().claim()
    }

    fn release(&self) -> Result<(), StorageError> {
        self.inner().release()
    }
}

fn failure(io: Io, effect: Effect) -> StorageError {
    let kind = match effect {
        Effect::Error(kind) => kind,
        _ => StorageErrorKind::Other,
    };
    StorageError::new(kind, io.name(), "simulated fault")
}

fn full(io: Io, len_max: u64) -> StorageError {
    StorageError::new(StorageErrorKind::NoSpace, io.name(), alloc::format!("simulated medium is full at {len_max} bytes"))
}
