//! Commits of several records across keys and namespaces; atomic after a crash.

use super::handle::Namespace;
use super::position::Position;
use super::version::Version;
use crate::engine::{FullKey, GROUP};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Meta};
use crate::index::{KeyHash, SHARDS, ShardGuard};
use crate::log::{Frame, Placed, Purpose};
use crate::names::Name;
use crate::planted::{Bug, is};
use crate::store::{Store, check_key, check_value};
use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
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

/// Writes and removals that become one commit, across namespaces; from [`Db::batch`](crate::Namespace::batch).
///
/// It borrows what it is given by reference, and owns what it is given by value, so it can be filled in a loop. It reads nothing, so it never
/// conflicts. Of several writes of one key the last one counts. After a crash all of it is there or nothing; concurrent reads may see a
/// part of it, except in a [`Db::transaction`](crate::Namespace::transaction).
///
/// ```
/// # fn main() -> pipkin::Result<()> {
/// let db = pipkin::Db::open_in_memory()?;
/// let log = db.namespace("log")?;
/// db.insert("old", "1")?;
/// db.batch().insert("new", "2").remove("old").insert_in(&log, "1", "renamed").commit()?;
/// assert_eq!((db.get("old")?, db.len()?, log.len()?), (None, 1, 1));
/// let mut batch = db.batch();
/// for number in 0..3_u32 {
///     batch = batch.insert(format!("key {number}"), number.to_be_bytes());
/// }
/// batch.commit()?;
/// assert_eq!(db.len()?, 4);
/// # Ok(())
/// # }
/// ```
#[must_use = "a batch does nothing until `commit`"]
pub struct Batch<'a> {
    /// The namespace of [`Self::insert`] and [`Self::remove`].
    home: &'a Namespace,
    ops: Vec<BatchOp<'a>>,
    /// Where `ops` has a place holder: what is put there at the end.
    owned: Vec<Owned<'a>>,
    /// The error that [`Self::commit`] returns: an operation named a namespace of another store.
    refused: Option<Error>,
}

/// A write or removal that the batch owns at least in part.
struct Owned<'a> {
    /// Index of its place holder.
    place: usize,
    key: Cow<'a, [u8]>,
    value: Option<Cow<'a, [u8]>>,
}

/// Bytes for a [`Batch`]: a reference to anything that is bytes, which the batch borrows, or bytes by value, which it keeps.
///
/// ```
/// # fn main() -> pipkin::Result<()> {
/// # let db = pipkin::Db::open_in_memory()?;
/// let name = String::from("ada");
/// db.batch().insert(&name, "borrowed").insert(format!("{name}'s age"), 36_u32.to_be_bytes()).commit()?;
/// # assert_eq!(db.len()?, 2);
/// # Ok(())
/// # }
/// ```
pub trait BatchBytes<'a> {
    /// The bytes.
    fn into_bytes(self) -> Cow<'a, [u8]>;
}

impl<'a, T: AsRef<[u8]> + ?Sized> BatchBytes<'a> for &'a T {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Borrowed(self.as_ref())
    }
}

impl<'a> BatchBytes<'a> for Vec<u8> {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Owned(self)
    }
}

impl<'a> BatchBytes<'a> for String {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Owned(self.into())
    }
}

impl<'a> BatchBytes<'a> for Box<[u8]> {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Owned(self.into())
    }
}

impl<'a, const N: usize> BatchBytes<'a> for [u8; N] {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        Cow::Owned(self.into())
    }
}

impl<'a> BatchBytes<'a> for Cow<'a, [u8]> {
    fn into_bytes(self) -> Cow<'a, [u8]> {
        self
    }
}

impl<'a> Batch<'a> {
    /// Stores a value in the namespace that the batch was made from.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.batch().insert("a", "1").insert("b", "2").commit()?;
    /// assert_eq!(db.len()?, 2);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert(self, key: impl BatchBytes<'a>, value: impl BatchBytes<'a>) -> Self {
        let home = self.home;
        self.push(&home.name, key.into_bytes(), Some(value.into_bytes()))
    }

    /// Removes a key of that namespace, if it is there.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("a", "1")?;
    /// db.batch().remove("a").remove("none").commit()?;
    /// assert!(db.is_empty()?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn remove(self, key: impl BatchBytes<'a>) -> Self {
        let home = self.home;
        self.push(&home.name, key.into_bytes(), None)
    }

    /// [`Self::insert`] in another namespace. If that belongs to another store, the commit fails.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// db.batch().insert_in(&users, "7", "Ada").insert("users", "1").commit()?;
    /// assert!(users.contains_key("7")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert_in(self, namespace: &'a Namespace, key: impl BatchBytes<'a>, value: impl BatchBytes<'a>) -> Self {
        self.push_in(namespace, key.into_bytes(), Some(value.into_bytes()))
    }

    /// [`Self::remove`] in another namespace. If that belongs to another store, the commit fails.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// users.insert("7", "Ada")?;
    /// db.batch().remove_in(&users, "7").remove("users").commit()?;
    /// assert!(users.is_empty()?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn remove_in(self, namespace: &'a Namespace, key: impl BatchBytes<'a>) -> Self {
        self.push_in(namespace, key.into_bytes(), None)
    }

    fn push_in(mut self, namespace: &'a Namespace, key: Cow<'a, [u8]>, value: Option<Cow<'a, [u8]>>) -> Self {
        match namespace.name_in(&self.home.store) {
            Ok(name) => self.push(name, key, value),
            Err(error) => {
                self.refused = Some(error);
                self
            }
        }
    }

    // Inlined, so that the kinds of the bytes are known: batches of borrowed bytes took 3 % more instructions.
    #[inline(always)]
    fn push(self, name: &'a Arc<Name>, key: Cow<'a, [u8]>, value: Option<Cow<'a, [u8]>>) -> Self {
        match (key, value) {
            (Cow::Borrowed(key), None) => self.push_borrowed(name, key, None),
            (Cow::Borrowed(key), Some(Cow::Borrowed(value))) => self.push_borrowed(name, key, Some(value)),
            (key, value) => self.push_owned(name, key, value),
        }
    }

    fn push_borrowed(mut self, name: &'a Arc<Name>, key: &'a [u8], value: Option<&'a [u8]>) -> Self {
        self.ops.push(BatchOp { name, key, value });
        self
    }

    fn push_owned(mut self, name: &'a Arc<Name>, key: Cow<'a, [u8]>, value: Option<Cow<'a, [u8]>>) -> Self {
        self.owned.push(Owned { place: self.ops.len(), key, value });
        self.push_borrowed(name, &[], None)
    }

    /// Writes everything: after a crash all of it is there, or nothing.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let mut batch = db.batch();
    /// for (key, value) in [("a", "1"), ("b", "2")] {
    ///     batch = batch.insert(key, value);
    /// }
    /// batch.commit()?; // nothing was written before
    /// assert_eq!(db.len()?, 2);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Db::insert`](crate::Namespace::insert), and [`Error::InvalidArgument`] for a namespace of another store; after an error
    /// nothing was written, unless the store is poisoned.
    pub fn commit(self) -> Result<()> {
        self.write().map(drop)
    }

    /// Returns the position of the commit, or `None` if nothing was to be written.
    fn write(self) -> Result<Option<Position>> {
        match self.refused {
            Some(error) => Err(error),
            None => {
                let mut ops: Vec<BatchOp<'_>> = self.ops;
                for Owned { place, key, value } in &self.owned {
                    if let Some(op) = ops.get_mut(*place) {
                        *op = BatchOp { name: op.name, key, value: value.as_deref() };
                    }
                }
                Ok(self.home.store.commit(&ops, &[])?.end)
            }
        }
    }

    /// Like [`Self::commit`]; returns the position of the commit, or, if nothing was to be written, that of the store.
    pub fn commit_with_position(self) -> Result<Position> {
        let store = &self.home.store;
        store.engine.log.make_positions_unique()?;
        let position = self.write()?;
        position.map_or_else(|| store.position(), Ok)
    }
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
struct Target<'a> {
    key: FullKey<'a>,
    op: &'a BatchOp<'a>,
}

/// The result of looking up a record of a commit.
struct Looked {
    /// The index of its shard in [`Shards`].
    shard: usize,
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

impl Namespace {
    /// Stores many records as one commit: after a crash all of them are there or none. Concurrent reads, except in a [`Self::transaction`],
    /// may find some of them and not yet the others.
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

    /// Removes many keys as one commit. Returns how many existed; faster than single removes.
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
        Ok(self.store.commit(&ops, &[])?.removed)
    }

    /// Begins a commit of writes and removals, in this namespace and others. See [`Batch`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("old", "1")?;
    /// db.batch().insert("new", "1").remove("old").commit()?; // renamed
    /// assert_eq!(db.len()?, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub const fn batch(&self) -> Batch<'_> {
        Batch { home: self, ops: Vec::new(), owned: Vec::new(), refused: None }
    }
}

impl Store {
    /// Writes a commit, if everything in `seen` is unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when something in `seen` has changed; nothing was written.
    pub(super) fn commit(&self, ops: &[BatchOp<'_>], seen: &[Seen<'_>]) -> Result<Committed> {
        for op in ops {
            check_key(op.key)?;
            check_value(op.value.unwrap_or_default())?;
        }
        if ops.is_empty() {
            // Nothing to write: only what was read is checked, which needs no space, no sync and no writable store.
            return if seen.is_empty() { Ok(Committed::default()) } else { self.try_commit(ops, seen, Purpose::Store) };
        }
        self.writable()?;
        let stores = ops.iter().any(|op| op.value.is_some());
        let purpose = if stores { Purpose::Store } else { Purpose::MakeSpace };
        let commit = || self.try_commit(ops, seen, purpose);
        // Removals free space, so compaction may run to make room for them.
        let committed = if stores { self.with_room(commit) } else { self.with_space(commit) }?;
        self.after_write()?;
        Ok(committed)
    }

    fn try_commit(&self, ops: &[BatchOp<'_>], seen: &[Seen<'_>], purpose: Purpose) -> Result<Committed> {
        let (mut shards, targets, read) = self.lock_targets(ops, seen)?;
        self.check_seen(&mut shards, seen, &read)?;
        let old = self.find_old(&mut shards, &targets)?;
        // A removal that finds nothing writes no tombstone.
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
            return Ok(Committed::default());
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
            // `find_old` has found the shard: nothing can fail any more.
            let Some(shard) = shards.at(looked.shard) else { continue };
            match target.op.value {
                Some(_) => self.engine.publish_tallied(shard, target.key, old, new, &mut tally),
                None => {
                    self.engine.publish_remove(shard, target.key, old, new);
                    removed += 1;
                }
            }
        }
        Ok(Committed { removed, end: placed.last().map(|&last| self.position_of(last)) })
    }

    /// What each record of the commit replaces. Looked up before anything is written: once the commit is in the log, publishing it must not
    /// fail half way.
    fn find_old(&self, shards: &mut Shards<'_>, targets: &[Target<'_>]) -> Result<Vec<Looked>> {
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
                    Some(other) => old.replaces = if other.op.value.is_none() { Old::None } else { Old::InCommit(before) },
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
