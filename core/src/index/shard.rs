//! One shard: a table for readers, and the state of its writers under a lock.

mod guard;

pub(crate) use guard::ShardGuard;

use super::Known;
#[cfg(feature = "std")]
use super::base::BasePlace;
use super::slot::Slot;
use super::state::LazyState;
use super::table::{LINE_SLOTS, Table, TableCell};
use crate::error::Result;
use crate::pins::Pin;
use crate::storage::Storage;
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, Mutex, Ordering};
#[cfg(feature = "std")]
use alloc::vec::Vec;

/// A table grows when more than 7 of 8 slots are used ...
pub(super) const fn is_full(used: usize, slots: usize) -> bool {
    used * 8 >= slots * 7
}

/// ... to one and a half times what its records need at that load: a key takes 9.2 to 13.8 bytes.
pub(super) const fn lines_after_growth(records: usize) -> usize {
    (records * 12).div_ceil(7 * LINE_SLOTS) + 1
}

/// A table that is built from a complete list of slots takes 10.7 bytes a key.
pub(super) const fn lines_for(records: usize) -> usize {
    (records * 4).div_ceil(3 * LINE_SLOTS) + 1
}

/// A mark: the running dump of the index has copied this shard already.
pub(super) const DUMPED: u8 = 1;
/// A mark: the calendar has all records that expire, those from before the store was opened included.
pub(super) const KNOWS_EXPIRING: u8 = 2;

/// A flag: the same as `state.parked.is_some()`.
const PARKED: u8 = 1;
/// A flag: what is found must be checked for doubt.
const DOUBTED: u8 = 2;
/// A flag: the table may have slots below it, in the file.
#[cfg(feature = "std")]
const IN_FILE: u8 = 4;

/// One shard of the index.
#[derive(Debug, Default)]
pub(super) struct Shard {
    table: TableCell,
    /// Why readers may not take what the table says for all there is.
    flags: AtomicU8,
    /// The same as `!state.old.is_empty()`, so that freeing them need not wait for the writers of shards that have none.
    has_old: AtomicBool,
    /// Its writer has appended a commit, or is about to, and has not published all of it.
    is_publishing: AtomicBool,
    /// [`DUMPED`] and [`KNOWS_EXPIRING`]. Used under the lock only.
    marks: AtomicU8,
    /// Slots that point at a record. A file of 4 TiB holds fewer than 2^32 in each of 256 shards. Changed under the lock only.
    len: AtomicU32,
    state: Mutex<LazyState>,
}

// A store has 256 of them, and a process may have thousands of stores.
#[cfg(all(target_os = "linux", target_pointer_width = "64", feature = "std", not(shuttle)))]
const _: () = assert!(size_of::<Shard>() <= 32);

impl Shard {
    /// See [`Index::find`](super::Index::find).
    #[inline]
    pub(super) fn find<T>(&self, pin: &Pin<'_>, tag: u64, mut found: impl FnMut(u64) -> Result<Option<T>>) -> Result<Option<T>> {
        match self.table.get(pin) {
            Some(table) => table.search(tag, |slot| found(slot.offset()).transpose()).transpose(),
            None => Ok(None),
        }
    }

    /// The same, and where the table has slots below it, in these, too: see `table/below.rs`.
    pub(super) fn find_anywhere<T>(
        &self,
        storage: &dyn Storage,
        pin: &Pin<'_>,
        tag: u64,
        mut found: impl FnMut(u64) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let mut before = None;
        while let Some(table) = self.table.get(pin) {
            if let Some(answer) = table.search(tag, |slot| found(slot.offset()).transpose()) {
                return answer.map(Some);
            }
            let Some(below) = &table.below else { break };
            let (answer, masked) = below.find(storage, below.masked().get(pin), tag, &mut found)?;
            let seen = (core::ptr::from_ref(table), masked);
            if answer.is_some() || masked == 0 || before == Some(seen) {
                return Ok(answer);
            }
            before = Some(seen);
        }
        Ok(None)
    }

    #[inline]
    pub(super) fn prefetch(&self, pin: &Pin<'_>, tag: u64) {
        if let Some(table) = self.table.get(pin) {
            table.prefetch(tag);
        }
    }

    /// The first record that may carry `tag`.
    #[inline]
    pub(super) fn first_slot(&self, pin: &Pin<'_>, tag: u64) -> Option<u64> {
        self.table.get(pin)?.first(tag).map(Slot::offset)
    }

    /// See [`Index::place_below`](super::Index::place_below).
    #[cfg(feature = "std")]
    pub(super) fn place_below(&self, pin: &Pin<'_>, tag: u64) -> Option<u64> {
        Some(self.table.get(pin)?.below.as_ref()?.place_of(tag))
    }

    /// See [`Index::read_base`](super::Index::read_base).
    #[cfg(feature = "std")]
    pub(super) fn read_base(&self, storage: &dyn Storage, pin: &Pin<'_>) -> Result<Option<(BasePlace, Vec<Slot>)>> {
        let below = self.table.get(pin).and_then(|table| table.below.as_ref());
        below.map(|below| Ok((below.place(), below.between(storage, None, 0..Slot::TAGS)?))).transpose()
    }

    /// The place of its base.
    #[cfg(feature = "std")]
    pub(super) fn base_place(&self, pin: &Pin<'_>) -> Option<BasePlace> {
        Some(self.table.get(pin)?.below.as_ref()?.place())
    }

    /// True when its table holds this slot.
    #[inline]
    pub(super) fn has(&self, pin: &Pin<'_>, slot: Slot) -> bool {
        self.table.get(pin).is_some_and(|table| table.has(slot))
    }

    /// True unless it is certain that it does not hold this slot, nor will once it is built.
    #[cold]
    pub(super) fn may_have(&self, storage: &dyn Storage, pin: &Pin<'_>, slot: Slot, known: Known<'_>) -> bool {
        // Where the slots in the file cannot be read, whoever asks under the lock gets the error.
        self.is_parked() || self.has_anywhere(storage, pin, slot, known).unwrap_or(true)
    }

    /// True when it holds this slot, wherever that is.
    pub(super) fn has_anywhere(&self, storage: &dyn Storage, pin: &Pin<'_>, slot: Slot, known: Known<'_>) -> Result<bool> {
        self.table.get(pin).map_or(Ok(false), |table| table.has_anywhere(storage, slot, known, |below| below.masked().get(pin)))
    }

    /// True when the table alone does not answer: the shard is not built, in doubt, or has slots in the file.
    #[inline]
    pub(super) fn is_unclear(&self) -> bool {
        self.flags.load(Ordering::Acquire) != 0
    }

    /// True when it must be built, or is in doubt.
    pub(super) fn is_parked(&self) -> bool {
        self.flags.load(Ordering::Acquire) & (PARKED | DOUBTED) != 0
    }

    /// See [`Index::keep_in_file`](super::Index::keep_in_file).
    #[cfg(feature = "std")]
    pub(super) fn keep_in_file(&self) {
        self.flags.fetch_or(IN_FILE, Ordering::Release);
    }

    /// See [`Index::is_publishing`](super::Index::is_publishing).
    #[inline]
    pub(super) fn is_publishing(&self) -> bool {
        self.is_publishing.load(Ordering::Acquire)
    }

    /// See [`Index::doubt_all`](super::Index::doubt_all).
    pub(super) fn doubt(&self) {
        self.flags.fetch_or(DOUBTED, Ordering::Release);
    }

    /// True when it has no record. Read without the lock, so possibly out of date.
    pub(super) fn is_empty(&self) -> bool {
        // In this order: building a shard sets its length first, and then the flag.
        !self.is_parked() && self.len() == 0
    }

    /// Number of records; 0 while it is parked. Read without the lock, so possibly out of date.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed) as usize
    }

    /// True when replaced tables wait until their readers have finished.
    pub(super) fn has_old(&self) -> bool {
        self.has_old.load(Ordering::Relaxed)
    }

    #[cfg(feature = "async")]
    pub(super) fn is_free(&self) -> bool {
        self.state.try_lock().is_some()
    }

    pub(super) fn lock(&self) -> ShardGuard<'_> {
        ShardGuard::new(self, self.state.lock())
    }
}

/// A table that no reader sees yet, and its number of used slots.
pub(super) struct Filled {
    pub(super) table: Table,
    used: usize,
}

impl Filled {
    pub(super) fn new(lines: usize, slots: impl Iterator<Item = Slot>) -> Self {
        let table = Table::new(lines);
        let mut filler = table.filler();
        let used = slots.filter(|&slot| filler.put(slot).is_some()).count();
        Self { table, used }
    }
}
