//! Counts what all stores of a context take together.

use super::Quota;
use pipkin::Stats;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

/// An open store, as the ledger sees it.
pub(in crate::keyvalue) trait Open: Send + Sync {
    /// Whether its engine was taken away from its guests; it no longer counts then.
    fn is_gone(&self) -> bool;

    /// Its figures; `None` where it is gone.
    fn stats(&self) -> pipkin::Result<Option<Stats>>;

    /// The number of its named namespaces; 0 where it is gone.
    fn namespaces(&self) -> u64;

    /// Makes it count again before it writes another new record.
    fn forget_credit(&self);
}

/// The quota and the counts that all stores of a context share.
#[derive(Default)]
pub(in crate::keyvalue) struct Ledger {
    pub(super) total: Quota,
    /// The bytes of all files together.
    file_bytes: AtomicU64,
    /// Read-locked while admitted records are written, write-locked while records are counted again.
    pub(super) counting: RwLock<()>,
    /// The stores that are open.
    open: Mutex<Vec<Weak<dyn Open>>>,
}

impl Ledger {
    pub(in crate::keyvalue) fn new(total: Quota) -> Self {
        Self { total, ..Self::default() }
    }

    /// Counts `bytes` more bytes of files; returns false, counting nothing, if that would exceed the total quota.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let most = self.total.file_bytes.unwrap_or(u64::MAX);
        let taken = |all: u64| all.checked_add(bytes).filter(|all| *all <= most);
        self.file_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    /// Counts bytes of files that exist already, whatever the quota.
    pub(in crate::keyvalue) fn count(&self, bytes: u64) {
        self.file_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn give_back(&self, bytes: u64) {
        self.file_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The most bytes that a store with that quota may have.
    pub(in crate::keyvalue) fn bytes_for(&self, quota: Quota) -> Option<u64> {
        quota.and(self.total).file_bytes
    }

    /// The most memory that the index of a store with that quota may have.
    pub(in crate::keyvalue) fn memory_for(&self, quota: Quota) -> Option<u64> {
        quota.and(self.total).index_bytes
    }

    /// Whether a new file of `bytes` bytes may be created for a store with that quota.
    pub(in crate::keyvalue) fn may_copy(&self, quota: Quota, bytes: u64) -> bool {
        let is_within = |most: Option<u64>, bytes: u64| most.is_none_or(|most| bytes <= most);
        let all = self.file_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        is_within(quota.file_bytes, bytes) && is_within(self.total.file_bytes, all)
    }

    pub(super) fn open(&self) -> Vec<Arc<dyn Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
    }

    /// Adds an open store to those that count, and forgets those that are gone.
    pub(in crate::keyvalue) fn enter(&self, store: Weak<dyn Open>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|other| other.upgrade().is_some_and(|other| !other.is_gone()));
        open.push(store);
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("total", &self.total).finish_non_exhaustive()
    }
}
