//! Writing a commit: locks the shards that it touches, appends all frames, then publishes them. Under the lock of the append, what a
//! transaction has read is checked for the last time: no shard is locked for what was only read.

use super::check::Check;
#[cfg(feature = "compress")]
use super::compression::packed_frame;
#[cfg(feature = "events")]
use super::events::{Appends, Staging};
#[cfg(not(feature = "events"))]
use super::no_events::{Appends, Staging};
use crate::clock::Now;
#[cfg(feature = "ordered")]
use crate::engine::Ends;
use crate::engine::{FullKey, GROUP};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Meta};
use crate::index::{KeyHash, SHARDS, ShardGuard};
use crate::log::{Placed, Purpose};
use crate::names::Name;
use crate::planted::{Bug, is};
use crate::position::Position;
use crate::store::{Store, check_key, check_value};
use crate::ttl::Ttl;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A commit of at least this many records locks all shards: finding out the few that it does not need would cost more.
const ALL_SHARDS_FROM: usize = 128;

/// A commit of at least this many records enters its keys into the order at once: copying a block for each of a few keys costs less than sorting.
#[cfg(feature = "ordered")]
const TOGETHER_FROM: usize = 32;

/// One record of a commit.
#[derive(Debug)]
pub(super) struct BatchOp<'a> {
    pub(super) name: &'a Arc<Name>,
    pub(super) key: &'a [u8],
    /// `None` removes the key.
    pub(super) value: Option<&'a [u8]>,
}

impl<'a> BatchOp<'a> {
    fn frame(&self, meta: Meta<'a>, continues: bool) -> FrameSpec<'a> {
        let kind = if self.value.is_some() { Kind::Put } else { Kind::Tombstone };
        FrameSpec { kind, continues, meta, key: self.key, value: self.value.unwrap_or_default() }
    }
}

/// The locked shards of a commit. They are locked in order, so that two commits cannot deadlock.
struct Shards<'a>(Vec<(usize, ShardGuard<'a>)>);

impl<'a> Shards<'a> {
    /// The index of a key's shard among those that are locked.
    fn place(&self, hash: KeyHash) -> Result<usize> {
        let shard = hash.shard();
        let place = if self.0.len() == SHARDS { Ok(shard) } else { self.0.binary_search_by_key(&shard, |(number, _)| *number) };
        place.map_err(|_| Error::Bug("a commit has not locked the shard of one of its keys"))
    }

    fn at(&mut self, place: usize) -> Option<&mut ShardGuard<'a>> {
        self.0.get_mut(place).map(|(_, guard)| guard)
    }
}

/// A record of a commit with its full key, which is valid as long as its shard is locked.
pub(super) struct Target<'a> {
    pub(super) key: FullKey<'a>,
    pub(super) op: &'a BatchOp<'a>,
}

/// The result of looking up a record of a commit.
struct Looked {
    /// The index of its shard in [`Shards`].
    shard: usize,
    /// It is a removal, and the record has expired: its tombstone changes nothing, and it removes nothing.
    is_gone: bool,
    replaces: Old,
}

/// A record of a commit by its place among them, with what it replaces, and where it was written.
type Written<'r> = ((usize, (&'r Target<'r>, &'r Looked)), &'r Placed);

/// What a commit has done.
#[derive(Clone, Debug, Default)]
pub(super) struct Committed {
    /// How many of its removals found a record.
    pub(super) removed: usize,
    /// Its position; `None` if nothing was written.
    pub(super) end: Option<Position>,
    /// What its events have got, by stream.
    #[cfg(feature = "events")]
    pub(super) ranges: Vec<crate::events::Range>,
}

/// What a record of a commit replaces.
enum Old {
    None,
    InStore(Placed),
    /// The record of that number in the same commit.
    InCommit(usize),
}

impl Store {
    /// Writes a commit, if `check` finds what a transaction has read unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when it has changed; nothing was written.
    ///
    /// `ttls` says how long some records live, by their place in `ops`, in order; the others live as long as their namespace says.
    pub(super) fn commit(&self, ops: &[BatchOp<'_>], ttls: &[(usize, Ttl)], check: Option<&Check<'_>>) -> Result<Committed> {
        self.commit_all(ops, ttls, check, &Appends::default())
    }

    /// [`Self::commit`] of records and events.
    ///
    /// # Errors
    ///
    /// As there, and `AppendRefused`.
    pub(super) fn commit_all(
        &self,
        ops: &[BatchOp<'_>],
        ttls: &[(usize, Ttl)],
        check: Option<&Check<'_>>,
        appends: &Appends<'_>,
    ) -> Result<Committed> {
        for op in ops {
            check_key(op.key)?;
            check_value(op.value.unwrap_or_default())?;
        }
        if ops.is_empty() && appends.is_empty() {
            return Ok(Committed::default());
        }
        self.writable()?;
        self.before_events(appends)?;
        let stores = !appends.is_empty() || ops.iter().any(|op| op.value.is_some());
        let purpose = if stores { Purpose::Store } else { Purpose::MakeSpace };
        let commit = || self.try_commit_all(ops, ttls, check, purpose, appends);
        // Removals free space, so compaction may run to make room for them.
        let committed = if stores { self.with_room(commit) } else { self.with_space(commit) }?;
        self.after_write()?;
        Ok(committed)
    }

    pub(super) fn try_commit(
        &self,
        ops: &[BatchOp<'_>],
        ttls: &[(usize, Ttl)],
        check: Option<&Check<'_>>,
        purpose: Purpose,
    ) -> Result<Committed> {
        self.try_commit_all(ops, ttls, check, purpose, &Appends::default())
    }

    fn try_commit_all(
        &self,
        ops: &[BatchOp<'_>],
        ttls: &[(usize, Ttl)],
        check: Option<&Check<'_>>,
        purpose: Purpose,
        appends: &Appends<'_>,
    ) -> Result<Committed> {
        check.map_or(Ok(()), Check::ahead)?;
        #[cfg(feature = "compress")]
        let packed = self.pack_all(ops.iter().map(|op| (&**op.name, op.value)));
        let (mut shards, targets) = self.lock_targets(ops)?;
        // Under the locks: what others commit to these keys comes before or after.
        let now = self.engine.moment_of_now();
        let expiries = self.expiries(&targets, ttls, &now)?;
        let old = self.find_old(&mut shards, &targets, &now)?;
        // A removal that finds nothing writes no tombstone.
        let is_needed = |(target, old): (&Target<'_>, &Looked)| {
            target.op.value.is_some() || !matches!(old.replaces, Old::None) || self.engine.may_be_there(target.key.hash)
        };
        let all = || targets.iter().zip(&old);
        let skipped: Vec<usize> = all().enumerate().filter(|(_, both)| !is_needed(*both)).map(|(index, _)| index).collect();
        let records = targets.len() - skipped.len();
        let count = records + appends.count();
        // Behind the shards, in front of the tail: from here on nobody else appends events.
        let staging = self.stage(appends)?;
        let mut frames: Vec<FrameSpec<'_>> = Vec::with_capacity(count);
        #[cfg(feature = "compress")]
        let metas = Self::packed_metas(targets.iter().map(|target| target.key.namespace), &expiries, &packed);
        for (index, (target, _)) in all().enumerate().filter(|(_, both)| is_needed(*both)) {
            let plain = Meta::plain(target.key.namespace);
            let meta = expiries.get(index).map_or(plain, |(until, _)| until.meta(target.key.namespace));
            let end = if is(Bug::EventsInTheirOwnCommit) { records } else { count };
            let continues = frames.len() + 1 < end && !is(Bug::TransactionSplit);
            let frame = target.op.frame(meta, continues);
            #[cfg(feature = "compress")]
            let frame = packed_frame(frame, index, &metas, &packed);
            frames.push(frame);
        }
        frames.extend(staging.iter().flat_map(Staging::frames));
        if frames.is_empty() {
            // It must have been true that there was nothing to remove.
            check.map_or(Ok(()), |check| self.engine.log.at_the_end(|_| check.finally()))?;
            return Ok(Committed::default());
        }
        shards.0.iter().for_each(|(_, shard)| shard.will_publish());
        let placed = self.append_checked(&frames, check, purpose, staging.as_ref())?;
        let mut removed = 0;
        let mut tally = self.engine.log.segment_stats.tally();
        let old_of = |looked: &Looked| match looked.replaces {
            Old::None => None,
            Old::InStore(old) => Some(old),
            Old::InCommit(index) => placed.get(index - skipped.partition_point(|&skipped| skipped < index)).copied(),
        };
        let written = || all().enumerate().filter(|(_, both)| is_needed(*both)).zip(&placed);
        let is_prepared = self.prepare(&mut shards, records, &written, &old_of);
        for ((index, (target, looked)), &new) in written() {
            let old = old_of(looked);
            // `find_old` has found the shard: nothing can fail any more.
            let Some(shard) = shards.at(looked.shard) else { continue };
            match target.op.value {
                Some(_) => {
                    if is_prepared {
                        self.engine.publish_prepared_put(shard, target.key, old, new, &mut tally);
                    } else {
                        self.engine.publish_tallied(shard, target.key, old, new, &mut tally);
                    }
                    if let Some(&(_, expiry)) = expiries.get(index).filter(|(_, expiry)| *expiry != 0) {
                        self.engine.expires(shard, target.key.hash.slot(new.offset), expiry);
                    }
                }
                None => {
                    if is_prepared {
                        self.engine.publish_prepared_removal(shard, target.key, old, new);
                    } else {
                        self.engine.publish_remove(shard, target.key, old, new);
                    }
                    removed += usize::from(!looked.is_gone);
                }
            }
        }
        if let Some(staging) = &staging {
            staging.publish(placed.get(records..).unwrap_or_default());
        }
        Ok(Committed {
            removed,
            end: placed.last().map(|&last| self.position_of(last)),
            #[cfg(feature = "events")]
            ranges: staging.map(|staging| staging.staged.ranges).unwrap_or_default(),
        })
    }

    /// Of a large commit with keys in order: leaves the notes that snapshots need of all records, then enters all keys into the order at once. False
    /// where that is done for each record when it is published.
    #[cfg(feature = "ordered")]
    fn prepare<'r, I: Iterator<Item = Written<'r>>>(
        &self,
        shards: &mut Shards<'_>,
        records: usize,
        written: &dyn Fn() -> I,
        old_of: &dyn Fn(&Looked) -> Option<Placed>,
    ) -> bool {
        if records < TOGETHER_FROM || !self.engine.keeps_order() {
            return false;
        }
        // The notes first: whoever reads the order for a snapshot and misses a key that has gone finds it in them.
        for ((_, (target, looked)), &new) in written() {
            if let Some(shard) = shards.at(looked.shard) {
                let ends = if target.op.value.is_some() { Ends::Replaced } else { Ends::Removed };
                self.engine.leave_note(shard, target.key, old_of(looked), new, ends);
            }
        }
        let change =
            |((_, (target, _)), new): Written<'r>| (target.key.namespace, (target.key.key, target.op.value.map(|_| new.offset)));
        self.engine.order_many(written().map(change));
        true
    }

    /// Without the ordered index there is nothing to do at once.
    #[cfg(not(feature = "ordered"))]
    fn prepare<'r, I: Iterator<Item = Written<'r>>>(
        &self,
        _: &mut Shards<'_>,
        _: usize,
        _: &dyn Fn() -> I,
        _: &dyn Fn(&Looked) -> Option<Placed>,
    ) -> bool {
        false
    }

    /// Appends the frames of a commit, if what a transaction has read is unchanged under the lock of the append.
    fn append_checked(
        &self,
        frames: &[FrameSpec<'_>],
        check: Option<&Check<'_>>,
        purpose: Purpose,
        staging: Option<&Staging<'_, '_>>,
    ) -> Result<Vec<Placed>> {
        let (log, mut placed) = (&self.engine.log, Vec::with_capacity(frames.len()));
        if let Some(check) = check {
            check.ahead()?;
            check.too_early()?;
        }
        match (check, staging) {
            (check, Some(staging)) => {
                let check = || check.map_or(Ok(()), Check::finally);
                staging.append(log, &check, frames, purpose, &mut placed)?;
            }
            (None, None) => log.append(frames, purpose, &mut placed)?,
            (Some(check), None) => log.append_if(&|| check.finally(), frames, purpose, &mut placed)?,
        }
        Ok(placed)
    }

    /// What each record of the commit replaces. Looked up before anything is written: once the commit is in the log, publishing it must not
    /// fail half way.
    fn find_old(&self, shards: &mut Shards<'_>, targets: &[Target<'_>], now: &Now<'_>) -> Result<Vec<Looked>> {
        let mut old = Vec::with_capacity(targets.len());
        let pin = self.engine.pins.pin();
        let hashes = |from: usize| targets.iter().skip(from).take(GROUP).map(|target| target.key.hash);
        self.engine.prefetch_slots(&pin, hashes(0));
        for (number, group) in targets.chunks(GROUP).enumerate() {
            // Prefetch the slots of the next group while this one is looked up.
            self.engine.prefetch_slots(&pin, hashes((number + 1) * GROUP));
            let places = self.engine.locate(&pin, hashes(number * GROUP));
            places.iter().flatten().for_each(|&offset| self.engine.log.prefetch(offset));
            for (target, place) in group.iter().zip(places) {
                // The shards are locked, so a key that has no slot now gets none before the commit.
                let shard = shards.place(target.key.hash)?;
                let found = match shards.at(shard) {
                    // With the index in doubt, readers are kept off every shard, and no key has a place.
                    Some(guard) if place.is_some() || self.engine.doubt.get().is_some() => {
                        self.engine.find_locked(guard, target.key)?
                    }
                    _ => None,
                };
                let is_gone = target.op.value.is_none() && self.is_gone(found, now)?;
                old.push(Looked { shard, is_gone, replaces: found.map_or(Old::None, Old::InStore) });
            }
        }
        if targets.len() > 1 {
            Self::find_repeated(targets, &mut old);
        }
        Ok(old)
    }

    /// Of several records of one key in the commit, each replaces the one before it.
    fn find_repeated(targets: &[Target<'_>], old: &mut [Looked]) {
        // A hash table of the newest record of each key so far, at most half full, probed from the key's hash on.
        let mut newest = alloc::vec![u32::MAX; (2 * targets.len()).next_power_of_two()];
        let mask = newest.len() - 1;
        for ((index, target), old) in targets.iter().enumerate().zip(old) {
            let mut place = target.key.hash.low();
            while let Some(entry) = newest.get_mut(place & mask) {
                place = place.wrapping_add(1);
                let before = *entry as usize;
                match targets.get(before) {
                    Some(other) if other.key.hash != target.key.hash || other.key != target.key => continue,
                    Some(other) => {
                        old.replaces = if other.op.value.is_none() { Old::None } else { Old::InCommit(before) };
                        old.is_gone = false;
                    }
                    None => {}
                }
                *entry = index as u32;
                break;
            }
        }
    }

    /// Locks every shard that the commit touches. Repeats if a namespace got another number meanwhile, so that the keys are valid under the
    /// locks.
    fn lock_targets<'a>(&self, ops: &'a [BatchOp<'a>]) -> Result<(Shards<'_>, Vec<Target<'a>>)> {
        loop {
            let target = |op: &'a BatchOp<'a>| -> Result<Target<'a>> {
                let number = op.name.number().ok_or_else(|| Error::NamespaceDropped)?;
                Ok(Target { key: self.engine.full_key(number, op.key), op })
            };
            let targets: Vec<Target<'a>> = ops.iter().map(target).collect::<Result<_>>()?;
            // One bit per shard.
            let all = targets.len() >= ALL_SHARDS_FROM;
            let mut wanted = [if all { u64::MAX } else { 0 }; SHARDS / 64];
            for shard in targets.iter().map(|target| target.key.hash.shard()) {
                if let Some(word) = wanted.get_mut(shard / 64) {
                    *word |= 1 << (shard % 64);
                }
            }
            let mut shards = Shards(Vec::with_capacity(wanted.iter().map(|word| word.count_ones() as usize).sum()));
            for (index, mut word) in wanted.into_iter().enumerate() {
                while word != 0 {
                    let shard = index * 64 + word.trailing_zeros() as usize;
                    shards.0.push((shard, self.engine.lock_shard(shard)?));
                    word &= word - 1;
                }
            }
            if targets.iter().all(|target| target.op.name.number() == Some(target.key.namespace)) {
                return Ok((shards, targets));
            }
        }
    }
}
