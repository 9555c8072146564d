//! Commits of several records: all of them or none, across keys and namespaces.

use super::handle::Namespace;
use super::version::Version;
use crate::engine::{FullKey, GROUP};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Meta};
use crate::index::{KeyHash, SHARDS, ShardGuard};
use crate::log::{Frame, Placed, Purpose};
use crate::names::Name;
use crate::planted::{Bug, is};
use crate::store::{Store, check_key, check_value};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// From so many records on a commit takes all shards: sorting out the few that it does not need would cost more.
const ALL_SHARDS_FROM: usize = 128;

/// One record of a commit.
#[derive(Debug)]
pub(super) struct BatchOp<'a> {
    pub(super) name: &'a Arc<Name>,
    pub(super) key: &'a [u8],
    /// `None` removes the key.
    pub(super) value: Option<&'a [u8]>,
}

/// Writes and removals that become one commit, across namespaces; from [`Db::batch`](crate::Namespace::batch).
///
/// It borrows what it is given, reads nothing and so meets no conflict. Of several writes of one key the last one counts. After a crash all
/// of it is there or none; whoever reads while it is written may see a part, other than in a [`Db::transaction`](crate::Namespace::transaction).
///
/// ```
/// # fn main() -> pipkin::Result<()> {
/// let db = pipkin::Db::open_in_memory()?;
/// let log = db.namespace("log")?;
/// db.insert("old", "1")?;
/// db.batch().insert("new", "2").remove("old").insert_in(&log, "1", "renamed").commit()?;
/// assert_eq!((db.get("old")?, db.len()?, log.len()?), (None, 1, 1));
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch does nothing until `commit`"]
pub struct Batch<'a> {
    /// What [`Self::insert`] and [`Self::remove`] are about.
    home: &'a Namespace,
    ops: Vec<BatchOp<'a>>,
    /// Why it cannot be committed.
    refused: Option<Error>,
}

impl<'a> Batch<'a> {
    /// Stores a value in the namespace that the batch is from.
    pub fn insert<K, V>(self, key: &'a K, value: &'a V) -> Self
    where
        K: AsRef<[u8]> + ?Sized,
        V: AsRef<[u8]> + ?Sized,
    {
        let home = self.home;
        self.push(&home.name, key.as_ref(), Some(value.as_ref()))
    }

    /// Removes a key of that namespace, if it is there.
    pub fn remove<K: AsRef<[u8]> + ?Sized>(self, key: &'a K) -> Self {
        let home = self.home;
        self.push(&home.name, key.as_ref(), None)
    }

    /// [`Self::insert`] in another namespace. One of another store has the commit refused.
    pub fn insert_in<K, V>(self, namespace: &'a Namespace, key: &'a K, value: &'a V) -> Self
    where
        K: AsRef<[u8]> + ?Sized,
        V: AsRef<[u8]> + ?Sized,
    {
        self.push_in(namespace, key.as_ref(), Some(value.as_ref()))
    }

    /// [`Self::remove`] in another namespace. One of another store has the commit refused.
    pub fn remove_in<K: AsRef<[u8]> + ?Sized>(self, namespace: &'a Namespace, key: &'a K) -> Self {
        self.push_in(namespace, key.as_ref(), None)
    }

    fn push_in(mut self, namespace: &'a Namespace, key: &'a [u8], value: Option<&'a [u8]>) -> Self {
        match namespace.name_in(&self.home.store) {
            Ok(name) => self.push(name, key, value),
            Err(error) => {
                self.refused = Some(error);
                self
            }
        }
    }

    fn push(mut self, name: &'a Arc<Name>, key: &'a [u8], value: Option<&'a [u8]>) -> Self {
        self.ops.push(BatchOp { name, key, value });
        self
    }

    /// Writes everything: after a crash all of it is there, or none.
    ///
    /// # Errors
    ///
    /// As for [`Db::insert`](crate::Namespace::insert), and [`Error::InvalidArgument`] for a namespace of another store; nothing was written
    /// then, unless the store is poisoned.
    pub fn commit(self) -> Result<()> {
        match self.refused {
            Some(error) => Err(error),
            None => self.home.store.commit(&self.ops, &[]).map(drop),
        }
    }
}

/// Values up to so many bytes are kept by the transaction that has read them.
const KEPT_MAX: usize = 64 * 1024;

/// The record that a transaction has found.
#[derive(Debug)]
pub(super) struct Read {
    version: Version,
    /// Its value: compaction gives the record another version, and that is no conflict.
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

/// What a transaction has read and must find again: a record, or none.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) name: &'a Arc<Name>,
    pub(super) key: &'a [u8],
    pub(super) read: Option<&'a Read>,
}

/// The shards of a commit, locked in order, so that two commits never wait for each other.
struct Shards<'a>(Vec<(usize, ShardGuard<'a>)>);

impl<'a> Shards<'a> {
    /// The place of a key's shard among those that are locked.
    fn place(&self, hash: KeyHash) -> Result<usize> {
        let shard = hash.shard();
        let place = if self.0.len() == SHARDS { Ok(shard) } else { self.0.binary_search_by_key(&shard, |(number, _)| *number) };
        place.map_err(|_| Error::Bug("a commit has not locked the shard of one of its keys"))
    }

    fn at(&mut self, place: usize) -> Option<&mut ShardGuard<'a>> {
        self.0.get_mut(place).map(|(_, guard)| guard)
    }
}

/// A record with what locking has shown about it.
struct Target<'a> {
    key: FullKey<'a>,
    op: &'a BatchOp<'a>,
}

/// What looking a record of a commit up has shown.
struct Looked {
    /// The place of its shard.
    shard: usize,
    replaces: Old,
}

/// What a record of a commit replaces.
enum Old {
    None,
    InStore(Placed),
    /// The record of that number in the same commit.
    InCommit(usize),
}

impl Namespace {
    /// Stores many records as one commit: after a crash all of them are there or none. Whoever reads meanwhile, other than in a
    /// [`Self::transaction`], may find some of them and not yet the others.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2")])?;
    /// assert_eq!(db.len()?, 2);
    /// # Ok(())
    /// # }
    /// ```
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let (name, records) = (&self.name, records.into_iter().collect::<Vec<(K, V)>>());
        let ops: Vec<BatchOp<'_>> =
            records.iter().map(|(key, value)| BatchOp { name, key: key.as_ref(), value: Some(value.as_ref()) }).collect();
        self.store.commit(&ops, &[]).map(drop)
    }

    /// Removes many keys as one commit; says how many of them there were. Quicker than one after the other.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2")])?;
    /// assert_eq!(db.remove_many(["a", "c"])?, 1);
    /// assert_eq!(db.len()?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<usize> {
        let (name, keys) = (&self.name, keys.into_iter().collect::<Vec<K>>());
        let ops: Vec<BatchOp<'_>> = keys.iter().map(|key| BatchOp { name, key: key.as_ref(), value: None }).collect();
        self.store.commit(&ops, &[])
    }

    /// A commit to be filled with writes and removals of this namespace and of any others. See [`Batch`].
    pub const fn batch(&self) -> Batch<'_> {
        Batch { home: self, ops: Vec::new(), refused: None }
    }
}

impl Store {
    /// Writes a commit, if everything in `seen` is still as it was; says how many of its removals found something.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when it is not; nothing was written then.
    pub(super) fn commit(&self, ops: &[BatchOp<'_>], seen: &[Seen<'_>]) -> Result<usize> {
        for op in ops {
            check_key(op.key)?;
            check_value(op.value.unwrap_or_default())?;
        }
        if ops.is_empty() {
            // Nothing to write: only what was read has to be as it was, and no space is needed, no sync, and no right to write.
            return if seen.is_empty() { Ok(0) } else { self.try_commit(ops, seen, Purpose::Store) };
        }
        self.writable()?;
        let stores = ops.iter().any(|op| op.value.is_some());
        let purpose = if stores { Purpose::Store } else { Purpose::MakeSpace };
        let commit = || self.try_commit(ops, seen, purpose);
        // Removals make space, so they may have some made for them.
        let removed = if stores { self.with_room(commit) } else { self.with_space(commit) }?;
        self.after_write()?;
        Ok(removed)
    }

    fn try_commit(&self, ops: &[BatchOp<'_>], seen: &[Seen<'_>], purpose: Purpose) -> Result<usize> {
        let (mut shards, targets, read) = self.lock_targets(ops, seen)?;
        self.check_seen(&mut shards, seen, &read)?;
        let old = self.find_old(&mut shards, &targets)?;
        // A removal that finds nothing leaves nothing behind.
        let is_needed = |(target, old): (&Target<'_>, &Looked)| {
            target.op.value.is_some() || !matches!(old.replaces, Old::None) || self.engine.may_be_there(target.key.hash)
        };
        let all = || targets.iter().zip(&old);
        let skipped: Vec<usize> = all().enumerate().filter(|(_, both)| !is_needed(*both)).map(|(index, _)| index).collect();
        let count = targets.len() - skipped.len();
        let mut frames: Vec<FrameSpec<'_>> = Vec::with_capacity(count);
        for (target, _) in all().filter(|both| is_needed(*both)) {
            frames.push(FrameSpec {
                kind: if target.op.value.is_some() { Kind::Put } else { Kind::Tombstone },
                continues: frames.len() + 1 < count && !is(Bug::TransactionSplit),
                meta: Meta::plain(target.key.namespace),
                key: target.op.key,
                value: target.op.value.unwrap_or_default(),
            });
        }
        if frames.is_empty() {
            return Ok(0);
        }
        let mut placed = Vec::with_capacity(frames.len());
        self.engine.log.append(&frames, purpose, &mut placed)?;
        let mut removed = 0;
        let mut tally = self.engine.log.segment_stats.tally();
        for ((target, looked), &new) in all().filter(|both| is_needed(*both)).zip(&placed) {
            let old = match looked.replaces {
                Old::None => None,
                Old::InStore(old) => Some(old),
                Old::InCommit(index) => placed.get(index - skipped.partition_point(|&skipped| skipped < index)).copied(),
            };
            // `find_old` has found the place: nothing can fail any more.
            let Some(shard) = shards.at(looked.shard) else { continue };
            match target.op.value {
                Some(_) => self.engine.publish_tallied(shard, target.key, old, new, &mut tally),
                None => {
                    self.engine.publish_remove(shard, target.key, old, new);
                    removed += 1;
                }
            }
        }
        Ok(removed)
    }

    /// What each record of the commit replaces. Looked up before anything is written: once the commit stands in the log, publishing it
    /// must not fail half way.
    fn find_old(&self, shards: &mut Shards<'_>, targets: &[Target<'_>]) -> Result<Vec<Looked>> {
        let mut old = Vec::with_capacity(targets.len());
        let pin = self.engine.pins.pin();
        let hashes = |from: usize| targets.iter().skip(from).take(GROUP).map(|target| target.key.hash);
        self.engine.prefetch_slots(&pin, hashes(0));
        for (number, group) in targets.chunks(GROUP).enumerate() {
            // The slots of the next group are on their way while this one is looked up.
            self.engine.prefetch_slots(&pin, hashes((number + 1) * GROUP));
            let places = self.engine.locate(&pin, hashes(number * GROUP));
            places.iter().flatten().for_each(|&offset| self.engine.log.prefetch(offset));
            for (target, place) in group.iter().zip(places) {
                // With the shards held, what is not there now will not be there later.
                let shard = shards.place(target.key.hash)?;
                let found = match shards.at(shard) {
                    Some(guard) if place.is_some() => self.engine.find_locked(guard, target.key)?,
                    _ => None,
                };
                old.push(Looked { shard, replaces: found.map_or(Old::None, Old::InStore) });
            }
        }
        if targets.len() > 1 {
            Self::find_repeated(targets, &mut old);
        }
        Ok(old)
    }

    /// Of several records of one key in the commit, each replaces the one before it.
    fn find_repeated(targets: &[Target<'_>], old: &mut [Looked]) {
        // A hash table of the newest record of each key so far, at most half full. The hashes are good enough to be places.
        let mut newest = alloc::vec![u32::MAX; (2 * targets.len()).next_power_of_two()];
        let mask = newest.len() - 1;
        for ((index, target), old) in targets.iter().enumerate().zip(old) {
            let mut place = target.key.hash.low();
            while let Some(entry) = newest.get_mut(place & mask) {
                place = place.wrapping_add(1);
                let before = *entry as usize;
                match targets.get(before) {
                    Some(other) if other.key.hash != target.key.hash || other.key != target.key => continue,
                    Some(other) => old.replaces = if other.op.value.is_none() { Old::None } else { Old::InCommit(before) },
                    None => {}
                }
                *entry = index as u32;
                break;
            }
        }
    }

    /// Locks every shard that the commit touches, under the numbers that the namespaces have at that moment.
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
            // A bit for each shard.
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

    fn check_seen(&self, shards: &mut Shards<'_>, seen: &[Seen<'_>], keys: &[FullKey<'_>]) -> Result<()> {
        for (seen, key) in seen.iter().zip(keys) {
            let place = shards.place(key.hash)?;
            let frame = shards.at(place).map(|guard| self.engine.frame_locked(guard, *key)).transpose()?.flatten();
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
