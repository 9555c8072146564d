//! Transactions: optimistic, serializable, any number at a time. Reads come from a snapshot, writes are kept in memory. The commit checks
//! that nothing of what was read has been written since the snapshot, and appends the writes, with the tail of the log locked in between:
//! so the order of the commits in the log is an order in which the transactions could have run one after the other.

#[cfg(feature = "events")]
mod appends;
mod closure;
mod commit;
mod home;
mod page;
#[cfg(feature = "ordered")]
mod range;
mod verbs;
mod view;
mod walk;
mod writes;

#[cfg(feature = "ordered")]
pub use range::{TransactionRange, TransactionRangeKeys};
pub use view::TransactionNamespace;
pub use walk::{TransactionIter, TransactionKeys};
pub use writes::Savepoint;

use self::writes::{Writes, is_same};
use super::check::ReadSet;
use super::handle::Namespace;
use super::snapshot::Taken;
use crate::conflict::Conflict;
use crate::error::{Error, Result};
use crate::few::Few;
use crate::frame::NAMESPACE_OF_NAMES;
use crate::log::Frame;
use crate::names::{DEFAULT, Name};
use crate::nested::Held;
use crate::sync::Mutex;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

/// A transaction: reads and writes that take effect together, as if nothing else had run meanwhile. From
/// [`Db::begin`](crate::Namespace::begin); the closure of [`Db::transaction`](crate::Namespace::transaction) gets one, too.
///
/// It reads the store as it was when it began, at the time of then, and its own writes over that. Nothing waits for it, and it waits for
/// nothing: other transactions, and other writes, go on. Its commit answers [`Error::Conflict`] if somebody has written meanwhile what it has
/// read, also into a range that it has read, or if a record that it has read has expired; then nothing is written, and it can be run again.
/// What it writes without having read it never conflicts. A transaction that writes nothing never conflicts, either.
///
/// All transactions and all other writes of a store are serializable, in the order of their [positions](crate::Position): write skew, lost updates
/// and phantoms do not occur.
///
/// Dropped without a commit, it has written nothing. While it lives it costs what a [`Snapshot`](crate::Snapshot) costs, and 16 bytes for each
/// write of others, in a store with the ordered index its key, too. It may be sent to another thread.
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert("ada", [3])?;
/// let mut tx = db.begin()?;
/// let coins = tx.get("ada")?.map_or(0, |coins| coins[0]);
/// tx.insert("ada", [coins - 1])?;
/// tx.insert("bob", [1])?;
/// assert_eq!(db.get("bob")?, None); // nobody else sees it yet
/// tx.commit()?;
/// assert_eq!((db.get("ada")?, db.get("bob")?), (Some(vec![2]), Some(vec![1])));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[must_use = "a transaction writes nothing until `commit`"]
pub struct Transaction {
    home: Home,
    taken: Arc<Taken>,
    writes: Writes,
    reads: Mutex<Reads>,
}

#[derive(Default)]
struct Reads {
    set: ReadSet,
    /// The namespaces in which it has read, with their numbers in the snapshot.
    spaces: Few<(Arc<Name>, Option<u32>), 1>,
}

/// The namespace of the methods that take none. What others write to the store is remembered until this is dropped.
struct Home {
    namespace: Namespace,
    /// Number of the first write after the transaction began.
    from: u64,
}

impl Deref for Home {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.namespace.store.engine.log.recent.end(self.from);
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("writes", &self.writes.len()).finish_non_exhaustive()
    }
}

impl Namespace {
    /// Begins a [`Transaction`]. Its methods that take no namespace use this one.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// let (mut one, mut other) = (db.begin()?, db.begin()?);
    /// one.insert("color", "green")?;
    /// assert_eq!(other.get("color")?, None);
    /// other.insert("taste", "sweet")?;
    /// one.commit()?;
    /// assert!(other.commit().is_err()); // it has read a color that is no longer so
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Nested`] inside the closure of an update or of [`Self::transaction`] on the same store.
    pub fn begin(&self) -> Result<Transaction> {
        let engine = &self.store.engine;
        engine.refuse_inside(&[Held::Shard, Held::Transaction])?;
        let (moment, end, from) = engine.begin_watched_moment();
        let home = Home { namespace: self.clone(), from };
        let taken = Arc::new(Taken::of_transaction(moment, end, self.store.clone()));
        Ok(Transaction { home, taken, writes: Writes::default(), reads: Mutex::default() })
    }
}

impl Transaction {
    /// Drops all writes: the same as dropping the transaction.
    pub fn rollback(self) {
        drop(self);
    }

    /// The memory that its writes take and the list of what it has read, in bytes: roughly, and without what its snapshot keeps, which
    /// [`Stats`](crate::Stats) counts. Grows with each write and each key read.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let mut tx = db.begin()?;
    /// tx.insert("photo", [7; 100_000])?;
    /// assert!(tx.memory_bytes() > 100_000);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn memory_bytes(&self) -> usize {
        let reads = self.reads.lock();
        self.writes.memory_bytes() + reads.set.memory_bytes() + reads.spaces.capacity() * size_of::<(Arc<Name>, Option<u32>)>()
    }

    /// A namespace as this transaction sees it, for reading.
    fn view(&self, name: &Arc<Name>) -> Result<TransactionNamespace<'_>> {
        let number = self.number_of(name)?;
        Ok(TransactionNamespace::new(self, number, self.writes.of(name)))
    }

    /// The number of a namespace in the snapshot; from then on the namespace counts as read.
    fn number_of(&self, name: &Arc<Name>) -> Result<Option<u32>> {
        let mut reads = self.reads.lock();
        if let Some((_, number)) = reads.spaces.iter().find(|(other, _)| is_same(other, name)) {
            return Ok(*number);
        }
        let number = match name.name.as_str() {
            DEFAULT => self.seen(self.taken.default_number().map(Some))?,
            other => self.seen(self.taken.number_of(other.as_bytes()))?,
        };
        reads.set.name(self.taken.engine().full_key(NAMESPACE_OF_NAMES, name.name.as_bytes()).hash);
        reads.spaces.push((name.clone(), number));
        Ok(number)
    }

    /// A record that is returned: its expiry must not pass before the commit.
    fn met<'a>(&self, frame: Frame<'a>) -> Frame<'a> {
        if let Some(expiry) = frame.expiry() {
            self.reads.lock().set.expires(expiry);
        }
        frame
    }

    /// A snapshot that was ended is a conflict: the transaction may be run again.
    fn seen<T>(&self, read: Result<T>) -> Result<T> {
        read.map_err(|error| match error {
            Error::SnapshotTooOld | Error::Overtaken => Error::Conflict(Conflict::SnapshotEnded),
            error => error,
        })
    }

    /// True once reads answer [`Conflict::SnapshotEnded`].
    pub(super) fn has_ended(&self) -> bool {
        self.taken.moment.still_lives().is_err()
    }
}
