//! Options for opening a store.

mod maintenance;
#[cfg(feature = "native")]
mod native;
#[cfg(feature = "encrypt")]
mod sealed;
#[cfg(feature = "encrypt")]
mod unlocking;

use super::handle::Db;
use crate::clock::{Clock, HostClock};
use crate::error::Result;
use crate::storage::{ByCopy, MemoryStorage, Storage};
use crate::store::{Attached, FlushPolicy, Options};
use crate::ttl::millis;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// Options for opening a store; from [`Db::builder`].
///
/// ```
/// # fn main() -> pipkin::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// let db = pipkin::Db::builder().path(folder.path().join("app.pipkin")).open()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "native"), derive(Default))]
#[must_use = "a builder does nothing until `open`"]
pub struct Builder {
    options: Options,
    attached: Attached,
    #[cfg(feature = "native")]
    place: native::Place,
    #[cfg(feature = "native")]
    mmap: bool,
    #[cfg(feature = "encrypt")]
    seal: sealed::Asked,
    #[cfg(feature = "io-uring")]
    io_uring: Option<crate::storage::IoUring>,
}

impl Db {
    /// Opens the store at `path`; creates it if there is none. A process that forks must open the store after the fork, see [`Db`].
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let db = pipkin::Db::open(&path)?;
    /// db.insert("color", "green")?;
    /// assert!(matches!(pipkin::Db::open(&path), Err(pipkin::Error::Locked { .. })));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Locked`](crate::Error::Locked) while another handle has it open, [`Error::NotAStore`](crate::Error::NotAStore),
    /// [`Error::NewerVersion`](crate::Error::NewerVersion), [`Error::IsDirectory`](crate::Error::IsDirectory),
    /// [`Error::Corrupt`](crate::Error::Corrupt) when data is damaged that was safely written. The file stays as it was.
    #[cfg(feature = "native")]
    pub fn open(path: impl AsRef<std::path::Path>) -> Result<Self> {
        Self::builder().path(path).open()
    }

    /// Opens a store in memory; its data is gone when the last handle is dropped.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// db.insert("color", "green")?;
    /// assert_eq!(db.get("color")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn open_in_memory() -> Result<Self> {
        Self::builder().in_memory()
    }

    /// Options for opening.
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).segment_size(64 * 1024).in_memory()?;
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }
}

#[cfg(feature = "native")]
impl Default for Builder {
    fn default() -> Self {
        Self {
            options: Options::default(),
            attached: Attached::default(),
            place: native::Place::default(),
            mmap: true,
            #[cfg(feature = "encrypt")]
            seal: sealed::Asked::default(),
            #[cfg(feature = "io-uring")]
            io_uring: None,
        }
    }
}

impl Builder {
    /// Opens for reading only: the file is not changed, and several readers may share it. Default: false.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// # pipkin::Db::open(&path)?.insert("color", "green")?;
    /// let db = pipkin::Db::builder().path(&path).read_only(true).open()?;
    /// assert!(matches!(db.insert("color", "red"), Err(pipkin::Error::ReadOnly)));
    /// assert_eq!(db.get("color")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.options.read_only = read_only;
        self
    }

    /// Opens a store that another process may be writing: without a lock, and without writing a byte. Any number of followers read beside one
    /// writer, and none of them makes it wait. Writes answer [`Error::ReadOnly`](crate::Error::ReadOnly). Default: false.
    ///
    /// A follower shows the store as it was when it was opened, or at its last [refresh](Db::refresh). It reads the whole index when it is
    /// opened, and every read copies and verifies; events are read as records are, and a subscription to them refreshes by itself. A
    /// [snapshot](Db::snapshot) of it may answer [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld), since the writer does not know of it. Checks and backups of the file belong to
    /// the process that writes.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.pipkin");
    /// let writer = pipkin::Db::open(&path)?;
    /// writer.insert("color", "green")?;
    /// let reader = pipkin::Db::builder().path(&path).follow(true).open()?;
    /// assert_eq!(reader.get("color")?.as_deref(), Some(&b"green"[..]));
    /// assert!(matches!(reader.insert("color", "red"), Err(pipkin::Error::ReadOnly)));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[cfg(feature = "followers")]
    pub fn follow(mut self, follow: bool) -> Self {
        self.options.follow = follow;
        self
    }

    /// Creates the store if there is none. Default: true.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// let opened = pipkin::Db::builder().path(folder.path().join("none.pipkin")).create(false).open();
    /// assert!(matches!(opened, Err(pipkin::Error::NotFound { .. })));
    /// ```
    pub fn create(mut self, create: bool) -> Self {
        self.options.create = create;
        self
    }

    /// Verifies the checksum of every record that is read. A storage that caches the file in memory checks a cached copy only once.
    /// Default: true.
    ///
    /// ```
    /// // Faster reads; `verify`, compaction and backups still check every record.
    /// let db = pipkin::Db::builder().verify_on_read(false).in_memory()?;
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn verify_on_read(mut self, verify: bool) -> Self {
        self.options.verify_on_read = verify;
        self
    }

    /// When writes become durable. Default: [`FlushPolicy::Group`].
    ///
    /// ```
    /// let db = pipkin::Db::builder().flush_policy(pipkin::FlushPolicy::WriteThrough).in_memory()?;
    /// db.insert("color", "green")?; // durable when it returns
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn flush_policy(mut self, policy: FlushPolicy) -> Self {
        self.options.flush_policy = policy;
        self
    }

    /// Keeps all keys in order in memory, in addition to the hash index: [`Db::range`](crate::Namespace::range),
    /// [`Db::range_prefix`](crate::Namespace::range_prefix) and [`Db::iter_from`](crate::Namespace::iter_from) need it. Each key then takes
    /// about 30 bytes plus its length, once it has been read. The order is kept in the index snapshot: opening a store that was closed takes as
    /// long as without it, and the keys of some two thousand records are read when one of them is first needed. Of a store that was written
    /// without it, or whose segments were compacted since the last checkpoint when its session died, opening reads every key; the next
    /// [`Db::checkpoint`](crate::Db::checkpoint), or the close of a session that has written, ends that. See [`OpenReport::order`](crate::OpenReport::order).
    /// Writing many records, or removing many, is fastest in commits of some ten thousand: their keys are entered sorted, several at a time.
    /// Default: false. A namespace may say otherwise, in the file: [`Namespace::set_ordered`](crate::Namespace::set_ordered).
    ///
    /// ```
    /// let db = pipkin::Db::builder().ordered(true).in_memory()?;
    /// db.insert_many([("b", "2"), ("a", "1")])?;
    /// let keys = db.range("a"..)?.map(|record| Ok(record?.0)).collect::<pipkin::Result<Vec<_>>>()?;
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[cfg(feature = "ordered")]
    pub fn ordered(mut self, ordered: bool) -> Self {
        self.options.ordered = ordered;
        self
    }

    /// Segment size of a new store in bytes: a power of two from 4 KiB to 256 MiB. An existing store keeps its own. Default: 4 MiB.
    ///
    /// A checkpoint lists all segments, in 32 bytes each. Where the list outgrows a segment or so (128 MiB of file in segments of 64 KiB,
    /// 512 GiB in those of 4 MiB), a full medium may have no room for it, and removing records alone cannot free any: choose a size that
    /// the store will not outgrow.
    ///
    /// Space for one segment is kept for removals: on a medium with room for fewer than eight of them choose shorter ones, or much of it stays
    /// empty.
    ///
    /// ```
    /// // A small store: its file grows in smaller steps.
    /// let db = pipkin::Db::builder().segment_size(64 * 1024).in_memory()?;
    /// # db.insert("color", "green")?;
    /// assert_eq!(db.stats()?.segment_size, 64 * 1024);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn segment_size(mut self, bytes: u32) -> Self {
        self.options.segment_size = bytes;
        self
    }

    /// Where the index is. Default: [`IndexMemory::Resident`](crate::IndexMemory::Resident), 9 to 14 bytes of memory a record.
    ///
    /// [`IndexMemory::in_file`](crate::IndexMemory::in_file) is for stores whose index should not stay in memory: what the newest whole index
    /// snapshot has stays in the file, and the system keeps of it in its cache what is used. In memory are a quarter of a byte a record, and
    /// 11 to 22 bytes for each record that was written since; a checkpoint writes the index whole when that exceeds what the option says.
    /// A `get` then takes a few hundred nanoseconds more, and reads the medium once if the index is in the cache and twice if not; so does a write of a key
    /// that is there. Compaction asks the index for each record that it meets, checkpoints
    /// write more, and from async code each call is made in a thread of the pool.
    ///
    /// In memory stay, in any case: the keys of [ordered](Self::ordered) namespaces, 8 bytes for each record that expires, the index of events,
    /// and an index that is rebuilt from the log, until the next checkpoint. A store that is sealed, followed, or in a file that another session may
    /// write has all of its index in memory, whatever this says.
    ///
    /// Where the medium has no room for a snapshot, that of before stays in the file until there is one again. If its bytes rot while the store is
    /// open, reads that need them answer [`Error::IndexDamaged`](crate::Error::IndexDamaged) until what is damaged was built from the log, in memory:
    /// the background thread does so at once, and so does a write that meets them, or a checkpoint. It takes as long as reading the log.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// use pipkin::{Db, IndexMemory};
    ///
    /// let db = Db::builder().index_memory(IndexMemory::in_file()).path(folder.path().join("app.pipkin")).open()?;
    /// db.insert("color", "green")?;
    /// db.checkpoint()?;
    /// assert!(db.stats()?.index_file_bytes > 0);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[cfg(feature = "std")]
    pub fn index_memory(mut self, index: crate::IndexMemory) -> Self {
        self.options.index_memory = index;
        self
    }

    /// Registers the merge operator of a namespace, by which [`Db::merge`](crate::Namespace::merge) combines the value of a key with an
    /// operand. The namespace need not exist yet; the default one has the empty name. A namespace has one operator: a later one replaces
    /// it. `name` appears in errors.
    ///
    /// The function gets the value of the key, if there is one, and the operand, and returns the new value, or says why it cannot. It runs
    /// with the key locked: it should be quick, and calls of this store from it answer [`Error::Nested`](crate::Error::Nested). If it
    /// panics, nothing is written. [`merge`](crate::merge) has ready ones.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// let both = |old: Option<&[u8]>, new: &[u8]| match (old, new) {
    ///     (Some(&[old]), &[new]) => Ok(vec![old | new]),
    ///     (None, &[new]) => Ok(vec![new]),
    ///     _ => Err("flags are one byte".to_string()),
    /// };
    /// let db = pipkin::Db::builder().merge_operator("", "flags", both).in_memory()?;
    /// db.merge("ada", [1])?;
    /// assert_eq!(db.merge("ada", [4])?, [5]);
    /// assert!(matches!(db.merge("ada", "no flags"), Err(pipkin::Error::MergeRefused { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub fn merge_operator(
        mut self,
        namespace: impl Into<String>,
        name: impl Into<String>,
        function: impl Fn(Option<&[u8]>, &[u8]) -> Result<Vec<u8>, String> + Send + Sync + 'static,
    ) -> Self {
        self.attached.operators.register(namespace.into(), name.into(), Arc::new(function));
        self
    }

    /// How long a record lives if neither its write nor [its namespace](crate::Namespace::set_default_ttl) says. Default: for ever. Only
    /// that of the namespace is kept in the file.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let db = pipkin::Db::builder().default_ttl(Duration::from_secs(24 * 3600)).in_memory()?;
    /// db.insert("page", "...")?;
    /// db.insert_with_ttl("logo", "...", pipkin::Ttl::Never)?;
    /// assert!(db.expires_at("page")?.is_some() && db.expires_at("logo")?.is_none());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.attached.default_ttl = millis(ttl);
        self
    }

    /// When values are compressed where [their namespace](crate::Namespace::set_compression) does not say. Default: never. Only that of the
    /// namespace is kept in the file.
    ///
    /// ```
    /// let db = pipkin::Db::builder().compression(pipkin::Compression::OnCompaction).in_memory()?;
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[cfg(feature = "compress")]
    pub fn compression(mut self, compression: crate::Compression) -> Self {
        self.attached.compression = compression;
        self
    }

    /// The clock by which records expire. Default: the system's, where the standard library has one; without one, writes of records that
    /// expire answer [`Error::NoClock`](crate::Error::NoClock), and nothing expires that had not when the store was last written. Asked only
    /// by stores with records that expire.
    ///
    /// ```
    /// # #[cfg(feature = "testing")] {
    /// use pipkin::testing::TestClock;
    /// use std::time::Duration;
    ///
    /// let clock = TestClock::new(1_000_000);
    /// let db = pipkin::Db::builder().clock(clock.clone()).in_memory()?;
    /// db.insert_with_ttl("code", "1234", Duration::from_secs(60))?;
    /// clock.advance(Duration::from_secs(60));
    /// assert_eq!(db.get("code")?, None);
    /// # }
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.attached.clock = HostClock(Some(Arc::new(clock)));
        self
    }

    /// Random bytes for a new store (its id, and the seed of its hashes) and for this session: needed where the standard library has no
    /// source of randomness (a browser), useful for reproducible tests. Never give two stores the same.
    ///
    /// ```
    /// let db = pipkin::Db::builder().entropy([7; 32]).in_memory()?; // a test that repeats
    /// # db.insert("color", "green")?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn entropy(mut self, entropy: [u8; 32]) -> Self {
        self.options.entropy = Some(entropy);
        self
    }

    /// Opens a store in any storage.
    ///
    /// ```
    /// use pipkin::storage::MemoryStorage;
    ///
    /// let file = MemoryStorage::new();
    /// let db = pipkin::Db::builder().open_storage(Box::new(file.clone()))?;
    /// db.insert("color", "green")?;
    /// db.close()?;
    /// let again = pipkin::Db::builder().open_storage(Box::new(file))?;
    /// assert_eq!(again.get("color")?.as_deref(), Some(&b"green"[..]));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::open`].
    #[cfg_attr(not(feature = "encrypt"), allow(unused_mut, reason = "a new sealed store gets its id here"))]
    pub fn open_storage(mut self, storage: Box<dyn Storage>) -> Result<Db> {
        self.options.check()?;
        #[cfg(feature = "encrypt")]
        let (storage, page) = self.seal.find(storage, &mut self.options, &mut self.attached)?;
        #[cfg(feature = "encrypt")]
        let anchor = self.seal.anchor();
        let entropy = Some(self.options.entropy.unwrap_or_else(default_entropy));
        let read_only = self.options.read_only || self.options.follows();
        let options = Options { entropy, read_only, ..self.options };
        let store = if options.follows() {
            super::refresh::open_up_to_date(&ByCopy::new(storage), options, &self.attached)
        } else {
            #[cfg(feature = "encrypt")]
            super::front::create_sealed(&*storage, &options, page.as_deref())?;
            super::open::open(storage, options, self.attached)
        };
        let db = Db::new(store?);
        #[cfg(feature = "encrypt")]
        sealed::Asked::check_anchor(anchor, &db)?;
        Ok(db)
    }

    /// Opens a store in memory; its data is gone when the last handle is dropped.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// let db = pipkin::Db::builder().segment_size(64 * 1024).in_memory()?;
    /// db.insert("color", "green")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for an invalid segment size or share,
    /// [`Error::NotFound`](crate::Error::NotFound) when it is to be [read only](Self::read_only) or not to be [created](Self::create): a
    /// store in memory always starts empty.
    pub fn in_memory(self) -> Result<Db> {
        self.open_storage(Box::new(MemoryStorage::default()))
    }
}

#[cfg(feature = "std")]
fn default_entropy() -> [u8; 32] {
    use std::hash::{BuildHasher, RandomState};
    let word = || RandomState::new().hash_one(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok());
    let mut bytes = [0; 32];
    bytes.as_chunks_mut().0.iter_mut().for_each(|place| *place = word().to_le_bytes());
    bytes
}

#[cfg(not(feature = "std"))]
const fn default_entropy() -> [u8; 32] {
    [0; 32]
}
