//! Why a transaction could not be committed.

use core::fmt;

/// What has come between a transaction and its commit: the kind of an [`Error::Conflict`](crate::Error::Conflict). Whichever it is, nothing was
/// written, and the transaction may be run again.
///
/// ```
/// use pipkin::{Conflict, Error};
///
/// # let db = pipkin::Db::open_in_memory()?;
/// let mut sale = db.begin()?;
/// let stock = sale.get("stock")?.map_or(5, |stock| stock[0]);
/// sale.insert("stock", [stock - 1])?;
/// db.insert("stock", [0])?; // somebody else was faster
/// assert!(matches!(sale.commit(), Err(Error::Conflict(Conflict::Key))));
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Conflict {
    /// A key that it had read was written or removed.
    Key,
    /// In a range that it had read, or in a namespace that it had walked through, a record was written or removed.
    Range,
    /// A namespace in which it had read was cleared, dropped or created, or its records were given another default lifetime.
    Namespace,
    /// A record that it had read has [expired](crate::Ttl) since.
    Expired,
    /// It lasted so long that more was written than [is remembered](crate::limits::RECENT_BYTES_MAX). Begin later, or write less meanwhile.
    TooManyWrites,
    /// Its snapshot was ended, because the store needed the space of what that had kept, see
    /// [`Builder::snapshot_limit`](crate::Builder::snapshot_limit).
    SnapshotEnded,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "another writer changed a key that this transaction had read",
            Self::Range => "another writer changed records in a range that this transaction had read",
            Self::Namespace => {
                "a namespace in which this transaction had read was cleared, dropped, created or given another default"
            }
            Self::Expired => "a record that this transaction had read has expired",
            Self::TooManyWrites => "more was written while this transaction ran than is remembered for its check",
            Self::SnapshotEnded => {
                "the snapshot of this transaction was ended, because the store needed the space of what it had kept"
            }
        })
    }
}
