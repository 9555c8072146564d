//! Recovery: find the end of the log, tell a torn tail from damage, rebuild the index.
//!
//! The decisions are the table in `core/FORMAT.md`; [`follow`] and [`end`] make them. Recovery writes nothing: the first append records its
//! result in the header of the next segment.

mod advance;
mod chain;
mod end;
mod evidence;
mod follow;
mod headers;
mod list;
mod replay;
#[cfg(feature = "encrypt")]
mod sealed;
mod standing;
mod start;
mod unlisted;

pub(crate) use advance::{Advance, Advanced, News, Place, advance, is_gone};
pub(crate) use chain::Chain;
#[cfg(feature = "salvage")]
pub(crate) use headers::{drop_inside, find_headers};
#[cfg(feature = "salvage")]
pub(crate) use list::read_segment_list;
pub(crate) use replay::rebuild;
#[cfg(all(feature = "encrypt", feature = "salvage"))]
pub(crate) use sealed::enter_listed;
pub(crate) use standing::standing;

/// What opening found in the file: how the last session ended, what was recovered, and what is damaged.
///
/// ```
/// use pipkin::{Db, storage::MemoryStorage};
///
/// let file = MemoryStorage::new();
/// let db = Db::builder().open_storage(Box::new(file.clone()))?;
/// assert!(db.open_report().created);
/// db.insert("color", "green")?;
/// db.close()?;
/// let report = Db::builder().open_storage(Box::new(file))?.open_report().clone();
/// assert!(report.clean && report.torn_bytes == 0);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenReport {
    /// The file was new.
    pub created: bool,
    /// The last session that wrote had closed the store.
    pub clean: bool,
    /// Bytes after the last complete commit, in all segments, that a crash left unfinished; they are dropped. In a segment that had been
    /// used before, older leftovers are included.
    pub torn_bytes: u64,
    /// File offset at which these bytes begin.
    pub torn_at: Option<u64>,
    /// Number of stranded records: valid records of complete commits among these bytes, after a frame that is not valid. A power cut leaves
    /// them when it tears a write that was not flushed; a damaged bit leaves them, too. They are not in the store. Their segments are kept
    /// for [`salvage`](crate::salvage) until [`Db::drop_stranded`](crate::Db::drop_stranded) gives them up, except segments whose records
    /// the log has, too: mostly copies that a compaction was making. Records of earlier unclean ends are included only as long as no
    /// checkpoint has been written since: [`Db::verify`](crate::Db::verify) counts all.
    pub stranded_records: u64,
    /// Length of the stranded records in bytes.
    pub stranded_bytes: u64,
    /// File offset of the first stranded record.
    pub stranded_at: Option<u64>,
    /// What became of the index snapshot.
    pub snapshot: SnapshotState,
    /// Where the ordered index comes from.
    #[cfg(feature = "ordered")]
    pub order: OrderState,
    /// Records replayed from the log.
    pub replayed_records: u64,
    /// Bytes of log read to replay them.
    pub replayed_bytes: u64,
    /// File offset of damage in the log, if the index had to be rebuilt from the log and the damaged record's key is unknown: reads of keys
    /// without a record after this offset fail with [`Error::Corrupt`](crate::Error::Corrupt), and compaction skips the log before it.
    pub unsure_at: Option<u64>,
    /// The segment list of the newest checkpoint was damaged, and nothing else was: it was rebuilt from the headers of the
    /// segments and the index snapshot, and nothing is lost. The next write makes a new checkpoint due.
    pub damaged_list: bool,
    /// One of the two superblocks was damaged; the other one was used.
    pub damaged_superblock: bool,
    /// Milliseconds by which the host's clock is behind the latest expiry that the store has acted on: it was set back, or it was wrong
    /// before. Until it has caught up, the store's time stands still, and what has expired stays expired. See
    /// [`Db::reset_clock`](crate::Db::reset_clock).
    pub clock_behind_ms: u64,
    /// Milliseconds by which the host's clock is ahead of that, if it is more than a day: usual after a pause, and a sign of a wrong clock
    /// otherwise. 0 in a store without records that expire.
    pub clock_ahead_ms: u64,
    /// A rotation of the key, the sealing of a plain store, or the way back, has not finished: [`Db::finish_key_rotation`](crate::Db::finish_key_rotation) goes on
    /// with it.
    #[cfg(feature = "encrypt")]
    pub key_rotation_pending: bool,
    /// Whether reads go through io_uring; `None` if [`Builder::io_uring`](crate::Builder::io_uring) was not called.
    #[cfg(feature = "io-uring")]
    pub io_uring: Option<crate::storage::IoUringState>,
}

/// Where the [ordered index](crate::Builder::ordered) comes from.
#[cfg(feature = "ordered")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderState {
    /// The store was opened without it.
    #[default]
    None,
    /// From the index snapshot: opening read no keys. Those of some two thousand records are read when one of them is first needed.
    Loaded,
    /// The snapshot had none that could be used: opening read all keys. Closing the store writes one.
    Built,
}

/// What became of the index snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotState {
    /// There was no snapshot.
    #[default]
    None,
    /// The snapshot was loaded.
    Loaded,
    /// The snapshot was damaged: the index was rebuilt from the log, and nothing is lost.
    Damaged,
}

#[cfg(test)]
mod tests;
