//! Going through all records in pages, with nothing kept between two of them but a number.
//!
//! The order is that of the keys' hashes, which no write, compaction or reopening changes: a record that is there all the time comes
//! exactly once, and every walk ends.

use super::handle::Db;
use super::namespace::Namespace;
use super::store::Store;
use crate::engine::GROUP;
use crate::error::Result;
use crate::index::{SHARDS, Slot};
use crate::names::Name;
use alloc::vec::Vec;

/// About so many slots are taken at a time: a short page of a large store must not go through a whole shard.
const BATCH: u64 = 128;

/// Where a walk in pages goes on. Good for as long as the store exists, also after it has been opened again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    shard: usize,
    tag: u64,
}

impl Cursor {
    /// As a number, for those who have to send it somewhere.
    pub const fn to_bits(self) -> u64 {
        (self.shard as u64) << 32 | self.tag
    }

    /// From the number that [`Self::to_bits`] gave. Any other number is the place of some record, or behind all of them.
    pub const fn from_bits(bits: u64) -> Self {
        let shard = bits >> 32;
        Self { shard: if shard < SHARDS as u64 { shard as usize } else { SHARDS }, tag: bits & 0xffff_ffff }
    }
}

/// What a handle offers in pages; `$name` finds its namespace.
macro_rules! pages {
    ($handle:ident, $($name:ident).+) => {
        impl $handle {
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
            /// [`Error::Corrupt`](crate::Error::Corrupt) and errors of the storage.
            pub fn page(&self, from: Cursor, mut each: impl FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
                self.store.page(&self.$($name).+, from, &mut each)
            }
        }
    };
}

pages!(Db, store.default);
pages!(Namespace, name);

impl Store {
    fn page(&self, name: &Name, from: Cursor, each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<Option<Cursor>> {
        let Some(number) = name.number() else { return Ok(None) };
        let Cursor { mut shard, mut tag } = from;
        while shard < SHARDS {
            // Before the slots are read: they stay good for as long.
            let _pin = self.engine.pin();
            let (slots, rest) = self.batch(shard, number, tag)?;
            let mut full_at = None;
            for group in slots.chunks(GROUP) {
                let offsets: Vec<u64> = group.iter().map(|slot| slot.offset()).collect();
                self.engine.log.will_read(&offsets);
                offsets.iter().for_each(|&offset| self.engine.log.prefetch(offset));
                for slot in group {
                    if full_at.is_some_and(|last| last < slot.tag()) {
                        return Ok(Some(Cursor { shard, tag: slot.tag() }));
                    }
                    let frame = self.engine.log.frame_if(slot.offset(), |other, _| other == number)?;
                    let Some(frame) = frame else { continue };
                    self.engine.log.check(&frame)?;
                    if !each(frame.key(), frame.value()) {
                        full_at = Some(slot.tag());
                    }
                }
            }
            (shard, tag) = rest.map_or((shard + 1, 0), |tag| (shard, tag));
            if full_at.is_some() {
                break;
            }
        }
        Ok((shard < SHARDS).then_some(Cursor { shard, tag }))
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
