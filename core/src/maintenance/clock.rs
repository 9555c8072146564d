//! Setting the store's time back, after the host's clock was wrong.

use super::checkpoint::Extent;
use crate::engine::{Engine, FullKey};
use crate::error::{Error, Result};
use crate::expiry::tombstone_of;
use crate::frame::Kind;
use crate::index::{SHARDS, ShardGuard};
use crate::log::Purpose;
use crate::scan::{Found, Stretch, scan};
use crate::sorted::Hashes;
use crate::store::Store;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

impl Store {
    /// Lowers the latest expiry that was acted on to the host's time; returns how many records have not expired any more.
    pub(crate) fn reset_clock(&self) -> Result<u64> {
        self.may_wait_for_the_turn()?;
        let _turn = self.turn.lock();
        self.writable()?;
        let (engine, clock) = (&self.engine, &self.engine.log.clock);
        if !clock.has_host() {
            return Err(Error::NoClock);
        }
        let (host, floor) = (clock.host_now(), clock.floor());
        if host >= floor {
            return Ok(0);
        }
        self.end_purges()?;
        // Their times are later than that of what is written from now on.
        while engine.end_oldest_moment() {}
        let returning = {
            let mut shards = engine.lock_all()?;
            bury(engine, &mut shards, host + 1..=floor)?;
            let returning = count(engine, &shards, host + 1..=floor)?;
            engine.log.lower_floor(host);
            returning
        };
        // Marks in front of a checkpoint are not read any more, and its superblocks have the new time.
        if let Err(error) = self.write_checkpoint(Extent::Changes) {
            engine.log.acted_on(floor);
            return Err(error);
        }
        Ok(returning)
    }
}

/// Writes tombstones for the records that were swept and whose expiry is in `times`: in the log they would come back.
fn bury(engine: &Engine, shards: &mut [ShardGuard<'_>], times: RangeInclusive<u64>) -> Result<()> {
    let log = &engine.log;
    let unlisted = log.unlisted();
    let segments = log.segments();
    let mut buried = Hashes::default();
    for segment in segments.iter().filter(|segment| !unlisted.iter().any(|other| other.base == segment.base)) {
        let stretch = Stretch { salt: segment.salt, from: segment.first_frame(log.geometry), to: segment.end, full: true };
        let mut offsets = Vec::new();
        scan(&*log.storage, stretch, &mut |found| {
            if let Found::Frame { offset, header } = found
                && header.kind == Kind::Put
                && header.expires()
            {
                offsets.push(offset);
            }
            Ok(())
        })?;
        for offset in offsets {
            let frame = log.frame(offset)?;
            let (namespace, key) = (frame.header.namespace, frame.key());
            let hash = engine.hash_of(&frame);
            let Some(shard) = shards.get(hash.shard()) else { continue };
            let may_return = frame.expiry().is_some_and(|expiry| times.contains(&expiry)) && !buried.contains(&hash.bits());
            let lives = |engine: &Engine| engine.living.read().contains(&namespace);
            if !may_return || !lives(engine) || engine.find_locked(shard, FullKey { namespace, key, hash })?.is_some() {
                continue;
            }
            let placed = log.append_one(&tombstone_of(&frame), Purpose::MakeSpace)?;
            log.segment_stats.add_tombstone(log.geometry.extent_of(placed.offset), placed.len);
            buried.insert(hash.bits());
        }
    }
    Ok(())
}

/// Number of records in the index that expire in `times`.
fn count(engine: &Engine, shards: &[ShardGuard<'_>], times: RangeInclusive<u64>) -> Result<u64> {
    let mut count = 0;
    for (number, shard) in (0..SHARDS).zip(shards) {
        for slot in shard.slots(engine.medium())? {
            let expiry = engine.owned(number, slot)?.and_then(|frame| frame.expiry());
            count += u64::from(expiry.is_some_and(|expiry| times.contains(&expiry)));
        }
    }
    Ok(count)
}
