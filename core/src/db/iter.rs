//! Going through all records, in no order, a shard of the index at a time.

use super::handle::Namespace;
use crate::engine::GROUP;
use crate::error::{Error, Result};
use crate::index::SHARDS;
use crate::log::Frame;
use crate::pins::Pin;
use crate::sorted::sort;
use crate::store::Store;
use alloc::vec::{self, Vec};

/// The processor is asked for a record so many records ahead of it: a walk over a million takes a third of the time.
const AHEAD: usize = 8;

/// The records of a namespace, in no order. See [`Db::iter`](crate::Namespace::iter).
///
/// It counts as a reader for as long as it lives, and stays in the thread that has made it. To go on in another thread, or after a pause,
/// walk in pages: [`Db::page`](crate::Namespace::page).
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert_many([("a", "1"), ("b", "22")])?;
/// let mut bytes = 0;
/// for record in db.iter() {
///     let (_key, value) = record?; // damage is an error, and the walk goes on after it
///     bytes += value.len();
/// }
/// assert_eq!(bytes, 3);
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct Iter<'a>(Frames<'a>);

/// The keys of a namespace, in no order. See [`Db::keys`](crate::Namespace::keys). Like [`Iter`], it is a reader and stays in its thread.
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert_many([("a", "1"), ("b", "2")])?;
/// let mut keys = db.keys().collect::<pipkin::Result<Vec<_>>>()?;
/// keys.sort();
/// assert_eq!(keys, [b"a", b"b"]);
/// # Ok::<(), pipkin::Error>(())
/// ```
pub struct Keys<'a>(Frames<'a>);

impl Iterator for Iter<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|frame| (frame.key().to_vec(), frame.value().to_vec())))
    }
}

impl Iterator for Keys<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(|frame| frame.key().to_vec()))
    }
}

/// The frames of a namespace. The pin keeps every record that a shard pointed at when its turn came.
pub(super) struct Frames<'a> {
    store: &'a Store,
    number: Option<u32>,
    shard: usize,
    offsets: vec::IntoIter<u64>,
    /// Of how many of the next records the host was told.
    announced: usize,
    /// The end has not been said yet.
    unsaid: bool,
    pin: Pin<'a>,
}

impl Namespace {
    /// All records of this namespace, in no order. A record that is there all the while comes exactly once; one that is
    /// written or removed meanwhile may come or not, and so may a part of a commit. While the iterator lives, compaction cannot reuse any segment. It cannot be sent to
    /// another thread.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.frames())
    }

    /// All keys of this namespace; see [`Self::iter`].
    pub fn keys(&self) -> Keys<'_> {
        Keys(self.frames())
    }

    fn frames(&self) -> Frames<'_> {
        Frames {
            store: &self.store,
            number: self.name.number(),
            shard: 0,
            offsets: Vec::new().into_iter(),
            announced: 0,
            unsaid: true,
            pin: self.store.engine.pin(),
        }
    }
}

impl<'a> Frames<'a> {
    fn next(&mut self) -> Option<Result<Frame<'a>>> {
        let number = self.number?;
        loop {
            let Some(offset) = self.offsets.next() else {
                if self.shard == SHARDS {
                    let is_whole = self.store.engine.has_met_all();
                    return if core::mem::take(&mut self.unsaid) { is_whole.err().map(Err) } else { None };
                }
                // Whatever comes of it, the next shard is next: who goes on after an error must get to the end.
                let shard = self.shard;
                self.shard += 1;
                if self.store.engine.index.is_empty_at(shard) {
                    continue;
                }
                let guard = match self.store.engine.lock_shard(shard) {
                    Ok(guard) => guard,
                    Err(error) => return Some(Err(error)),
                };
                // A shard without records of the namespace needs no look into the log.
                if guard.count(number) > 0 {
                    let mut offsets: Vec<u64> = guard.slots().into_iter().map(|slot| slot.offset()).collect();
                    // In the order of the file, which is kinder to caches than the order of hashes.
                    sort(&mut offsets);
                    self.offsets = offsets.into_iter();
                }
                continue;
            };
            if self.announced == 0 {
                let mut next = [offset; GROUP];
                next.iter_mut().skip(1).zip(self.offsets.as_slice()).for_each(|(place, offset)| *place = *offset);
                self.store.engine.log.will_read(&next);
                self.announced = GROUP;
            }
            self.announced -= 1;
            if let Some(&ahead) = self.offsets.as_slice().get(AHEAD - 1) {
                self.store.engine.log.prefetch(ahead);
            }
            let frame = self.store.engine.log.frame_if(offset, |other, _| other == number);
            match frame
                .and_then(|frame| frame.map(|frame| frame.check().and_then(|()| frame.is_readable()).map(|()| frame)).transpose())
            {
                Ok(Some(frame)) if self.store.engine.is_certain(offset) => return Some(Ok(frame)),
                Ok(_) => {}
                Err(error) => match self.store.engine.log.or_fenced(error) {
                    error @ Error::Corrupt { .. } => match self.store.engine.is_of_another(&self.pin, offset, number) {
                        Ok(true) => {}
                        Ok(false) => return Some(Err(error)),
                        Err(error) => return Some(Err(error)),
                    },
                    error => return Some(Err(error)),
                },
            }
        }
    }
}
