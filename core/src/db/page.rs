//! Reading all records in pages, with no state between two pages but a cursor.
//!
//! The order is that of the keys' hashes, which no write, compaction or reopening changes: a record that exists during the whole walk is
//! returned exactly once, and every walk ends.

use super::handle::Namespace;
use crate::cursor::Cursor;
use crate::engine::GROUP;
use crate::error::{Error, Result};
use crate::index::{SHARDS, Slot};
use crate::names::Name;
use crate::store::Store;
use alloc::vec::Vec;

/// Slots that are read at a time, roughly: a short page of a large store must not read a whole shard.
const BATCH: u64 = 128;

impl Namespace {
    /// Hands records to `each` until it returns `false`; returns where to continue, or `None` once there are no more. A walk begins at
    /// `Cursor::default()`.
    ///
    /// The order is arbitrary, but always the same. A record that exists during the whole walk is returned exactly once; one that is
    /// written or removed meanwhile may appear or not, and so may a part of a commit. After `false` a few more records may be handed out,
    /// most often none: those whose hashes are the same in the bits that the index keeps share a page.
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
    /// Errors of the storage, and [`Error::Corrupt`](crate::Error::Corrupt), whose field `next` is where to continue after the damage:
    /// everything before it has been handed out.
    pub fn page(&self, from: Cursor, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
        self.store.page(&self.name, from, &mut each)
    }
}

pub(super) fn place(shard: usize, tag: u64) -> Cursor {
    // Both fit: there are 256 shards, and a tag has at most 22 bits.
    Cursor { shard: shard as u32, tag: tag as u32 }
}

/// The tag at which a batch from `tag` on ends in a shard of `len` records. Tags are bits of hashes, so they are evenly distributed: the
/// batch has about [`BATCH`] slots.
pub(super) fn batch_end(tag: u64, len: usize) -> u64 {
    tag.saturating_add((Slot::TAGS * BATCH).div_ceil(len.max(1) as u64))
}

/// Adds to an error of damage where the walk continues.
pub(super) fn going_on(error: Error, behind: Cursor) -> Error {
    error.with_next_page(((behind.shard as usize) < SHARDS).then_some(behind))
}

impl Store {
    fn page(&self, name: &Name, from: Cursor, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
        if self.engine.log.follows() {
            return self.page_followed(name, from, each);
        }
        let Some(number) = name.number() else { return Ok(None) };
        let (mut shard, mut tag) = (from.shard as usize, u64::from(from.tag));
        while shard < SHARDS {
            // Pin before the slots are read: their offsets stay valid while the pin lives.
            let pin = self.engine.pin();
            // After a shard that cannot be read, continue with the next one.
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
                        let readable = |frame| self.engine.log.check(&frame).and_then(|()| self.engine.readable(frame));
                        frame.map_or(Ok(None), readable)
                    }) {
                        Ok(Some(_)) if !self.engine.is_certain(slot.offset()) => {}
                        Ok(Some(frame)) if each(frame.key(), frame.value()) => {}
                        Ok(None) => {}
                        Ok(Some(_)) => full_at = Some(slot.tag()),
                        // Records with the same tag belong to the same page, so finish the tag before returning the error.
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
    pub(super) fn batch(&self, shard: usize, number: u32, tag: u64) -> Result<(Vec<Slot>, Option<u64>)> {
        let guard = self.engine.lock_shard(shard)?;
        // Skip a shard without records of the namespace, without reading the log.
        if guard.count(number) == 0 {
            return Ok((Vec::new(), None));
        }
        let behind = batch_end(tag, guard.len());
        let slots = guard.slots_between(self.engine.medium(), tag..behind.min(Slot::TAGS))?;
        drop(guard);
        Ok((Slot::sort(slots), (behind < Slot::TAGS).then_some(behind)))
    }
}
