//! Writing a commit: locks the shards that it touches, appends all frames, then publishes them. Under the lock of the append, what a
//! transaction has read is checked for the last time: no shard is locked for what was only read.

mod publish;
mod records;

use super::check::Check;
#[cfg(feature = "compress")]
use super::compression::packed_frame;
#[cfg(feature = "events")]
use super::events::{Appends, Staging};
#[cfg(not(feature = "events"))]
use super::no_events::{Appends, Staging};
use crate::clock::Now;
use crate::engine::GROUP;
use crate::error::{Error, Result};
use crate::few::Few;
use crate::frame::{FrameSpec, Meta};
use crate::index::SHARDS;
use crate::log::{Placed, Purpose};
use crate::planted::{Bug, is};
use crate::position::Position;
use crate::store::{Store, check_key, check_value};
use crate::ttl::Ttl;
use alloc::vec::Vec;
use records::{Looked, Old, Record, Records, Shards};

pub(super) use records::{BatchOp, Target};

/// A commit of at least this many records locks all shards: finding out the few that it does not need would cost more.
const ALL_SHARDS_FROM: usize = 128;

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
        // What most transactions write takes the way of an insertion: 2,000 instructions less.
        if cfg!(feature = "std")
            && let ([BatchOp { name, key, value: Some(value) }], [], Some(check)) = (ops, ttls, check)
            && appends.is_empty()
            && name.is_plain()
        {
            let end = self.insert_checked(name, key, value, check, &|placed| self.position_of(placed))?;
            return Ok(Committed { end: Some(end), ..Committed::default() });
        }
        self.writable()?;
        self.before_events(appends)?;
        #[cfg(feature = "compress")]
        ops.iter().for_each(|op| self.know_dictionaries(op.name));
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
        let records = Records::of(&self.engine, &targets, &old);
        let count = records.len() + appends.count();
        // Behind the shards, in front of the tail: from here on nobody else appends events.
        let staging = self.stage(appends)?;
        #[cfg(feature = "compress")]
        let metas =
            Self::packed_metas(self.engine.lengths(), targets.iter().map(|target| target.key.namespace), &expiries, &packed);
        let mut frames: Few<FrameSpec<'_>, 2> = Few::with_capacity(count);
        let end = if is(Bug::EventsInTheirOwnCommit) { records.len() } else { count };
        for Record { index, target, .. } in records.iter() {
            let plain = Meta::plain(target.key.namespace);
            let meta = expiries.get(index).map_or(plain, |(until, _)| until.meta(target.key.namespace));
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
        drop(frames);
        let removed = self.publish(&mut shards, &records, &placed, &expiries);
        if let Some(staging) = &staging {
            staging.publish(placed.get(records.len()..).unwrap_or_default());
        }
        Ok(Committed {
            removed,
            end: placed.last().map(|&last| self.position_of(last)),
            #[cfg(feature = "events")]
            ranges: staging.map(|staging| staging.staged.ranges).unwrap_or_default(),
        })
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
    fn find_old(&self, shards: &mut Shards<'_>, targets: &[Target<'_>], now: &Now<'_>) -> Result<Few<Looked, 2>> {
        let mut old = Few::with_capacity(targets.len());
        let pin = self.engine.pins.pin();
        let hashes = |from: usize| targets.iter().skip(from).take(GROUP).map(|target| target.key.hash);
        let prefetch = |from: usize| {
            self.engine.prefetch_slots(&pin, hashes(from));
            // One read alone gains nothing.
            targets.len() > 1 && self.engine.will_look_up(&pin, hashes(from))
        };
        let mut fetches = prefetch(0);
        for (number, group) in targets.chunks(GROUP).enumerate() {
            // Prefetch the slots of the next group while this one is looked up.
            let fetches_next = prefetch((number + 1) * GROUP);
            let places = self.engine.locate(&pin, hashes(number * GROUP), fetches);
            fetches = fetches_next;
            places.iter().flatten().for_each(|&offset| self.engine.log.prefetch(offset));
            for (target, place) in group.iter().zip(places) {
                // The shards are locked, so a key that has no slot now gets none before the commit.
                let shard = shards.place(target.key.hash)?;
                let found = match shards.at(shard) {
                    // Where the table alone does not answer, no key has a place.
                    Some(guard) if place.is_some() || self.engine.index.is_unclear(target.key.hash) => {
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
        let mut newest: Few<u32, 32> = Few::new();
        newest.resize((2 * targets.len()).next_power_of_two(), u32::MAX);
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
    fn lock_targets<'a>(&self, ops: &'a [BatchOp<'a>]) -> Result<(Shards<'_>, Few<Target<'a>, 2>)> {
        loop {
            let mut targets: Few<Target<'a>, 2> = Few::with_capacity(ops.len());
            for op in ops {
                let number = op.name.number().ok_or_else(|| Error::NamespaceDropped)?;
                targets.push(Target { key: self.engine.full_key(number, op.key), op });
            }
            // One bit per shard.
            let all = targets.len() >= ALL_SHARDS_FROM;
            let mut wanted = [if all { u64::MAX } else { 0 }; SHARDS / 64];
            for shard in targets.iter().map(|target| target.key.hash.shard()) {
                if let Some(word) = wanted.get_mut(shard / 64) {
                    *word |= 1 << (shard % 64);
                }
            }
            let mut shards = Shards(Few::with_capacity(wanted.iter().map(|word| word.count_ones() as usize).sum()));
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
