//! Going through all records in pages, with nothing kept between two of them but a number.
//!
//! The order is that of the keys' hashes, which no write, compaction or reopening changes: a record that is there all the time comes
//! exactly once, and every walk ends.

use super::handle::Namespace;
use crate::cursor::Cursor;
use crate::engine::GROUP;
use crate::error::{Error, Result};
use crate::index::{SHARDS, Slot};
use crate::names::Name;
use crate::store::Store;
use alloc::vec::Vec;

/// About so many slots are taken at a time: a short page of a large store must not go through a whole shard.
const BATCH: u64 = 128;

impl Namespace {
    /// Hands records to `each` until it says `false`, and returns where to go on; `None` once there are no more. Begins at
    /// `Cursor::default()`.
    ///
    /// The order is an accident, but always the same one. A record that is there during the whole walk comes exactly once; one that is
    /// written or removed meanwhile may come or not, and so may a part of a commit. After `false` some more records may come: those whose hashes hardly differ
    /// travel together, most often none.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many((0..100_u8).map(|n| ([n], "value")))?;
    /// let (mut keys, mut cursor) = (Vec::new(), Some(pipkin::Cursor::default()));
    /// while let Some(from) = cursor {
    ///     let full = keys.len() + 10;
    ///     cursor = db.page(from, |key, _| {
    ///         keys.push(key.to_vec());
    ///         keys.len() < full
    ///     })?;
    /// }
    /// assert_eq!(keys.len(), 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Errors of the storage, and [`Error::Corrupt`](crate::Error::Corrupt), whose field `next` says where to go on behind the damage:
    /// what stands in front of it has been handed out.
    pub fn page(&self, from: Cursor, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
        self.store.page(&self.name, from, &mut each)
    }
}

fn place(shard: usize, tag: u64) -> Cursor {
    // There are few shards, and a tag has no more than 22 bits.
    Cursor { shard: shard as u32, tag: tag as u32 }
}

/// Says in an error of damage where the walk goes on.
fn going_on(mut error: Error, behind: Cursor) -> Error {
    if let Error::Corrupt { next, .. } = &mut error {
        *next = ((behind.shard as usize) < SHARDS).then_some(behind);
    }
    error
}

impl Store {
    fn page(&self, name: &Name, from: Cursor, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
        let Some(number) = name.number() else { return Ok(None) };
        let (mut shard, mut tag) = (from.shard as usize, u64::from(from.tag));
        while shard < SHARDS {
            // Before the slots are read: they stay good for as long.
            let pin = self.engine.pin();
            // Behind a shard that cannot be read there is the next one.
            let (slots, rest) = self.batch(shard, number, tag).map_err(|error| going_on(error, place(shard + 1, 0)))?;
            let mut full_at = None;
            let mut damage: Option<Error> = None;
            for group in slots.chunks(GROUP) {
                let offsets: Vec<u64> = group.iter().map(|slot| slot.offset()).collect();
                self.engine.log.will_read(&offsets);
                offsets.iter().for_each(|&offset| self.engine.log.prefetch(offset));
                for slot in group {
                    if full_at.is_some_and(|last| last < slot.tag()) {
                        let next = place(shard, slot.tag());
                        return damage.map_or(Ok(Some(next)), |error| Err(going_on(error, next)));
                    }
                    let frame = self.engine.log.frame_if(slot.offset(), |other, _| other == number);
                    match frame.and_then(|frame| {
                        frame
                            .map(|frame| self.engine.log.check(&frame).and_then(|()| frame.is_readable()).map(|()| frame))
                            .transpose()
                    }) {
                        Ok(Some(_)) if !self.engine.is_certain(slot.offset()) => {}
                        Ok(Some(frame)) if each(frame.key(), frame.value()) => {}
                        Ok(None) => {}
                        Ok(Some(_)) => full_at = Some(slot.tag()),
                        // Records of the same tag come in the same page.
                        Err(Error::Corrupt { .. }) if self.engine.is_of_another(&pin, slot.offset(), number)? => {}
                        Err(error @ Error::Corrupt { .. }) => {
                            full_at = Some(slot.tag());
                            damage.get_or_insert(error);
                        }
                        Err(error) => return Err(error),
                    }
                }
            }
            if let Some(error) = damage {
                let (shard, tag) = rest.map_or((shard + 1, 0), |tag| (shard, tag));
                return Err(going_on(error, place(shard, tag)));
            }
            (shard, tag) = rest.map_or((shard + 1, 0), |tag| (shard, tag));
            if full_at.is_some() {
                break;
            }
        }
        if shard < SHARDS { Ok(Some(place(shard, tag))) } else { self.engine.has_met_all().map(|()| None) }
    }

    /// The slots of a shard from `tag` on, in order, and the tag at which the next batch begins. Slots of one tag stay together.
    fn batch(&self, shard: usize, number: u32, tag: u64) -> Result<(Vec<Slot>, Option<u64>)> {
        let guard = self.engine.lock_shard(shard)?;
        // A shard without records of the namespace needs no look into the log.
        if guard.count(number) == 0 {
            return Ok((Vec::new(), None));
        }
        // Tags are pieces of hashes: a part of their range has as large a part of the slots.
        let behind = tag.saturating_add((Slot::TAGS * BATCH).div_ceil(guard.len().max(1) as u64));
        let slots = guard.slots_between(tag..behind.min(Slot::TAGS));
        drop(guard);
        Ok((Slot::sort(slots), (behind < Slot::TAGS).then_some(behind)))
    }
}
