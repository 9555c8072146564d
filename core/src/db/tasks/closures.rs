//! Writes that a closure decides. It runs on a thread of the pool, with its key or its snapshot.

use super::handle::AsyncNamespace;
use super::pool::LONG;
use crate::db::transaction::Transaction;
use crate::error::{Error, Result};
use crate::position::Position;

impl AsyncNamespace {
    /// [`Namespace::update`](crate::Namespace::update).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?.to_async();
    /// # futures_lite::future::block_on(async {
    /// db.update("visits", |old| Some(vec![old.map_or(0, |old| old[0]) + 1])).await?;
    /// assert_eq!(db.get("visits").await?, Some(vec![1]));
    /// # Ok::<(), pipkin::Error>(())
    /// # })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn update(
        &self,
        key: impl AsRef<[u8]>,
        new: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<()> {
        let key = key.as_ref().to_vec();
        let written = self.on(&LONG, move |namespace| namespace.update(key, new)).await;
        self.settled(written).await
    }

    /// [`Namespace::try_update`](crate::Namespace::try_update).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn try_update<E: Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        new: impl FnOnce(Option<&[u8]>) -> Result<Option<Vec<u8>>, E> + Send + 'static,
    ) -> Result<Result<(), E>> {
        let key = key.as_ref().to_vec();
        let written = self.on(&LONG, move |namespace| namespace.try_update(key, new)).await;
        self.settled(written).await
    }

    /// [`Namespace::modify`](crate::Namespace::modify).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn modify<T: Send + 'static, E: Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        body: impl FnOnce(&mut Option<Vec<u8>>) -> Result<T, E> + Send + 'static,
    ) -> Result<Result<T, E>> {
        let key = key.as_ref().to_vec();
        let written = self.on(&LONG, move |namespace| namespace.modify(key, body)).await;
        self.settled(written).await
    }

    /// [`Namespace::get_or_insert_with`](crate::Namespace::get_or_insert_with).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn get_or_insert_with<V: AsRef<[u8]>>(
        &self,
        key: impl AsRef<[u8]>,
        value: impl FnOnce() -> V + Send + 'static,
    ) -> Result<Vec<u8>> {
        let key = key.as_ref().to_vec();
        let written = self.on(&LONG, move |namespace| namespace.get_or_insert_with(key, value)).await;
        self.settled(written).await
    }

    /// [`Namespace::transaction`](crate::Namespace::transaction). Its closure may block, but must not wait for a task that needs this store;
    /// [`Self::begin`] is for transactions across awaits.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?.to_async();
    /// # futures_lite::future::block_on(async {
    /// let moved = db.transaction(|tx| {
    ///     let coins = tx.get("ada")?.unwrap_or_default();
    ///     tx.insert("bob", &coins)?;
    ///     tx.remove("ada")
    /// });
    /// assert!(!moved.await?);
    /// # Ok::<(), pipkin::Error>(())
    /// # })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn transaction<T: Send + 'static>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.try_transaction(body).await
    }

    /// [`Namespace::transaction_with_position`](crate::Namespace::transaction_with_position).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn transaction_with_position<T: Send + 'static>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Result<(T, Position)> {
        let written = self.on(&LONG, move |namespace| namespace.transaction_with_position(body)).await;
        self.settled(written).await
    }

    /// [`Namespace::try_transaction`](crate::Namespace::try_transaction).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn try_transaction<T: Send + 'static, E: From<Error> + Send + 'static>(
        &self,
        body: impl FnMut(&mut Transaction) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let answer = self.on(&LONG, move |namespace| namespace.try_transaction(body)).await?;
        self.settled(Ok(())).await?;
        Ok(answer)
    }
}
