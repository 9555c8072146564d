//! A follower's index: looking up records whose space the writer may use again at any moment, and applying what the log says since.

use crate::engine::{Engine, FullKey};
use crate::error::{Error, Result};
use crate::frame::{Header, Kind, NAMESPACE_OF_NAMES};
use crate::index::{SHARDS, ShardGuard, Slot};
use crate::log::{Frame, Placed, Segment};
use crate::moments::Moment;
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::sync::Ordering;
use crate::vanished::{Namespaces, Unread, Vanished};
use alloc::vec::Vec;

/// What a snapshot answers whose records the writer has used the space of.
pub(crate) fn too_old(error: Error) -> Error {
    if cfg!(feature = "followers") && matches!(error, Error::Overtaken) { Error::SnapshotTooOld } else { error }
}

/// A look-up that meets a change of the index begins again, at most so often.
const LOOKS_MAX: usize = 64;

/// What the index has of a key.
pub(crate) enum Known {
    Nothing,
    /// Its record, and the log position of its first version as far as that is known.
    Record(Placed, u64),
    /// Nothing that can be read, and slots with its tag whose records cannot be: whose they were is unknown.
    Vanished(Vec<Slot>),
    /// Neither: there is damage beside space that was used again.
    Unknown,
}

impl Engine {
    /// The record of a key, verified.
    ///
    /// A slot that is still there after its record was verified is of that record: a segment's new salt counts only once no slot points
    /// there.
    ///
    /// # Errors
    ///
    /// [`Error::Overtaken`] when the writer has used the space of the record again, [`Error::Corrupt`] when it is damaged.
    #[cold]
    pub(crate) fn find_followed<'a>(&'a self, pin: &Pin<'_>, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        let FullKey { namespace, key: name, hash } = key;
        for _ in 0..LOOKS_MAX {
            let mut offsets = Vec::new();
            self.index.find(pin, hash, |offset| {
                offsets.push(offset);
                Ok(None::<()>)
            })?;
            let (mut found, mut failed) = (None, None);
            for &offset in &offsets {
                let frame = self.log.frame_if(offset, |number, other| number == namespace && other == name);
                match frame.and_then(|frame| frame.map(|frame| frame.check().map(|()| frame)).transpose()) {
                    Ok(Some(frame)) => found = Some(frame),
                    Ok(None) => {}
                    Err(error) if error.may_be_reuse() => failed = failed.or(Some(self.log.or_fenced(error))),
                    Err(error) => return Err(error),
                }
                if found.is_some() {
                    break;
                }
            }
            let mut are_there = true;
            for &offset in &offsets {
                are_there &= self.index.points_at(self.medium(), pin, hash, offset)?;
            }
            if are_there {
                return match (found, failed) {
                    (Some(frame), _) if self.is_certain(frame.offset) => Ok(Some(frame)),
                    (Some(_), _) => self.has_met_all().map(|()| None),
                    (None, Some(error)) => Err(error),
                    (None, None) if self.may_be_there(hash) => self.has_met_all().map(|()| None),
                    (None, None) => Ok(None),
                };
            }
        }
        Err(Error::Overtaken)
    }

    /// What the index has of a key that the record with this header is of. Nothing is read for a copy if only one slot has the tag of its key.
    fn known_for(&self, shard: &ShardGuard<'_>, key: FullKey<'_>, header: &Header) -> Result<Known> {
        // Snapshots ask when the old record was first written.
        if self.replaces(header) && !self.moments.any() {
            let (mut slots, mut last) = (0, 0);
            shard.find(key.hash, |offset| {
                (slots, last) = (slots + 1, offset);
                Ok(None::<()>)
            })?;
            if slots == 1 {
                // As long as its copy, which may be compressed: the live bytes of a segment that is being emptied need not be exact. A snapshot that
                // begins meanwhile is later than either.
                return Ok(Known::Record(Placed { offset: last, len: header.frame_len() as u64 }, 0));
            }
        }
        self.known_of(shard, key)
    }

    /// What the index has of a key that a record of the log is of.
    fn known_of(&self, shard: &ShardGuard<'_>, key: FullKey<'_>) -> Result<Known> {
        match shard.find(key.hash, |offset| self.frame_of(key, offset)) {
            Ok(found) => Ok(found.map_or(Known::Nothing, |frame| self.known(&frame))),
            Err(error) if error.may_be_reuse() => match self.log.or_fenced(error) {
                Error::Overtaken => self.known_among(shard, key),
                // Damage, as it is for a writer.
                error => Ok(self.find_damaged(shard, key, error)?.map_or(Known::Nothing, |placed| Known::Record(placed, 0))),
            },
            Err(error) => Err(error),
        }
    }

    /// The record at `offset`, verified, if it is of this key.
    fn frame_of(&self, key: FullKey<'_>, offset: u64) -> Result<Option<Frame<'_>>> {
        let frame = self.log.frame_if(offset, |number, other| number == key.namespace && other == key.key)?;
        frame.map(|frame| frame.check().map(|()| frame)).transpose()
    }

    fn known(&self, frame: &Frame<'_>) -> Known {
        let placed = Placed { offset: frame.offset, len: frame.header.frame_len() as u64 };
        Known::Record(placed, frame.meta().begin(self.log.lsn(frame.offset)))
    }

    /// [`Self::known_of`] where one of the records with the tag of the key cannot be read any more: another one may be its own.
    #[cold]
    fn known_among(&self, shard: &ShardGuard<'_>, key: FullKey<'_>) -> Result<Known> {
        let (mut offsets, mut vanished) = (Vec::new(), Vec::new());
        shard.find(key.hash, |offset| {
            offsets.push(offset);
            Ok(None::<()>)
        })?;
        for offset in offsets {
            match self.frame_of(key, offset) {
                Ok(Some(frame)) => return Ok(self.known(&frame)),
                Ok(None) => {}
                Err(error) if error.may_be_reuse() => match self.log.or_fenced(error) {
                    Error::Overtaken => vanished.push(key.hash.slot(offset)),
                    _ => return Ok(Known::Unknown),
                },
                Err(error) => return Err(error),
            }
        }
        Ok(Known::Vanished(vanished))
    }

    /// Applies a record of the log; false if what it replaces is unknown. Slots whose records may be what it replaces, and cannot be read, stay in the
    /// index: `vanished` has them until their segment is retired.
    pub(crate) fn apply_followed(
        &self,
        (shard, vanished): (&mut ShardGuard<'_>, &mut Vanished),
        key: FullKey<'_>,
        header: &Header,
        offset: u64,
        expiry: Option<u64>,
    ) -> Result<bool> {
        let new = Placed { offset, len: header.frame_len() as u64 };
        if expiry.is_some() {
            self.log.clock.found_expiring();
        }
        let (old, begin) = match self.known_for(shard, key, header)? {
            Known::Nothing => (None, u64::MAX),
            Known::Record(placed, begin) => (Some(placed), begin),
            Known::Vanished(slots) => {
                self.end_moments_over_vanished();
                let own = self.own_of(header, &slots);
                if own.is_none() {
                    slots.iter().for_each(|&slot| vanished.note(key.hash.shard(), slot, key.namespace));
                }
                (own.map(|slot| Placed { offset: slot.offset(), len: 0 }), u64::MAX)
            }
            Known::Unknown => return Ok(false),
        };
        if header.copied {
            if !header.has_origin() && begin >= self.moments.oldest() {
                // The writer knows nothing of the snapshots here: the copy does not say whether they show it.
                self.end_moments();
            }
            self.moments.made_copy(self.log.lsn(offset));
        }
        match header.kind {
            Kind::Put if header.copied => self.publish_copy(shard, key, old, new),
            Kind::Put => self.publish_put(shard, key, old, new),
            _ => self.publish_remove(shard, key, old, new),
        }
        let change_slots = |offset, change| self.log.segment_stats.change_slots(self.log.geometry.extent_of(offset), change);
        if let Some(old) = old {
            change_slots(old.offset, -1);
        }
        if header.kind == Kind::Put {
            change_slots(offset, 1);
            if let Some(expiry) = expiry {
                self.expires(shard, key.hash.slot(offset), expiry);
            }
        }
        Ok(true)
    }

    /// True if the record with this header replaces one that the index has. Compaction copies only what is in the writer's index, and what never expires
    /// is in this one, too. Across damage an index may miss it.
    fn replaces(&self, header: &Header) -> bool {
        header.copied && header.kind == Kind::Put && !header.expires() && self.doubt.get().is_none()
    }

    /// The slot that the record of a key with this header replaces for certain, of those that cannot be read: no other one is of its key.
    fn own_of(&self, header: &Header, slots: &[Slot]) -> Option<Slot> {
        match slots {
            &[slot] if self.replaces(header) => Some(slot),
            _ => None,
        }
    }

    /// See [`Self::frame_at`]. The record of a slot that nothing points at any more may be another one by now.
    pub(crate) fn frame_at_followed(
        &self,
        moment: &Moment,
        number: usize,
        slot: Slot,
        namespace: u32,
    ) -> Result<Option<Frame<'_>>> {
        let found = self.frame_at_now(moment, number, slot, namespace);
        let is_noted = || {
            let kept = self.moments.of_shard(number)?;
            kept.lock().with_tag(slot.tag()).find(|note| note.slot == slot)
        };
        let is_there = self.index.lock_shard(number).has(self.medium(), slot)? || is_noted().is_some();
        moment.still_lives()?;
        if is_there { found.map_err(too_old) } else { Err(Error::SnapshotTooOld) }
    }

    /// Ends all snapshots: they answer [`Error::SnapshotTooOld`] from now on.
    pub(crate) fn end_moments(&self) {
        while self.end_oldest_moment() {}
    }

    /// [`Self::end_moments`], because they may show what was in a place whose record cannot be read any more.
    fn end_moments_over_vanished(&self) {
        if !is(Bug::VanishedUnderSnapshots) {
            self.end_moments();
        }
    }

    /// Takes what is left in a retired segment out of the index: slots whose records cannot be read, records that have expired, and those of dropped
    /// namespaces. False if it is unknown of which namespace one was. The caller holds all shards.
    pub(crate) fn empty(&self, shards: &mut [ShardGuard<'_>], vanished: &mut Vanished, segment: &Segment) -> Result<bool> {
        let (stats, geometry) = (&self.log.segment_stats, self.log.geometry);
        if stats.noted(segment.extent) > 0 {
            self.end_moments();
        }
        for unread in vanished.take_between(geometry.start(segment.extent), segment.behind(geometry)) {
            let Some(shard) = shards.get_mut(unread.shard) else { continue };
            if !is(Bug::VanishedKept) && !self.drop_unread(shard, &unread)? {
                return Ok(false);
            }
        }
        if stats.slots(segment.extent) > 0 && !is(Bug::VanishedKept) && !self.empty_rest(shards, segment)? {
            return Ok(false);
        }
        stats.set(segment.extent, 0, 0);
        Ok(true)
    }

    /// The same for what no record of the log has told.
    #[cold]
    fn empty_rest(&self, shards: &mut [ShardGuard<'_>], segment: &Segment) -> Result<bool> {
        let geometry = self.log.geometry;
        let lies_there = |offset: u64| offset >= geometry.start(segment.extent) && offset < segment.behind(geometry);
        for (number, shard) in (0..SHARDS).zip(shards) {
            for slot in shard.slots(self.medium())?.into_iter().filter(|slot| lies_there(slot.offset())) {
                self.end_moments();
                match self.log.frame(slot.offset()).and_then(|frame| frame.check().map(|()| frame)) {
                    Ok(frame) if self.hash_of(&frame).fits(number, slot) => self.forget(shard, slot, &frame),
                    Ok(_) => return Ok(false),
                    Err(error) if error.may_be_reuse() => {
                        let unread = Unread { slot, shard: number, namespaces: Namespaces::new() };
                        if !self.drop_unread(shard, &unread)? {
                            return Ok(false);
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(true)
    }

    /// Takes a slot of a retired segment out of the index whose record cannot be read. False if its namespace, whose count falls, or its key in the
    /// order, is unknown.
    fn drop_unread(&self, shard: &mut ShardGuard<'_>, unread: &Unread) -> Result<bool> {
        if !shard.has(self.medium(), unread.slot)? {
            // The copy of its record has come since.
            return Ok(true);
        }
        let Some(namespace) = self.namespace_of(shard, unread) else { return Ok(false) };
        self.end_moments_over_vanished();
        self.forgotten.fetch_add(1, Ordering::Relaxed);
        self.taken_out.fetch_add(1, Ordering::Relaxed);
        if shard.remove_slot(&self.pins, unread.slot, namespace) {
            self.log.segment_stats.change_slots(self.log.geometry.extent_of(unread.slot.offset()), -1);
        }
        Ok(true)
    }

    /// The namespace of a record that cannot be read and counts no more: that of a record that has replaced or removed it, or a dropped one, or any where
    /// records expire. `None` if it may be one of several.
    fn namespace_of(&self, shard: &ShardGuard<'_>, unread: &Unread) -> Option<u32> {
        let may_expire = self.log.clock.was_in_use() && shard.may_expire(unread.slot);
        #[cfg(feature = "ordered")]
        if may_expire && self.ordered.get().is_some() {
            // What has expired is still in the order, under a key that nothing tells.
            return None;
        }
        let living = self.living.read();
        let is_dead = |number: u32| number != NAMESPACE_OF_NAMES && !living.contains(&number);
        let may_be = |number: &u32| may_expire || unread.namespaces.contains(number) || is_dead(*number);
        let mut numbers = shard.namespaces().filter(may_be);
        numbers.next().filter(|_| numbers.next().is_none())
    }
}
