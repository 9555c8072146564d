//! Publishing a commit: making the index point at its records, which are in the log.

use super::records::{Records, Shards};
#[cfg(feature = "ordered")]
use crate::engine::Ends;
use crate::frame::Until;
use crate::log::Placed;
use crate::store::Store;

/// A commit of at least this many records enters its keys into the order at once: copying a block for each of a few keys costs less than sorting.
#[cfg(feature = "ordered")]
const TOGETHER_FROM: usize = 32;

impl Store {
    /// Makes the index point at the records of a commit, which are in the log, and returns how many of its removals have found a record. Cannot
    /// fail.
    pub(super) fn publish(
        &self,
        shards: &mut Shards<'_>,
        records: &Records<'_>,
        placed: &[Placed],
        expiries: &[(Until, u64)],
    ) -> usize {
        let engine = &self.engine;
        let is_prepared = self.prepare(shards, records, placed);
        let mut tally = engine.log.segment_stats.tally();
        let mut removed = 0;
        for (record, &new) in records.iter().zip(placed) {
            let (key, old) = (record.target.key, records.replaced(&record, placed));
            // `find_old` has found the shard.
            let Some(shard) = shards.at(record.looked.shard) else { continue };
            match (record.target.op.value.is_some(), is_prepared) {
                (true, true) => engine.publish_prepared_put(shard, key, old, new, &mut tally),
                (true, false) => engine.publish_tallied(shard, key, old, new, &mut tally),
                (false, true) => engine.publish_prepared_removal(shard, key, old, new),
                (false, false) => engine.publish_remove(shard, key, old, new),
            }
            if record.target.op.value.is_none() {
                removed += usize::from(!record.looked.is_gone);
            } else if let Some(&(_, expiry)) = expiries.get(record.index).filter(|(_, expiry)| *expiry != 0) {
                engine.expires(shard, key.hash.slot(new.offset), expiry);
            }
        }
        removed
    }

    /// Of a large commit with keys in order: leaves the notes that snapshots need of all records, then enters all keys into the order at once. False
    /// where that is done for each record when it is published.
    #[cfg(feature = "ordered")]
    fn prepare(&self, shards: &mut Shards<'_>, records: &Records<'_>, placed: &[Placed]) -> bool {
        if records.len() < TOGETHER_FROM || !self.engine.keeps_order() {
            return false;
        }
        // The notes first: whoever reads the order for a snapshot and misses a key that has gone finds it in them.
        for (record, &new) in records.iter().zip(placed) {
            if let Some(shard) = shards.at(record.looked.shard) {
                let ends = if record.target.op.value.is_some() { Ends::Replaced } else { Ends::Removed };
                self.engine.leave_note(shard, record.target.key, records.replaced(&record, placed), new, ends);
            }
        }
        self.engine.order_many(records.iter().zip(placed).map(|(record, new)| {
            let offset = record.target.op.value.map(|_| new.offset);
            (record.target.key.namespace, (record.target.key.key, offset))
        }));
        true
    }

    /// Without the ordered index there is nothing to do at once.
    #[cfg(not(feature = "ordered"))]
    #[expect(clippy::unused_self, reason = "as in a build with the ordered index")]
    const fn prepare(&self, _: &mut Shards<'_>, _: &Records<'_>, _: &[Placed]) -> bool {
        false
    }
}
