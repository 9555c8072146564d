//! Iterating over all records in no order, one shard of the index at a time.

use super::handle::{Db, Namespace};
use crate::engine::GROUP;
use crate::error::{Error, Result};
use crate::index::{SHARDS, ShardGuard};
use crate::log::Frame;
use crate::pins::Pin;
use crate::sorted::sort;
use crate::store::Store;
use alloc::collections::BTreeSet;
use alloc::vec::{self, Vec};

/// Prefetch distance, in records: with it, a walk over a million records takes a third of the time.
pub(super) const AHEAD: usize = 8;

/// The records of a namespace, in no order. See [`Db::iter`](crate::Namespace::iter).
///
/// It is a reader while it lives, which keeps segments from being reused, and it cannot be sent to another thread. To continue in another
/// thread, or after a pause, read in pages: [`Db::page`](crate::Namespace::page).
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

/// The keys of a namespace, in no order. See [`Db::keys`](crate::Namespace::keys). Like [`Iter`], it is a reader and cannot be sent to
/// another thread.
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

/// What a walk of a follower has returned of its shard.
#[derive(Default)]
pub(super) struct Returned {
    pub(super) keys: BTreeSet<Vec<u8>>,
    /// How often the shard was listed again.
    pub(super) again: usize,
}

/// The frames of a namespace. The pin keeps every record in place that a shard pointed at when its slots were copied.
pub(super) struct Frames<'a> {
    pub(super) store: &'a Store,
    number: Option<u32>,
    /// The next shard.
    pub(super) shard: usize,
    pub(super) offsets: vec::IntoIter<u64>,
    /// How many of the next records have been announced to the host (`will_read`).
    announced: usize,
    /// The check at the end has not run yet; its error is returned once.
    unsaid: bool,
    /// Of a follower: what has been returned of the shard.
    pub(super) followed: Option<Returned>,
    pin: Pin<'a>,
}

impl Namespace {
    /// All records of this namespace, in no order. A record that exists during the whole iteration is returned exactly once; one that is
    /// written or removed meanwhile may appear or not, and so may a part of a commit. While the iterator lives, compaction cannot reuse any
    /// segment. It cannot be sent to another thread.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2")])?;
    /// let mut records = db.iter().collect::<pipkin::Result<Vec<_>>>()?;
    /// records.sort();
    /// assert_eq!(records[1], (b"b".to_vec(), b"2".to_vec()));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.frames())
    }

    /// All keys of this namespace; see [`Self::iter`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("photo/1", "..."), ("photo/2", "..."), ("note/1", "...")])?;
    /// let mut photos = 0;
    /// for key in db.keys() {
    ///     photos += usize::from(key?.starts_with(b"photo/"));
    /// }
    /// assert_eq!(photos, 2);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn keys(&self) -> Keys<'_> {
        Keys(self.frames())
    }

    pub(super) fn frames(&self) -> Frames<'_> {
        Frames {
            store: &self.store,
            number: self.name.number(),
            shard: 0,
            offsets: Vec::new().into_iter(),
            announced: 0,
            unsaid: true,
            followed: self.store.engine.log.follows().then(Returned::default),
            pin: self.store.engine.pin(),
        }
    }
}

/// Over the records of the default namespace, as [`Namespace::iter`].
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// db.insert("color", "green")?;
/// for record in &db {
///     let (key, value) = record?;
///     assert_eq!((&key[..], &value[..]), (&b"color"[..], &b"green"[..]));
/// }
/// # Ok::<(), pipkin::Error>(())
/// ```
impl<'a> IntoIterator for &'a Db {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Over the records of the namespace, as [`Namespace::iter`].
impl<'a> IntoIterator for &'a Namespace {
    type Item = Result<(Vec<u8>, Vec<u8>)>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> Frames<'a> {
    pub(super) fn next(&mut self) -> Option<Result<Frame<'a>>> {
        let number = self.number?;
        loop {
            let Some(offset) = self.offsets.next() else {
                if self.shard == SHARDS {
                    let is_whole = self.store.engine.has_met_all();
                    return if core::mem::take(&mut self.unsaid) { is_whole.err().map(Err) } else { None };
                }
                // Advance first, so that iterating past an error terminates.
                let shard = self.shard;
                self.shard += 1;
                self.followed = self.followed.take().map(|_| Returned::default());
                if self.store.engine.index.is_empty_at(shard) {
                    continue;
                }
                // Skip a shard without records of the namespace, without reading the log.
                let engine = &self.store.engine;
                let slots_of = |guard: ShardGuard<'_>| {
                    if guard.count(number) > 0 { guard.slots(engine.medium()) } else { Ok(Vec::new()) }
                };
                let mut offsets: Vec<u64> = match engine.lock_shard(shard).and_then(slots_of) {
                    Ok(slots) => slots.into_iter().map(|slot| slot.offset()).collect(),
                    Err(error) => return Some(Err(error)),
                };
                // In file order, which suits caches better than hash order.
                sort(&mut offsets);
                self.offsets = offsets.into_iter();
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
            if self.store.engine.log.follows() {
                if let Some(found) = self.next_followed(offset, number) {
                    return Some(found);
                }
                continue;
            }
            let frame = self.store.engine.log.frame_if(offset, |other, _| other == number);
            match frame
                .and_then(|frame| frame.map_or(Ok(None), |frame| frame.check().and_then(|()| self.store.engine.readable(frame))))
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
