//! What a damaged record may cost, decided here for every path: itself.
//!
//! The index points at records by their hashes, so it says of a damaged one whose it was. Its key answers [`Error::Corrupt`] until it is
//! written again or removed; look-ups of other keys go on behind it, and whatever goes through the whole store goes around it. Only an index
//! that is rebuilt from the log does not know whose a damaged record was: see [`Doubt`].

use crate::doubt::{Aside, Doubt};
use crate::engine::{By, Engine, FullKey};
use crate::error::{Error, Result};
use crate::frame::Kind;
use crate::index::{KeyHash, SHARDS, ShardGuard, Slot};
use crate::log::{Frame, Placed, Segment, Window};
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::scan::Damage;
use alloc::vec::Vec;

/// No tombstone has a value that is longer: the number of a dropped namespace.
const TOMBSTONE_VALUE_MAX: usize = 4;

impl Engine {
    /// True when the index knows that the record at `offset` is the newest of its key.
    pub(crate) fn is_certain(&self, offset: u64) -> bool {
        let is_old = |doubt: &Doubt| doubt.holds(self.log.geometry.extent_of(offset)) && !doubt.certain.contains(&offset);
        !self.doubt.get().is_some_and(is_old) || is(Bug::RebuiltUnmarked)
    }

    /// What a walk through the whole store ends with.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when there may be records that it has not met.
    pub(crate) fn has_met_all(&self) -> Result<()> {
        match self.doubt.get() {
            Some(doubt) if !is(Bug::RebuiltUnmarked) => Err(doubt.error()),
            _ => Ok(()),
        }
    }

    /// True when a key of this hash may have a record that the index does not know.
    pub(crate) fn may_be_there(&self, hash: KeyHash) -> bool {
        self.doubt.get().is_some_and(|doubt| !doubt.settled.lock().contains(&hash.bits())) && !is(Bug::RebuiltUnmarked)
    }

    /// The record of a key, where a look-up has met damage or the index is in doubt: what is damaged may be another key's.
    #[cold]
    pub(crate) fn find_again<'a>(
        &'a self,
        by: &By<'_>,
        key: FullKey<'_>,
        found: Result<Option<Frame<'a>>>,
    ) -> Result<Option<Frame<'a>>> {
        match found.map_err(|error| self.log.or_fenced(error)) {
            Ok(_) | Err(Error::Corrupt { .. }) => self.frame_among(key, &self.offsets(by, key.hash)?),
            other => other,
        }
    }

    /// Where the records of a hash stand.
    fn offsets(&self, by: &By<'_>, hash: KeyHash) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        let note = |offset: u64| {
            offsets.push(offset);
            Ok(None::<()>)
        };
        match by {
            By::Reader(pin) => self.index.find(pin, hash, note)?,
            By::Writer(shard) => shard.find(hash, note)?,
        };
        Ok(offsets)
    }

    fn frame_among<'a>(&'a self, key: FullKey<'_>, offsets: &[u64]) -> Result<Option<Frame<'a>>> {
        let mut damage = None;
        for &offset in offsets {
            match self.log.frame_if(offset, |number, other| number == key.namespace && other == key.key) {
                Ok(Some(frame)) if self.is_certain(offset) => return Ok(Some(frame)),
                Ok(Some(_)) => return self.has_met_all().map(|()| None),
                Ok(None) => {}
                Err(error @ Error::Corrupt { .. }) => damage = damage.or(Some(error)),
                Err(error) => return Err(error),
            }
        }
        match damage.filter(|_| !is(Bug::DamageIsMissing)) {
            Some(error) => Err(error),
            None if self.may_be_there(key.hash) => self.has_met_all().map(|()| None),
            None => Ok(None),
        }
    }

    /// What a writer of `key` replaces, where the look-up has met damage. A damaged record whose own key cannot be read belongs to whoever
    /// has its hash: the 30 bits of it that the index keeps.
    #[cold]
    pub(crate) fn find_damaged(&self, shard: &ShardGuard<'_>, key: FullKey<'_>, error: Error) -> Result<Option<Placed>> {
        let error = self.log.or_fenced(error);
        if !matches!(error, Error::Corrupt { .. }) || is(Bug::DamageKeepsKey) {
            return Err(error);
        }
        let placed = |frame: &Frame<'_>| Placed { offset: frame.offset, len: frame.header.frame_len() as u64 };
        let mut own = None;
        for offset in self.offsets(&By::Writer(shard), key.hash)? {
            match self.log.frame_if(offset, |number, other| number == key.namespace && other == key.key) {
                Ok(Some(frame)) => return Ok(Some(placed(&frame))),
                Ok(None) => {}
                Err(Error::Corrupt { .. }) => match self.log.frame(offset) {
                    // A key that has this hash, too: it is as it was, and another one.
                    Ok(frame) if self.hash_of(&frame).has_slot_of(key.hash) => {}
                    Ok(frame) => own = Some(placed(&frame)),
                    Err(Error::Corrupt { .. }) => own = Some(Placed { offset, len: 0 }),
                    Err(error) => return Err(error),
                },
                Err(error) => return Err(error),
            }
        }
        Ok(own)
    }

    fn hash_of(&self, frame: &Frame<'_>) -> KeyHash {
        self.full_key(frame.header.namespace, frame.key()).hash
    }

    /// The record that a slot of shard `number` points at, if its key is the one that the slot was made for: so much is known of it
    /// without a look at its value. `None` when its key or what says how long that is has been damaged.
    pub(crate) fn owned(&self, number: usize, slot: Slot) -> Result<Option<Frame<'_>>> {
        match self.log.frame(slot.offset()) {
            Ok(frame) if self.hash_of(&frame).fits(number, slot) => Ok(Some(frame)),
            Ok(_) | Err(Error::Corrupt { .. }) => self.is_damage(slot.offset()).map(|()| None),
            Err(error) => Err(error),
        }
    }

    /// Whoever goes around damage asks first whether it is any.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] when it is what another session has written meanwhile.
    #[cold]
    pub(crate) fn is_damage(&self, offset: u64) -> Result<()> {
        match self.log.or_fenced(Error::corrupt(offset, "a record that cannot be read")) {
            Error::Corrupt { .. } => Ok(()),
            error => Err(error),
        }
    }

    /// True when the damaged record at `offset` belongs to a namespace other than `namespace`, whatever has become of its value.
    #[cold]
    pub(crate) fn is_of_another(&self, pin: &Pin<'_>, offset: u64, namespace: u32) -> Result<bool> {
        let frame = match self.log.frame(offset) {
            Ok(frame) if frame.header.namespace != namespace => frame,
            Err(Error::Corrupt { .. }) | Ok(_) => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_it = |found: u64| Ok((found == offset).then_some(()));
        Ok(self.index.find(pin, self.hash_of(&frame), is_it)?.is_some())
    }

    /// What lives in `segment` has been copied out, but for `damage`. True when that is nothing that counts any more: the segment can be
    /// retired. Otherwise it is set aside.
    pub(crate) fn forget_damage(&self, segment: &Segment, oldest: bool, damage: &[Damage]) -> Result<bool> {
        let Some(first) = damage.first() else { return Ok(true) };
        self.is_damage(first.offset)?;
        let start = self.log.geometry.start(segment.extent);
        let inside = start..segment.behind(self.log.geometry);
        let mut held = Vec::new();
        for number in 0..SHARDS {
            let slots = self.lock_shard(number)?.slots();
            held.extend(slots.into_iter().filter(|slot| inside.contains(&slot.offset())).map(|slot| (number, slot)));
        }
        let mut hides = false;
        for place in damage {
            hides = hides || !self.was_put(place)?;
        }
        let is_free = held.is_empty() && (oldest || !hides);
        let mut aside = self.set_aside.lock();
        aside.0.retain(|other| other.base != segment.base);
        if !is_free && !is(Bug::DamagePickedAgain) {
            aside.0.push(Aside { base: segment.base, held, hides });
        }
        Ok(is_free)
    }

    /// Holds a damaged stretch of a segment against the index. Records with one of the hashes `known` are known by heart.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when a record that counts is in it, or may be.
    pub(crate) fn is_dead(&self, damage: &Damage, known: &[KeyHash]) -> Result<()> {
        self.is_damage(damage.offset)?;
        self.has_met_all()?;
        let inside = damage.offset..damage.offset + damage.len;
        for number in 0..SHARDS {
            let slots = self.lock_shard(number)?.slots();
            let counts = |slot: &Slot| inside.contains(&slot.offset()) && !known.iter().any(|hash| hash.fits(number, *slot));
            if slots.iter().any(counts) {
                return Err(Error::corrupt(damage.offset, damage.what));
            }
        }
        Ok(())
    }

    /// True when a damaged stretch was one record that stored a value: what stands around the damage says so.
    fn was_put(&self, damage: &Damage) -> Result<bool> {
        match Window::new(&*self.log.storage, damage.offset).header(damage.offset) {
            Ok(header) if header.kind == Kind::Put && header.value_len() <= TOMBSTONE_VALUE_MAX => Ok(false),
            Err(Error::Corrupt { .. }) => Ok(false),
            Ok(header) => Ok(header.kind == Kind::Put && header.frame_len() as u64 == damage.len),
            Err(error) => Err(error),
        }
    }

    /// True when there is nothing to gain from compacting a segment: what keeps it is damage that still counts. `oldest` says that no older
    /// one is left.
    pub(crate) fn is_set_aside(&self, segment: &Segment, oldest: bool) -> bool {
        let found = self.set_aside.lock().0.iter().find(|aside| aside.base == segment.base).cloned();
        found.is_some_and(|aside| aside.hides && !oldest || self.is_held(&aside))
    }

    fn is_held(&self, aside: &Aside) -> bool {
        let lives = |(number, slot): &(usize, Slot)| self.index.lock_shard(*number).has(*slot);
        aside.held.iter().any(lives)
    }

    /// Segments that wait for what is older than they are: what is damaged in them may have been a tombstone, and nothing of them lives.
    pub(crate) fn waits_for_older(&self) -> Vec<u64> {
        let aside = self.set_aside.lock().0.clone();
        aside.iter().filter(|aside| !self.is_held(aside)).map(|aside| aside.base).collect()
    }

    /// How many segments damage keeps.
    pub(crate) fn count_set_aside(&self) -> u64 {
        let live = self.log.segments();
        let mut aside = self.set_aside.lock();
        aside.0.retain(|aside| live.iter().any(|segment| segment.base == aside.base));
        aside.0.len() as u64
    }
}
