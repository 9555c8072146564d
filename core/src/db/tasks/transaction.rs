//! Transactions across awaits.

use super::elsewhere::Elsewhere;
use super::handle::AsyncNamespace;
use crate::db::transaction::Transaction;
use crate::error::{Error, Result};
use crate::position::Position;
use crate::storage::Durability;
use crate::ttl::Ttl;
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often [`AsyncNamespace::transact`] runs its body.
const ATTEMPTS_MAX: usize = 100;
/// After so many of them the tasks whose bodies run again take turns.
const ATTEMPTS_BESIDE_OTHERS: usize = 10;
const OVER: &str = "this transaction has been committed or rolled back; begin another one";

/// A transaction that lives across awaits: see [`Transaction`]. From [`AsyncNamespace::begin`] and [`AsyncNamespace::transact`].
///
/// A clone is a handle to the same transaction. Dropped without a commit, it has written nothing; a commit whose future is dropped is whole, or
/// not there.
///
/// ```
/// # let db = pipkin::Db::open_in_memory()?.to_async();
/// # futures_lite::future::block_on(async {
/// let tx = db.begin().await?;
/// let coins = tx.get("ada").await?.map_or(0, |coins| coins[0]);
/// tx.insert("ada", [coins + 1]).await?;
/// tx.commit().await?;
/// # Ok::<(), pipkin::Error>(())
/// # })?;
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "a transaction writes nothing until `commit`"]
pub struct AsyncTransaction {
    shared: Shared,
    // Last: in this order they end the transaction and close the store.
    _ends: Arc<Elsewhere<Shared>>,
    home: AsyncNamespace,
}

/// `None` once it is over.
type Shared = Arc<Mutex<Option<Transaction>>>;

fn locked(shared: &Shared) -> MutexGuard<'_, Option<Transaction>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for AsyncTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncTransaction").finish_non_exhaustive()
    }
}

impl AsyncNamespace {
    /// [`Namespace::begin`](crate::Namespace::begin).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn begin(&self) -> Result<AsyncTransaction> {
        let transaction = self.call(crate::Namespace::begin).await?;
        let shared: Shared = Arc::new(Mutex::new(Some(transaction)));
        Ok(AsyncTransaction { _ends: Arc::new(Elsewhere::new(shared.clone())), shared, home: self.clone() })
    }

    /// Runs an async body in a transaction and commits it; again, at most 100 times, when others have written what it had read. Whatever else the
    /// body does, it does each time. From the 11th time on such bodies take turns, so one must not wait for another `transact` of this store. Other writers
    /// are not held up: [`Self::transaction`] is for keys that those write without pause.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?.to_async();
    /// # futures_lite::future::block_on(async {
    /// let count = db.transact(|tx| async move {
    ///     let count = tx.get("count").await?.map_or(0, |count| count[0]) + 1;
    ///     tx.insert("count", [count]).await?;
    ///     Ok::<_, pipkin::Error>(count)
    /// });
    /// assert_eq!(count.await?, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// # })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Namespace::try_transaction`](crate::Namespace::try_transaction).
    pub async fn transact<T, E: From<Error>, F: Future<Output = Result<T, E>>>(
        &self,
        mut body: impl FnMut(AsyncTransaction) -> F,
    ) -> Result<T, E> {
        let (mut attempt, mut turn) = (1, None);
        loop {
            if attempt > ATTEMPTS_BESIDE_OTHERS && turn.is_none() {
                let ticket = self.namespace.store.overtaken.queue_up();
                poll_fn(|cx| ticket.poll(cx)).await;
                turn = Some(ticket);
            }
            let transaction = self.begin().await?;
            match body(transaction.clone()).await {
                Ok(answer) => match transaction.commit().await {
                    Err(Error::Conflict(_)) if attempt < ATTEMPTS_MAX => {}
                    committed => return Ok(committed.map(|()| answer)?),
                },
                // Its reads had failed for want of the snapshot.
                Err(_) if transaction.has_ended() && attempt < ATTEMPTS_MAX => {}
                Err(error) => return Err(error),
            }
            attempt += 1;
        }
    }
}

impl AsyncTransaction {
    /// [`Transaction::get`].
    ///
    /// # Errors
    ///
    /// As there; [`Error::InvalidArgument`] once it is over.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.with(move |tx| tx.get(key)).await
    }

    /// [`Transaction::get_many`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::get`].
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|key| key.as_ref().to_vec()).collect();
        self.with(move |tx| tx.get_many(keys)).await
    }

    /// [`Transaction::contains_key`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::get`].
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref().to_vec();
        self.with(move |tx| tx.contains_key(key)).await
    }

    /// [`Transaction::get_in`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::get`].
    pub async fn get_in(&self, namespace: &AsyncNamespace, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let (namespace, key) = (namespace.namespace.clone(), key.as_ref().to_vec());
        self.with(move |tx| tx.get_in(&namespace, key)).await
    }

    /// [`Transaction::insert`]: into memory.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get`].
    pub async fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.write(move |tx| tx.insert(key, value)).await
    }

    /// [`Transaction::insert_with_ttl`]: into memory.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get`].
    pub async fn insert_with_ttl(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: impl Into<Ttl>) -> Result<()> {
        let (key, value, ttl) = (key.as_ref().to_vec(), value.as_ref().to_vec(), ttl.into());
        self.write(move |tx| tx.insert_with_ttl(key, value, ttl)).await
    }

    /// [`Transaction::insert_in`]: into memory.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get`].
    pub async fn insert_in(&self, namespace: &AsyncNamespace, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (namespace, key, value) = (namespace.namespace.clone(), key.as_ref().to_vec(), value.as_ref().to_vec());
        self.write(move |tx| tx.insert_in(&namespace, key, value)).await
    }

    /// [`Transaction::remove`]; the key counts as read.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get`].
    pub async fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref().to_vec();
        self.with(move |tx| tx.remove(key)).await
    }

    /// [`Transaction::remove_in`]; the key counts as read.
    ///
    /// # Errors
    ///
    /// Those of [`Self::get`].
    pub async fn remove_in(&self, namespace: &AsyncNamespace, key: impl AsRef<[u8]>) -> Result<bool> {
        let (namespace, key) = (namespace.namespace.clone(), key.as_ref().to_vec());
        self.with(move |tx| tx.remove_in(&namespace, key)).await
    }

    /// Has a thread of the pool call `work` with the transaction: for ranges, savepoints, events, and everything else.
    ///
    /// # Errors
    ///
    /// Those of `work`; [`Error::InvalidArgument`] once it is over.
    pub async fn with<T: Send + 'static>(&self, work: impl FnOnce(&mut Transaction) -> Result<T> + Send + 'static) -> Result<T> {
        let shared = self.shared.clone();
        let work = move |_: &crate::Namespace| work(locked(&shared).as_mut().ok_or(Error::InvalidArgument(OVER))?);
        self.home.on(&super::pool::LONG, work).await
    }

    /// [`Transaction::commit`]; with a [durable](AsyncNamespace::durable) handle durable when this returns.
    ///
    /// # Errors
    ///
    /// As there; [`Error::InvalidArgument`] once it is over.
    pub async fn commit(&self) -> Result<()> {
        let committed = self.end(Transaction::commit).await;
        self.home.settled(committed).await
    }

    /// [`Transaction::commit_with_position`].
    ///
    /// # Errors
    ///
    /// Those of [`Self::commit`].
    pub async fn commit_with_position(&self) -> Result<Position> {
        let committed = self.end(Transaction::commit_with_position).await;
        self.home.settled(committed).await
    }

    /// [`Self::commit`], and a sync that it shares with others; returns how durable the commit is.
    ///
    /// # Errors
    ///
    /// Those of [`Self::commit`]. When the flush fails, the commit may be there.
    pub async fn commit_durably(&self) -> Result<Durability> {
        self.end(Transaction::commit).await?;
        self.home.synced().await
    }

    /// Drops all writes.
    pub async fn rollback(&self) {
        // What is over has nothing to drop.
        let rollback = |tx: Transaction| {
            tx.rollback();
            Ok(())
        };
        let _ = self.end(rollback).await;
    }

    async fn end<T: Send + 'static>(&self, end: impl FnOnce(Transaction) -> Result<T> + Send + 'static) -> Result<T> {
        let shared = self.shared.clone();
        let end = move |_: &crate::Namespace| {
            let transaction = locked(&shared).take();
            end(transaction.ok_or(Error::InvalidArgument(OVER))?)
        };
        self.home.in_lane(end).await
    }

    /// Writes into memory, here if nobody uses the transaction.
    async fn write(&self, write: impl FnOnce(&mut Transaction) -> Result<()> + Send + 'static) -> Result<()> {
        if let Ok(mut transaction) = self.shared.try_lock() {
            return write(transaction.as_mut().ok_or(Error::InvalidArgument(OVER))?);
        }
        self.with(write).await
    }

    /// Its snapshot was ended: reads answer a conflict.
    fn has_ended(&self) -> bool {
        locked(&self.shared).as_ref().is_some_and(Transaction::has_ended)
    }
}
