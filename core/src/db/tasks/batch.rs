//! Commits of several records, and events.

use super::handle::AsyncNamespace;
use crate::db::batch_bytes::BatchBytes;
use crate::db::handle::Namespace;
use crate::error::{Error, Result};
use crate::position::Position;
use crate::ttl::Ttl;

/// Writes and removals that become one commit, across namespaces; from [`AsyncNamespace::batch`]. It owns what it is given.
///
/// See [`Batch`](crate::Batch).
///
/// ```
/// # let db = pipkin::Db::open_in_memory()?.to_async();
/// # futures_lite::future::block_on(async {
/// let log = db.namespace("log").await?;
/// db.batch().insert("new", "2").remove("old").insert_in(&log, "1", "renamed").commit().await?;
/// assert_eq!((db.len().await?, log.len().await?), (1, 1));
/// # Ok::<(), pipkin::Error>(())
/// # })?;
/// # Ok::<(), pipkin::Error>(())
/// ```
#[must_use = "a batch does nothing until `commit`"]
pub struct AsyncBatch {
    home: AsyncNamespace,
    ops: Vec<Op>,
    /// An operation named a namespace of another store.
    refused: Option<Error>,
}

/// A write or a removal.
struct Op {
    namespace: Namespace,
    key: Vec<u8>,
    /// `None` removes the key.
    value: Option<Vec<u8>>,
    ttl: Ttl,
}

impl std::fmt::Debug for AsyncBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncBatch").field("ops", &self.ops.len()).finish_non_exhaustive()
    }
}

impl AsyncNamespace {
    /// Begins an [`AsyncBatch`].
    pub fn batch(&self) -> AsyncBatch {
        AsyncBatch { home: self.clone(), ops: Vec::new(), refused: None }
    }
}

impl AsyncBatch {
    /// Stores a value.
    pub fn insert(self, key: impl BatchBytes<'static>, value: impl BatchBytes<'static>) -> Self {
        let (home, ttl) = (self.home.clone(), self.home.namespace.ttl);
        self.with(&home, key, Some(value.into_bytes().into_owned()), ttl)
    }

    /// Stores a value that lives so long.
    pub fn insert_with_ttl(self, key: impl BatchBytes<'static>, value: impl BatchBytes<'static>, ttl: impl Into<Ttl>) -> Self {
        let home = self.home.clone();
        self.with(&home, key, Some(value.into_bytes().into_owned()), ttl.into())
    }

    /// Removes a key.
    pub fn remove(self, key: impl BatchBytes<'static>) -> Self {
        let home = self.home.clone();
        self.with(&home, key, None, Ttl::Default)
    }

    /// Stores a value in another namespace.
    pub fn insert_in(self, namespace: &AsyncNamespace, key: impl BatchBytes<'static>, value: impl BatchBytes<'static>) -> Self {
        self.with(namespace, key, Some(value.into_bytes().into_owned()), namespace.namespace.ttl)
    }

    /// Stores a value in another namespace that lives so long.
    pub fn insert_in_with_ttl(
        self,
        namespace: &AsyncNamespace,
        key: impl BatchBytes<'static>,
        value: impl BatchBytes<'static>,
        ttl: impl Into<Ttl>,
    ) -> Self {
        self.with(namespace, key, Some(value.into_bytes().into_owned()), ttl.into())
    }

    /// Removes a key of another namespace.
    pub fn remove_in(self, namespace: &AsyncNamespace, key: impl BatchBytes<'static>) -> Self {
        self.with(namespace, key, None, Ttl::Default)
    }

    /// Writes all of it as one commit. A future that is dropped has written all of it or nothing.
    ///
    /// # Errors
    ///
    /// As [`Batch::commit`](crate::Batch::commit).
    pub async fn commit(self) -> Result<()> {
        self.write(|batch| batch.commit()).await
    }

    /// [`Self::commit`]; returns the position of the commit.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn commit_with_position(self) -> Result<Position> {
        self.write(|batch| batch.commit_with_position()).await
    }

    fn with(mut self, to: &AsyncNamespace, key: impl BatchBytes<'static>, value: Option<Vec<u8>>, ttl: Ttl) -> Self {
        match self.home.in_same_store(to) {
            Ok(()) => self.ops.push(Op { namespace: to.namespace.clone(), key: key.into_bytes().into_owned(), value, ttl }),
            Err(error) => self.refused = self.refused.or(Some(error)),
        }
        self
    }

    async fn write<T: Send + 'static>(self, commit: impl FnOnce(crate::Batch<'_>) -> Result<T> + Send + 'static) -> Result<T> {
        let Self { home, ops, refused } = self;
        if let Some(error) = refused {
            return Err(error);
        }
        let write = move |home: &Namespace| {
            let mut batch = home.batch();
            for Op { namespace, key, value, ttl } in &ops {
                batch = match value {
                    Some(value) => batch.insert_in_with_ttl(namespace, key, value, *ttl),
                    None => batch.remove_in(namespace, key),
                };
            }
            commit(batch)
        };
        let written = home.in_lane(write).await;
        home.settled(written).await
    }
}
