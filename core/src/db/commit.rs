//! Writing a commit: locks the shards that it touches, checks what a transaction has read, appends all frames, then publishes them.

use super::version::Version;
use crate::clock::Now;
use crate::engine::{FullKey, GROUP};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Meta};
use crate::index::{KeyHash, SHARDS, ShardGuard};
use crate::log::{Frame, Placed, Purpose};
use crate::names::Name;
use crate::planted::{Bug, is};
use crate::position::Position;
use crate::store::{Store, check_key, check_value};
use crate::ttl::Ttl;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A commit of at least this many records locks all shards: finding out the few that it does not need would cost more.
const ALL_SHARDS_FROM: usize = 128;

/// One record of a commit.
#[derive(Debug)]
pub(super) struct BatchOp<'a> {
    pub(super) name: &'a Arc<Name>,
    pub(super) key: &'a [u8],
    /// `None` removes the key.
    pub(super) value: Option<&'a [u8]>,
}

/// Longest value, in bytes, of which a transaction keeps a copy to compare at its end.
const KEPT_MAX: usize = 64 * 1024;

/// The record that a transaction has read.
#[derive(Debug)]
pub(super) struct Read {
    version: Version,
    /// Its value, up to [`KEPT_MAX`] bytes: compaction changes the version of a record, and an equal value shows that this is no conflict.
    value: Option<Vec<u8>>,
}

impl Read {
    pub(super) fn of(value: &[u8], version: Version) -> Self {
        Self { version, value: (value.len() <= KEPT_MAX).then(|| value.to_vec()) }
    }

    /// True if `frame` is this record, or has its value.
    fn is(&self, frame: &Frame<'_>) -> Result<bool> {
        if Version::of(frame) == self.version {
            return Ok(true);
        }
        frame.check()?;
        frame.is_readable()?;
        Ok(self.value.as_deref().is_some_and(|value| value == frame.value()))
    }
}

/// What a transaction has read and must find unchanged at its end: a record, or none.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) name: &'a Arc<Name>,
    pub(super) key: &'a [u8],
    pub(super) read: Option<&'a Read>,
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

/// What a commit has done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Committed {
    /// How many of its removals found a record.
    pub(super) removed: usize,
    /// Its position; `None` if nothing was written.
    pub(super) end: Option<Position>,
}

/// What a record of a commit replaces.
enum Old {
    None,
    InStore(Placed),
    /// The record of that number in the same commit.
    InCommit(usize),
}

impl Store {
    /// Writes a commit, if everything in `seen` is unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when something in `seen` has changed; nothing was written.
    ///
    /// `ttls` says how long some records live, by their place in `ops`, in order; the others live as long as their namespace says.
    pub(super) fn commit(&self, ops: &[BatchOp<'_>], ttls: &[(usize, Ttl)], seen: &[Seen<'_>]) -> Result<Committed> {
        for op in ops {
            check_key(op.key)?;
            check_value(op.value.unwrap_or_default())?;
        }
        if ops.is_empty() {
            // Nothing to write: only what was read is checked, which needs no space, no sync and no writable store.
            return if seen.is_empty() { Ok(Committed::default()) } else { self.try_commit(ops, ttls, seen, Purpose::Store) };
        }
        self.writable()?;
        let stores = ops.iter().any(|op| op.value.is_some());
        let purpose = if stores { Purpose::Store } else { Purpose::MakeSpace };
        let commit = || self.try_commit(ops, ttls, seen, purpose);
        // Removals free space, so compaction may run to make room for them.
        let committed = if stores { self.with_room(commit) } else { self.with_space(commit) }?;
        self.after_write()?;
        Ok(committed)
    }

    fn try_commit(&self, ops: &[BatchOp<'_>], ttls: &[(usize, Ttl)], seen: &[Seen<'_>], purpose: Purpose) -> Result<Committed> {
        let (mut shards, targets, read) = self.lock_targets(ops, seen)?;
        // Under the locks: what others commit to these keys comes before or after.
        let now = self.engine.moment_of_now();
        self.check_seen(&mut shards, seen, &read, &now)?;
        let expiries = self.expiries(&targets, ttls, &now)?;
        let old = self.find_old(&mut shards, &targets, &now)?;
        // A removal that finds nothing writes no tombstone.
        let is_needed = |(target, old): (&Target<'_>, &Looked)| {
            target.op.value.is_some() || !matches!(old.replaces, Old::None) || self.engine.may_be_there(target.key.hash)
        };
        let all = || targets.iter().zip(&old);
        let skipped: Vec<usize> = all().enumerate().filter(|(_, both)| !is_needed(*both)).map(|(index, _)| index).collect();
        let count = targets.len() - skipped.len();
        let mut frames: Vec<FrameSpec<'_>> = Vec::with_capacity(count);
        for (index, (target, _)) in all().enumerate().filter(|(_, both)| is_needed(*both)) {
            let plain = Meta::plain(target.key.namespace);
            frames.push(FrameSpec {
                kind: if target.op.value.is_some() { Kind::Put } else { Kind::Tombstone },
                continues: frames.len() + 1 < count && !is(Bug::TransactionSplit),
                meta: expiries.get(index).map_or(plain, |(until, _)| until.meta(target.key.namespace)),
                key: target.op.key,
                value: target.op.value.unwrap_or_default(),
            });
        }
        if frames.is_empty() {
            return Ok(Committed::default());
        }
        let mut placed = Vec::with_capacity(frames.len());
        self.engine.log.append(&frames, purpose, &mut placed)?;
        let mut removed = 0;
        let mut tally = self.engine.log.segment_stats.tally();
        for ((index, (target, looked)), &new) in all().enumerate().filter(|(_, both)| is_needed(*both)).zip(&placed) {
            let old = match looked.replaces {
                Old::None => None,
                Old::InStore(old) => Some(old),
                Old::InCommit(index) => placed.get(index - skipped.partition_point(|&skipped| skipped < index)).copied(),
            };
            // `find_old` has found the shard: nothing can fail any more.
            let Some(shard) = shards.at(looked.shard) else { continue };
            match target.op.value {
                Some(_) => {
                    self.engine.publish_tallied(shard, target.key, old, new, &mut tally);
                    if let Some(&(_, expiry)) = expiries.get(index).filter(|(_, expiry)| *expiry != 0) {
                        shard.expires(target.key.hash.slot(new.offset), expiry);
                    }
                }
                None => {
                    self.engine.publish_remove(shard, target.key, old, new);
                    removed += usize::from(!looked.is_gone);
                }
            }
        }
        Ok(Committed { removed, end: placed.last().map(|&last| self.position_of(last)) })
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
                    Some(guard) if place.is_some() => self.engine.find_locked(guard, target.key)?,
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
    fn lock_targets<'a>(
        &self,
        ops: &'a [BatchOp<'a>],
        seen: &[Seen<'a>],
    ) -> Result<(Shards<'_>, Vec<Target<'a>>, Vec<FullKey<'a>>)> {
        loop {
            let target = |op: &'a BatchOp<'a>| -> Result<Target<'a>> {
                let number = op.name.number().ok_or_else(|| Error::NamespaceDropped)?;
                Ok(Target { key: self.engine.full_key(number, op.key), op })
            };
            let targets: Vec<Target<'a>> = ops.iter().map(target).collect::<Result<_>>()?;
            let key =
                |seen: &Seen<'a>| Ok(self.engine.full_key(seen.name.number().ok_or_else(|| Error::NamespaceDropped)?, seen.key));
            let read: Vec<FullKey<'a>> = seen.iter().map(key).collect::<Result<_>>()?;
            // One bit per shard.
            let all = targets.len() + seen.len() >= ALL_SHARDS_FROM;
            let mut wanted = [if all { u64::MAX } else { 0 }; SHARDS / 64];
            for shard in targets.iter().map(|target| &target.key).chain(&read).map(|key| key.hash).map(KeyHash::shard) {
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
            let names = targets.iter().map(|target| target.op.name).chain(seen.iter().map(|seen| seen.name));
            let numbers = targets.iter().map(|target| &target.key).chain(&read).map(|key| key.namespace);
            if names.zip(numbers).all(|(name, number)| name.number() == Some(number)) {
                return Ok((shards, targets, read));
            }
        }
    }

    fn check_seen(&self, shards: &mut Shards<'_>, seen: &[Seen<'_>], keys: &[FullKey<'_>], now: &Now<'_>) -> Result<()> {
        for (seen, key) in seen.iter().zip(keys) {
            let place = shards.place(key.hash)?;
            let frame = shards.at(place).map(|guard| self.engine.frame_locked(guard, *key)).transpose()?.flatten();
            // What was read alive and has expired since has changed.
            let frame = frame.filter(|frame| !self.engine.has_expired(frame, now));
            let is_same = match (&frame, seen.read) {
                (Some(frame), Some(read)) => read.is(frame)?,
                (frame, read) => frame.is_none() && read.is_none(),
            };
            if !is_same {
                return Err(Error::Conflict);
            }
        }
        Ok(())
    }
}
