//! The handles of the async face.

use super::elsewhere::Elsewhere;
use super::pool::{CALLS, LONG, Pool, Work, is_worker, spawn, work_on};
use crate::db::builder::Builder;
use crate::db::handle::{Db, Namespace};
use crate::error::Result;
use crate::nested::Held;
use crate::recover::OpenReport;
use crate::store::{FlushPolicy, Lane};
use crate::ttl::Ttl;
use std::fmt;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A thread that takes the writes of a store lets others go first after so many.
const TOGETHER: usize = 256;

/// An open store for async code of any runtime: the verbs of a [`Db`] as futures. From [`Db::to_async`] or [`AsyncDb::open`].
///
/// A handle is cheap to clone, `Send` and `Sync`. It dereferences to an [`AsyncNamespace`], which has all operations on records, as a [`Db`] does
/// to its [`Namespace`].
///
/// - **A future does nothing until it is polled.** What is in memory is read in the poll: on Linux the kernel is asked whether a record is; elsewhere
///   that cannot be known, and records of files are read by a thread of the pool. Likewise a write is made in the poll where it need not wait for a
///   sync, for other writers or for maintenance. Everything else is carried out by threads that all stores of the process share, at most 20;
///   they are started when they are needed, and end after two idle seconds.
/// - **Dropping a future never tears anything.** It either has not begun, and then never does, or it is carried out as a whole, though nobody hears
///   of it. A commit is all there or not at all; a dropped flush may still come to its end.
/// - **Tasks that wait for a sync share it** and cost no thread, however many they are: [`Self::flush`], and writes of a
///   [durable](AsyncNamespace::durable) handle.
/// - Closures ([`AsyncNamespace::update`], [`AsyncNamespace::with`]) run on threads of the pool and may block. If they wait for a future of
///   this store, it is carried out in their own thread, so that they cannot wait for a place in the pool. A panic of a closure goes on where
///   its future is awaited.
///
/// Dropping the last handle closes the store in a thread of the pool, some time later. [`Self::close`] waits for that, and returns its error.
/// What has begun does not need the runtime: when that shuts down in the middle, the call comes to its end.
///
/// ```
/// use futures_lite::future::block_on; // or any runtime
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("app.pipkin");
/// block_on(async {
///     let db = pipkin::AsyncDb::open(&path).await?;
///     db.insert("color", "green").await?; // survives a kill of the process
///     db.flush().await?; //                  survives a power cut
///     assert_eq!(db.get("color").await?.as_deref(), Some(&b"green"[..]));
///     db.close().await
/// })?;
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncDb {
    home: AsyncNamespace,
}

/// A key space of a store, for async code: the verbs of a [`Namespace`] as futures. See [`AsyncDb`].
#[derive(Clone)]
pub struct AsyncNamespace {
    pub(super) namespace: Namespace,
    /// Its writes return once they are durable.
    is_durable: bool,
    // Last: it closes the store, in a thread that may wait.
    open: Arc<Elsewhere<Db>>,
}

impl fmt::Debug for AsyncDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncDb").field(&self.home.namespace.db()).finish()
    }
}

impl fmt::Debug for AsyncNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncNamespace").field(&self.namespace).finish()
    }
}

impl Deref for AsyncDb {
    type Target = AsyncNamespace;

    fn deref(&self) -> &AsyncNamespace {
        &self.home
    }
}

impl Db {
    /// A handle to the same store for async code. Both can be used at the same time.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// let for_tasks = db.to_async();
    /// futures_lite::future::block_on(for_tasks.insert("color", "green"))?;
    /// assert!(db.contains_key("color")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn to_async(&self) -> AsyncDb {
        let open = Arc::new(Elsewhere::new(self.clone()));
        AsyncDb { home: AsyncNamespace { namespace: self.default_namespace(), is_durable: false, open } }
    }
}

impl Builder {
    /// [`Self::open`] for async code.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn open_async(self) -> Result<AsyncDb> {
        LONG.run(move || self.open()).await.map(|db| db.to_async())
    }
}

impl AsyncDb {
    /// [`Db::open`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path: PathBuf = path.as_ref().to_path_buf();
        LONG.run(move || Db::open(path)).await.map(|db| db.to_async())
    }

    /// A handle to the same store whose calls block.
    pub fn to_sync(&self) -> Db {
        self.namespace.db()
    }

    /// [`Db::close`]. The file stays locked until the last handle, stream and future is gone; what was begun for a dropped future counts, too.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn close(self) -> Result<()> {
        let AsyncNamespace { namespace, open, .. } = self.home;
        let close = move || {
            let db = namespace.db();
            drop((namespace, open));
            db.close()
        };
        LONG.run(close).await
    }

    /// Has a thread of the pool call `work`, which may block.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?.to_async();
    /// # futures_lite::future::block_on(async {
    /// let longest = db.with(|db| db.iter().flatten().map(|(_, value)| value.len()).max()).await;
    /// # assert_eq!(longest, None);
    /// # Ok::<(), pipkin::Error>(())
    /// # })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub async fn with<T: Send + 'static>(&self, work: impl FnOnce(&Db) -> T + Send + 'static) -> T {
        self.on(&LONG, move |namespace| work(&namespace.db())).await
    }

    /// A handle to the default namespace, which this one dereferences to.
    pub fn default_namespace(&self) -> AsyncNamespace {
        self.home.clone()
    }

    /// [`Db::namespace`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn namespace(&self, name: &str) -> Result<AsyncNamespace> {
        let name = name.to_owned();
        let namespace = self.in_lane(move |home| home.db().namespace(&name)).await?;
        Ok(self.home.beside(namespace))
    }

    /// [`Db::find_namespace`].
    pub async fn find_namespace(&self, name: &str) -> Option<AsyncNamespace> {
        let name = name.to_owned();
        let namespace = self.call(move |home| home.db().find_namespace(&name)).await?;
        Some(self.home.beside(namespace))
    }

    /// [`Db::open_report`].
    pub fn open_report(&self) -> &OpenReport {
        &self.namespace.store.report
    }

    /// [`Db::is_poisoned`].
    pub fn is_poisoned(&self) -> bool {
        self.namespace.store.engine.log.is_poisoned()
    }

    /// [`Db::path`].
    pub fn path(&self) -> Option<&Path> {
        self.namespace.store.attached.path.as_deref()
    }

    /// [`Db::may_expire`].
    pub fn may_expire(&self) -> bool {
        self.to_sync().may_expire()
    }
}

impl AsyncNamespace {
    /// Its name; empty for the default namespace.
    pub fn name(&self) -> &str {
        self.namespace.name()
    }

    /// The same namespace, whose writes return once they are as durable as the host can make them, as if each was followed by
    /// [`AsyncDb::flush`]. Tasks that wait share syncs. A future that is dropped before may have written.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?.to_async();
    /// # futures_lite::future::block_on(async {
    /// let orders = db.namespace("orders").await?.durable();
    /// orders.insert("7", "paid").await?; // survives a power cut
    /// # Ok::<(), pipkin::Error>(())
    /// # })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[must_use = "it changes nothing of this handle"]
    pub fn durable(&self) -> Self {
        Self { is_durable: true, ..self.clone() }
    }

    /// [`Namespace::with_ttl`].
    #[must_use = "it changes nothing of this handle"]
    pub fn with_ttl(&self, ttl: impl Into<Ttl>) -> Self {
        Self { namespace: self.namespace.with_ttl(ttl), ..self.clone() }
    }

    /// A handle to the same namespace whose calls block.
    pub fn to_sync(&self) -> Namespace {
        self.namespace.clone()
    }

    /// Has a thread of the pool call `work`, which may block. See [`AsyncDb::with`].
    pub async fn with<T: Send + 'static>(&self, work: impl FnOnce(&Namespace) -> T + Send + 'static) -> T {
        self.on(&LONG, work).await
    }

    /// A handle to another namespace of the same store.
    pub(super) fn beside(&self, namespace: Namespace) -> Self {
        Self { namespace, ..self.clone() }
    }

    pub(super) fn is_durable(&self) -> bool {
        self.is_durable || self.writes_through()
    }

    fn writes_through(&self) -> bool {
        self.namespace.store.options.flush_policy == FlushPolicy::WriteThrough
    }

    /// True where a call must not leave its thread: in a thread of a pool, and in a closure that a call of this store runs, whose locks it would
    /// wait for.
    pub(super) fn must_stay(&self) -> bool {
        is_worker() || self.namespace.store.engine.is_inside()
    }

    /// True where another process writes the store.
    pub(super) fn follows(&self) -> bool {
        self.namespace.store.engine.log.follows()
    }

    /// Has a thread carry out a call that may wait, but for no code of a caller.
    pub(super) fn call<T: Send + 'static>(&self, work: impl FnOnce(&Namespace) -> T + Send + 'static) -> Work<T> {
        self.on(&CALLS, work)
    }

    pub(super) fn on<T: Send + 'static>(
        &self,
        pool: &'static Pool,
        work: impl FnOnce(&Namespace) -> T + Send + 'static,
    ) -> Work<T> {
        if self.must_stay() {
            return Work::done(work(&self.namespace));
        }
        let namespace = self.namespace.clone();
        pool.run(move || work(&namespace))
    }

    /// Carries out a write here. The sync that a policy asks for comes later, see [`Self::settled`].
    pub(super) fn here<T>(&self, write: impl FnOnce(&Namespace) -> T) -> T {
        written(&self.namespace, self.writes_through(), write)
    }

    /// Has a thread carry out a write, behind those that wait already.
    pub(super) fn in_lane<T: Send + 'static>(&self, write: impl FnOnce(&Namespace) -> T + Send + 'static) -> Work<T> {
        if self.must_stay() {
            return Work::done(self.here(write));
        }
        let (namespace, writes_through) = (self.namespace.clone(), self.writes_through());
        let lane = namespace.store.lane.clone();
        let queue = move |runnable| {
            if lane.add(runnable) {
                let lane = lane.clone();
                CALLS.start(move || take_writes(&lane));
            }
        };
        Work::of(spawn(move || written(&namespace, writes_through, write), queue))
    }

    /// What a write returns: where that was asked for, once it is durable.
    pub(super) async fn settled<T>(&self, written: Result<T>) -> Result<T> {
        if self.is_durable() && written.is_ok() {
            self.synced().await?;
        }
        written
    }

    /// A name of this store, for a commit.
    pub(super) fn in_same_store(&self, other: &Self) -> Result<()> {
        other.namespace.name_in(&self.namespace.store).map(drop)
    }
}

fn written<T>(namespace: &Namespace, writes_through: bool, write: impl FnOnce(&Namespace) -> T) -> T {
    let _syncs_later = writes_through.then(|| namespace.store.engine.inside(Held::Sync));
    write(namespace)
}

/// Carries out the writes of one store that wait.
fn take_writes(lane: &Arc<Lane>) {
    for _ in 0..TOGETHER {
        let Some(write) = lane.next() else { return };
        work_on(write);
    }
    let lane = lane.clone();
    CALLS.start(move || take_writes(&lane));
}
