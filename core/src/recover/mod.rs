//! From a file to a store: find the end of the log, tell a torn tail from damage, rebuild the index.
//!
//! The decisions are the table in `core/FORMAT.md`; [`follow`] and [`end`] take them. Recovery writes nothing: what it found out is said in the
//! header of the next segment, by the first append.

mod chain;
mod end;
mod evidence;
mod follow;
mod headers;
mod list;
mod replay;
mod standing;
mod start;
mod unlisted;

pub(crate) use chain::Chain;
#[cfg(feature = "salvage")]
pub(crate) use headers::{drop_inside, find_headers};
#[cfg(feature = "salvage")]
pub(crate) use list::read_segment_list;
pub(crate) use replay::rebuild;
pub(crate) use standing::standing;

/// What opening found, for those who want to know.
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
    /// The last writer had closed the store.
    pub clean: bool,
    /// Bytes behind the last whole commit that a crash left unfinished, in all segments, and that do not count. In a segment that had been used
    /// before, older leftovers count too.
    pub torn_bytes: u64,
    /// Where in the file they begin.
    pub torn_at: Option<u64>,
    /// Records of whole commits that check among these bytes, behind a place that does not. A power cut leaves such records when it tears what was
    /// not flushed; a damaged bit leaves them, too. They do not count, and their segments are kept for [`salvage`](crate::salvage) until
    /// [`Db::drop_stranded`](crate::Db::drop_stranded) gives them up, but for segments in which nothing stands that the log does not say, too:
    /// mostly copies that a compaction was making. Those of earlier unclean ends are counted as long as no checkpoint
    /// has come between: [`Db::verify`](crate::Db::verify) counts all.
    pub stranded_records: u64,
    /// Their bytes.
    pub stranded_bytes: u64,
    /// Where in the file the first of them begins.
    pub stranded_at: Option<u64>,
    /// What became of the index snapshot.
    pub snapshot: SnapshotState,
    /// Records replayed from the log.
    pub replayed_records: u64,
    /// Bytes of log read to replay them.
    pub replayed_bytes: u64,
    /// Where the log is damaged, if the index had to be rebuilt from it and does not know whose record that was: keys that nothing behind
    /// this place shows answer [`Error::Corrupt`](crate::Error::Corrupt), and compaction leaves what stands in front of it alone.
    pub unsure_at: Option<u64>,
    /// The list of segments at the newest checkpoint could not be read, and everything else could: it was made again from the headers of the
    /// segments and the index snapshot, and nothing is lost. The next write makes a new one due.
    pub damaged_list: bool,
    /// One of the two superblocks could not be read; the other one served.
    pub damaged_superblock: bool,
}

/// What became of the index snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotState {
    /// There was none.
    #[default]
    None,
    /// It was loaded.
    Loaded,
    /// It was damaged: the index was rebuilt from the log, and nothing is lost.
    Damaged,
}

#[cfg(test)]
mod tests;
