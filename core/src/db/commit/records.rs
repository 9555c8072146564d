//! The records of a commit: what each of them is and replaces, which of them are written, and the shards that they lock.

use crate::engine::{Engine, FullKey};
use crate::error::{Error, Result};
use crate::few::Few;
use crate::frame::{FrameSpec, Kind, Meta};
use crate::index::{KeyHash, SHARDS, ShardGuard};
use crate::log::Placed;
use crate::names::Name;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// One record of a commit.
#[derive(Debug)]
pub(in crate::db) struct BatchOp<'a> {
    pub(in crate::db) name: &'a Arc<Name>,
    pub(in crate::db) key: &'a [u8],
    /// `None` removes the key.
    pub(in crate::db) value: Option<&'a [u8]>,
}

impl<'a> BatchOp<'a> {
    pub(super) fn frame(&self, meta: Meta<'a>, continues: bool) -> FrameSpec<'a> {
        let kind = if self.value.is_some() { Kind::Put } else { Kind::Tombstone };
        FrameSpec { kind, continues, meta, key: self.key, value: self.value.unwrap_or_default() }
    }
}

/// The locked shards of a commit. They are locked in order, so that two commits cannot deadlock.
pub(super) struct Shards<'a>(pub(super) Few<(usize, ShardGuard<'a>), 2>);

impl<'a> Shards<'a> {
    /// The index of a key's shard among those that are locked.
    pub(super) fn place(&self, hash: KeyHash) -> Result<usize> {
        let shard = hash.shard();
        let place = if self.0.len() == SHARDS { Ok(shard) } else { self.0.binary_search_by_key(&shard, |(number, _)| *number) };
        place.map_err(|_| Error::Bug("a commit has not locked the shard of one of its keys"))
    }

    pub(super) fn at(&mut self, place: usize) -> Option<&mut ShardGuard<'a>> {
        self.0.get_mut(place).map(|(_, guard)| guard)
    }
}

/// A record of a commit with its full key, which is valid as long as its shard is locked.
pub(in crate::db) struct Target<'a> {
    pub(in crate::db) key: FullKey<'a>,
    pub(in crate::db) op: &'a BatchOp<'a>,
}

/// The result of looking up a record of a commit.
pub(super) struct Looked {
    /// The index of its shard in [`Shards`].
    pub(super) shard: usize,
    /// It is a removal, and the record has expired: its tombstone changes nothing, and it removes nothing.
    pub(super) is_gone: bool,
    pub(super) replaces: Old,
}

/// What a record of a commit replaces.
pub(super) enum Old {
    None,
    InStore(Placed),
    /// The record of that number in the same commit.
    InCommit(usize),
}

/// The records of a commit, with what each of them replaces.
pub(super) struct Records<'r> {
    targets: &'r [Target<'r>],
    old: &'r [Looked],
    /// Places of those that are not written, in order: a removal that finds nothing needs no tombstone.
    skipped: Vec<usize>,
}

/// A record that is written.
pub(super) struct Record<'r> {
    /// Its place in the commit.
    pub(super) index: usize,
    pub(super) target: &'r Target<'r>,
    pub(super) looked: &'r Looked,
}

impl<'r> Records<'r> {
    pub(super) fn of(engine: &Engine, targets: &'r [Target<'r>], old: &'r [Looked]) -> Self {
        let is_skipped = |(target, old): (&Target<'_>, &Looked)| {
            target.op.value.is_none() && matches!(old.replaces, Old::None) && !engine.may_be_there(target.key.hash)
        };
        let all = targets.iter().zip(old).enumerate();
        let skipped = all.filter(|(_, both)| is_skipped(*both)).map(|(index, _)| index).collect();
        Self { targets, old, skipped }
    }

    /// How many are written.
    pub(super) fn len(&self) -> usize {
        self.targets.len() - self.skipped.len()
    }

    /// Those that are written, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = Record<'r>> {
        let mut skipped = self.skipped.iter().peekable();
        let all = self.targets.iter().zip(self.old).enumerate();
        all.filter(move |(index, _)| skipped.next_if(|skipped| **skipped == *index).is_none())
            .map(|(index, (target, looked))| Record { index, target, looked })
    }

    /// What a record replaces, once all of them are in the log.
    pub(super) fn replaced(&self, record: &Record<'_>, placed: &[Placed]) -> Option<Placed> {
        match record.looked.replaces {
            Old::None => None,
            Old::InStore(old) => Some(old),
            Old::InCommit(index) => placed.get(index - self.skipped.partition_point(|&skipped| skipped < index)).copied(),
        }
    }
}
