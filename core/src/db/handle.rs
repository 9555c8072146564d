//! The handles to an open store: [`Namespace`], with every operation on records, and [`Db`], with those on the whole store; it dereferences
//! to its default namespace. An operation that takes several steps has a file of its own.

use crate::error::{Error, Result};
use crate::names::Name;
use crate::recover::OpenReport;
use crate::storage::Durability;
use crate::store::Store;
use crate::ttl::Ttl;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

const FOREIGN: &str =
    "this namespace is a handle of another store; get one with `namespace(name)` from the store that this commit is for";

/// A store that is closed when its last handle is dropped.
pub(super) struct Open(Arc<Store>);

impl Deref for Open {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // A drop cannot report an error; `Db::close` can. What was flushed is safe either way.
        let _ = self.0.close();
    }
}

/// A key space of a store: the same key in two namespaces names two independent records.
///
/// Every operation on records is a method of this type. A [`Db`] dereferences to its default namespace, which has no name:
/// `db.insert("key", "value")` works, and so does `&db` wherever a `&Namespace` is expected. [`Db::namespace`] returns the others.
///
/// A handle is cheap to clone, may be used from many threads, and keeps the store open.
///
/// ```
/// # let db = pipkin::Db::open_in_memory()?;
/// let users = db.namespace("users")?;
/// users.insert("7", "Ada")?;
/// assert_eq!((users.len()?, db.len()?), (1, 0));
///
/// fn count(records: &pipkin::Namespace) -> pipkin::Result<u64> {
///     records.len()
/// }
/// assert_eq!(count(&users)? + count(&db)?, 1);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone)]
pub struct Namespace {
    pub(super) store: Arc<Open>,
    pub(super) name: Arc<Name>,
    /// How long the records live that are written through this handle.
    pub(super) ttl: Ttl,
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // As for `Db`: print nothing that takes a lock.
        f.debug_struct("Namespace").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Namespace {
    /// Its name; empty for the default namespace.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// assert_eq!(db.namespace("users")?.name(), "users");
    /// assert_eq!(db.name(), "");
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.name.name
    }

    /// The handle to its store.
    pub(super) fn db(&self) -> Db {
        Db { default: Self { store: self.store.clone(), name: self.store.default.clone(), ttl: Ttl::Default } }
    }

    /// Its name, or an error if the handle belongs to another store: the number of a foreign namespace would mean another namespace here.
    pub(super) fn name_in(&self, store: &Store) -> Result<&Arc<Name>> {
        if core::ptr::eq::<Store>(&**self.store, store) { Ok(&self.name) } else { Err(Error::InvalidArgument(FOREIGN)) }
    }
}

/// An open store, and a handle to its default namespace: it dereferences to a [`Namespace`], which has all operations on records.
///
/// A handle is cheap to clone and may be used from many threads. The store is closed when the last handle, [`Namespace`] handles
/// included, is dropped.
///
/// A store must not be used across a fork: parent and child would write to one log uncoordinated. Linux refuses writes of the child; reads
/// may fail once the parent compacts. Open the store after the fork, in the one process that uses it.
///
/// When a write returns, the record survives the end of the process, however it ends. After [`Db::flush`] it survives what the host
/// promises; on a native file, a power loss.
///
/// ```
/// # fn main() -> pipkin::Result<()> {
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert("color", "green")?;
/// assert_eq!(db.get("color")?.as_deref(), Some(&b"green"[..]));
/// db.flush()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Db {
    default: Namespace,
}

impl Deref for Db {
    type Target = Namespace;

    /// The default namespace.
    #[inline]
    fn deref(&self) -> &Namespace {
        &self.default
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing that takes a lock: the caller may hold it already, as in the closure of `update`, and printing would deadlock.
        let (read_only, closed) = (self.store.engine.log.read_only, self.store.is_closed());
        f.debug_struct("Db").field("read_only", &read_only).field("closed", &closed).finish_non_exhaustive()
    }
}

impl Db {
    pub(super) fn new(store: Arc<Store>) -> Self {
        let name = store.default.clone();
        Self { default: Namespace { store: Arc::new(Open(store)), name, ttl: Ttl::Default } }
    }

    /// The store, for tests of what is below.
    #[cfg(test)]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// A handle to the default namespace, which this one dereferences to.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let (users, records) = (db.namespace("users")?, db.default_namespace());
    /// for namespace in [&users, &records] {
    ///     namespace.insert("version", "1")?;
    /// }
    /// assert!(db.contains_key("version")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn default_namespace(&self) -> Namespace {
        self.default.clone()
    }

    /// What opening found: whether the store had been closed cleanly, and what a crash left unfinished.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let report = db.open_report();
    /// if !report.clean && report.torn_bytes > 0 {
    ///     println!("a crash has cut off {} bytes of writes that no flush had covered", report.torn_bytes);
    /// }
    /// assert!(report.created);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn open_report(&self) -> &OpenReport {
        &self.store.report
    }

    /// True after a failed write or sync: reads still work, writes answer [`Error::Poisoned`](crate::Error::Poisoned) until the store is
    /// opened again.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// if db.insert("color", "green").is_err() && db.is_poisoned() {
    ///     // Reads still work. Close the store, and open it again.
    /// }
    /// assert!(!db.is_poisoned());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.store.engine.log.is_poisoned()
    }

    /// Makes every write that has returned as durable as the host can; returns how durable that is. See
    /// [`FlushPolicy`](crate::FlushPolicy).
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let db = pipkin::Db::open(folder.path().join("app.pipkin"))?;
    /// db.insert("color", "green")?;
    /// if db.flush()? != pipkin::Durability::Device {
    ///     eprintln!("this volume does not promise that a flush survives a power cut");
    /// }
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`](crate::Error::ReadOnly) from a store that was opened for reading only, although it has nothing to flush;
    /// [`Error::Closed`](crate::Error::Closed); [`Error::Poisoned`](crate::Error::Poisoned) after an earlier failure. A sync that fails
    /// closes the store to writes: what was not flushed before may be lost, and the sync is not retried.
    pub fn flush(&self) -> Result<Durability> {
        self.store.flush()
    }

    /// Flushes and closes the store, and returns errors that dropping the handle could not report. Writes through other handles fail
    /// afterwards.
    ///
    /// The file stays locked until the last clone, [`Namespace`] and iterator is dropped: until then, opening it again, even in this
    /// process, answers [`Error::Locked`](crate::Error::Locked).
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let db = pipkin::Db::open(&path)?;
    /// db.insert("color", "green")?;
    /// db.close()?; // an error here means that writes since the last flush may be lost
    /// assert!(pipkin::Db::open(&path)?.open_report().clean);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        self.store.may_wait_for_the_turn()?;
        self.store.seen(self.store.close())
    }
}
