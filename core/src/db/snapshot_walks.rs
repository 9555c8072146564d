//! Walks through all records of a snapshot, in no order or by pages.

use super::iter::AHEAD;
use super::page::{batch_end, going_on, place};
use super::snapshot::{SnapshotNamespace, Taken};
use crate::cursor::Cursor;
use crate::engine::{Engine, GROUP};
use crate::error::{Error, Result};
use crate::index::{SHARDS, Slot};
use crate::log::Frame;
use crate::moments::Moment;
use crate::pins::Pin;
use crate::sorted::sort_by_key;
use alloc::vec::{self, Vec};

/// The records of a namespace of a snapshot, in no order; see [`SnapshotNamespace::iter`].
pub struct SnapshotIter<'a>(FramesAt<'a>);

/// The keys of a namespace of a snapshot, in no order; see [`SnapshotNamespace::keys`].
pub struct SnapshotKeys<'a>(FramesAt<'a>);

impl Iterator for SnapshotIter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|frame| (frame.key().to_vec(), frame.value().to_vec())))
    }
}

impl Iterator for SnapshotKeys<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|frame| frame.key().to_vec()))
    }
}

/// A walk through the shards. A pin lasts as long as the slots of one shard, so that a long walk does not keep compaction from freeing
/// segments.
pub(super) struct FramesAt<'a> {
    taken: &'a Taken,
    number: Result<u32>,
    shard: usize,
    slots: vec::IntoIter<Slot>,
    announced: usize,
    pin: Option<Pin<'a>>,
}

impl SnapshotNamespace {
    /// All records, in no order. The iterator cannot be sent to another thread.
    pub fn iter(&self) -> SnapshotIter<'_> {
        SnapshotIter(self.frames())
    }

    /// All keys; see [`Self::iter`].
    pub fn keys(&self) -> SnapshotKeys<'_> {
        SnapshotKeys(self.frames())
    }

    fn frames(&self) -> FramesAt<'_> {
        FramesAt::of(&self.taken, self.number())
    }

    /// Hands records to `each` until it returns `false`; returns where to continue, or `None` once there are no more. See
    /// [`Namespace::page`](crate::Namespace::page): the same order, and the same errors.
    pub fn page(&self, from: Cursor, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
        let number = self.number()?;
        let each = &mut |met: Met<'_>| match met {
            Met::Record(frame) => each(frame.key(), frame.value()),
            Met::Damage(_) => true,
        };
        self.taken.engine().page_at(&self.taken.moment, number, from, each)
    }
}

impl<'a> FramesAt<'a> {
    /// The records of a namespace by its number at the moment.
    pub(super) fn of(taken: &'a Taken, number: Result<u32>) -> Self {
        Self { taken, number, shard: 0, slots: Vec::new().into_iter(), announced: 0, pin: None }
    }

    pub(super) fn next(&mut self) -> Option<Result<Frame<'a>>> {
        let found = self.find_next();
        if matches!(found, Some(Err(Error::SnapshotTooOld))) {
            // Nothing more: every other call would answer the same.
            (self.shard, self.slots) = (SHARDS + 1, Vec::new().into_iter());
        }
        found
    }

    fn find_next(&mut self) -> Option<Result<Frame<'a>>> {
        let (engine, moment) = (self.taken.engine(), &self.taken.moment);
        let number = match &self.number {
            Ok(number) => *number,
            Err(error) => {
                let error = error.clone();
                return (core::mem::replace(&mut self.shard, SHARDS + 1) <= SHARDS).then_some(Err(error));
            }
        };
        loop {
            let Some(slot) = self.slots.next() else {
                // Advance first, so that iterating past an error terminates.
                let shard = self.shard;
                self.shard += 1;
                if shard >= SHARDS {
                    self.shard = SHARDS + 1;
                    // The check at the end of a walk, once.
                    let is_whole = if shard == SHARDS { engine.has_met_all() } else { Ok(()) };
                    return is_whole.err().map(Err);
                }
                // Pinned before the slots are read: their records stay as long as the pin.
                self.pin = Some(engine.pin());
                match engine.slots_at(moment, shard, number, 0, &|_| Slot::TAGS) {
                    Ok((mut slots, _)) => {
                        // In file order, which suits caches better than hash order.
                        sort_by_key(&mut slots, |slot| slot.offset());
                        self.slots = slots.into_iter();
                    }
                    Err(error) => return Some(Err(engine.log.or_fenced(error))),
                }
                continue;
            };
            if self.announced == 0 {
                let mut next = [slot.offset(); GROUP];
                next.iter_mut().skip(1).zip(self.slots.as_slice()).for_each(|(place, slot)| *place = slot.offset());
                engine.log.will_read(&next);
                self.announced = GROUP;
            }
            self.announced -= 1;
            if let Some(ahead) = self.slots.as_slice().get(AHEAD - 1) {
                engine.log.prefetch(ahead.offset());
            }
            match engine.frame_at(moment, self.shard - 1, slot, number) {
                Ok(Some(frame)) => return Some(engine.decoded(frame)),
                Ok(None) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// What a walk by pages meets.
pub(super) enum Met<'a> {
    Record(Frame<'a>),
    /// A record that cannot be read, at this place. The page ends behind it, with the error.
    Damage(Cursor),
}

impl Engine {
    /// [`SnapshotNamespace::page`] for a namespace by its number, of the frames of records.
    pub(super) fn page_at(
        &self,
        moment: &Moment,
        number: u32,
        from: Cursor,
        each: &mut dyn FnMut(Met<'_>) -> bool,
    ) -> Result<Option<Cursor>> {
        let (mut shard, mut tag) = (from.shard as usize, u64::from(from.tag));
        while shard < SHARDS {
            // Pin before the slots are read: their records stay while the pin lives.
            let _pin = self.pin();
            // After a shard that cannot be read, continue with the next one.
            let (slots, behind) = self
                .slots_at(moment, shard, number, tag, &|len| batch_end(tag, len))
                .map_err(|error| going_on(self.log.or_fenced(error), place(shard + 1, 0)))?;
            let (mut full_at, mut damage) = (None, None);
            for slot in Slot::sort(slots) {
                if full_at.is_some_and(|last| last < slot.tag()) {
                    let next = place(shard, slot.tag());
                    return damage.map_or(Ok(Some(next)), |error| Err(going_on(error, next)));
                }
                let frame = self.frame_at(moment, shard, slot, number);
                match frame.and_then(|frame| frame.map(|frame| self.decoded(frame)).transpose()) {
                    Ok(None) => {}
                    Ok(Some(frame)) => {
                        if !each(Met::Record(frame)) {
                            full_at = Some(slot.tag());
                        }
                    }
                    // Records with the same tag belong to the same page, so finish the tag before returning the error.
                    Err(error @ Error::Corrupt { .. }) => {
                        each(Met::Damage(place(shard, slot.tag())));
                        full_at = Some(slot.tag());
                        damage.get_or_insert(error);
                    }
                    Err(error) => return Err(error),
                }
            }
            (shard, tag) = if behind < Slot::TAGS { (shard, behind) } else { (shard + 1, 0) };
            if let Some(error) = damage {
                return Err(going_on(error, place(shard, tag)));
            }
            if full_at.is_some() {
                break;
            }
        }
        if shard < SHARDS { Ok(Some(place(shard, tag))) } else { self.has_met_all().map(|()| None) }
    }
}
