//! Compaction of records that have expired: each is a tombstone of what it had replaced.

use super::report::CompactReport;
use super::sift::Prior;
use crate::engine::{Engine, FullKey};
use crate::error::Result;
use crate::expiry::tombstone_of;
use crate::index::ShardGuard;
use crate::log::{Frame, Purpose};
use crate::planted::{Bug, is};

/// True if the record has expired, and nothing of it has to be copied, or its tombstone has been. The caller has locked the shard of its
/// key, and holds the lock until everything else that it copies is in the index.
pub(super) fn shrink(
    engine: &Engine,
    shard: &mut ShardGuard<'_>,
    key: FullKey<'_>,
    frame: &Frame<'_>,
    prior: Prior<'_>,
    report: &mut CompactReport,
) -> Result<bool> {
    let (log, now) = (&engine.log, engine.log.clock.now());
    let Some(expiry) = frame.expiry().filter(|&expiry| expiry <= now) else { return Ok(false) };
    if !engine.living.read().contains(&frame.header.namespace) {
        return Ok(false);
    }
    let slot = key.hash.slot(frame.offset);
    let lives = shard.points_at(engine.medium(), key.hash, frame.offset, prior.pointed)?;
    // What is not in the index, and was not swept, because nobody has acted on its expiry or a snapshot shows it, was replaced or removed
    // by a later record.
    if !lives && expiry > log.clock.floor() || !engine.may_forget(expiry, now) {
        return Ok(false);
    }
    if lives {
        engine.forget(shard, slot, frame);
    }
    let hides_nothing = prior.oldest || is(Bug::ExpiredPutDropped);
    if hides_nothing || engine.find_locked(shard, key)?.is_some() {
        return Ok(true);
    }
    let placed = log.append_one(&tombstone_of(frame), Purpose::MakeSpace)?;
    engine.moments.made_copy(log.lsn(placed.offset));
    log.segment_stats.add_tombstone(log.geometry.extent_of(placed.offset), placed.len);
    report.records_copied += 1;
    report.bytes_copied += placed.len;
    Ok(true)
}
