//! Explicit compaction and checkpoints.

use super::handle::Db;
use crate::error::Result;
use crate::maintenance::{CompactProgress, CompactReport};
use crate::nested::Held;

impl Db {
    /// Writes an index snapshot, so that the next open has nothing to replay. That also happens automatically from time to time, and when a
    /// store with much to replay is closed.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many((0..1000_u32).map(|n| (n.to_le_bytes(), "value")))?; // a large load
    /// db.checkpoint()?; // the next open is fast, however this process ends
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`](crate::Error::NoSpace) when there is no room for a snapshot: the segment list was written if there was room for
    /// that, and nothing is lost. [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Closed`](crate::Error::Closed),
    /// [`Error::Poisoned`](crate::Error::Poisoned), and [`Error::Corrupt`](crate::Error::Corrupt) when a part of the index cannot be built.
    pub fn checkpoint(&self) -> Result<()> {
        self.store.seen(self.store.checkpoint())
    }
}

impl Db {
    /// Compacts every segment with enough dead bytes to be worth copying, at least a sixty-fourth, and returns the space at the end of the
    /// file to the host. Reads and writes continue meanwhile.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::builder().segment_size(64 * 1024).in_memory()?;
    /// for round in 0..8 {
    ///     db.insert_many((0..1000_u32).map(|n| (n.to_le_bytes(), [round; 100])))?;
    /// }
    /// let before = db.stats()?.file_bytes;
    /// assert!(db.compact()?.bytes_freed > 0);
    /// assert!(db.stats()?.file_bytes < before);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::checkpoint`]; also [`Error::NoSpace`](crate::Error::NoSpace) when there is no room for copies of the live records, and
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the names of the namespaces do not match their records. A damaged record is no error:
    /// its segment stays as it is, see [`Stats::damaged_segments`](crate::Stats::damaged_segments).
    pub fn compact(&self) -> Result<CompactReport> {
        self.compact_with(|_| {})
    }

    /// [`Db::compact`] with a progress callback.
    ///
    /// `progress` runs with the maintenance lock held. Calls from it that need that lock answer [`Error::Nested`](crate::Error::Nested):
    /// [`Db::verify`], [`Db::checkpoint`], [`Db::compact`] and its variants, [`Db::close`] of another handle, and, when the medium is full,
    /// calls that free space first: removals, [`Db::update`](crate::Namespace::update),
    /// [`Db::compare_and_swap`](crate::Namespace::compare_and_swap), [`Db::clear`](crate::Namespace::clear), [`Db::drop_namespace`].
    ///
    /// ```
    /// # let db = pipkin::Db::builder().segment_size(64 * 1024).in_memory()?;
    /// # for round in 0..8 {
    /// #     db.insert_many((0..1000_u32).map(|n| (n.to_le_bytes(), [round; 100])))?;
    /// # }
    /// let mut calls = 0;
    /// db.compact_with(|so_far| {
    ///     println!("{so_far:?}");
    ///     calls += 1;
    /// })?;
    /// assert!(calls > 0);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn compact_with(&self, mut progress: impl FnMut(CompactProgress)) -> Result<CompactReport> {
        self.store.may_wait_for_the_turn()?;
        let report = self.store.compact(&mut |so_far| {
            let _inside = self.store.engine.inside(Held::Turn);
            progress(so_far);
        });
        self.store.seen(report)
    }

    /// Gives up the records [after an unclean end](crate::OpenReport::stranded_records) of the log, the newest and all earlier ones, and
    /// compacts, which frees their segments. Run [`salvage`](crate::salvage) on the file first if they are wanted. On a full medium this
    /// frees space where nothing else does: see [`Error::StrandedInTheWay`](crate::Error::StrandedInTheWay).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// if db.open_report().stranded_records > 0 {
    ///     // Salvage has copied what was wanted, or nothing was.
    ///     db.drop_stranded()?;
    /// }
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::compact`]. Stranded records that it did not reach are kept again after the next open.
    pub fn drop_stranded(&self) -> Result<CompactReport> {
        self.store.may_wait_for_the_turn()?;
        self.store.engine.log.give_up_stranded();
        self.compact()
    }

    /// Compacts the one segment with the largest share of dead bytes; `None` when no segment has enough of them: a sixty-fourth, as for
    /// [`Db::compact`]. The newest records are left for later, and free space stays in the file until [`Db::compact`], or closing, cuts it.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// // Segment after segment, for as long as there is time.
    /// while let Some(report) = db.compact_step()? {
    ///     println!("{report:?}");
    /// }
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn compact_step(&self) -> Result<Option<CompactReport>> {
        self.store.may_wait_for_the_turn()?;
        self.store.seen(self.store.compact_step())
    }
}
