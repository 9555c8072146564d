//! The limits of one store, checked before records are written.

use super::{Ledger, Quota};
use pipkin::Db;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLockReadGuard, RwLockWriteGuard};

/// New records between two checks of the memory of an index.
const INDEX_LOOK_RECORDS: u64 = 256;

pub(in crate::keyvalue) const FILE_BYTES: &str =
    "the store's quota of bytes is used up; remove records, or ask the host for more";
const RECORDS: &str = "the store's quota of records is used up; remove some, or ask the host for more";
const INDEX_BYTES: &str = "the store's quota of memory for its index is used up; remove records, or ask the host for more";
const NAMESPACES: &str = "the store's quota of namespaces is used up; drop some, or ask the host for more";

/// Why a write was refused or failed.
#[derive(Debug)]
pub(in crate::keyvalue) enum Failure {
    Engine(pipkin::Error),
    Quota(&'static str),
}

impl From<pipkin::Error> for Failure {
    fn from(error: pipkin::Error) -> Self {
        Self::Engine(error)
    }
}

/// The limits of one store, and how much of them is left.
#[derive(Debug)]
pub(in crate::keyvalue) struct Limits {
    pub(super) quota: Quota,
    pub(super) ledger: Arc<Ledger>,
    /// Whether new records are counted at all.
    counts: bool,
    /// New records that may be written before records are counted again.
    credit: AtomicU64,
    /// Set when the quota refuses to let the file grow; cleared when the file grows again.
    pub(super) is_full: Arc<AtomicBool>,
    /// Dead bytes that the last compaction could not free: there is no point in trying again before more has died.
    left: Mutex<Option<u64>>,
}

/// Compaction skips segments of which less than 1/64 is dead.
const DEAD_PARTS: u64 = 64;

/// Keeps other threads from counting records while the admitted ones are written.
pub(in crate::keyvalue) struct Admitted<'a>(#[allow(dead_code, reason = "held, not looked at")] Option<RwLockReadGuard<'a, ()>>);

impl Admitted<'_> {
    /// For writes that are not counted.
    pub(in crate::keyvalue) fn none() -> Self {
        Self(None)
    }
}

impl Limits {
    pub(in crate::keyvalue) fn new(quota: Quota, ledger: Arc<Ledger>) -> Self {
        let counts = quota.counts_records() || ledger.total.counts_records();
        Self { quota, ledger, counts, credit: AtomicU64::new(0), is_full: Arc::default(), left: Mutex::default() }
    }

    /// Admits a write of `records` records; `new` returns how many of their keys are new, and is called only if the credit is too small.
    #[inline]
    pub(in crate::keyvalue) fn admit(
        &self,
        db: &Db,
        records: u64,
        new: impl FnOnce() -> pipkin::Result<u64>,
    ) -> Result<Admitted<'_>, Failure> {
        if self.counts { self.admit_counted(db, records, new) } else { Ok(Admitted::none()) }
    }

    #[inline(never)]
    fn admit_counted(&self, db: &Db, records: u64, new: impl FnOnce() -> pipkin::Result<u64>) -> Result<Admitted<'_>, Failure> {
        {
            let counted = self.ledger.counting.read().unwrap_or_else(PoisonError::into_inner);
            if self.spend(records) {
                return Ok(Admitted(Some(counted)));
            }
        }
        let counting = self.ledger.counting.write().unwrap_or_else(PoisonError::into_inner);
        let (room, limit) = self.room(db)?;
        self.credit.store(room, Ordering::Relaxed);
        if !self.spend(records) && !self.spend(new()?) {
            return Err(Failure::Quota(limit));
        }
        Ok(Admitted(Some(RwLockWriteGuard::downgrade(counting))))
    }

    /// Makes the next write of a record count again.
    pub(in crate::keyvalue) fn forget_credit(&self) {
        self.credit.store(0, Ordering::Relaxed);
    }

    fn spend(&self, records: u64) -> bool {
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |credit| credit.checked_sub(records)).is_ok()
    }

    /// How many new records may be written, and the limit that is reached first. The caller has write-locked `counting`.
    fn room(&self, db: &Db) -> Result<(u64, &'static str), Failure> {
        let stats = db.stats()?;
        let (mut records, mut index_bytes) = (stats.records, stats.index_bytes);
        let own = left(self.quota, records, index_bytes);
        if !self.ledger.total.counts_records() {
            return Ok(own);
        }
        (records, index_bytes) = (0, 0);
        for store in self.ledger.open() {
            let Some(stats) = store.stats()? else { continue };
            (records, index_bytes) = (records + stats.records, index_bytes + stats.index_bytes);
            // The room is computed from the total, so unspent credit of other stores must not be spent as well.
            store.forget_credit();
        }
        Ok(own.min(left(self.ledger.total, records, index_bytes)))
    }

    /// Checks that one more namespace, or log of events, may be created.
    pub(in crate::keyvalue) fn admit_namespace(&self, db: &Db) -> Result<(), Failure> {
        let reached = |most: Option<u64>, count: &dyn Fn() -> u64| most.is_some_and(|most| count() >= most);
        let own = || named(db);
        let all = || self.ledger.open().iter().map(|store| store.namespaces()).sum();
        if reached(self.quota.namespaces, &own) || reached(self.ledger.total.namespaces, &all) {
            return Err(Failure::Quota(NAMESPACES));
        }
        Ok(())
    }

    /// The most bytes of log that may be kept for one reader of changes, so that what others write finds room: a quarter of the byte quota.
    pub(in crate::keyvalue) fn history_bytes(&self) -> Option<u64> {
        self.ledger.bytes_for(self.quota).map(|bytes| bytes / 4)
    }

    /// Runs a write. When the byte quota has no room for it, compacts segment by segment until it fits, and finally everything that is
    /// worth compacting, so that removed records make room.
    #[inline]
    pub(in crate::keyvalue) fn with_room<T>(&self, db: &Db, mut write: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        match write() {
            Err(Failure::Engine(pipkin::Error::NoSpace)) if self.is_full.load(Ordering::Relaxed) => {
                self.make_room(db, &mut write)
            }
            written => written,
        }
    }

    /// Compacts and tries again, after the byte quota has refused a write.
    #[cold]
    fn make_room<T>(&self, db: &Db, write: &mut dyn FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        let is_refused = |written: &Result<T, Failure>| matches!(written, Err(Failure::Engine(pipkin::Error::NoSpace)));
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = db.stats()?;
        // A guest may retry in a loop, and each attempt to compact costs space in the last segment.
        if left.is_some_and(|left| stats.dead_bytes < left + stats.segment_size / DEAD_PARTS) {
            return Err(pipkin::Error::NoSpace.into());
        }
        // One step per segment, so that none is compacted twice.
        for _ in 0..stats.segments {
            match db.compact_step() {
                Ok(Some(_)) => {
                    let written = write();
                    if !is_refused(&written) {
                        return written;
                    }
                }
                Ok(None) | Err(pipkin::Error::NoSpace) => break,
                Err(error) => return Err(error.into()),
            }
        }
        match db.compact() {
            Ok(_) | Err(pipkin::Error::NoSpace) => {}
            Err(error) => return Err(error.into()),
        }
        let written = write();
        if is_refused(&written) {
            *left = Some(db.stats()?.dead_bytes);
        }
        written
    }

    /// Turns the engine's `NoSpace` into a quota failure where the quota is what has run out.
    pub(in crate::keyvalue) fn explain(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Engine(pipkin::Error::NoSpace) if self.is_full.load(Ordering::Relaxed) => Failure::Quota(FILE_BYTES),
            failure => failure,
        }
    }
}

/// The namespaces of a store, and its logs of events, each of which has one.
pub(in crate::keyvalue) fn named(db: &Db) -> u64 {
    (db.list_namespaces().len() + db.list_events().len()) as u64
}

fn left(quota: Quota, records: u64, index_bytes: u64) -> (u64, &'static str) {
    let of_records = quota.records.map_or(u64::MAX, |most| most.saturating_sub(records));
    let of_index = quota.index_bytes.map_or(u64::MAX, |most| if index_bytes < most { INDEX_LOOK_RECORDS } else { 0 });
    (of_records, RECORDS).min((of_index, INDEX_BYTES))
}
