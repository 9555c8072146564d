//! Snapshots.

use super::elsewhere::Elsewhere;
use super::handle::{AsyncDb, AsyncNamespace};
use crate::db::handle::Db;
use crate::db::snapshot::{Snapshot, SnapshotNamespace};
use crate::error::Result;
use crate::position::Position;
use std::fmt;
use std::sync::Arc;

/// The store as it is at one moment, or one of its namespaces, for async code: see [`Snapshot`]. From [`AsyncDb::snapshot`].
///
/// ```
/// # let db = pipkin::Db::open_in_memory()?.to_async();
/// # futures_lite::future::block_on(async {
/// db.insert("color", "green").await?;
/// let before = db.snapshot().await?;
/// db.insert("color", "red").await?;
/// assert_eq!(before.get("color").await?.as_deref(), Some(&b"green"[..]));
/// # Ok::<(), pipkin::Error>(())
/// # })?;
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncSnapshot {
    pub(super) at: SnapshotNamespace,
    snapshot: Snapshot,
    // Last: in this order they end the snapshot and close the store.
    _ends: Arc<Elsewhere<Snapshot>>,
    pub(super) home: AsyncNamespace,
}

impl fmt::Debug for AsyncSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncSnapshot").field(&self.snapshot).finish()
    }
}

impl AsyncDb {
    /// [`Db::snapshot`].
    ///
    /// # Errors
    ///
    /// Those of reading where the default namespace is.
    pub async fn snapshot(&self) -> Result<AsyncSnapshot> {
        let take = |namespace: &crate::Namespace| {
            let snapshot = Db::snapshot(&namespace.db());
            // Looked up here, so that no read waits for that.
            snapshot.default_namespace().number().map(|_| snapshot)
        };
        let snapshot = self.call(take).await?;
        Ok(AsyncSnapshot::of(snapshot, &self.default_namespace()))
    }
}

impl AsyncSnapshot {
    pub(super) fn of(snapshot: Snapshot, home: &AsyncNamespace) -> Self {
        let ends = Arc::new(Elsewhere::new(snapshot.clone()));
        Self { at: snapshot.default_namespace(), snapshot, _ends: ends, home: home.clone() }
    }

    /// [`Snapshot::namespace`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn namespace(&self, name: &str) -> Result<Option<Self>> {
        let (snapshot, name) = (self.snapshot.clone(), name.to_owned());
        let at = self.home.call(move |_| snapshot.namespace(&name)).await?;
        Ok(at.map(|at| Self { at, ..self.clone() }))
    }

    /// [`Snapshot::list_namespaces`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn list_namespaces(&self) -> Result<Vec<String>> {
        let snapshot = self.snapshot.clone();
        self.home.call(move |_| snapshot.list_namespaces()).await
    }

    /// [`Snapshot::position`].
    pub fn position(&self) -> Option<Position> {
        self.snapshot.position()
    }

    /// The snapshot itself, whose calls block.
    pub fn to_sync(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// [`SnapshotNamespace::get`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        if self.reads_at_once(key.as_ref()) {
            return self.at.get(key);
        }
        let key = key.as_ref().to_vec();
        self.read(move |at| at.get(key)).await
    }

    /// [`SnapshotNamespace::contains_key`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        if self.reads_at_once(key.as_ref()) {
            return self.at.contains_key(key);
        }
        let key = key.as_ref().to_vec();
        self.read(move |at| at.contains_key(key)).await
    }

    /// [`SnapshotNamespace::get_many`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|key| key.as_ref().to_vec()).collect();
        self.read(move |at| at.get_many(keys)).await
    }

    /// [`SnapshotNamespace::len`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn len(&self) -> Result<u64> {
        self.read(SnapshotNamespace::len).await
    }

    /// [`SnapshotNamespace::is_empty`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn is_empty(&self) -> Result<bool> {
        self.read(SnapshotNamespace::is_empty).await
    }

    /// [`SnapshotNamespace::expires_at`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn expires_at(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        let key = key.as_ref().to_vec();
        self.read(move |at| at.expires_at(key)).await
    }

    async fn read<T: Send + 'static>(&self, read: impl FnOnce(&SnapshotNamespace) -> T + Send + 'static) -> T {
        let at = self.at.clone();
        self.home.call(move |_| read(&at)).await
    }

    fn reads_at_once(&self, key: &[u8]) -> bool {
        let store = &self.home.namespace.store;
        self.home.must_stay()
            || self.at.number().is_ok_and(|number| store.reads_at_once_at(number, key, self.at.taken.moment.position))
    }
}
