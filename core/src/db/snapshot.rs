//! Snapshots: the store as it is at one moment, however much is written afterwards.

use super::handle::{Db, Open};
use super::read::{DECODED_SUM_MAX, count_decoded};
use super::value::Value;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::followed::too_old;
use crate::frame::NAMESPACE_OF_NAMES;
use crate::log::{EndPlace, Frame, ValueBytes};
use crate::moments::Moment;
use crate::names::{DEFAULT, SYSTEM};
use crate::past::MAY_BE_MAPPED;
use crate::pins::Pin;
use crate::position::Position;
use crate::store::check_key;
use crate::sync::{AtomicU64, Ordering};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

/// No number of a namespace has been looked up yet.
const NOT_ASKED: u64 = u64::MAX;

/// A moment that ends when the last handle to it is dropped.
pub(super) struct Taken {
    pub(super) moment: Arc<Moment>,
    end: EndPlace,
    /// Number of the default namespace at the moment, or [`NOT_ASKED`].
    default: AtomicU64,
    /// That of a transaction: one of many that end soon.
    is_short: bool,
    // Last: the store must outlive the moment.
    store: Arc<Open>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.store.engine.end_moment(&self.moment, self.is_short);
    }
}

/// The store as it is at one moment: what is written, removed, cleared or compacted later changes nothing that a snapshot returns. From
/// [`Db::snapshot`]. It dereferences to the default namespace at that moment, a [`SnapshotNamespace`], which has all reads.
///
/// A handle is cheap to clone, may be used from many threads, and keeps the store open. While one lives, the versions of records that it
/// shows are kept: each of them takes at most 24 bytes of memory, and the segment that it is in cannot be reused, whatever else is in it;
/// [`Db::stats`] says how much that is. Drop it when it is no longer needed. It ends with the process.
///
/// When removals find no space on a full medium, or a [limit](crate::Builder::snapshot_limit) is passed, the oldest snapshot is ended: every
/// call on it then answers [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld).
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert("color", "green")?;
/// let before = db.snapshot();
/// db.insert("color", "red")?;
/// db.clear()?;
/// assert_eq!(before.get("color")?.as_deref(), Some(&b"green"[..]));
/// assert_eq!((before.len()?, db.len()?), (1, 0));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    default: SnapshotNamespace,
}

impl Deref for Snapshot {
    type Target = SnapshotNamespace;

    fn deref(&self) -> &SnapshotNamespace {
        &self.default
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("moment", &self.default.taken.moment.position).finish_non_exhaustive()
    }
}

/// A namespace of a [`Snapshot`]. Its calls are those of a [`Namespace`](crate::Namespace) that read, and all of them show the same moment.
///
/// Each answers [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld) once the snapshot has been ended, and, inside the closure of an
/// update, [`Error::Nested`](crate::Error::Nested) where it has to wait for writes that began before the snapshot was taken.
#[derive(Clone)]
pub struct SnapshotNamespace {
    pub(super) taken: Arc<Taken>,
    /// Its number; `None` for the default namespace, which is looked up when it is first needed.
    number: Option<u32>,
}

impl fmt::Debug for SnapshotNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SnapshotNamespace").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Db {
    /// Takes a [`Snapshot`] of the whole store: everything that has been written by calls that have returned is in it, and of each concurrent
    /// commit all or nothing. Takes microseconds, however large the store is, and waits for no commit.
    pub fn snapshot(&self) -> Snapshot {
        let (moment, end) = self.store.engine.begin_moment();
        Snapshot { default: SnapshotNamespace { taken: Arc::new(Taken::new(moment, end, self.store.clone())), number: None } }
    }
}

impl Snapshot {
    /// The namespace of that name as it was; `None` if there was none.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// db.namespace("users")?.insert("7", "Ada")?;
    /// let before = db.snapshot();
    /// db.drop_namespace("users")?;
    /// let users = before.namespace("users")?.expect("it was there");
    /// assert_eq!(users.get("7")?.as_deref(), Some(&b"Ada"[..]));
    /// assert!(db.snapshot().namespace("users")?.is_none());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn namespace(&self, name: &str) -> Result<Option<SnapshotNamespace>> {
        if name.is_empty() || name.starts_with(SYSTEM) {
            return Ok(None);
        }
        let number = self.taken.number_of(name.as_bytes())?;
        Ok(number.map(|number| SnapshotNamespace { taken: self.taken.clone(), number: Some(number) }))
    }

    /// The default namespace, which this dereferences to.
    pub fn default_namespace(&self) -> SnapshotNamespace {
        self.default.clone()
    }

    /// The names of all namespaces but the default one, in order, as they were.
    pub fn list_namespaces(&self) -> Result<Vec<String>> {
        let store = &self.taken.store;
        // In this order: a name that is dropped in between is among the dropped ones before it leaves the list.
        let now = store.names.read().list();
        let gone = store.engine.moments.gone_names().into_iter().filter_map(|name| String::from_utf8(name).ok());
        let mut names: Vec<String> = now.into_iter().chain(gone.filter(|name| !name.starts_with(SYSTEM))).collect();
        names.sort_unstable();
        names.dedup();
        let mut there = Vec::with_capacity(names.len());
        for name in names {
            if self.taken.number_of(name.as_bytes())?.is_some() {
                there.push(name);
            }
        }
        self.taken.moment.still_lives().map(|()| there)
    }

    /// The position of the snapshot: it shows everything up to there. `None` if no position can name its moment, because the session had
    /// written something when it was taken, and [no position had been handed out](Position).
    pub fn position(&self) -> Option<Position> {
        let EndPlace { lsn, salt, is_unique } = self.taken.end;
        is_unique.then_some(Position::new(lsn, salt))
    }

    /// The end of what it shows.
    pub(super) fn end(&self) -> Position {
        Position::new(self.taken.end.lsn, self.taken.end.salt)
    }
}

impl Taken {
    pub(super) fn new(moment: Arc<Moment>, end: EndPlace, store: Arc<Open>) -> Self {
        Self { moment, end, default: AtomicU64::new(NOT_ASKED), is_short: false, store }
    }

    pub(super) fn of_transaction(moment: Arc<Moment>, end: EndPlace, store: Arc<Open>) -> Self {
        Self { moment, end, default: AtomicU64::new(NOT_ASKED), is_short: true, store }
    }

    /// A namespace by its number at the moment.
    #[cfg(feature = "ordered")]
    pub(super) fn namespace(self: &Arc<Self>, number: u32) -> SnapshotNamespace {
        SnapshotNamespace { taken: self.clone(), number: Some(number) }
    }

    /// Repeats a look-up of a follower whose record is not where it was, see [`Store::read_again`](crate::store::Store::read_again).
    #[inline(always)]
    pub(super) fn look_again<T>(&self, error: Error, look: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        if self.engine().log.follows() { self.store.read_again(error, look).map_err(too_old) } else { Err(error) }
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.store.engine
    }

    #[cfg(feature = "ordered")]
    pub(super) fn has_all_in_order(&self, pin: &Pin<'_>, number: u32) -> Result<()> {
        self.store.has_all_in_order(pin, number)
    }

    /// The number that a name had.
    pub(super) fn number_of(&self, name: &[u8]) -> Result<Option<u32>> {
        let engine = self.engine();
        let pin = engine.pin();
        let look = || engine.find_at(&pin, &self.moment, engine.full_key(NAMESPACE_OF_NAMES, name));
        let frame = look().or_else(|error| self.look_again(error, &mut || look()))?;
        Ok(frame.and_then(|frame| frame.value().first_chunk().map(|bytes| u32::from_le_bytes(*bytes))))
    }

    /// True if the default namespace has not been cleared, up to now: nor had it been at the moment. Asked in this order: of a clear that was
    /// appended before the moment, the shard is being published until the number is set.
    fn has_first_number(&self) -> bool {
        let engine = self.engine();
        let record = engine.full_key(NAMESPACE_OF_NAMES, DEFAULT.as_bytes());
        !engine.log.follows() && !engine.index.is_publishing(record.hash) && self.store.default.number() == Some(0)
    }

    pub(super) fn default_number(&self) -> Result<u32> {
        let known = self.default.load(Ordering::Relaxed);
        if known != NOT_ASKED {
            return Ok(known as u32);
        }
        // It has no record while it has its first number.
        let number = if self.has_first_number() { 0 } else { self.number_of(DEFAULT.as_bytes())?.unwrap_or(0) };
        self.default.store(number.into(), Ordering::Relaxed);
        Ok(number)
    }
}

impl SnapshotNamespace {
    pub(super) fn number(&self) -> Result<u32> {
        self.number.map_or_else(|| self.taken.default_number(), Ok)
    }

    /// The value of a key by the fast path, for a caller that keeps the pin for as long; `None` is no result.
    fn plain<'a>(&'a self, pin: &Pin<'_>, key: &[u8]) -> Option<&'a [u8]> {
        if !MAY_BE_MAPPED || check_key(key).is_err() {
            return None;
        }
        let engine = self.taken.engine();
        engine.value_at(pin, &self.taken.moment, engine.full_key(self.number().ok()?, key))
    }

    /// The record of a key, for as long as the pin lives.
    pub(super) fn frame<'a>(&'a self, pin: &'a Pin<'_>, key: &[u8]) -> Result<Option<Frame<'a>>> {
        self.frame_kept(pin, key)
    }

    /// [`Self::frame`] for a caller that keeps the pin for as long as the frame: nothing else sees to that.
    fn frame_kept<'a>(&'a self, pin: &Pin<'_>, key: &[u8]) -> Result<Option<Frame<'a>>> {
        check_key(key)?;
        let engine = self.taken.engine();
        let full_key = engine.full_key(self.number()?, key);
        let look = || {
            let found = engine.find_at_kept(pin, &self.taken.moment, full_key)?;
            found.map(|frame| engine.decoded(frame)).transpose()
        };
        look().or_else(|error| self.taken.look_again(error, &mut || look()))
    }

    /// Returns a copy of the value that a key had; `None` if it had none.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let pin = self.taken.engine().pin();
        if let Some(value) = self.plain(&pin, key.as_ref()) {
            return Ok(Some(value.to_vec()));
        }
        Ok(self.frame(&pin, key.as_ref())?.map(|frame| frame.into_value().into_vec()))
    }

    /// Returns the value that a key had, without a copy where the host can map the file. See [`Value`].
    pub fn get_zerocopy(&self, key: impl AsRef<[u8]>) -> Result<Option<Value<'_>>> {
        let pin = self.taken.engine().pin();
        if let Some(value) = self.plain(&pin, key.as_ref()) {
            return Ok(Some(Value::new(ValueBytes::Mapped(value), pin)));
        }
        Ok(self.frame_kept(&pin, key.as_ref())?.map(|frame| Value::new(frame.into_value(), pin)))
    }

    /// True if the key had a value.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.frame(&self.taken.engine().pin(), key.as_ref())?.is_some())
    }

    /// The values of many keys, in the order of the keys.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let mut decoded = DECODED_SUM_MAX;
        let mut get = |key: K| {
            let pin = self.taken.engine().pin();
            let frame = self.frame(&pin, key.as_ref())?;
            count_decoded(frame.as_ref(), &mut decoded)?;
            Ok(frame.map(|frame| frame.into_value().into_vec()))
        };
        keys.into_iter().map(&mut get).collect()
    }

    /// Number of records.
    pub fn len(&self) -> Result<u64> {
        let engine = self.taken.engine();
        engine.has_met_all()?;
        self.taken.store.counts_are_right().map_err(too_old)?;
        engine.count_at(&self.taken.moment, self.number()?).map_err(|error| too_old(engine.log.or_fenced(error)))
    }

    /// True when there were no records.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}
