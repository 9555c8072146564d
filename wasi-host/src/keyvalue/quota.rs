//! How much guests may store: counted where the files grow, and before records are written.

use super::store_file::{Engine, WeakEngine};
use pipkin::{Db, Durability, Storage, StorageError, StorageErrorKind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The most that a store, or all stores of a context together, may take. Nothing is limited by default.
///
/// What is refused is refused as a whole: `pipkin:kv` answers the reason `quota`, `wasi:keyvalue` an error that says which limit it was, and
/// nothing has been written. Reads, removals and changes of records that are there go on at the limits of records and memory; at the limit
/// of bytes removals do, and make room.
///
/// ```
/// use pipkin_wasi_host::keyvalue::{Quota, WasiKeyValueCtx};
/// let quota = Quota::default().file_bytes(64 << 20).records(100_000);
/// let ctx = WasiKeyValueCtx::builder().store("").quota("", quota).total_quota(Quota::default().index_bytes(16 << 20)).build();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "a quota does nothing until the builder has it"]
pub struct Quota {
    file_bytes: Option<u64>,
    records: Option<u64>,
    index_bytes: Option<u64>,
    namespaces: Option<u64>,
}

impl Quota {
    /// The longest that the files may be. A new store gets segments that suit it; a store of one record takes 17 KB, and keeps some room
    /// ready.
    pub fn file_bytes(self, most: u64) -> Self {
        Self { file_bytes: Some(most), ..self }
    }

    /// The most live records, of all namespaces.
    pub fn records(self, most: u64) -> Self {
        Self { records: Some(most), ..self }
    }

    /// The most memory of this process for the indexes of open stores: 11 to 20 bytes a record. It is looked at every 256 new records, and may
    /// be passed by what these need.
    pub fn index_bytes(self, most: u64) -> Self {
        Self { index_bytes: Some(most), ..self }
    }

    /// The most named namespaces.
    pub fn namespaces(self, most: u64) -> Self {
        Self { namespaces: Some(most), ..self }
    }

    /// The stricter of both in everything.
    pub(super) fn and(self, other: Self) -> Self {
        let least = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        Self {
            file_bytes: least(self.file_bytes, other.file_bytes),
            records: least(self.records, other.records),
            index_bytes: least(self.index_bytes, other.index_bytes),
            namespaces: least(self.namespaces, other.namespaces),
        }
    }

    fn counts_records(&self) -> bool {
        self.records.is_some() || self.index_bytes.is_some()
    }
}

/// Records between two looks at the memory of an index.
const INDEX_LOOK_RECORDS: u64 = 256;

pub(super) const FILE_BYTES: &str = "the store's quota of bytes is used up; remove records, or ask the host for more";
const RECORDS: &str = "the store's quota of records is used up; remove some, or ask the host for more";
const INDEX_BYTES: &str = "the store's quota of memory for its index is used up; remove records, or ask the host for more";
const NAMESPACES: &str = "the store's quota of namespaces is used up; drop some, or ask the host for more";

/// Why a write was not done.
#[derive(Debug)]
pub(super) enum Failure {
    Engine(pipkin::Error),
    Quota(&'static str),
}

impl From<pipkin::Error> for Failure {
    fn from(error: pipkin::Error) -> Self {
        Self::Engine(error)
    }
}

/// What all stores of a context have in common.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    total: Quota,
    /// Of all files together.
    file_bytes: AtomicU64,
    /// Held to read while records are written that have been counted, to write while they are counted anew.
    counting: RwLock<()>,
    /// The stores that are open.
    open: Mutex<Vec<WeakEngine>>,
}

impl Ledger {
    pub(super) fn new(total: Quota) -> Self {
        Self { total, ..Self::default() }
    }

    /// Takes bytes of files from the total, if it has them.
    fn take(&self, bytes: u64) -> bool {
        let most = self.total.file_bytes.unwrap_or(u64::MAX);
        let taken = |all: u64| all.checked_add(bytes).filter(|all| *all <= most);
        self.file_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    /// The same for bytes that are there already.
    pub(super) fn count(&self, bytes: u64) {
        self.file_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn give_back(&self, bytes: u64) {
        self.file_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The most bytes that a store with that quota may have.
    pub(super) fn bytes_for(&self, quota: Quota) -> Option<u64> {
        quota.and(self.total).file_bytes
    }

    /// Whether a new file of so many bytes may be made, of a store with that quota.
    pub(super) fn may_copy(&self, quota: Quota, bytes: u64) -> bool {
        let is_within = |most: Option<u64>, bytes: u64| most.is_none_or(|most| bytes <= most);
        let all = self.file_bytes.load(Ordering::Relaxed).saturating_add(bytes);
        is_within(quota.file_bytes, bytes) && is_within(self.total.file_bytes, all)
    }

    fn engines(&self) -> Vec<Engine> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(WeakEngine::upgrade).collect()
    }

    /// From now on the engine counts.
    pub(super) fn enter(&self, engine: &Engine) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|other| other.upgrade().is_some_and(|other| other.call().is_ok()));
        open.push(engine.downgrade());
    }
}

/// What one store may take.
#[derive(Debug)]
pub(super) struct Limits {
    pub(super) quota: Quota,
    pub(super) ledger: Arc<Ledger>,
    /// New records that may be written before they are counted anew.
    credit: AtomicU64,
    /// The file was refused more bytes, and nothing has been free since.
    pub(super) is_full: Arc<AtomicBool>,
    /// Dead bytes that the last compaction could not free: it is not worth a try before more has died.
    left: Mutex<Option<u64>>,
}

/// Compaction leaves segments alone of which less than that part is dead.
const DEAD_PARTS: u64 = 64;

/// Keeps others from counting while what was admitted is written.
pub(super) struct Admitted<'a>(#[allow(dead_code, reason = "held, not looked at")] Option<RwLockReadGuard<'a, ()>>);

impl Admitted<'_> {
    /// For what needs no room.
    pub(super) fn none() -> Self {
        Self(None)
    }
}

impl Limits {
    pub(super) fn new(quota: Quota, ledger: Arc<Ledger>) -> Self {
        Self { quota, ledger, credit: AtomicU64::new(0), is_full: Arc::default(), left: Mutex::default() }
    }

    /// Asks for room for as many records, of which `new` says how many are none yet.
    pub(super) fn admit(
        &self,
        db: &Db,
        records: u64,
        new: impl FnOnce() -> pipkin::Result<u64>,
    ) -> Result<Admitted<'_>, Failure> {
        if !self.quota.counts_records() && !self.ledger.total.counts_records() {
            return Ok(Admitted::none());
        }
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

    fn spend(&self, records: u64) -> bool {
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |credit| credit.checked_sub(records)).is_ok()
    }

    /// New records for which there is room, and the limit that comes first. Nobody writes meanwhile.
    fn room(&self, db: &Db) -> Result<(u64, &'static str), Failure> {
        let stats = db.stats()?;
        let (mut records, mut index_bytes) = (stats.records, stats.index_bytes);
        let own = left(self.quota, records, index_bytes);
        if !self.ledger.total.counts_records() {
            return Ok(own);
        }
        (records, index_bytes) = (0, 0);
        for engine in self.ledger.engines() {
            let Ok(call) = engine.call() else { continue };
            let stats = call.stats()?;
            (records, index_bytes) = (records + stats.records, index_bytes + stats.index_bytes);
            // What the others have left unspent is counted here.
            engine.limits().credit.store(0, Ordering::Relaxed);
        }
        Ok(own.min(left(self.ledger.total, records, index_bytes)))
    }

    /// Asks for one more namespace.
    pub(super) fn admit_namespace(&self, db: &Db) -> Result<(), Failure> {
        let reached = |most: Option<u64>, count: &dyn Fn() -> u64| most.is_some_and(|most| count() >= most);
        let own = || db.list_namespaces().len() as u64;
        let all =
            || self.ledger.engines().iter().filter_map(|engine| Some(engine.call().ok()?.list_namespaces().len() as u64)).sum();
        if reached(self.quota.namespaces, &own) || reached(self.ledger.total.namespaces, &all) {
            return Err(Failure::Quota(NAMESPACES));
        }
        Ok(())
    }

    /// Runs a write. When the quota of bytes has no room for it, compacts single segments until it fits, and at last everything that is
    /// worth it: what was removed makes room.
    pub(super) fn with_room<T>(&self, db: &Db, mut write: impl FnMut() -> Result<T, Failure>) -> Result<T, Failure> {
        let written = write();
        let is_refused = |written: &Result<T, Failure>| matches!(written, Err(Failure::Engine(pipkin::Error::NoSpace)));
        if !is_refused(&written) || !self.is_full.load(Ordering::Relaxed) {
            return written;
        }
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = db.stats()?;
        // A guest may try again at once, and each attempt costs space in the last segment.
        if left.is_some_and(|left| stats.dead_bytes < left + stats.segment_size / DEAD_PARTS) {
            return written;
        }
        // No segment is compacted twice.
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

    /// What the engine calls a full medium may be a full quota.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Engine(pipkin::Error::NoSpace) if self.is_full.load(Ordering::Relaxed) => Failure::Quota(FILE_BYTES),
            failure => failure,
        }
    }
}

fn left(quota: Quota, records: u64, index_bytes: u64) -> (u64, &'static str) {
    let of_records = quota.records.map_or(u64::MAX, |most| most.saturating_sub(records));
    let of_index = quota.index_bytes.map_or(u64::MAX, |most| if index_bytes < most { INDEX_LOOK_RECORDS } else { 0 });
    (of_records, RECORDS).min((of_index, INDEX_BYTES))
}

/// A file that does not grow over its quota: to the engine, a medium that is full.
pub(super) struct Metered<S> {
    below: S,
    most: u64,
    ledger: Arc<Ledger>,
    is_full: Arc<AtomicBool>,
    /// How far the file reaches or has space set aside: so much of it is in the ledger.
    end: Arc<Mutex<u64>>,
}

impl<S: Storage> Metered<S> {
    /// `counted` bytes of it are in the ledger already.
    pub(super) fn new(below: S, limits: &Limits, counted: Arc<Mutex<u64>>) -> Result<Self, StorageError> {
        let len = below.len()?;
        limits.ledger.count(len);
        limits.ledger.give_back(std::mem::replace(&mut *counted.lock().unwrap_or_else(PoisonError::into_inner), len));
        let (ledger, is_full) = (limits.ledger.clone(), limits.is_full.clone());
        Ok(Self { below, most: limits.quota.file_bytes.unwrap_or(u64::MAX), ledger, is_full, end: counted })
    }

    /// Lets `grow` make the file reach to `end`, if it may.
    fn growing<T>(&self, end: u64, grow: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
        let mut counted = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let had = *counted;
        if end <= had {
            drop(counted);
            return grow();
        }
        if end > self.most || !self.ledger.take(end - had) {
            self.is_full.store(true, Ordering::Relaxed);
            return Err(StorageError::new(StorageErrorKind::NoSpace, "reserve", "the quota of the store is used up"));
        }
        *counted = end;
        self.is_full.store(false, Ordering::Relaxed);
        let grown = grow();
        if grown.is_err() {
            // Some of it may be there.
            let len = self.below.len().unwrap_or(end).clamp(had, end);
            self.ledger.give_back(end - len);
            *counted = len;
        }
        grown
    }
}

impl<S: Storage> Storage for Metered<S> {
    fn len(&self) -> Result<u64, StorageError> {
        self.below.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.growing(len, || self.below.set_len(len))?;
        let mut counted = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        self.ledger.give_back(counted.saturating_sub(len));
        *counted = (*counted).min(len);
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.below.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let end = if len == 0 { 0 } else { offset.saturating_add(len) };
        self.growing(end, || self.below.write_at(offset, parts))
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.below.sync()
    }

    unsafe fn view(&self, offset: u64, len: usize) -> Option<&[u8]> {
        // SAFETY: the caller promises what the method asks for, which is the same below.
        unsafe { self.below.view(offset, len) }
    }

    fn is_checked(&self, offset: u64, salt: u64) -> Option<bool> {
        self.below.is_checked(offset, salt)
    }

    fn set_checked(&self, offset: u64, salt: u64) {
        self.below.set_checked(offset, salt);
    }

    unsafe fn store(&self, offset: u64, parts: &[&[u8]]) -> bool {
        // SAFETY: the caller promises what the method asks for, which is the same below. It lies within what was set aside.
        unsafe { self.below.store(offset, parts) }
    }

    fn will_read(&self, offsets: &[u64], len: usize) {
        self.below.will_read(offsets, len);
    }

    fn will_sync(&self, offset: u64, len: u64) {
        self.below.will_sync(offset, len);
    }

    fn reserve(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.growing(offset.saturating_add(len), || self.below.reserve(offset, len))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), StorageError> {
        self.below.discard(offset, len)
    }

    fn claim(&self) -> Result<(), StorageError> {
        self.below.claim()
    }

    fn release(&self) -> Result<(), StorageError> {
        self.below.release()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, reason = "a failed step is a failed test")]
mod tests {
    use super::*;
    use crate::keyvalue::WasiKeyValueCtx;
    use crate::keyvalue::bucket::{Bucket, Refused};
    use std::path::Path;

    fn bucket(ctx: &WasiKeyValueCtx, name: &str) -> Bucket {
        Bucket::open(Bucket::find(ctx, name).unwrap()).unwrap()
    }

    #[track_caller]
    fn over(answer: Result<(), Refused>, what: &str) {
        let Err(Refused::Other(words)) = answer else { panic!("{answer:?}") };
        assert!(words.contains("quota") && words.contains(what), "{words}");
    }

    fn whole(path: &Path) -> u64 {
        let db = Db::open(path).unwrap();
        assert!(db.verify().unwrap().is_ok());
        db.len().unwrap()
    }

    /// A guest wrote 9 GB of file and 7 GB of the host's memory: nothing bounded what a store may take.
    #[test]
    fn a_store_takes_no_more_records_than_its_quota() {
        let folder = tempfile::tempdir().unwrap();
        let quota = Quota::default().records(100);
        let ctx = WasiKeyValueCtx::builder().directory(folder.path()).store("").quota("", quota).build();
        let bucket = bucket(&ctx, "");
        (0..100).for_each(|n| bucket.set(&format!("k{n}"), b"v").unwrap());
        over(bucket.set("new", b"v"), "records");
        over(bucket.increment("new", |old: u64| old.checked_add(1)).map(drop), "records");
        bucket.set("k7", b"another value").unwrap();
        bucket.delete("k8").unwrap();
        let three: Vec<_> = ["x", "y", "k1"].map(|key| (key.to_owned(), b"v".to_vec())).into();
        over(bucket.set_many(&three), "records");
        assert_eq!(bucket.get("k1").unwrap().unwrap(), b"v");
        bucket.set_many(three.get(1..).unwrap()).unwrap();
        over(bucket.set("z", b"v"), "records");
        drop((bucket, ctx));
        assert_eq!(whole(&folder.path().join("default.pipkin")), 100);
    }

    #[test]
    fn guests_that_write_at_once_get_exactly_the_quota() {
        const MOST: u64 = 700;
        let folder = tempfile::tempdir().unwrap();
        let quota = Quota::default().records(MOST);
        let builder = WasiKeyValueCtx::builder().directory(folder.path()).store("a").store("b").total_quota(quota);
        let ctx = builder.build();
        let written = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for (guest, name) in ["a", "b", "a", "b"].into_iter().enumerate() {
                let (ctx, written) = (ctx.clone(), &written);
                scope.spawn(move || {
                    let bucket = bucket(&ctx, name);
                    let set = |n: &u32| bucket.set(&format!("{guest} {n}"), b"v").is_ok();
                    written.fetch_add((0..400).filter(set).count() as u64, Ordering::Relaxed);
                });
            }
        });
        drop(ctx);
        let kept = whole(&folder.path().join("a.pipkin")) + whole(&folder.path().join("b.pipkin"));
        assert_eq!((kept, written.into_inner()), (MOST, MOST));
    }

    #[test]
    fn a_file_does_not_grow_over_its_quota_and_removals_make_room() {
        const MOST: u64 = 2 << 20;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("default.pipkin");
        let build = || {
            let builder = WasiKeyValueCtx::builder().directory(folder.path()).store("");
            builder.quota("", Quota::default().file_bytes(MOST)).build()
        };
        let ctx = build();
        let open = bucket(&ctx, "");
        let set = |n: &u32| open.set(&format!("k{n}"), &[7; 1000]);
        let written = (0..3000).take_while(|n| set(n).is_ok()).count() as u32;
        let count = written / 4 * 4;
        over(set(&written), "bytes");
        assert!((1000..2000).contains(&count), "{count}");
        assert!(path.metadata().unwrap().len() <= MOST);
        assert_eq!(open.get("k0").unwrap().unwrap(), [7; 1000]);
        for round in 0..20 {
            (0..count).filter(|n| n % 2 == 0).for_each(|n| open.delete(&format!("k{n}")).unwrap());
            let again = (0..count / 4).filter(|n| set(&(n * 4)).is_ok()).count() as u32;
            assert_eq!(again, count / 4, "in round {round}");
            assert!(path.metadata().unwrap().len() <= MOST);
        }
        drop((open, ctx));
        let records = u64::from(written - count / 2 + count / 4);
        assert_eq!(whole(&path), records);
        let ctx = build();
        assert_eq!(bucket(&ctx, "").get("k1").unwrap().unwrap(), [7; 1000]);
    }

    #[test]
    fn the_files_of_a_context_share_a_quota_also_those_of_before() {
        let folder = tempfile::tempdir().unwrap();
        let before = Db::open(folder.path().join("old.pipkin")).unwrap();
        (0..400_u32).for_each(|n| before.insert(n.to_le_bytes(), [7; 1000]).unwrap());
        before.close().unwrap();
        let used = folder.path().join("old.pipkin").metadata().unwrap().len();
        let builder = || WasiKeyValueCtx::builder().directory(folder.path()).store("old").store("new");
        let all = used + (200 << 10);
        let ctx = builder().total_quota(Quota::default().file_bytes(all)).build();
        let new = bucket(&ctx, "new");
        let count = (0..1000).take_while(|n| new.set(&format!("k{n}"), &[7; 1000]).is_ok()).count();
        assert!((20..200).contains(&count), "{count}");
        over(new.set("k", &[7; 1000]), "bytes");
        let len = |name| folder.path().join(name).metadata().unwrap().len();
        assert!(len("old.pipkin") + len("new.pipkin") <= all);
        drop((new, ctx));
        let ctx = builder().total_quota(Quota::default().file_bytes(used / 2)).build();
        over(bucket(&ctx, "old").set("k", &vec![7; 1 << 20]), "bytes");
    }

    #[test]
    fn an_index_takes_no_more_memory_than_its_quota() {
        const MOST: u64 = 1 << 20;
        let quota = Quota::default().index_bytes(MOST);
        let ctx = WasiKeyValueCtx::builder().store_in_memory("").quota("", quota).build();
        let bucket = bucket(&ctx, "");
        let count = (0..1_000_000).take_while(|n| bucket.set(&format!("k{n}"), b"").is_ok()).count();
        over(bucket.set("new", b""), "memory");
        bucket.set("k1", b"again").unwrap();
        let store = ctx.entry("").unwrap().store().opened().unwrap();
        let used = store.call().unwrap().stats().unwrap().index_bytes;
        println!("{count} records took {used} bytes of {MOST}");
        assert!(count > 20_000 && used < MOST + MOST / 16, "{count} {used}");
    }
}
