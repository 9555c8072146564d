//! Calls about the whole store. Each is carried out by a thread of the pool; what takes long goes apart.

use super::handle::AsyncDb;
use super::pool::LONG;
use crate::db::backup::BackupReport;
use crate::db::consumer::ConsumerState;
use crate::db::position::PositionState;
use crate::db::stats::{SegmentUse, Stats};
use crate::error::Result;
use crate::maintenance::{CompactProgress, CompactReport};
use crate::position::Position;
use crate::verify::VerifyReport;
use std::path::Path;

impl AsyncDb {
    /// [`Db::drop_namespace`](crate::Db::drop_namespace).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn drop_namespace(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        let written = self.in_lane(move |namespace| namespace.db().drop_namespace(&name)).await;
        self.settled(written).await
    }

    /// [`Db::list_namespaces`](crate::Db::list_namespaces).
    pub async fn list_namespaces(&self) -> Vec<String> {
        self.call(|namespace| namespace.db().list_namespaces()).await
    }

    /// [`Db::position`](crate::Db::position).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn position(&self) -> Result<Position> {
        self.call(|namespace| namespace.db().position()).await
    }

    /// [`Db::state_of`](crate::Db::state_of).
    pub async fn state_of(&self, position: Position) -> PositionState {
        self.call(move |namespace| namespace.db().state_of(position)).await
    }

    /// [`Db::checkpoint`](crate::Db::checkpoint).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn checkpoint(&self) -> Result<()> {
        self.on(&LONG, |namespace| namespace.db().checkpoint()).await
    }

    /// [`Db::compact`](crate::Db::compact).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn compact(&self) -> Result<CompactReport> {
        self.on(&LONG, |namespace| namespace.db().compact()).await
    }

    /// [`Db::compact_step`](crate::Db::compact_step).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn compact_step(&self) -> Result<Option<CompactReport>> {
        self.on(&LONG, |namespace| namespace.db().compact_step()).await
    }

    /// [`Db::drop_stranded`](crate::Db::drop_stranded).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn drop_stranded(&self) -> Result<CompactReport> {
        self.on(&LONG, |namespace| namespace.db().drop_stranded()).await
    }

    /// [`Db::sweep_expired`](crate::Db::sweep_expired).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn sweep_expired(&self) -> Result<u64> {
        self.on(&LONG, |namespace| namespace.db().sweep_expired()).await
    }

    /// [`Db::reset_clock`](crate::Db::reset_clock).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn reset_clock(&self) -> Result<u64> {
        self.on(&LONG, |namespace| namespace.db().reset_clock()).await
    }

    /// [`Db::stats`](crate::Db::stats).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn stats(&self) -> Result<Stats> {
        self.call(|namespace| namespace.db().stats()).await
    }

    /// [`Db::segments`](crate::Db::segments).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn segments(&self) -> Result<Vec<SegmentUse>> {
        self.call(|namespace| namespace.db().segments()).await
    }

    /// [`Db::verify`](crate::Db::verify).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn verify(&self) -> Result<VerifyReport> {
        self.on(&LONG, |namespace| namespace.db().verify()).await
    }

    /// [`Db::backup_to`](crate::Db::backup_to).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn backup_to(&self, path: impl AsRef<Path>) -> Result<BackupReport> {
        let path = path.as_ref().to_path_buf();
        self.on(&LONG, move |namespace| namespace.db().backup_to(&path)).await
    }

    /// [`Db::consumers`](crate::Db::consumers).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn consumers(&self) -> Result<Vec<ConsumerState>> {
        self.call(|namespace| namespace.db().consumers()).await
    }

    /// [`Db::remove_consumer`](crate::Db::remove_consumer).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn remove_consumer(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        let written = self.in_lane(move |namespace| namespace.db().remove_consumer(&name)).await;
        self.settled(written).await
    }

    /// [`Db::refresh`](crate::Db::refresh).
    ///
    /// # Errors
    ///
    /// As there.
    #[cfg(feature = "followers")]
    pub async fn refresh(&self) -> Result<bool> {
        self.on(&LONG, |namespace| namespace.db().refresh()).await
    }

    /// [`Db::compact_with`](crate::Db::compact_with). `progress` is called in a thread of the pool.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn compact_with(&self, progress: impl FnMut(CompactProgress) + Send + 'static) -> Result<CompactReport> {
        self.on(&LONG, move |namespace| namespace.db().compact_with(progress)).await
    }

    /// Waits until there is something new, as [`Db::refresh_within`](crate::Db::refresh_within) does, in a thread of the pool for as long.
    ///
    /// # Errors
    ///
    /// As there.
    #[cfg(feature = "followers")]
    pub async fn refresh_within(&self, timeout: std::time::Duration) -> Result<bool> {
        self.on(&LONG, move |namespace| namespace.db().refresh_within(timeout)).await
    }
}
