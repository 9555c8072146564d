//! Positions: they name the state of the store after a commit, also outside of the process and after it.

use super::handle::{Db, Namespace};
use crate::error::{Error, Result};
use crate::index::SHARDS;
use crate::log::{Contained, Placed};
use crate::position::Position;
use crate::storage::Durability;
use crate::store::Store;

/// What a store knows about a [`Position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PositionState {
    /// The store contains the commit, and everything up to it survives a power cut.
    Durable,
    /// The store contains the commit; it was not flushed yet.
    Appended,
    /// Compaction has freed that part of the log: it can no longer tell whether the commit was made in this file.
    Compacted,
    /// The store does not contain the commit.
    Unknown,
}

impl Namespace {
    /// Like [`Self::insert`]; returns the position of the commit.
    pub fn insert_with_position(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Position> {
        let store = &self.store;
        store.engine.log.make_positions_unique()?;
        store.insert(self, self.ttl, key.as_ref(), value.as_ref(), &|placed| store.position_of(placed))
    }

    /// Like [`Self::remove`]; returns the position of the commit, or `None` if the key was not there.
    pub fn remove_with_position(&self, key: impl AsRef<[u8]>) -> Result<Option<Position>> {
        let store = &self.store;
        store.engine.log.make_positions_unique()?;
        store.remove(&self.name, key.as_ref(), &|placed| placed.map(|placed| store.position_of(placed)))
    }
}

impl Db {
    /// The position of what is visible: every read that begins later sees everything before it.
    ///
    /// # Errors
    ///
    /// [`Error::Nested`] inside the closure of an update. If the session has written something and handed out no position so far, those of
    /// a write, too.
    pub fn position(&self) -> Result<Position> {
        self.store.position()
    }

    /// What this store knows about a position.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let position = db.insert_with_position("color", "green")?;
    /// assert_eq!(db.state_of(position), pipkin::PositionState::Appended);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn state_of(&self, position: Position) -> PositionState {
        self.store.contains_position(position)
    }

    /// Makes everything up to a position as durable as the host can; returns how durable that is. Runs no sync if an earlier one has covered
    /// the position, and shares one with other callers that wait.
    ///
    /// # Errors
    ///
    /// [`Error::UnknownPosition`] when the store does not contain it; those of [`Db::flush`].
    pub fn flush_to(&self, position: Position) -> Result<Durability> {
        match self.state_of(position) {
            PositionState::Unknown => Err(Error::UnknownPosition),
            _ => self.store.engine.log.sync_to(position.lsn),
        }
    }
}

impl Store {
    pub(super) fn contains_position(&self, position: Position) -> PositionState {
        let log = &self.engine.log;
        match log.contains(position.lsn, position.salt) {
            Contained::Yes if position.lsn <= log.sync_state.synced() => PositionState::Durable,
            Contained::Yes => PositionState::Appended,
            Contained::Gone => PositionState::Compacted,
            Contained::No => PositionState::Unknown,
        }
    }

    /// The position after a frame. The caller holds the frame's shard, so that its segment cannot be freed.
    pub(super) fn position_of(&self, placed: Placed) -> Position {
        let (lsn, salt) = self.engine.log.end_of(placed);
        Position { lsn, salt }
    }

    pub(super) fn position(&self) -> Result<Position> {
        let log = &self.engine.log;
        let mut end = log.at_the_end(|end| end);
        if !end.is_unique {
            log.make_positions_unique()?;
            end = log.at_the_end(|end| end);
        }
        // Every commit before it holds its shards until it is published.
        (0..SHARDS).try_for_each(|shard| self.engine.lock_shard(shard).map(drop))?;
        Ok(Position { lsn: end.lsn, salt: end.salt })
    }
}
