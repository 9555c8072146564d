//! Handling of damaged records, for all paths: a damaged record costs only itself.
//!
//! The index points at records by the hashes of their keys, so it knows which key a damaged record had. That key answers [`Error::Corrupt`]
//! until it is written again or removed; look-ups of other keys continue past it, and whole-store operations skip it. Only an index that is
//! rebuilt from the log does not know the key of a damaged record: see [`Doubt`].

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

/// Longest value of a tombstone, in bytes: the number of a dropped namespace.
const TOMBSTONE_VALUE_MAX: usize = 4;

impl Engine {
    /// True when the index knows that the record at `offset` is the newest of its key.
    pub(crate) fn is_certain(&self, offset: u64) -> bool {
        let is_old = |doubt: &Doubt| doubt.holds(self.log.geometry.extent_of(offset)) && !doubt.certain.contains(&offset);
        !self.doubt.get().is_some_and(is_old) || is(Bug::RebuiltUnmarked)
    }

    /// The check at the end of a walk through the whole store.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when there may be records that the index does not know.
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

    /// Repeats the look-up of a key after damage, or with the index in doubt: the damaged record may belong to another key.
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

    /// File offsets of the records with a hash.
    fn offsets(&self, by: &By<'_>, hash: KeyHash) -> Result<Vec<u64>> {
        let mut offsets = Vec::new();
        let mut note = |offset: u64| {
            offsets.push(offset);
            Ok(None::<()>)
        };
        match by {
            By::Reader(pin) => self.index.find_anywhere(self.medium(), pin, hash, note)?,
            By::Writer(shard) => {
                shard.find(hash, &mut note)?;
                shard.find_below(self.medium(), hash, note)?
            }
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

    /// What a writer of `key` replaces, if the look-up found damage. A damaged record whose own key cannot be read is taken to be that of
    /// any key with its hash, in the 30 bits that the index keeps.
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
                    // The key is intact and has this hash, too: it is another key's record.
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

    pub(crate) fn hash_of(&self, frame: &Frame<'_>) -> KeyHash {
        self.full_key(frame.header.namespace, frame.key()).hash
    }

    /// The record that a slot of shard `number` points at, if its key has the hash of the slot, which can be checked without reading its
    /// value. `None` when its key, or the header with its length, is damaged.
    pub(crate) fn owned(&self, number: usize, slot: Slot) -> Result<Option<Frame<'_>>> {
        match self.log.frame(slot.offset()) {
            Ok(frame) if self.hash_of(&frame).fits(number, slot) => Ok(Some(frame)),
            Ok(_) | Err(Error::Corrupt { .. }) => self.is_damage(slot.offset()).map(|()| None),
            Err(error) => Err(error),
        }
    }

    /// Callers that skip damage check first that it is damage.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] when another session has written there meanwhile.
    #[cold]
    pub(crate) fn is_damage(&self, offset: u64) -> Result<()> {
        match self.log.or_fenced(Error::corrupt(offset, "a record that cannot be read")) {
            Error::Corrupt { .. } => Ok(()),
            error => Err(error),
        }
    }

    /// True when the damaged record at `offset` belongs to a namespace other than `namespace`; its value may be damaged, its key is not.
    #[cold]
    pub(crate) fn is_of_another(&self, pin: &Pin<'_>, offset: u64, namespace: u32) -> Result<bool> {
        let frame = match self.log.frame(offset) {
            Ok(frame) if frame.header.namespace != namespace => frame,
            Err(Error::Corrupt { .. }) | Ok(_) => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_it = |found: u64| Ok((found == offset).then_some(()));
        Ok(self.index.find_anywhere(self.medium(), pin, self.hash_of(&frame), is_it)?.is_some())
    }

    /// Called when all live records of `segment` have been copied out, except `damage`. True when no damaged record counts any more, so
    /// that the segment can be retired. Otherwise sets it aside.
    pub(crate) fn forget_damage(&self, segment: &Segment, oldest: bool, damage: &[Damage]) -> Result<bool> {
        let Some(first) = damage.first() else { return Ok(true) };
        self.is_damage(first.offset)?;
        let start = self.log.geometry.start(segment.extent);
        let inside = start..segment.behind(self.log.geometry);
        let mut held = Vec::new();
        for number in 0..SHARDS {
            let slots = self.lock_shard(number)?.slots(self.medium())?;
            held.extend(slots.into_iter().filter(|slot| inside.contains(&slot.offset())).map(|slot| (number, slot)));
        }
        let mut hides = false;
        for place in damage {
            hides = hides || !self.was_put(place)?;
        }
        // What was whole has been copied: what still counts as live and is of no key may be an event.
        #[cfg(feature = "events")]
        let may_be_event = held.is_empty() && self.log.next_event() > 1 && self.log.segment_stats.live(segment.extent) > 0;
        #[cfg(not(feature = "events"))]
        let may_be_event = false;
        let is_free = held.is_empty() && (oldest || !hides) && !may_be_event;
        let mut aside = self.set_aside.lock();
        aside.0.retain(|other| other.base != segment.base);
        if !is_free && !is(Bug::DamagePickedAgain) {
            aside.0.push(Aside { base: segment.base, held, hides, may_be_event });
        }
        Ok(is_free)
    }

    /// Checks that no record in a damaged stretch of a segment counts, according to the index. Records with one of the hashes `known` are
    /// ignored: the caller knows what they contain.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] when a record that counts is, or may be, in it.
    pub(crate) fn is_dead(&self, damage: &Damage, known: &[KeyHash]) -> Result<()> {
        self.is_damage(damage.offset)?;
        self.has_met_all()?;
        let inside = damage.offset..damage.offset + damage.len;
        for number in 0..SHARDS {
            let slots = self.lock_shard(number)?.slots(self.medium())?;
            let counts = |slot: &Slot| inside.contains(&slot.offset()) && !known.iter().any(|hash| hash.fits(number, *slot));
            if slots.iter().any(counts) {
                return Err(Error::corrupt(damage.offset, damage.what));
            }
        }
        Ok(())
    }

    /// True when a damaged stretch was certainly one record with a value, not a tombstone: its header is readable, its length matches the
    /// stretch, and its value is longer than that of any tombstone.
    fn was_put(&self, damage: &Damage) -> Result<bool> {
        match Window::new(&*self.log.storage, damage.offset).header(damage.offset) {
            Ok(header) if header.kind == Kind::Put && header.value_len() <= TOMBSTONE_VALUE_MAX => Ok(false),
            Err(Error::Corrupt { .. }) => Ok(false),
            Ok(header) => Ok(header.kind == Kind::Put && header.frame_len() as u64 == damage.len),
            Err(error) => Err(error),
        }
    }

    /// True when compacting a segment would gain nothing, because it is kept for damage that still counts. `oldest`: no older segment is
    /// left.
    pub(crate) fn is_set_aside(&self, segment: &Segment, oldest: bool) -> bool {
        let found = self.set_aside.lock().0.iter().find(|aside| aside.base == segment.base).cloned();
        found.is_some_and(|aside| aside.hides && !oldest || self.is_held(&aside))
    }

    fn is_held(&self, aside: &Aside) -> bool {
        // What cannot be told counts as held.
        let lives = |(number, slot): &(usize, Slot)| self.index.lock_shard(*number).has(self.medium(), *slot).unwrap_or(true);
        aside.may_be_event || aside.held.iter().any(lives)
    }

    /// Bases of segments that can be freed once no older one is left: none of their records lives, but the damage may have been a
    /// tombstone.
    pub(crate) fn waits_for_older(&self) -> Vec<u64> {
        let aside = self.set_aside.lock().0.clone();
        aside.iter().filter(|aside| !self.is_held(aside)).map(|aside| aside.base).collect()
    }

    /// Number of segments that are kept because of damage.
    pub(crate) fn count_set_aside(&self) -> u64 {
        let live = self.log.segments();
        let mut aside = self.set_aside.lock();
        aside.0.retain(|aside| live.iter().any(|segment| segment.base == aside.base));
        aside.0.len() as u64
    }
}
