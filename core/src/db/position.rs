//! Positions: they name the state of the store after a commit, also outside of the process and after it.

use super::handle::{Db, Namespace};
use crate::error::{Error, Result};
use crate::index::SHARDS;
use crate::log::{Contained, Placed};
use crate::storage::Durability;
use crate::store::Store;

/// The place of a commit in the history of a store: 16 bytes that stay valid when the store is compacted, opened again, or opened on another
/// host. A store that does not contain the commit (it was lost in a power cut, or made in another copy of the file, or the file is older)
/// answers [`PositionState::Unknown`].
///
/// Positions are handed out by the calls that end in `_with_position`, by [`Db::position`] and by [`Snapshot::position`](crate::Snapshot::position).
/// In the first of these calls of a session the log begins a new segment, unless the session has done so already: copies of a file that
/// are written on continue in the same segment, and only in a new one can their positions be told apart.
///
/// One exception, as for [`Version`](crate::Version): on a medium without room for another segment, a position of a commit that a power cut
/// took before it was flushed may come again.
///
/// ```
/// use pipkin::{Db, Position, PositionState};
///
/// let db = Db::open_in_memory()?;
/// let position = db.insert_with_position("color", "green")?;
/// let token = position.to_bytes(); // may be sent elsewhere, and kept
/// db.flush_to(Position::from_bytes(token))?;
/// assert_eq!(Db::open_in_memory()?.state_of(position), PositionState::Unknown);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// Log position after the last frame of the commit.
    lsn: u64,
    /// Salt of its segment, which no other segment has.
    salt: u64,
}

impl Position {
    pub(super) const fn new(lsn: u64, salt: u64) -> Self {
        Self { lsn, salt }
    }

    /// As bytes, to store or send.
    pub const fn to_bytes(self) -> [u8; 16] {
        ((self.salt as u128) << 64 | self.lsn as u128).to_le_bytes()
    }

    /// From the bytes that [`Self::to_bytes`] returned. No store contains the position of other bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let both = u128::from_le_bytes(bytes);
        Self { lsn: both as u64, salt: (both >> 64) as u64 }
    }
}

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
        let log = &self.store.engine.log;
        match log.contains(position.lsn, position.salt) {
            Contained::Yes if position.lsn <= log.sync_state.synced() => PositionState::Durable,
            Contained::Yes => PositionState::Appended,
            Contained::Gone => PositionState::Compacted,
            Contained::No => PositionState::Unknown,
        }
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
