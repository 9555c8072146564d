//! Records that have expired: what reads take for gone, and forgetting them.
//!
//! A record is gone from its expiry on, and every path that returns it looks. Sweeping takes it out of the index, too; in the log it stays as
//! a tombstone of what it had replaced. The order of both does not matter to any answer.

use crate::clock::Now;
use crate::engine::Engine;
use crate::error::Result;
use crate::frame::{FrameSpec, Kind, expired};
use crate::index::{SHARDS, ShardGuard, Slot};
use crate::log::Frame;
use crate::moments::Moment;
use crate::planted::{Bug, is};
use crate::sync::Ordering;
use alloc::vec::Vec;

/// What a sweep of a shard has done.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Records that it took out of the index.
    pub(crate) removed: u64,
    /// Namespaces of those that have expired, and that stay in the index for the snapshots that show them.
    pub(crate) hidden: Vec<u32>,
}

impl Engine {
    pub(crate) const fn moment_of_now(&self) -> Now<'_> {
        Now::new(&self.log.clock)
    }

    /// True if the record has expired. The clock is not asked for any other record.
    #[inline]
    pub(crate) fn has_expired(&self, frame: &Frame<'_>, now: &Now<'_>) -> bool {
        match frame.expiry() {
            None => false,
            Some(expiry) => self.is_past(expiry, now.get()),
        }
    }

    /// The same at this moment, for a read of one record.
    #[inline]
    pub(crate) fn has_expired_now(&self, frame: &Frame<'_>) -> bool {
        match frame.expiry() {
            None => false,
            Some(expiry) => self.is_past(expiry, self.log.clock.now()),
        }
    }

    /// The record, unless it has expired by now.
    ///
    /// # Errors
    ///
    /// As for [`Self::decoded`].
    #[inline]
    pub(crate) fn readable<'a>(&self, frame: Frame<'a>) -> Result<Option<Frame<'a>>> {
        if self.has_expired_now(&frame) {
            return Ok(None);
        }
        self.decoded(frame).map(Some)
    }

    /// The same at the moment of a snapshot.
    pub(crate) fn has_expired_at(&self, moment: &Moment, frame: &Frame<'_>) -> bool {
        frame.expiry().is_some_and(|expiry| self.is_past(expiry, moment.now))
    }

    /// Whoever takes a record for gone makes sure that it stays so.
    fn is_past(&self, expiry: u64, now: u64) -> bool {
        if !self.log.clock.in_use() {
            self.log.clock.found_expiring();
        }
        let is_past = expiry <= now;
        if is_past {
            self.log.acted_on(expiry);
        }
        is_past
    }

    /// The record of a slot of a locked shard expires then.
    pub(crate) fn expires(&self, shard: &mut ShardGuard<'_>, slot: Slot, expiry: u64) {
        if !shard.has_expiring() {
            shard.begin_calendar(self.log.clock.now());
        }
        shard.expires(slot, expiry);
    }

    /// True if the calendar of a locked shard has all of its records that expire.
    pub(crate) fn knows_expiring(&self, shard: &ShardGuard<'_>) -> bool {
        shard.knows_expiring() || shard.len() == 0 || !self.log.clock.was_in_use()
    }

    /// Lists which records of a locked shard expire, if that was not known since the store was opened.
    fn know_expiring(&self, number: usize, shard: &mut ShardGuard<'_>) -> Result<()> {
        if shard.knows_expiring() {
            return Ok(());
        }
        if self.log.clock.was_in_use() {
            for slot in shard.slots(self.medium())? {
                if let Some(expiry) = self.owned(number, slot)?.and_then(|frame| frame.expiry()) {
                    self.expires(shard, slot, expiry);
                }
            }
        }
        shard.set_knows_expiring();
        Ok(())
    }

    /// Takes the records of a locked shard out of the index that have expired, unless snapshots show them.
    pub(crate) fn sweep_shard(&self, number: usize, shard: &mut ShardGuard<'_>, now: u64) -> Result<Swept> {
        let mut swept = Swept::default();
        if self.doubt.get().is_some() {
            // Which records there are is uncertain anyway.
            return Ok(swept);
        }
        self.know_expiring(number, shard)?;
        let mut due = shard.take_due(now).into_iter();
        while let Some(slot) = due.next() {
            let result = self.sweep_slot(number, shard, slot, now, &mut swept);
            if result.is_err() {
                // Nothing may be forgotten: they are looked at again.
                core::iter::once(slot).chain(due).for_each(|slot| shard.expires(slot, 0));
                return result.map(|()| swept);
            }
        }
        Ok(swept)
    }

    fn sweep_slot(&self, number: usize, shard: &mut ShardGuard<'_>, slot: Slot, now: u64, swept: &mut Swept) -> Result<()> {
        // An entry counts only if the slot is still there, and its record says so: the offset may have another record by now.
        let is_there = shard.has(self.medium(), slot)? || is(Bug::CalendarTrusted);
        let Some(frame) = (if is_there { self.owned(number, slot)? } else { None }) else { return Ok(()) };
        let Some(expiry) = frame.expiry() else {
            if is(Bug::CalendarTrusted) {
                self.forget(shard, slot, &frame);
                swept.removed += 1;
            }
            return Ok(());
        };
        if !self.living.read().contains(&frame.header.namespace) {
            // Only snapshots show it, by their own time, and it is purged with the last of them.
            return Ok(());
        }
        if expiry > now {
            shard.expires(slot, expiry);
        } else if frame.check().is_ok() {
            if self.may_forget(expiry, now) {
                self.forget(shard, slot, &frame);
                swept.removed += 1;
            } else {
                shard.expires(slot, expiry);
                swept.hidden.push(frame.header.namespace);
            }
        }
        Ok(())
    }

    /// True if no snapshot shows a record with this expiry, which is past, and none that begins later will.
    pub(crate) fn may_forget(&self, expiry: u64, now: u64) -> bool {
        self.log.acted_on(expiry);
        // With the tail locked once: a snapshot begins before, and is among the living, or its time is this expiry or later.
        self.log.at_the_end(|_| ());
        expiry <= self.moments.forgotten_until(now)
    }

    /// The record at `offset` was removed before it expired. Compaction cannot tell that it was not swept, and may leave a tombstone for it.
    #[cold]
    pub(crate) fn count_removed(&self, offset: u64) {
        if let Ok(frame) = self.log.frame(offset)
            && frame.header.expires()
        {
            self.log.segment_stats.add_tombstone(self.log.geometry.extent_of(offset), tombstone_of(&frame).len() as u64);
        }
    }

    /// Takes an expired record out of the index. In the log it counts as the tombstone that it is.
    pub(crate) fn forget(&self, shard: &mut ShardGuard<'_>, slot: Slot, frame: &Frame<'_>) {
        let (namespace, offset) = (frame.header.namespace, frame.offset);
        // Callers have found it under this lock.
        if !shard.may_have(slot) {
            return;
        }
        self.forgotten.fetch_add(1, Ordering::Relaxed);
        self.taken_out.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "ordered")]
        if self.ordered.get().is_some() {
            if self.moments.any() {
                // A snapshot may show an earlier version. Kept before it leaves the order.
                self.moments.add_ghost(namespace, frame.key(), self.log.end());
            }
            self.order_remove(namespace, frame.key());
        }
        if !shard.remove_slot(&self.pins, slot, namespace) {
            return;
        }
        let extent = self.log.geometry.extent_of(offset);
        if self.log.follows() {
            self.log.segment_stats.change_slots(extent, -1);
        }
        self.log.segment_stats.change_live(extent, -(frame.header.frame_len() as i64), shard.is_dumped());
        self.log.segment_stats.add_tombstone(extent, tombstone_of(frame).len() as u64);
    }

    /// Sweeps all shards; returns how many records it took out of the index.
    pub(crate) fn sweep(&self) -> Result<u64> {
        self.sweep_some(0, &|_| false).map(|(removed, _)| removed)
    }

    /// Sweeps the shards from number `first` on, and those before it, until `stop` returns true for the records that it took out of the
    /// index. Returns these, and where to go on.
    pub(crate) fn sweep_some(&self, first: usize, stop: &dyn Fn(u64) -> bool) -> Result<(u64, usize)> {
        if !self.log.clock.in_use() {
            return Ok((0, first));
        }
        let (now, mut removed) = (self.log.clock.now(), 0);
        for number in (first..first + SHARDS).map(|number| number % SHARDS) {
            if self.index.is_empty_at(number) {
                continue;
            }
            if stop(removed) {
                return Ok((removed, number));
            }
            removed += self.sweep_shard(number, &mut self.lock_shard(number)?, now)?.removed;
        }
        Ok((removed, first))
    }

    /// Number of records of a namespace in a locked shard that have not expired.
    pub(crate) fn count_unexpired(&self, number: usize, shard: &mut ShardGuard<'_>, namespace: u32, now: u64) -> Result<u64> {
        let swept = self.sweep_shard(number, shard, now)?;
        let hidden = swept.hidden.iter().filter(|&&other| other == namespace).count() as u64;
        Ok(shard.count(namespace).saturating_sub(hidden))
    }

    /// Sweeps all shards; returns how many expired records stay in the index for the snapshots that show them.
    pub(crate) fn count_hidden(&self) -> Result<u64> {
        if !self.log.clock.in_use() {
            return Ok(0);
        }
        let now = self.log.clock.now();
        let mut used = (0..SHARDS).filter(|&number| !self.index.is_empty_at(number));
        used.try_fold(
            0,
            |sum, number| Ok(sum + self.sweep_shard(number, &mut self.lock_shard(number)?, now)?.hidden.len() as u64),
        )
    }

    /// Number of records that expire and have not yet, or that wait to be swept.
    pub(crate) fn count_expiring(&self) -> u64 {
        if self.log.clock.in_use() { self.index.count_expiring() } else { 0 }
    }
}

/// The tombstone that takes the place of an expired record.
pub(crate) fn tombstone_of<'a>(frame: &'a Frame<'_>) -> FrameSpec<'a> {
    let meta = expired(frame.header.namespace);
    FrameSpec { kind: Kind::Tombstone, continues: false, meta, key: frame.key(), value: &[] }
}
