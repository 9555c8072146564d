//! `get_many`: the values of up to 128 keys as of one moment, without a lock.
//!
//! The keys are looked up as `get` does, and nothing is handed over before all of them were. The values are those of one moment, the end of
//! the log at the start, if the log still ends there, no shard that was looked at was being published, and nothing expired was taken out of
//! the index. Else each record is looked for once more: if the index still points at all of them, they are those of the second look. What
//! fails often is read in a moment that is held, as a snapshot is: no writer can keep it from ending.

use super::handle::Namespace;
use super::read::{DECODED_SUM_MAX, count_decoded};
use super::refresh::READS_MAX;
use crate::clock::Now;
use crate::engine::{Engine, FullKey, GROUP};
use crate::error::{Error, Result};
use crate::index::KeyHash;
use crate::limits::KEYS_OF_ONE_MOMENT;
use crate::log::Frame;
use crate::moments::Moment;
use crate::names::Name;
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::store::{Store, check_key};
use crate::sync::{Ordering, fence};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Looks without a lock, before a moment is held.
const LOOKS: usize = 3;
/// Bytes of copied records that wait for the last key of their group; what is beyond is read again when it is handed over.
const COPIED_MAX: usize = 1 << 20;

/// A key, and what was found of it.
struct Asked<'a, K> {
    key: K,
    hash: KeyHash,
    /// File offset of its record; 0 without one.
    place: u64,
    /// Its value, if it is mapped and needs no closer look.
    value: Option<&'a [u8]>,
}

/// A record that is not merely a mapped value.
enum Other<'a> {
    /// As stored.
    Stored(Frame<'a>),
    /// With its plain value.
    Plain(Frame<'a>),
    /// It was too long to be kept.
    Left,
}

/// The others of a group, each with the number of its key, in order.
#[derive(Default)]
struct Others<'a> {
    found: Vec<(usize, Other<'a>)>,
    copied: usize,
}

/// What must be the same before and behind the look-ups.
#[derive(PartialEq, Eq)]
struct Seen {
    end: u64,
    taken_out: u64,
}

impl Seen {
    #[inline]
    fn now(engine: &Engine) -> Self {
        Self { end: engine.log.end(), taken_out: engine.taken_out.load(Ordering::Acquire) }
    }
}

/// A moment that ends with the call.
struct Brief<'a> {
    engine: &'a Engine,
    moment: Arc<Moment>,
}

impl Drop for Brief<'_> {
    fn drop(&mut self) {
        self.engine.end_moment(&self.moment, true);
    }
}

impl Namespace {
    /// The values of many keys, in the order of the keys. Up to 128 keys are read as of one moment: of every commit of others, a batch or
    /// transaction included, all that it changed of them is there, or nothing. Of more keys, each 128 in their order have a moment of their
    /// own; read those that must be consistent in a [`Db::snapshot`](crate::Db::snapshot) or a [`Self::transaction`].
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2")])?;
    /// assert_eq!(db.get_many(["b", "c"])?, [Some(b"2".to_vec()), None]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), and those of [`Self::get`]: one key that cannot be read fails the call. An error of a
    /// damaged record [names its key](crate::Error::damaged_key).
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::new();
        // All of them are in memory at the same time.
        let mut decoded = DECODED_SUM_MAX;
        self.get_each(keys, &mut decoded, |_, value| values.push(value.map(<[u8]>::to_vec)))?;
        Ok(values)
    }

    /// Hands each key with its value, or `None`, to `each`, without a copy where the host can map the file: the fastest way to read many
    /// records. As with [`Self::get_many`], each 128 keys are read as of one moment, which is before `each` sees the first of them.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert_many([("a", "1"), ("b", "22")])?;
    /// let mut bytes = 0;
    /// db.get_many_with(["a", "b", "c"], |_key, value| bytes += value.map_or(0, <[u8]>::len))?;
    /// assert_eq!(bytes, 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Self::get_many`]; `each` has then seen the keys of earlier moments, and possibly some of this one.
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        each: impl FnMut(K, Option<&[u8]>),
    ) -> Result<()> {
        let mut decoded = usize::MAX;
        self.get_each(keys, &mut decoded, each)
    }

    /// [`Self::get_many_with`] for compressed values of at most `decoded` bytes in all.
    fn get_each<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        decoded: &mut usize,
        mut each: impl FnMut(K, Option<&[u8]>),
    ) -> Result<()> {
        let store: &Store = &self.store;
        let mut keys = keys.into_iter();
        let mut group: Vec<Asked<'_, K>> = Vec::new();
        let mut others = Others::default();
        loop {
            group.extend(keys.by_ref().take(KEYS_OF_ONE_MOMENT).map(|key| Asked {
                key,
                hash: KeyHash::default(),
                place: 0,
                value: None,
            }));
            if group.is_empty() {
                return Ok(());
            }
            group.iter().try_for_each(|asked| check_key(asked.key.as_ref()))?;
            let _pin = store.get_together(&self.name, &mut group, &mut others)?;
            if others.found.is_empty() {
                group.drain(..).for_each(|asked| each(asked.key, asked.value));
                continue;
            }
            let mut found = others.found.drain(..).peekable();
            for (number, asked) in group.drain(..).enumerate() {
                match found.next_if(|(other, _)| *other == number) {
                    None => each(asked.key, asked.value),
                    Some((_, other)) => {
                        let frame = store.readable_of(other, &asked)?;
                        count_decoded(Some(&frame), decoded)?;
                        each(asked.key, Some(frame.value()));
                    }
                }
            }
        }
    }
}

impl<K> Asked<'_, K> {
    const fn forget(&mut self) {
        (self.place, self.value) = (0, None);
    }
}

impl<'a> Others<'a> {
    fn clear(&mut self) {
        self.found.clear();
        self.copied = 0;
    }

    fn add(&mut self, number: usize, frame: Frame<'a>) {
        let len = if frame.is_mapped() { 0 } else { frame.header.frame_len() };
        let is_kept = len <= COPIED_MAX - self.copied;
        if is_kept {
            self.copied += len;
        }
        self.found.push((number, if is_kept { Other::Stored(frame) } else { Other::Left }));
    }
}

/// The keys of a group from number `from` on, as many as are looked up together.
fn some<'s, 'a, K>(group: &'s mut [Asked<'a, K>], from: usize) -> &'s mut [Asked<'a, K>] {
    let to = group.len().min(from + GROUP);
    group.get_mut(from..to).unwrap_or_default()
}

impl Store {
    /// Looks the keys up as of one moment. The result keeps what was found from being reused.
    fn get_together<'a, K: AsRef<[u8]>>(
        &'a self,
        name: &Name,
        group: &mut [Asked<'a, K>],
        others: &mut Others<'a>,
    ) -> Result<Pin<'a>> {
        if self.engine.log.follows() {
            return self.get_together_followed(name, group, others);
        }
        for _ in 0..LOOKS {
            let pin = self.engine.pin();
            if self.look_at_all(name, &pin, group, others)? {
                return Ok(pin);
            }
        }
        self.get_in_a_moment(name, group, others)
    }

    /// Looks the keys up; false if what was found need not be of one moment.
    fn look_at_all<'a, K: AsRef<[u8]>>(
        &'a self,
        name: &Name,
        pin: &Pin<'_>,
        group: &mut [Asked<'a, K>],
        others: &mut Others<'a>,
    ) -> Result<bool> {
        let engine = &self.engine;
        others.clear();
        // In this order: what was appended before is published in every shard that is not being published from here on.
        let seen = Seen::now(engine);
        let Some(number) = name.number() else {
            group.iter_mut().for_each(Asked::forget);
            return Ok(true);
        };
        let now = engine.moment_of_now();
        let mut is_published = true;
        // A pipeline of three parts, so that the waits for memory overlap: while the records of one part are read, those of the second and the
        // slots of the third are on their way.
        let mut at = 0;
        // The medium fetches slots of the second part: it is to fetch their records, too, before one of them is waited for.
        let mut fetches = false;
        while at < group.len() + 2 * GROUP {
            let third = some(group, at);
            for asked in third.iter_mut() {
                asked.hash = engine.full_key(number, asked.key.as_ref()).hash;
            }
            engine.prefetch_slots(pin, third.iter().map(|asked| asked.hash));
            let fetches_third = engine.will_look_up(pin, third.iter().map(|asked| asked.hash));
            if let Some(from) = at.checked_sub(GROUP) {
                let second = some(group, from);
                is_published &= !second.iter().any(|asked| engine.index.is_publishing(asked.hash));
                let places = engine.locate(pin, second.iter().map(|asked| asked.hash), fetches);
                for (asked, place) in second.iter_mut().zip(places) {
                    (asked.place, asked.value) = (place.unwrap_or(0), None);
                }
            }
            if let Some(from) = at.checked_sub(2 * GROUP) {
                let (first, second) = group.split_at_mut(group.len().min(from + GROUP));
                let mut ahead = second.iter().take(GROUP).map(|asked| asked.place).filter(|&place| place != 0);
                for (index, asked) in some(first, from).iter_mut().enumerate() {
                    // One per record: the processor can have only a few cache misses in flight.
                    ahead.next().into_iter().for_each(|offset| engine.log.prefetch(offset));
                    if asked.place != 0 {
                        asked.value = engine.log.lookup(asked.place, number, asked.key.as_ref(), self.verifies());
                    }
                    if asked.value.is_none() {
                        self.look_closer(pin, number, &now, from + index, asked, others)?;
                    }
                }
                ahead.for_each(|offset| engine.log.prefetch(offset));
                let len = |asked: &Asked<'_, K>| Some(asked.key.as_ref().len() + asked.value?.len());
                some(first, from).iter().find_map(len).into_iter().for_each(|len| engine.log.has_read(len));
            }
            fetches = fetches_third;
            at += GROUP;
        }
        // What was read came before what is looked at now.
        fence(Ordering::Acquire);
        let is_one = is_published && seen == Seen::now(engine) && name.number() == Some(number);
        Ok(is_one || is(Bug::ManyReadApart) || self.is_still_so(name, pin, number, &seen, group))
    }

    /// The look-up of a key whose first slot has not led to a value in the map.
    #[inline(never)]
    fn look_closer<'a, K: AsRef<[u8]>>(
        &'a self,
        pin: &Pin<'_>,
        number: u32,
        now: &Now<'_>,
        place: usize,
        asked: &mut Asked<'a, K>,
        others: &mut Others<'a>,
    ) -> Result<()> {
        let Engine { index, log, .. } = &self.engine;
        let key = FullKey { namespace: number, key: asked.key.as_ref(), hash: asked.hash };
        // Without a slot, one more look tells that there is none, and that its shard was not merely parked.
        if asked.place == 0 && !index.is_unclear(key.hash) {
            match index.first_slot(pin, key.hash) {
                None => return Ok(()),
                Some(offset) => (asked.place, asked.value) = (offset, log.lookup(offset, number, key.key, self.verifies())),
            }
            if asked.value.is_some() {
                return Ok(());
            }
        }
        asked.place = 0;
        let named = |error: Error| log.or_fenced(error).with_damaged_key(key.key);
        if let Some(frame) = self.find_checked(pin, key).map_err(named)? {
            asked.place = frame.offset;
            if self.engine.has_expired(&frame, now) {
                return Ok(());
            }
            if log.follows() {
                // Now: what its writer has used again must be noticed before anything is handed over.
                others.found.push((place, Other::Plain(self.engine.decoded(frame).map_err(named)?)));
            } else {
                others.add(place, frame);
            }
        }
        Ok(())
    }

    /// True when each record that was found is still the newest of its key, and what was not found is still not there: then all of it is what
    /// the store had when this was called.
    #[cold]
    fn is_still_so<K: AsRef<[u8]>>(&self, name: &Name, pin: &Pin<'_>, number: u32, seen: &Seen, group: &[Asked<'_, K>]) -> bool {
        let Engine { index, log, .. } = &self.engine;
        if log.follows() {
            // Its writer may use an offset again meanwhile.
            return false;
        }
        // What is appended up to here is published in every shard that is not being published from here on.
        let _ = log.end();
        let is_so = |asked: &Asked<'_, K>| {
            let key = FullKey { namespace: number, key: asked.key.as_ref(), hash: asked.hash };
            !index.is_publishing(key.hash)
                && match asked.place {
                    0 => matches!(self.find_checked(pin, key), Ok(None)),
                    // No offset is used again under the pin, so it was there all the time.
                    offset => matches!(index.points_at(&*log.storage, pin, key.hash, offset), Ok(true)),
                }
        };
        let is_so = group.iter().all(is_so);
        fence(Ordering::Acquire);
        // A key that was not there may have been in between.
        let is_all_there = || group.iter().all(|asked| asked.place != 0);
        is_so && name.number() == Some(number) && (seen.taken_out == Seen::now(&self.engine).taken_out || is_all_there())
    }

    /// Reads the keys at a moment that is held until they are: what ends meanwhile is noted.
    #[cold]
    fn get_in_a_moment<'a, K: AsRef<[u8]>>(
        &'a self,
        name: &Name,
        group: &mut [Asked<'a, K>],
        others: &mut Others<'a>,
    ) -> Result<Pin<'a>> {
        let engine = &self.engine;
        loop {
            others.clear();
            let pin = engine.pin();
            group.iter_mut().for_each(Asked::forget);
            let Some(number) = name.number() else { return Ok(pin) };
            let brief = Brief { engine, moment: engine.begin_moment().0 };
            let mut look = |(place, asked): (usize, &mut Asked<'a, K>)| {
                let key = engine.full_key(number, asked.key.as_ref());
                engine.settle_published(&brief.moment, key.hash)?;
                let found = engine.find_at_kept(&pin, &brief.moment, key);
                if let Some(frame) = found.map_err(|error| error.with_damaged_key(key.key))? {
                    asked.place = frame.offset;
                    others.add(place, frame);
                }
                Ok(())
            };
            match group.iter_mut().enumerate().try_for_each(&mut look) {
                Ok(()) if name.number() == Some(number) => return Ok(pin),
                // Cleared meanwhile, or ended by a write that needed the space.
                Ok(()) | Err(Error::SnapshotTooOld) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The same for a follower: between two refreshes nothing changes, but the writer uses space again.
    #[cold]
    fn get_together_followed<'a, K: AsRef<[u8]>>(
        &'a self,
        name: &Name,
        group: &mut [Asked<'a, K>],
        others: &mut Others<'a>,
    ) -> Result<Pin<'a>> {
        let mut last = Error::Overtaken;
        for look in 0..READS_MAX {
            // In the end, nobody else refreshes meanwhile.
            let quiet = self.following.get().filter(|_| look >= LOOKS).map(|following| following.state.lock());
            let pin = self.engine.pin();
            let looked = self.look_at_all(name, &pin, group, others);
            drop(quiet);
            match looked {
                Ok(true) => return Ok(pin),
                Ok(false) => {}
                Err(error) if error.may_be_reuse() => {
                    last = error;
                    self.refresh()?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    /// What is handed over of a record.
    fn readable_of<'a, K: AsRef<[u8]>>(&'a self, other: Other<'a>, asked: &Asked<'a, K>) -> Result<Frame<'a>> {
        let (log, key) = (&self.engine.log, asked.key.as_ref());
        let read = || match other {
            Other::Plain(frame) => Ok(frame),
            Other::Stored(frame) => self.engine.decoded(frame),
            Other::Left => {
                let frame = log.frame(asked.place)?;
                if self.verifies() {
                    log.check(&frame)?;
                }
                self.engine.decoded(frame)
            }
        };
        read().map_err(|error| log.or_fenced(error).with_damaged_key(key))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use crate::db::Db;
    use alloc::string::String;
    use alloc::vec;

    /// The values of keys as they are read at a moment that is held.
    fn held<'k>(db: &Db, keys: &[&'k str]) -> Vec<Option<String>> {
        let asked = |&key: &&'k str| Asked { key, hash: KeyHash::default(), place: 0, value: None };
        let (mut group, mut others): (Vec<_>, _) = (keys.iter().map(asked).collect(), Others::default());
        let _pin = db.store().get_in_a_moment(&db.name, &mut group, &mut others).unwrap();
        let mut values = vec![None; group.len()];
        for (number, other) in others.found {
            let frame = db.store().readable_of(other, &group[number]).unwrap();
            values[number] = Some(String::from_utf8_lossy(frame.value()).into_owned());
        }
        values
    }

    #[test]
    fn a_moment_that_is_held_shows_what_is_there_and_leaves_nothing() {
        let db = Db::builder().segment_size(4096).in_memory().unwrap();
        db.insert_many([("a", "1"), ("b", "2"), ("c", "3")]).unwrap();
        db.remove("c").unwrap();
        let expected = [Some(String::from("2")), None, Some(String::from("1")), Some(String::from("1"))];
        assert_eq!(held(&db, &["b", "c", "a", "a"]), expected);
        // With the shard of one of the keys held by this thread.
        db.update("a", |_| {
            assert_eq!(held(&db, &["b", "c", "a", "a"]), expected);
            None
        })
        .unwrap();
        assert_eq!(held(&db, &["a", "b"]), [None, Some(String::from("2"))]);
        let stats = db.stats().unwrap();
        assert_eq!((stats.snapshots, stats.snapshot_held_bytes, stats.snapshot_memory_bytes), (0, 0, 0));
    }
}
