//! Compaction, and checkpoints, on demand.

use super::handle::Db;
use crate::error::Result;
use crate::maintenance::{CompactProgress, CompactReport};
use crate::nested::Held;

impl Db {
    /// Writes an index snapshot, so that the next opening has nothing to replay. It happens by itself now and then, and when a
    /// store with much to replay is closed.
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`](crate::Error::NoSpace) when there is no room for a snapshot: if there is any for the list of the segments, that was
    /// written, and nothing is lost. [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Closed`](crate::Error::Closed),
    /// [`Error::Poisoned`](crate::Error::Poisoned), and [`Error::Corrupt`](crate::Error::Corrupt) when a part of the index that is not
    /// built yet cannot be.
    pub fn checkpoint(&self) -> Result<()> {
        self.store.seen(self.store.checkpoint())
    }
}

impl Db {
    /// Compacts every segment that holds anything dead worth the copying, and gives the space at the end of the file back. Others read and
    /// write meanwhile.
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
    /// As for [`Db::checkpoint`]; also [`Error::NoSpace`](crate::Error::NoSpace) when what lives in the segments fits nowhere else, and
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a record in them does not fit its checksum: its segment stays as it is.
    pub fn compact(&self) -> Result<CompactReport> {
        self.compact_with(|_| {})
    }

    /// [`Db::compact`], with word of how far it has come.
    ///
    /// `progress` is called while this call has the turn to maintain the store. In there, what needs the turn answers
    /// [`Error::Nested`](crate::Error::Nested): [`Db::verify`], [`Db::checkpoint`], [`Db::compact`] and its like, [`Db::close`] of another
    /// handle, and, when the medium is full, whatever frees space first: removals, [`Db::update`](crate::Namespace::update), [`Db::compare_and_swap`](crate::Namespace::compare_and_swap),
    /// [`Db::clear`](crate::Namespace::clear), [`Db::drop_namespace`].
    pub fn compact_with(&self, mut progress: impl FnMut(CompactProgress)) -> Result<CompactReport> {
        self.store.may_wait_for_the_turn()?;
        let report = self.store.compact(&mut |so_far| {
            let _inside = self.store.engine.inside(Held::Turn);
            progress(so_far);
        });
        self.store.seen(report)
    }

    /// Gives up the records that stand [behind an unclean end](crate::OpenReport::stranded_records) of the log, of this one and of all earlier
    /// ones, and compacts: their segments are free for others. Run [`salvage`](crate::salvage) on the file first if they are wanted.
    /// On a full medium this frees space where nothing else does: see [`Error::StrandedInTheWay`](crate::Error::StrandedInTheWay).
    ///
    /// # Errors
    ///
    /// Those of [`Db::compact`]. What it did not get to is kept again after the next open.
    pub fn drop_stranded(&self) -> Result<CompactReport> {
        self.store.may_wait_for_the_turn()?;
        self.store.engine.log.give_up_stranded();
        self.compact()
    }

    /// Compacts the one segment where it pays most; `None` when there is none of which a part worth the work is dead: a sixty-fourth, as
    /// for [`Db::compact`]. What was written last is left for later, and what is free stays in the file until [`Db::compact`], or closing,
    /// cuts it.
    pub fn compact_step(&self) -> Result<Option<CompactReport>> {
        self.store.may_wait_for_the_turn()?;
        self.store.seen(self.store.compact_step())
    }
}
