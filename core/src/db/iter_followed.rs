//! Walking a follower's records in no order: the writer may use the space of a record again before the walk has come to it.

use super::iter::Frames;
use super::page::place;
use super::refresh::READS_MAX;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::index::SHARDS;
use crate::log::Frame;
use crate::names::Name;
use crate::sorted::sort;
use crate::store::Store;
use alloc::vec::Vec;

/// A record in memory of its own: the tag of its slot, its key and its value.
type Copied = (u64, Vec<u8>, Vec<u8>);

impl Store {
    /// The record at an offset that the index had: one of the namespace that has not expired.
    ///
    /// # Errors
    ///
    /// [`Error::Overtaken`] when the index does not point there any more.
    fn frame_followed(&self, offset: u64, shard: usize, number: u32) -> Result<Option<Frame<'_>>> {
        let engine = &self.engine;
        let frame = engine.log.frame(offset).and_then(|frame| frame.check().map(|()| frame));
        let frame = frame.map_err(|error| engine.log.or_fenced(error))?;
        let hash = engine.hash_of(&frame);
        if hash.shard() != shard || !engine.index.lock_shard(shard).has(engine.medium(), hash.slot(offset))? {
            return Err(Error::Overtaken);
        }
        if frame.header.namespace != number || !engine.is_certain(offset) { Ok(None) } else { engine.readable(frame) }
    }

    /// See [`Namespace::page`](crate::Namespace::page): a batch is read as a whole before any of it is handed out.
    pub(super) fn page_followed(
        &self,
        name: &Name,
        from: Cursor,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<Option<Cursor>> {
        let Some(number) = name.number() else { return Ok(None) };
        let (mut shard, mut tag) = (from.shard as usize, u64::from(from.tag));
        while shard < SHARDS {
            let (records, rest) = self.batch_followed(shard, number, tag)?;
            let mut full_at = None;
            for (tag, key, value) in records {
                if full_at.is_some_and(|last| last < tag) {
                    return Ok(Some(place(shard, tag)));
                }
                if !each(&key, &value) {
                    full_at = Some(tag);
                }
            }
            (shard, tag) = rest.map_or((shard + 1, 0), |tag| (shard, tag));
            if full_at.is_some() {
                break;
            }
        }
        if shard < SHARDS { Ok(Some(place(shard, tag))) } else { self.engine.has_met_all().map(|()| None) }
    }

    fn batch_followed(&self, shard: usize, number: u32, tag: u64) -> Result<(Vec<Copied>, Option<u64>)> {
        let read = || {
            let (slots, rest) = self.batch(shard, number, tag)?;
            let mut records = Vec::with_capacity(slots.len());
            for slot in slots {
                if let Some(frame) = self.frame_followed(slot.offset(), shard, number)? {
                    records.push((slot.tag(), frame.key().to_vec(), frame.value().to_vec()));
                }
            }
            Ok((records, rest))
        };
        read().or_else(|error| self.read_again(error, &mut || read()))
    }
}

impl<'a> Frames<'a> {
    /// The record at an offset of the present shard. `None` when the walk goes on: there is none, or the shard was listed again.
    pub(super) fn next_followed(&mut self, offset: u64, number: u32) -> Option<Result<Frame<'a>>> {
        let shard = self.shard.saturating_sub(1);
        let returned = self.followed.get_or_insert_default();
        match self.store.frame_followed(offset, shard, number) {
            Ok(Some(frame)) => returned.keys.insert(frame.key().to_vec()).then_some(Ok(frame)),
            Ok(None) => None,
            Err(error) if error.may_be_reuse() && returned.again < READS_MAX => {
                returned.again += 1;
                if let Err(error) = self.store.refresh() {
                    return Some(Err(error));
                }
                let engine = &self.store.engine;
                let mut offsets: Vec<u64> = match engine.lock_shard(shard).and_then(|guard| guard.slots(engine.medium())) {
                    Ok(slots) => slots.into_iter().map(|slot| slot.offset()).collect(),
                    Err(error) => return Some(Err(error)),
                };
                sort(&mut offsets);
                self.offsets = offsets.into_iter();
                None
            }
            Err(error) => Some(Err(error)),
        }
    }
}
