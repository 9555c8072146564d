//! What changes: the commits of the log behind a position, whole and in order. [`reader`] reads them; the copies that compaction makes are
//! no changes.

mod merge;
mod reader;

pub(crate) use merge::merged;
pub(crate) use reader::{Item, Reader};

use crate::position::Position;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What a commit has done to one key or one namespace.
///
/// ```
/// use pipkin::{Change, Db};
///
/// let db = Db::open_in_memory()?;
/// let mut changes = db.changes().start()?;
/// db.batch().insert("color", "green").remove("shape").insert("size", "7").commit()?;
/// db.flush()?;
/// let commit = changes.try_next()?.expect("one commit is durable");
/// for change in commit.changes() {
///     match change {
///         Change::Put { key, value, .. } => println!("{key:?} is {value:?}"),
///         Change::Remove { key, .. } => println!("{key:?} is gone"),
///         other => println!("all of {:?} is gone", other.namespace()),
///     }
/// }
/// # assert_eq!(commit.changes().len(), 2); // there was no shape
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A key has this value from here on.
    Put {
        /// Name of its namespace; empty for the default one.
        namespace: Arc<str>,
        /// The key.
        key: Vec<u8>,
        /// Its value.
        value: Vec<u8>,
        /// When it expires, in milliseconds since 1970; `None` if it never does. That it has expired is no change, and in no commit.
        expires_at: Option<u64>,
    },
    /// A key has no value from here on.
    Remove {
        /// Name of its namespace; empty for the default one.
        namespace: Arc<str>,
        /// The key.
        key: Vec<u8>,
    },
    /// A namespace is empty from here on: it was cleared, or created.
    Clear {
        /// Its name; empty for the default one.
        namespace: Arc<str>,
    },
    /// A namespace is gone, with all its records.
    Drop {
        /// Its name.
        namespace: Arc<str>,
    },
}

impl Change {
    /// The namespace that it is about; empty for the default one.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Put { namespace, .. }
            | Self::Remove { namespace, .. }
            | Self::Clear { namespace }
            | Self::Drop { namespace } => namespace,
        }
    }

    /// The key, if it is about one key.
    pub fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Put { key, .. } | Self::Remove { key, .. } => Some(key),
            Self::Clear { .. } | Self::Drop { .. } => None,
        }
    }
}

/// One commit: everything that one call, [`Batch`](crate::Batch) or [`Transaction`](crate::Transaction) has changed, as far as it was asked
/// for, in the order of its writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    changes: Vec<Change>,
    position: Position,
    comes_again: bool,
}

impl Commit {
    pub(crate) const fn new(changes: Vec<Change>, position: Position, comes_again: bool) -> Self {
        Self { changes, position, comes_again }
    }

    /// The memory that its changes take, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let bytes = |change: &Change| match change {
            Change::Put { key, value, .. } => key.capacity() + value.capacity(),
            Change::Remove { key, .. } => key.capacity(),
            Change::Clear { .. } | Change::Drop { .. } => 0,
        };
        self.changes.capacity() * size_of::<Change>() + self.changes.iter().map(bytes).sum::<usize>()
    }

    /// What it has changed.
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// What it has changed, to keep.
    pub fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// Where it is: [`ChangesBuilder::from`](crate::ChangesBuilder::from) continues after it.
    ///
    /// A commit that its session has written before anybody asked for a [position](Position) has none that a copy of the file could not have,
    /// too: it gets the position before all of these, from where they come again.
    pub const fn position(&self) -> Position {
        self.position
    }

    /// True for a commit without a position of its own: from [`Self::position`] on it comes again.
    pub const fn comes_again(&self) -> bool {
        self.comes_again
    }
}
