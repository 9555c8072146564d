//! Reading the store as it was at a moment that a snapshot holds, and leaving notes about what ends while one lives. See `moments/`.

use crate::engine::{Ends, Engine, FullKey};
use crate::error::{Error, Result};
use crate::frame::NAMESPACE_OF_NAMES;
use crate::index::{KeyHash, SHARDS, ShardGuard, Slot};
use crate::log::{Frame, Placed};
use crate::moments::{Moment, ShardNotes, needed};
use crate::pins::Pin;
use crate::planted::{Bug, dawdle, is};
use crate::sync::relax;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// False where [`Engine::value_at`] has no result: no file is mapped there.
pub(crate) const MAY_BE_MAPPED: bool = cfg!(all(feature = "std", not(target_family = "wasm")));

/// Looks at a shard that is being published, before its lock is waited for: that lets a thread run whose priority is lower.
const LOOKS_MAX: usize = 64;

impl Engine {
    /// Called before the index changes: if a living snapshot shows what the record at `new` ends, leaves a note about it.
    #[inline]
    pub(crate) fn leave_note(&self, shard: &ShardGuard<'_>, key: FullKey<'_>, old: Option<Placed>, new: Placed, ends: Ends) {
        if self.moments.any() {
            if is(Bug::SnapshotUnsettled) {
                dawdle();
            }
            self.leave_note_now(shard, key, old, new, ends, false);
        }
    }

    /// Only for planted bugs: called after the index has changed.
    #[inline]
    pub(crate) fn leave_note_late(&self, shard: &ShardGuard<'_>, key: FullKey<'_>, old: Option<Placed>, new: Placed, ends: Ends) {
        if (is(Bug::NoteAfterSlot) || is(Bug::CountsKeptLate) || is(Bug::GhostAfterRemoval)) && self.moments.any() {
            dawdle();
            self.leave_note_now(shard, key, old, new, ends, true);
        }
    }

    #[inline(never)]
    fn leave_note_now(
        &self,
        shard: &ShardGuard<'_>,
        key: FullKey<'_>,
        old: Option<Placed>,
        new: Placed,
        ends: Ends,
        is_late: bool,
    ) {
        let number = key.hash.shard();
        let Some(kept) = self.moments.of_shard(number) else { return };
        let end = self.log.lsn(new.offset);
        if is(Bug::CountsKeptLate) == is_late {
            self.moments.keep_counts(number, kept, end, shard.counts());
        }
        let Some(old) = old else { return };
        // Asked before the slot changes, so that the record cannot be moved or its segment be reused.
        let leaves_ghost = ends == Ends::Removed && self.keeps_keys_of(key.namespace);
        let lsn = self.log.lsn(old.offset);
        let newest = self.moments.newest();
        if lsn >= newest && newest > self.moments.copied() && !leaves_ghost {
            // First written after the newest snapshot, and no copy.
            return;
        }
        let begin = match self.log.begin_of(old.offset) {
            Ok((begin, true)) => Some(begin),
            Ok((_, false)) => None,
            // A damaged record: its snapshot answers so.
            Err(_) => Some(0),
        };
        if begin.unwrap_or(lsn) >= newest && !leaves_ghost {
            // A copy of one that was.
            return;
        }
        let mut notes = kept.lock();
        self.moments.uses(number);
        let slot = key.hash.slot(old.offset);
        let is_needed = self.moments.needs(begin.unwrap_or(lsn), end);
        let has_older = leaves_ghost && notes.with_tag(slot.tag()).next().is_some();
        if is_needed && is(Bug::NoteAfterSlot) == is_late {
            self.log.segment_stats.add_note(self.log.geometry.extent_of(old.offset));
            notes.add(slot, begin, end);
            self.moments.has_added();
        }
        if leaves_ghost && (is_needed || has_older) && is(Bug::GhostAfterRemoval) == is_late {
            self.keep_key(key, end);
            self.moments.has_added();
        }
    }

    /// True when the removed keys of a namespace are kept for the snapshots: those that are listed from elsewhere than the hash index.
    fn keeps_keys_of(&self, namespace: u32) -> bool {
        #[cfg(feature = "ordered")]
        if self.ordered.get().is_some() {
            return true;
        }
        namespace == NAMESPACE_OF_NAMES
    }

    fn keep_key(&self, key: FullKey<'_>, end: u64) {
        if key.namespace == NAMESPACE_OF_NAMES {
            self.moments.add_gone_name(key.key, end);
        } else {
            #[cfg(feature = "ordered")]
            self.moments.add_ghost(key.namespace, key.key, end);
        }
    }

    /// Begins a moment: what was appended before it counts, what is appended from now on does not. Builds nothing, and waits for no commit.
    pub(crate) fn begin_moment(&self) -> (Arc<Moment>, crate::log::EndPlace) {
        self.moments.prepare();
        self.log.at_the_end(|end| (self.moments.begin(end.lsn, self.time_of_moment()), end))
    }

    /// The time of a moment that begins. Read with the tail locked: what is appended before the moment is judged by it.
    fn time_of_moment(&self) -> u64 {
        if self.log.clock.in_use() { self.log.clock.now().max(1) } else { 0 }
    }

    /// Begins a moment as [`Self::begin_moment`] does, for a transaction: everything that is appended from then on is remembered, from the
    /// returned number of a write on.
    pub(crate) fn begin_watched_moment(&self) -> (Arc<Moment>, crate::log::EndPlace, u64) {
        self.moments.prepare();
        #[cfg(feature = "ordered")]
        let keeps_keys = self.ordered.get().is_some();
        #[cfg(not(feature = "ordered"))]
        let keeps_keys = false;
        self.log.at_the_end(|end| {
            let from = self.log.recent.begin(self.seed, keeps_keys);
            (self.moments.begin(end.lsn, self.time_of_moment()), end, from)
        })
    }

    /// Ends a moment and forgets what only it needed: at once, or, for one of many short ones, when there is enough of it.
    pub(crate) fn end_moment(&self, moment: &Arc<Moment>, is_short: bool) {
        if !self.moments.end(moment) {
            return;
        }
        if is_short && !self.moments.must_forget() {
            self.moments.put_forgetting_off();
        } else {
            self.forget_notes();
        }
    }

    /// Forgets what only moments needed that have ended. Called by whoever needs the space.
    pub(crate) fn forget_ended_moments(&self) {
        if self.moments.may_forget() {
            self.forget_notes();
        }
    }

    /// Ends the oldest moment to make space; false if none lives.
    pub(crate) fn end_oldest_moment(&self) -> bool {
        let is_ended = self.moments.end_oldest();
        if is_ended {
            self.forget_notes();
        }
        is_ended
    }

    /// Drops the notes that no living moment needs.
    fn forget_notes(&self) {
        let (log, stats) = (&self.log, &self.log.segment_stats);
        let (mut living, mut left) = (Vec::new(), 0);
        self.moments.forgets();
        for number in self.moments.used_shards() {
            let Some(shard) = self.moments.of_shard(number) else { continue };
            let mut notes = shard.lock();
            // Asked for each shard: a moment that has begun meanwhile may need notes that have been left since.
            self.moments.positions_into(&mut living);
            notes.forget_counts(&living);
            let gone = |slot: Slot| stats.drop_note(log.geometry.extent_of(slot.offset()));
            notes.retain(|offset| log.lsn(offset), |begin, end| needed(&living, begin, end), gone);
            if notes.is_empty() {
                self.moments.uses_no_more(number);
            }
            left += notes.len();
        }
        self.moments.has_left(left);
        self.moments.forget_keys();
    }

    /// Waits until the commits that were appended before the moment are published in a shard: each holds its shards from before it is
    /// appended until it is published.
    fn settle(&self, moment: &Moment, shard: usize) -> Result<()> {
        if moment.is_settled(shard) || is(Bug::SnapshotUnsettled) {
            return Ok(());
        }
        drop(self.lock_shard(shard)?);
        moment.set_settled(shard);
        Ok(())
    }

    /// [`Self::settle`] for a call that must not wait for the closure of an `update`, its own thread's or another's. A commit that is being
    /// published waits for nothing but the storage: it holds all of its shards, and a closure has returned before anything is appended.
    pub(crate) fn settle_published(&self, moment: &Moment, hash: KeyHash) -> Result<()> {
        let mut looks = 0;
        while self.index.is_publishing(hash) {
            looks += 1;
            if looks < LOOKS_MAX {
                relax();
                continue;
            }
            match self.lock(hash) {
                // What was appended before the moment is published; what is being published now is later.
                Ok(_) => break,
                // A lock of this thread is in the way.
                Err(Error::Nested) => relax(),
                Err(error) => return Err(error),
            }
        }
        moment.set_settled(hash.shard());
        Ok(())
    }

    /// Settles all shards: the ordered index has every key from before the moment then, or the removed ones have it.
    #[cfg(feature = "ordered")]
    pub(crate) fn settle_all(&self, moment: &Moment) -> Result<()> {
        (0..SHARDS).try_for_each(|shard| self.settle(moment, shard))
    }

    /// True when the record was first written before the moment. The caller has a pin or a lock.
    pub(crate) fn began_before(&self, frame: &Frame<'_>, moment: &Moment) -> bool {
        frame.meta().begin(self.log.lsn(frame.offset)) < moment.position
    }

    /// Fast path of nearly every read at a moment: the value of a record that was written before it and is still current, is mapped, is no more than
    /// its bytes and has a valid checksum. `None` is no result; call [`Self::find_at_kept`] then. The caller keeps the pin for as long as the value.
    pub(crate) fn value_at<'a>(&'a self, pin: &Pin<'_>, moment: &Moment, key: FullKey<'_>) -> Option<&'a [u8]> {
        // Without a map, the full look-up is needed, as for a follower, whose writer may use space again.
        if !MAY_BE_MAPPED || self.index.is_unclear(key.hash) || self.log.follows() {
            return None;
        }
        self.settle(moment, key.hash.shard()).ok()?;
        // A copy from before the moment is of a record from before it.
        let offset = self.index.first_slot(pin, key.hash).filter(|&offset| self.log.lsn(offset) < moment.position)?;
        let verify = self.log.verify_on_read && !is(Bug::ReadUnchecked);
        let value = self.log.lookup(offset, key.namespace, key.key, verify)?;
        // What a moment that has ended shows may have been replaced since.
        moment.still_lives().ok().map(|()| value)
    }

    /// The record of a key at a moment, for as long as the pin lives. Its checksum is verified, unless reads do not verify any.
    pub(crate) fn find_at<'a>(&'a self, pin: &'a Pin<'_>, moment: &Moment, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        self.find_at_kept(pin, moment, key)
    }

    /// [`Self::find_at`] for a caller that keeps the pin for as long as the frame: nothing else sees to that.
    pub(crate) fn find_at_kept<'a>(&'a self, pin: &Pin<'_>, moment: &Moment, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        moment.still_lives()?;
        self.settle(moment, key.hash.shard())?;
        let found = self.find_at_now(pin, moment, key);
        // A moment that has ended meanwhile may have lost the note.
        moment.still_lives()?;
        let found = found.map_err(|error| self.log.or_fenced(error))?;
        Ok(found.filter(|frame| !self.has_expired_at(moment, frame)))
    }

    fn find_at_now<'a>(&'a self, pin: &Pin<'_>, moment: &Moment, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        let current = self.find_kept(pin, key).and_then(|frame| frame.map(|frame| self.checked(frame)).transpose());
        match current {
            // What is current and began before the moment had not ended by then: whoever ended it earlier has published that.
            Ok(Some(frame)) if self.began_before(&frame, moment) => Ok(Some(frame)),
            current => match (self.find_noted(moment, key)?, current) {
                (Some(frame), _) => Ok(Some(frame)),
                (None, Err(error)) => Err(error),
                // Across damage that the index was rebuilt over, nobody knows which keys there were.
                (None, Ok(_)) => self.has_met_all().map(|()| None),
            },
        }
    }

    /// The record of a key that was replaced or removed after the moment. Whoever did it left the note before the slot changed, so that a
    /// look-up that has met the change meets the note.
    fn find_noted<'a>(&'a self, moment: &Moment, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        let mut damage = None;
        for slot in self.noted(key.hash, moment) {
            let frame = self.log.frame_if(slot.offset(), |number, other| number == key.namespace && other == key.key);
            match frame.and_then(|frame| frame.map(|frame| self.checked(frame)).transpose()) {
                Ok(Some(frame)) if !self.began_before(&frame, moment) => {}
                Ok(Some(frame)) if self.is_certain(frame.offset) => return Ok(Some(frame)),
                Ok(Some(_)) => return self.has_met_all().map(|()| None),
                Ok(None) => {}
                Err(error @ Error::Corrupt { .. }) => damage = damage.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        damage.map_or(Ok(None), Err)
    }

    fn noted(&self, hash: KeyHash, moment: &Moment) -> Vec<Slot> {
        let tag = hash.slot(0).tag();
        let after = |notes: &ShardNotes| {
            let notes = notes.lock();
            notes.with_tag(tag).filter(|note| note.end() >= moment.position).map(|note| note.slot).collect()
        };
        self.moments.of_shard(hash.shard()).map_or_else(Vec::new, after)
    }

    pub(crate) fn checked<'a>(&self, frame: Frame<'a>) -> Result<Frame<'a>> {
        if self.log.verify_on_read && !is(Bug::ReadUnchecked) {
            self.log.check(&frame)?;
        }
        Ok(frame)
    }

    /// Number of records of a namespace in a locked shard at a moment.
    fn count_in(&self, moment: &Moment, shard: &ShardGuard<'_>, number: usize, namespace: u32) -> u64 {
        let kept = self.moments.of_shard(number).and_then(|kept| kept.lock().count(moment.position, namespace));
        kept.unwrap_or_else(|| shard.count(namespace))
    }

    /// Number of records of a namespace at a moment.
    pub(crate) fn count_at(&self, moment: &Moment, namespace: u32) -> Result<u64> {
        moment.still_lives()?;
        let mut sum = 0;
        for number in 0..SHARDS {
            // With the shard locked, no commit in it is half published.
            let shard = self.lock_shard(number)?;
            let may_expire = shard.has_expiring() || !shard.knows_expiring() && self.log.clock.was_in_use();
            if moment.now == 0 || !may_expire {
                sum += self.count_in(moment, &shard, number, namespace);
                continue;
            }
            drop(shard);
            let _pin = self.pin();
            let (slots, _) = self.slots_at(moment, number, namespace, 0, &|_| Slot::TAGS)?;
            for slot in slots {
                sum += u64::from(self.is_counted_at(moment, number, slot, namespace)?);
            }
        }
        moment.still_lives().map(|()| sum)
    }

    /// True if a slot from [`Self::slots_at`] has a record of the namespace at the moment. A damaged one counts, as it does elsewhere.
    fn is_counted_at(&self, moment: &Moment, number: usize, slot: Slot, namespace: u32) -> Result<bool> {
        match self.frame_at(moment, number, slot, namespace) {
            Ok(frame) => Ok(frame.is_some()),
            Err(Error::Corrupt { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Slots of a shard, in no order, with tags from `tag` up to the returned one, which `end` chooses by the number of records: among
    /// them are those of all records of a namespace at a moment. [`Self::frame_at`] tells which.
    pub(crate) fn slots_at(
        &self,
        moment: &Moment,
        number: usize,
        namespace: u32,
        tag: u64,
        end: &dyn Fn(usize) -> u64,
    ) -> Result<(Vec<Slot>, u64)> {
        moment.still_lives()?;
        let shard = self.lock_shard(number)?;
        moment.set_settled(number);
        let end = end(shard.len()).min(Slot::TAGS);
        let tags = tag..end;
        let mut slots = Vec::new();
        // Skip a shard without records of the namespace, without reading the log.
        if self.count_in(moment, &shard, number, namespace) > 0 {
            slots = if tags == (0..Slot::TAGS) {
                shard.slots(self.medium())?
            } else {
                shard.slots_between(self.medium(), tags.clone())?
            };
            if let Some(kept) = self.moments.of_shard(number) {
                let notes = kept.lock();
                let is_it = |note: &crate::moments::Note| note.end() >= moment.position && tags.contains(&note.slot.tag());
                slots.extend(notes.all().filter(is_it).map(|note| note.slot));
            }
        }
        moment.still_lives().map(|()| (slots, end))
    }

    /// The record of a slot from [`Self::slots_at`], if it is one of the namespace at the moment. The caller's pin is older than the slot.
    pub(crate) fn frame_at(&self, moment: &Moment, number: usize, slot: Slot, namespace: u32) -> Result<Option<Frame<'_>>> {
        if self.log.follows() {
            return self.frame_at_followed(moment, number, slot, namespace);
        }
        self.frame_at_now(moment, number, slot, namespace)
    }

    pub(crate) fn frame_at_now(&self, moment: &Moment, number: usize, slot: Slot, namespace: u32) -> Result<Option<Frame<'_>>> {
        let frame = self.log.frame_if(slot.offset(), |other, _| other == namespace);
        let found = match frame.and_then(|frame| frame.map(|frame| self.checked(frame)).transpose()) {
            Ok(Some(frame)) if self.began_before(&frame, moment) && self.is_certain(frame.offset) => {
                Ok(Some(frame).filter(|frame| !self.has_expired_at(moment, frame)))
            }
            Ok(_) => Ok(None),
            Err(error) => match self.log.or_fenced(error) {
                error @ Error::Corrupt { .. } => match self.log.frame(slot.offset()) {
                    // The value is damaged, the key is not.
                    Ok(frame) if self.hash_of(&frame).fits(number, slot) && frame.header.namespace != namespace => Ok(None),
                    _ => Err(error),
                },
                error => Err(error),
            },
        };
        moment.still_lives()?;
        found
    }
}
