//! The handle to an open store.

use super::batch::Batch;
use super::builder::Builder;
use super::iter::{Iter, Keys};
use super::namespace::Namespace;
use super::stats::{SegmentUse, Stats};
use super::store::Store;
use super::transaction::Transaction;
use super::value::Value;
use crate::compact::{CompactProgress, CompactReport};
use crate::error::Result;
use crate::nested::Held;
use crate::recover::OpenReport;
use crate::storage::Durability;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

/// A store that is open as long as a handle to it lives.
pub(super) struct Open(Arc<Store>);

impl Deref for Open {
    type Target = Store;

    fn deref(&self) -> &Store {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Nobody is left to hear of an error: `Db::close` is for those who want to. What was flushed is safe either way.
        let _ = self.0.close();
    }
}

/// An open store, and its default namespace.
///
/// A handle is cheap to clone and may be used from many threads. The store is closed when the last handle, [`Namespace`] handles
/// included, is dropped.
///
/// A store does not survive a fork: parent and child would write to one log without knowing of each other. A child must neither use
/// nor drop a handle that it has inherited. Open the store after the fork, in the one process that uses it.
///
/// When a write returns, the record survives the end of the process, however it ends. After [`Db::flush`] it survives what the
/// host promises: on a native file the loss of power.
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
    pub(super) store: Arc<Open>,
}

impl core::fmt::Debug for Db {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // Nothing that takes a lock: whoever prints a handle may hold it already, as the closure of `update` does.
        let (read_only, closed) = (self.store.engine.log.read_only, self.store.is_closed());
        f.debug_struct("Db").field("read_only", &read_only).field("closed", &closed).finish_non_exhaustive()
    }
}

impl Db {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store: Arc::new(Open(store)) }
    }

    /// Opens the store at `path`; creates it if there is none. A process that forks opens it afterwards, see [`Db`].
    ///
    /// # Errors
    ///
    /// [`Error::Locked`](crate::Error::Locked) while another handle has it open, [`Error::NotAStore`](crate::Error::NotAStore),
    /// [`Error::NewerVersion`](crate::Error::NewerVersion), [`Error::IsDirectory`](crate::Error::IsDirectory),
    /// [`Error::Corrupt`](crate::Error::Corrupt) when something is damaged that had been safe. The file stays as it was.
    #[cfg(feature = "native")]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::builder().path(path).open()
    }

    /// A store that lives in memory and ends with its last handle.
    pub fn open_in_memory() -> Result<Self> {
        Self::builder().in_memory()
    }

    /// Options for opening.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// What opening found: whether the store had been closed, what a crash had left unfinished.
    pub fn open_report(&self) -> &OpenReport {
        &self.store.report
    }

    /// Stores a value; a value that the key had is gone. When this returns, the record survives the end of the process.
    ///
    /// # Errors
    ///
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::ValueTooLong`](crate::Error::ValueTooLong),
    /// [`Error::NoSpace`](crate::Error::NoSpace), [`Error::ReadOnly`](crate::Error::ReadOnly),
    /// [`Error::Poisoned`](crate::Error::Poisoned) after an earlier failure. The store is as it was before.
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.store.insert(&self.store.default, key.as_ref(), value.as_ref())
    }

    /// A copy of the value of a key.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the record does not fit its checksum.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.store.get(&self.store.default, key.as_ref())
    }

    /// The value of a key without a copy where the host can map the file. See [`Value`].
    #[inline]
    pub fn get_zerocopy(&self, key: impl AsRef<[u8]>) -> Result<Option<Value<'_>>> {
        self.store.get_zerocopy(&self.store.default, key.as_ref())
    }

    /// Removes a key; true if it was there. Works on a full disk too: some space is kept back for it.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.store.remove(&self.store.default, key.as_ref())
    }

    /// True if the key has a value.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.store.contains_key(&self.store.default, key.as_ref())
    }

    /// Stores many records as one commit: after a crash all of them are there or none. Whoever reads meanwhile, other than in a
    /// [`Db::transaction`], may find some of them and not yet the others.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2")])?;
    /// assert_eq!(db.len()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        self.store.insert_many(&self.store.default, records)
    }

    /// Removes many keys as one commit; says how many of them there were. Quicker than one after the other.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2")])?;
    /// assert_eq!(db.remove_many(["a", "c"])?, 1);
    /// assert_eq!(db.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<usize> {
        self.store.remove_many(&self.store.default, keys)
    }

    /// A commit to be filled with writes and removals of any namespaces. See [`Batch`].
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(&self.store)
    }

    /// The values of many keys, in the order of the keys. Each is one that its key had at some moment of the call, not all at the same: of a
    /// commit that is being written, some may be there and others not. Read in a [`Db::transaction`] what must fit together.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2")])?;
    /// assert_eq!(db.get_many(["b", "c"])?, [Some(b"2".to_vec()), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), and those of [`Db::get`]: one key that cannot be read fails the call.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        self.store.get_many(&self.store.default, keys)
    }

    /// Hands each key with its value, or `None`, to `each`, without a copy where the host can map the file: the quickest way to read
    /// many records. Each value is one that its key had at some moment of the call: what `each` itself writes may come too late.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert_many([("a", "1"), ("b", "22")])?;
    /// let mut bytes = 0;
    /// db.get_many_with(["a", "b", "c"], |_key, value| bytes += value.map_or(0, <[u8]>::len))?;
    /// assert_eq!(bytes, 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        each: impl FnMut(K, Option<&[u8]>),
    ) -> Result<()> {
        self.store.get_many_with(&self.store.default, keys, each)
    }

    /// Writes `new` (`None` removes the key) if the key has the value `expected` (`None`: no value); true if it had. No other
    /// writer comes in between.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// assert!(db.compare_and_swap("light", None, Some(b"green"))?);
    /// assert!(!db.compare_and_swap("light", Some(b"red"), None)?);
    /// assert_eq!(db.get("light")?.as_deref(), Some(&b"green"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::insert`], and [`Error::Corrupt`](crate::Error::Corrupt) when the record that is there does not fit its checksum.
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        self.store.compare_and_swap(&self.store.default, key.as_ref(), expected, new)
    }

    /// Replaces the value of a key by what `new` makes of it (`None` removes the key). No other writer comes in between.
    ///
    /// `new` must make no call on this store, not even one that reads: writes, [`Db::len`], [`Db::iter`], [`Db::stats`] and others would
    /// wait for what this call holds, and answer [`Error::Nested`](crate::Error::Nested) (without the feature `std` they wait for ever). Read
    /// what it needs before, or use [`Db::transaction`].
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// for _ in 0..3 {
    ///     db.update("visits", |old| Some(vec![old.map_or(0, |old| old[0]) + 1]))?;
    /// }
    /// assert_eq!(db.get("visits")?, Some(vec![3]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, key: impl AsRef<[u8]>, new: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<()> {
        self.store.update(&self.store.default, key.as_ref(), new)
    }

    /// [`Db::update`] with a closure that may refuse: then nothing is written, and its error comes back.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let spend = |old: Option<&[u8]>| match old {
    ///     Some(&[coins]) if coins > 0 => Ok(Some(vec![coins - 1])),
    ///     _ => Err("there is nothing left"),
    /// };
    /// db.insert("purse", [1])?;
    /// assert_eq!(db.try_update("purse", spend)?, Ok(()));
    /// assert_eq!(db.try_update("purse", spend)?, Err("there is nothing left"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::insert`].
    pub fn try_update<E>(
        &self,
        key: impl AsRef<[u8]>,
        new: impl FnOnce(Option<&[u8]>) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Result<(), E>> {
        self.store.try_update(&self.store.default, key.as_ref(), new)
    }

    /// Removes all records of the default namespace, as one commit of a few bytes.
    ///
    /// The index still has to forget them: of each of its 256 shards that holds a record of the namespace, every record is looked at,
    /// those of other namespaces too. In a large store that takes as long as a walk over all of it, even where a few hundred records go:
    /// remove those by [`Db::remove_many`].
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`](crate::Error::NoSpace) when there is not even so much room, [`Error::ReadOnly`](crate::Error::ReadOnly),
    /// [`Error::Closed`](crate::Error::Closed), [`Error::Poisoned`](crate::Error::Poisoned), [`Error::Corrupt`](crate::Error::Corrupt) when
    /// a part of the index cannot be built: nothing was cleared. When the file system fails behind the commit, all was cleared, though some
    /// of it still stands in the index.
    pub fn clear(&self) -> Result<()> {
        self.store.clear(&self.store.default)
    }

    /// Records in the default namespace. The first call after opening builds what is not built yet of the index.
    pub fn len(&self) -> Result<u64> {
        self.store.len(&self.store.default)
    }

    /// True when the default namespace holds no record.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// All records of the default namespace, in no order. A record that is there all the while comes exactly once; one that is
    /// written or removed meanwhile may come or not, and so may a part of a commit. While the iterator lives, compaction cannot reuse any segment. It cannot be sent to
    /// another thread.
    pub fn iter(&self) -> Iter<'_> {
        self.store.iter(&self.store.default)
    }

    /// All keys of the default namespace; see [`Db::iter`].
    pub fn keys(&self) -> Keys<'_> {
        self.store.keys(&self.store.default)
    }

    /// The namespace of that name, created if there is none.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// users.insert("7", "Ada")?;
    /// assert!(!db.contains_key("7")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn namespace(&self, name: &str) -> Result<Namespace> {
        Ok(Namespace { name: self.store.namespace(name)?, store: self.store.clone() })
    }

    /// The namespace of that name if there is one: unlike [`Db::namespace`], this creates none.
    pub fn find_namespace(&self, name: &str) -> Option<Namespace> {
        Some(Namespace { name: self.store.find_namespace(name)?, store: self.store.clone() })
    }

    /// The namespace that the store has without a name, and that the methods of this handle work on.
    pub fn default_namespace(&self) -> Namespace {
        Namespace { store: self.store.clone(), name: self.store.default.clone() }
    }

    /// Drops a namespace with all its records, as one commit; false when there is none of that name. Handles to it find nothing from
    /// then on, and writes through them answer [`Error::NamespaceDropped`](crate::Error::NamespaceDropped). Takes as long as [`Db::clear`]: the records of other
    /// namespaces count, too.
    pub fn drop_namespace(&self, name: &str) -> Result<bool> {
        self.store.drop_namespace(name)
    }

    /// The names of all namespaces but the default one, in order.
    pub fn list_namespaces(&self) -> Vec<String> {
        self.store.list_namespaces()
    }

    /// Runs `body` and writes what it wrote as one commit, across namespaces; nothing if it returns an error. Reads inside see the
    /// writes. Transactions run one at a time; the writes of others are not held up.
    ///
    /// So what `body` reads comes from different moments, and two values need not have been there together; when the call returns without
    /// [`Error::Conflict`](crate::Error::Conflict), they were. At the end, each key that was read
    /// must have the value that it had at first; a value that was changed and changed back passes, unless it is longer than 64 KiB: those
    /// conflict also when compaction has moved them. Keys are read one by one: there is no walk and no range inside, and what `body` reads
    /// otherwise than through its [`Transaction`] is not checked.
    ///
    /// # Errors
    ///
    /// What `body` returns; [`Error::Conflict`](crate::Error::Conflict) when another writer changed what it had read: run it again;
    /// [`Error::Nested`](crate::Error::Nested) inside of another transaction of this store, which it would wait for (without the feature
    /// `std` it waits for ever).
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("a", [5])?;
    /// db.transaction(|tx| {
    ///     let moved = tx.get("a")?.unwrap_or_default();
    ///     tx.insert("b", moved)?;
    ///     tx.remove("a")?;
    ///     Ok(())
    /// })?;
    /// assert_eq!((db.get("a")?, db.get("b")?), (None, Some(vec![5])));
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction<T>(&self, body: impl FnOnce(&mut Transaction<'_>) -> Result<T>) -> Result<T> {
        self.store.transaction(body)
    }

    /// True when a write or a sync has failed: reads go on, writes answer [`Error::Poisoned`](crate::Error::Poisoned) until the store
    /// is opened again.
    pub fn is_poisoned(&self) -> bool {
        self.store.engine.log.is_poisoned()
    }

    /// Makes every write that has returned as durable as the host can, and says how durable that is. See
    /// [`FlushPolicy`](crate::FlushPolicy).
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`](crate::Error::ReadOnly) from a store that was opened for reading only, though it has nothing to flush;
    /// [`Error::Closed`](crate::Error::Closed); [`Error::Poisoned`](crate::Error::Poisoned) after an earlier failure. An error of the sync
    /// itself closes the store to writes: what was not flushed before may be lost, and no sync is tried again.
    pub fn flush(&self) -> Result<Durability> {
        self.store.flush()
    }

    /// Writes an index snapshot, so that the next opening has nothing to replay. It happens by itself now and then, and when a
    /// store with much to replay is closed.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`](crate::Error::NoSpace) when there is no room for a snapshot: if there is any for the list of the segments, that was
    /// written, and nothing is lost. [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Closed`](crate::Error::Closed),
    /// [`Error::Poisoned`](crate::Error::Poisoned), and [`Error::Corrupt`](crate::Error::Corrupt) when a part of the index that is not
    /// built yet cannot be.
    pub fn checkpoint(&self) -> Result<()> {
        self.store.seen(self.store.checkpoint())
    }

    /// Compacts every segment that holds anything dead worth the copying, and gives the space at the end of the file back. Others read and
    /// write meanwhile.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::builder().segment_size(64 * 1024).in_memory()?;
    /// for round in 0..8 {
    ///     db.insert_many((0..1000_u32).map(|n| (n.to_le_bytes(), [round; 100])))?;
    /// }
    /// let before = db.stats()?.file_bytes;
    /// assert!(db.compact()?.bytes_freed > 0);
    /// assert!(db.stats()?.file_bytes < before);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::checkpoint`]; also [`Error::NoSpace`](crate::Error::NoSpace) when what lives in the segments fits nowhere else, and
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a record in them does not fit its checksum: its segment stays as it is.
    pub fn compact(&self) -> Result<CompactReport> {
        self.compact_with(|_| {})
    }

    /// [`Db::compact`], with word of how far it has come.
    ///
    /// `progress` is called while this call has the turn to maintain the store. In there, what needs the turn answers
    /// [`Error::Nested`](crate::Error::Nested): [`Db::verify`], [`Db::checkpoint`], [`Db::compact`] and its like, [`Db::close`] of another
    /// handle, and, when the medium is full, whatever frees space first: removals, [`Db::update`], [`Db::compare_and_swap`],
    /// [`Db::clear`], [`Db::drop_namespace`].
    pub fn compact_with(&self, mut progress: impl FnMut(CompactProgress)) -> Result<CompactReport> {
        self.store.may_wait_for_the_turn()?;
        let report = self.store.compact(|so_far| {
            let _inside = self.store.engine.inside(Held::Turn);
            progress(so_far);
        });
        self.store.seen(report)
    }

    /// Gives up the records that stand [behind an unclean end](crate::OpenReport::stranded_records) of the log, of this one and of all earlier
    /// ones, and compacts: their segments are free for others. Run [`salvage`](crate::salvage) on the file first if they are wanted.
    ///
    /// # Errors
    ///
    /// Those of [`Db::compact`]. What it did not get to is kept again after the next open.
    pub fn drop_stranded(&self) -> Result<CompactReport> {
        self.store.may_wait_for_the_turn()?;
        self.store.engine.log.give_up_stranded();
        self.compact()
    }

    /// Compacts the one segment where it pays most; `None` when there is none of which a part worth the work is dead: a sixty-fourth, as
    /// for [`Db::compact`]. What was written last is left for later, and what is free stays in the file until [`Db::compact`], or closing,
    /// cuts it.
    pub fn compact_step(&self) -> Result<Option<CompactReport>> {
        self.store.may_wait_for_the_turn()?;
        self.store.seen(self.store.compact_step())
    }

    /// Figures about the store.
    pub fn stats(&self) -> Result<Stats> {
        self.store.seen(self.store.stats())
    }

    /// What the file is used for, front to back. As [`Db::stats`] it builds what is not built yet of the index.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) and errors of the storage, when that cannot be done.
    pub fn segments(&self) -> Result<Vec<SegmentUse>> {
        self.store.seen(self.store.segments())
    }

    /// Copies the store, as it is at this moment, into an empty storage, checking every record on the way. Others read and write
    /// meanwhile.
    ///
    /// The copy has no index snapshot: opening it reads its whole log, until one is written there, as [`Db::checkpoint`] does.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a record does not check: a backup never carries damage on.
    pub fn backup_to_storage(&self, target: &dyn crate::storage::Storage) -> Result<super::BackupReport> {
        self.store.backup_to_storage(target)
    }

    /// Copies the store, as it is at this moment, to a new file; the file appears whole or not at all.
    ///
    /// On Unix it is this user's alone (mode 0600). Until then it stands beside its place as `PATH.PROCESS-NUMBER.part`; a process that is killed on the way leaves that behind, to be
    /// deleted by hand. Of several backups to one path at once, one becomes the file and the others fail.
    ///
    /// # Errors
    ///
    /// As for [`Db::backup_to_storage`]; [`Error::InvalidArgument`](crate::Error::InvalidArgument) when the file exists already.
    #[cfg(feature = "native")]
    pub fn backup_to(&self, path: impl AsRef<std::path::Path>) -> Result<super::BackupReport> {
        self.store.backup_to(path.as_ref())
    }

    /// Holds every byte that counts against its checksum. Others read and write meanwhile.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let report = db.verify()?;
    /// assert!(report.is_ok(), "{:?}", report.damage);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of the storage, and [`Error::Corrupt`](crate::Error::Corrupt) when the file has become shorter than it was. All other damage
    /// is no error: it is in the report.
    pub fn verify(&self) -> Result<crate::verify::VerifyReport> {
        self.store.verify()
    }

    /// Flushes and closes the store, and says what went wrong, which dropping the handle cannot. Other handles answer with an error
    /// when they write afterwards.
    ///
    /// The file stays locked until the last clone, [`Namespace`] and iterator is dropped: before that, opening it again, in this process
    /// too, answers [`Error::Locked`](crate::Error::Locked).
    pub fn close(self) -> Result<()> {
        self.store.may_wait_for_the_turn()?;
        self.store.seen(self.store.close())
    }
}
