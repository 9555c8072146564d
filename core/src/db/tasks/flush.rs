//! Syncs that tasks share.

use super::handle::{AsyncDb, AsyncNamespace};
use super::pool::SYNCS;
use crate::db::handle::Open;
use crate::db::position::PositionState;
use crate::error::{Error, Result};
use crate::position::Position;
use crate::storage::Durability;
use crate::store::{FlushPolicy, Rounds};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

/// A thread that syncs for one store lets others go first after so many rounds.
const ROUNDS_TOGETHER: usize = 16;

impl AsyncDb {
    /// [`Db::flush`](crate::Db::flush). However many tasks wait, they share one sync and cost no thread; those that come while it runs share the next
    /// one. Returns at once if a sync has covered everything. With [`FlushPolicy::OnEachFlush`] each call runs a sync of its own.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?.to_async();
    /// # futures_lite::future::block_on(async {
    /// db.insert("color", "green").await?;
    /// db.flush().await?;
    /// # Ok::<(), pipkin::Error>(())
    /// # })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn flush(&self) -> Result<Durability> {
        self.synced().await
    }

    /// [`Db::flush_to`](crate::Db::flush_to). Shares syncs as [`Self::flush`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn flush_to(&self, position: Position) -> Result<Durability> {
        match self.state_of(position).await {
            PositionState::Unknown => Err(Error::UnknownPosition),
            PositionState::Durable => self.call(move |namespace| namespace.db().flush_to(position)).await,
            PositionState::Appended | PositionState::Compacted => self.synced().await,
        }
    }
}

#[cfg(feature = "encrypt")]
impl AsyncDb {
    /// [`Db::anchor`](crate::Db::anchor). Shares syncs as [`Self::flush`] does.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn anchor(&self) -> Result<Position> {
        let position = self.position().await?;
        self.flush_to(position).await?;
        Ok(position)
    }
}

impl AsyncNamespace {
    /// Waits for a sync of everything that has been written.
    pub(super) async fn synced(&self) -> Result<Durability> {
        let store = &self.namespace.store;
        if self.must_stay() {
            return store.flush();
        }
        if store.options.flush_policy == FlushPolicy::OnEachFlush {
            return self.on(&SYNCS, |namespace| namespace.store.flush()).await;
        }
        if let Some(achieved) = store.engine.log.synced_already() {
            return Ok(achieved);
        }
        let (mut joined, is_unserved) = store.rounds.join();
        if is_unserved {
            let (rounds, store) = (store.rounds.clone(), Arc::downgrade(store));
            SYNCS.start(move || serve(&rounds, &store));
        }
        poll_fn(|cx| joined.poll(cx)).await
    }
}

/// Syncs for those who wait until nobody does. Keeps no store open.
fn serve(rounds: &Arc<Rounds>, store: &Weak<Open>) {
    for _ in 0..ROUNDS_TOGETHER {
        let Some(round) = rounds.begin() else { return };
        let sync = || store.upgrade().map_or(Err(Error::Closed), |store| store.flush());
        // A storage is code of others.
        round.end(catch_unwind(AssertUnwindSafe(sync)).unwrap_or(Err(Error::Bug("the sync of a storage has panicked"))));
    }
    let (rounds, store) = (rounds.clone(), store.clone());
    SYNCS.start(move || serve(&rounds, &store));
}
