//! Records of cleared and dropped namespaces: purging them, and checking the names of the namespaces against their records before records
//! without a name are dropped.

use crate::error::{Error, Result};
use crate::frame::NAMESPACE_OF_NAMES;
use crate::index::SHARDS;
use crate::planted::{Bug, is};
use crate::store::Store;
use crate::sync::Ordering;

impl Store {
    /// Removes the records of a dead number from the index; no handle can reach them any more. While a snapshot from before the change at
    /// `end` lives, which shows them, this is put off to a later maintenance.
    pub(crate) fn purge_number(&self, number: u32, end: u64) -> Result<()> {
        self.end_purges()?;
        if !is(Bug::PurgedUnderSnapshot) && self.engine.moments.put_purge_off(number, end) {
            return Ok(());
        }
        self.purge_now(number)
    }

    /// Purges the numbers that only snapshots have kept, and drops what else is kept for those that have ended.
    pub(crate) fn end_purges(&self) -> Result<()> {
        self.engine.forget_ended_moments();
        let mut due = self.engine.moments.take_purges().into_iter();
        let result = due
            .by_ref()
            .try_for_each(|purge| self.purge_now(purge.0).inspect_err(|_| self.engine.moments.give_purge_back(purge)));
        due.for_each(|purge| self.engine.moments.give_purge_back(purge));
        result
    }

    fn purge_now(&self, number: u32) -> Result<()> {
        let forget_order = || {
            #[cfg(feature = "ordered")]
            if let Some(ordered) = self.engine.ordered.get() {
                ordered.drop_namespace(number);
            }
        };
        forget_order();
        for shard in 0..SHARDS {
            let mut guard = self.engine.lock_shard(shard)?;
            if guard.count(number) > 0 {
                self.engine.purge(shard, &mut guard, &|other| other == number)?;
            }
        }
        // Again: a compaction that copied a record before it was purged has put its key back.
        forget_order();
        Ok(())
    }

    /// Checks the names, which the index snapshot stores in a separate part, against their records, once per session. Records under a
    /// number without a name are dropped as dead, so a wrong list of names would lose them silently.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the two differ: then nothing may be dropped.
    pub(super) fn check_names(&self) -> Result<()> {
        if self.names_checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (engine, shards) = (&self.engine, self.engine.lock_all()?);
        let names = self.names.read();
        let counted: u64 = shards.iter().map(|shard| shard.count(NAMESPACE_OF_NAMES)).sum();
        let mut found = 0;
        for (name, number) in names.pairs() {
            let key = engine.full_key(NAMESPACE_OF_NAMES, name.as_bytes());
            let Some(shard) = shards.get(key.hash.shard()) else { continue };
            let record =
                engine.frame_locked(shard, key).and_then(|frame| frame.map(|frame| frame.check().map(|()| frame)).transpose());
            let is_its = match record {
                Ok(Some(frame)) => frame.value().first_chunk() == Some(&number.to_le_bytes()),
                // Not one of those that are counted. The default namespace has none while it has its first number.
                Ok(None) => false,
                // A damaged name record counts as present: damage costs only that record.
                Err(Error::Corrupt { .. }) => true,
                Err(error) => return Err(error),
            };
            found += u64::from(is_its);
        }
        if found != counted {
            let offset = engine.log.newest_checkpoint().and_then(|place| place.directory).map_or(0, |place| place.offset);
            return Err(Error::corrupt(offset, "an index snapshot whose namespaces are not those of the log"));
        }
        self.names_checked.store(true, Ordering::Relaxed);
        Ok(())
    }
}
