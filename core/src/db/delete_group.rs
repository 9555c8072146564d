//! Removing a group: all records whose keys begin with a prefix, as one commit.
//!
//! They are looked for while others write. Then all shards are locked, what was replaced or removed meanwhile is dropped from the list, and
//! what was written meanwhile, which its log position tells, is added to it. So the other writers wait only while the tombstones are written
//! and published. The list has 24 bytes for a record, and the tombstones take their keys from the log.

use super::group::group_prefix;
use super::handle::Namespace;
use crate::engine::{Ends, Engine, FullKey, GROUP};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Meta};
use crate::index::{KeyHash, SHARDS, ShardGuard, Slot};
use crate::log::{Frame, Frames, Placed, Purpose};
use crate::names::Name;
use crate::planted::{Bug, is};
use crate::sorted::sort_by_key;
use crate::store::Store;
use alloc::vec::Vec;
#[cfg(feature = "ordered")]
use core::ops::Bound;

/// Prefetch distance, in records.
const AHEAD: usize = 8;

/// A record of the group.
struct Member {
    hash: KeyHash,
    offset: u64,
    /// Length of its frame. A value has at most 1 GiB.
    len: u32,
    /// Length of its key, and [`EXPIRES`] if it has an expiry.
    key_len: u32,
}

const EXPIRES: u32 = 1 << 31;

const _: () = assert!(size_of::<Member>() == 24);

impl Member {
    fn of(engine: &Engine, frame: &Frame<'_>) -> Self {
        let mut member = Self { hash: engine.hash_of(frame), offset: frame.offset, len: 0, key_len: frame.key().len() as u32 };
        member.measure(frame);
        member
    }

    fn measure(&mut self, frame: &Frame<'_>) {
        self.len = frame.header.frame_len() as u32;
        self.key_len |= if frame.header.expires() { EXPIRES } else { 0 };
    }

    const fn expires(&self) -> bool {
        self.key_len & EXPIRES != 0
    }

    const fn key_len(&self) -> usize {
        (self.key_len & !EXPIRES) as usize
    }

    const fn placed(&self) -> Placed {
        Placed { offset: self.offset, len: self.len as u64 }
    }

    /// Shard by shard, and in file order in each.
    const fn order(&self) -> u64 {
        (self.hash.shard() as u64) << 56 | self.offset
    }
}

/// A list that grows by a quarter, so that it never takes much more memory than it needs.
fn push(members: &mut Vec<Member>, member: Member) {
    if members.len() == members.capacity() {
        members.reserve_exact(members.len() / 4 + 64);
    }
    members.push(member);
}

impl Namespace {
    /// Removes every record of a [group](Self::group), as one commit: after a crash all of them are gone, or none. Returns how many there
    /// were. Records that other threads insert into the group before the commit are removed, too; reads that run meanwhile may find some of
    /// the group.
    ///
    /// Without the [ordered index](crate::Builder::ordered) every record of the store is looked at, while others go on writing; they wait
    /// while the removals themselves are written. Takes at most 64 bytes of memory for each record that is removed.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("user.7.name", "Ada"), ("user.7.mail.home", "..."), ("user.70.name", "Bea")])?;
    /// assert_eq!(db.delete_group("user.7")?, 2);
    /// assert_eq!(db.len()?, 1); // user.70 is another group
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Self::remove_many`]: nothing was removed. [`Error::InvalidArgument`] for an empty name. [`Error::Corrupt`] when there is a
    /// damaged record whose key cannot be read, since it might be one of the group: copy the store with `pipkin salvage`. Where the
    /// [error names the key](Error::damaged_key), [remove](Self::remove) it first. A storage that fails while the tombstones are written
    /// closes the store to writes, and nothing was removed.
    pub fn delete_group(&self, name: impl AsRef<[u8]>) -> Result<u64> {
        self.store.delete_prefix(&self.name, &group_prefix(name.as_ref())?)
    }
}

impl Store {
    /// Removes all records whose keys begin with `prefix`; returns how many there were.
    pub(super) fn delete_prefix(&self, name: &Name, prefix: &[u8]) -> Result<u64> {
        self.writable()?;
        let removed = self.with_space(|| self.seen(self.try_delete_prefix(name, prefix)))?;
        if removed > 0 {
            self.after_write()?;
        }
        Ok(removed)
    }

    fn try_delete_prefix(&self, name: &Name, prefix: &[u8]) -> Result<u64> {
        let engine = &self.engine;
        engine.has_met_all()?;
        loop {
            let number = name.number().ok_or(Error::NamespaceDropped)?;
            let group = Group { store: self, number, prefix };
            // While the pin lives, every record that is found stays where it is.
            let _pin = engine.pin();
            let since = engine.log.end();
            let mut members = group.look(since)?;
            sort_by_key(&mut members, Member::order);
            let mut shards = engine.lock_all()?;
            // For the notes of snapshots, which take the places from the order.
            #[cfg(feature = "ordered")]
            engine.make_moves();
            if name.number() != Some(number) {
                continue;
            }
            let has = |member: &Member| match shards.get(member.hash.shard()) {
                Some(shard) => shard.has(engine.medium(), member.hash.slot(member.offset)),
                None => Ok(false),
            };
            let live = members.iter().map(has).collect::<Result<Vec<bool>>>()?;
            let mut live = live.into_iter();
            members.retain(|_| live.next() == Some(true));
            group.add_newer(&shards, since, &mut members)?;
            return group.remove(&mut shards, &members);
        }
    }
}

/// What is to be removed.
struct Group<'a> {
    store: &'a Store,
    number: u32,
    prefix: &'a [u8],
}

impl Group<'_> {
    /// The records of the group that were appended before the log position `since`.
    fn look(&self, since: u64) -> Result<Vec<Member>> {
        #[cfg(feature = "ordered")]
        if self.store.engine.has_order(Some(self.number)).is_ok() {
            return self.look_in_order(since);
        }
        let engine = &self.store.engine;
        let mut members = Vec::new();
        for number in 0..SHARDS {
            // A commit holds its shards until it is published: what was appended before `since` is in them.
            let shard = engine.lock_shard(number)?;
            let mut slots = if shard.count(self.number) > 0 { shard.slots(engine.medium())? } else { Vec::new() };
            drop(shard);
            slots.retain(|slot| engine.log.lsn(slot.offset()) < since);
            sort_by_key(&mut slots, |slot| slot.offset());
            self.judge(number, &slots, &mut members)?;
        }
        Ok(members)
    }

    /// Adds the records of a shard that belong to the group.
    fn judge(&self, number: usize, slots: &[Slot], members: &mut Vec<Member>) -> Result<()> {
        let engine = &self.store.engine;
        for (at, &slot) in slots.iter().enumerate() {
            if at.is_multiple_of(GROUP) {
                let next: Vec<u64> = slots.iter().skip(at).take(GROUP).map(|slot| slot.offset()).collect();
                engine.log.will_read(&next);
            }
            slots.get(at + AHEAD).into_iter().for_each(|slot| engine.log.prefetch(slot.offset()));
            let unknown = || Error::corrupt(slot.offset(), "a record whose key cannot be read: it may be one of the group");
            let frame = engine.owned(number, slot)?.ok_or_else(unknown)?;
            if frame.header.namespace == self.number && frame.key().starts_with(self.prefix) {
                push(members, Member::of(engine, &frame));
            }
        }
        Ok(())
    }

    /// As [`Self::look`], by the ordered index.
    #[cfg(feature = "ordered")]
    fn look_in_order(&self, since: u64) -> Result<Vec<Member>> {
        let engine = &self.store.engine;
        for number in 0..SHARDS {
            drop(engine.lock_shard(number)?);
        }
        // What was copied before `since` has its new place in the order, too.
        if !is(Bug::GroupBeforeMoves) {
            engine.make_moves();
        }
        self.store.has_all_in_order(&engine.pin(), self.number)?;
        let mut members = Vec::new();
        engine.walk_keys(self.number, Bound::Included(self.prefix), |key, offset| {
            let is_in = key.starts_with(self.prefix);
            if is_in && engine.log.lsn(offset) < since {
                push(
                    &mut members,
                    Member { hash: engine.full_key(self.number, key).hash, offset, len: 0, key_len: key.len() as u32 },
                );
            }
            is_in
        })?;
        let mut offsets: Vec<u64> = Vec::with_capacity(GROUP);
        sort_by_key(&mut members, |member| member.offset);
        for group in members.chunks_mut(GROUP) {
            offsets.clear();
            offsets.extend(group.iter().map(|member| member.offset));
            engine.log.will_read(&offsets);
            offsets.iter().for_each(|&offset| engine.log.prefetch(offset));
            for member in group {
                let unknown =
                    || self.store.named(Error::corrupt(member.offset, "a record of the group"), self.number, member.offset);
                let frame = engine.owned(member.hash.shard(), member.hash.slot(member.offset))?.ok_or_else(unknown)?;
                member.measure(&frame);
            }
        }
        Ok(members)
    }

    /// Adds the records that were appended from the log position `since` on. All shards are locked.
    fn add_newer(&self, shards: &[ShardGuard<'_>], since: u64, members: &mut Vec<Member>) -> Result<()> {
        for (number, shard) in shards.iter().enumerate() {
            let mut newer = shard.slots(self.store.engine.medium())?;
            newer.retain(|slot| self.store.engine.log.lsn(slot.offset()) >= since);
            self.judge(number, &newer, members)?;
        }
        Ok(())
    }

    /// Writes the tombstones and takes the records out of the index.
    fn remove(&self, shards: &mut [ShardGuard<'_>], members: &[Member]) -> Result<u64> {
        let engine = &self.store.engine;
        let there = self.count_unexpired(members)?;
        if there == 0 {
            // What has expired is not there, and is a tombstone already.
            return Ok(0);
        }
        let mut placed = Vec::with_capacity(members.len());
        shards.iter().for_each(ShardGuard::will_publish);
        engine.log.append_from(&Tombstones { engine, number: self.number, members }, Purpose::MakeSpace, &mut placed)?;
        for tombstone in &placed {
            engine.log.segment_stats.add_tombstone(engine.log.geometry.extent_of(tombstone.offset), tombstone.len);
        }
        if let Some(&last) = placed.last()
            && engine.moments.any()
        {
            self.leave_notes(shards, members, last);
        }
        // The order first: what it names must be kept from reuse by the index.
        #[cfg(feature = "ordered")]
        if let Some(ordered) = engine.ordered.get() {
            ordered.remove_prefix(self.number, self.prefix, engine);
        }
        for member in members {
            if let Some(shard) = shards.get_mut(member.hash.shard()) {
                engine.take_out(shard, member.hash, self.number, member.placed());
            }
        }
        Ok(there)
    }

    /// How many of the records have not expired at this moment.
    fn count_unexpired(&self, members: &[Member]) -> Result<u64> {
        let engine = &self.store.engine;
        let now = engine.moment_of_now();
        let mut count = members.len() as u64;
        for member in members.iter().filter(|member| member.expires()) {
            count -= u64::from(engine.has_expired(&engine.log.frame(member.offset)?, &now));
        }
        Ok(count)
    }

    /// Leaves notes for the living snapshots. For them the commit has one position, so that of its last record serves for all.
    fn leave_notes(&self, shards: &[ShardGuard<'_>], members: &[Member], last: Placed) {
        let engine = &self.store.engine;
        let leave = |key: FullKey<'_>, old: Placed| {
            if let Some(shard) = shards.get(key.hash.shard()) {
                engine.leave_note(shard, key, Some(old), last, Ends::Removed);
            }
        };
        #[cfg(feature = "ordered")]
        if let Some(ordered) = engine.ordered.get() {
            // Their ghosts need the keys, which the order still has. That cannot fail: the look at the group has read all parts of it.
            let _ = ordered.walk(self.number, Bound::Included(self.prefix), engine, |key, offset| {
                let is_in = key.starts_with(self.prefix);
                if is_in {
                    leave(engine.full_key(self.number, key), Placed { offset, len: 0 });
                }
                is_in
            });
            return;
        }
        members.iter().for_each(|member| leave(FullKey { namespace: self.number, key: &[], hash: member.hash }, member.placed()));
    }
}

/// The tombstones of a group.
struct Tombstones<'a> {
    engine: &'a Engine,
    number: u32,
    members: &'a [Member],
}

impl Tombstones<'_> {
    fn spec<'k>(&self, index: usize, key: &'k [u8]) -> FrameSpec<'k> {
        let is_split = is(Bug::GroupInTwoCommits) && index + 1 == self.members.len() / 2;
        let continues = index + 1 < self.members.len() && !is_split;
        FrameSpec { kind: Kind::Tombstone, continues, meta: Meta::plain(self.number), key, value: &[] }
    }
}

impl Frames for Tombstones<'_> {
    fn count(&self) -> usize {
        self.members.len()
    }

    fn len_of(&self, index: usize) -> u64 {
        let key_len = |member: &Member| self.spec(index, &[]).len_with(member.key_len(), 0) as u64;
        self.members.get(index).map_or(0, key_len)
    }

    fn with(&self, index: usize, put: impl FnOnce(&FrameSpec<'_>) -> Result<()>) -> Result<()> {
        let Some(member) = self.members.get(index) else { return Ok(()) };
        let log = &self.engine.log;
        if index.is_multiple_of(GROUP) {
            let mut next = [member.offset; GROUP];
            next.iter_mut().zip(self.members.iter().skip(index)).for_each(|(place, member)| *place = member.offset);
            log.will_read(&next);
        }
        self.members.get(index + AHEAD).into_iter().for_each(|ahead| log.prefetch(ahead.offset));
        let frame = log.frame(member.offset)?;
        // The key was right when the record was found: another one now is damage, or a file that somebody else has changed.
        if self.engine.hash_of(&frame) != member.hash {
            return Err(Error::corrupt(member.offset, "the key of a record"));
        }
        put(&self.spec(index, frame.key()))
    }
}
