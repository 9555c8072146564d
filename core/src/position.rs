//! The place of a commit in the log, as callers hold it.

/// The place of a commit in the history of a store: 16 bytes that stay valid when the store is compacted, opened again, or opened on another
/// host. A store that does not contain the commit (it was lost in a power cut, or made in another copy of the file, or the file is older)
/// answers [`PositionState::Unknown`](crate::PositionState::Unknown).
///
/// Positions are handed out by the calls that end in `_with_position`, by [`Db::position`](crate::Db::position) and by
/// [`Snapshot::position`](crate::Snapshot::position). In the first of these calls of a session the log begins a new segment, unless the session has done so already: copies of a file that
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
    pub(crate) lsn: u64,
    /// Salt of its segment, which no other segment has.
    pub(crate) salt: u64,
}

impl Position {
    /// The position before everything: every store contains it, and [changes](crate::Db::changes) from there are all that there ever were, as
    /// long as none has been compacted away.
    pub const START: Self = Self { lsn: 0, salt: 0 };

    pub(crate) const fn new(lsn: u64, salt: u64) -> Self {
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
