//! `get` and the other reads of single keys: find the slot in the index, read the record from the log, check it, return the value.

use super::handle::Namespace;
use super::value::Value;
use crate::clock::Now;
use crate::engine::{Engine, FullKey, GROUP};
use crate::error::{Error, Result};
use crate::index::KeyHash;
use crate::limits::VALUE_LEN_MAX;
use crate::log::{Frame, ValueBytes};
use crate::names::Name;
use crate::pins::Pin;
use crate::planted::{Bug, is};
use crate::store::{Store, check_key};
use alloc::vec::Vec;

/// Bytes of compressed values that a call returns at once: a file could else claim 255 times its length again for each key that is asked for.
pub(super) const DECODED_SUM_MAX: usize = VALUE_LEN_MAX;
const TOO_MANY: &str = "the compressed values of these keys have more than a gigabyte in all; ask for fewer at a time";

/// The result of the fast look-up of a key.
enum Lookup<'a> {
    Missing,
    Mapped(&'a [u8]),
    /// The fast path cannot tell; the full look-up has to decide.
    Unclear,
}

/// A key of a multi-get, and its hash under the number that its namespace had when the key was hashed.
struct Asked<K> {
    key: K,
    number: u32,
    hash: KeyHash,
}

impl Namespace {
    /// Returns a copy of the value of a key; `None` if it has none.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("color", "green")?;
    /// assert_eq!(db.get("color")?, Some(b"green".to_vec()));
    /// assert_eq!(db.get("taste")?, None);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`](crate::Error::Corrupt) when the record does not match its checksum.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.store.get(&self.name, key.as_ref())
    }

    /// Returns the value of a key, without a copy where the host can map the file. See [`Value`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # db.insert("photo", [7; 100_000])?;
    /// let len = db.get_zerocopy("photo")?.map(|photo| photo.len()); // nothing was copied
    /// assert_eq!(len, Some(100_000));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    #[inline]
    pub fn get_zerocopy(&self, key: impl AsRef<[u8]>) -> Result<Option<Value<'_>>> {
        self.store.get_zerocopy(&self.name, key.as_ref())
    }

    /// True if the key has a value.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("color", "")?;
    /// assert!(db.contains_key("color")? && !db.contains_key("taste")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.store.frame(&self.store.engine.pin(), &self.name, key.as_ref())?.is_some())
    }

    /// The values of many keys, in the order of the keys. Not atomic: each value was current at some point during the call, so part of a
    /// concurrent commit may be visible. Read values that must be consistent in a [`Self::transaction`].
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
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), and those of [`Self::get`]: one key that cannot be read fails the call.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::new();
        // All of them are in memory at the same time.
        let mut decoded = DECODED_SUM_MAX;
        self.get_each(keys, &mut decoded, |_, value| values.push(value.map(<[u8]>::to_vec)))?;
        Ok(values)
    }

    /// Hands each key with its value, or `None`, to `each`, without a copy where the host can map the file: the fastest way to read many
    /// records. Not atomic: each value was current at some point during the call, and what `each` itself writes may not be seen by later
    /// look-ups of the same call.
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
        // A pipeline of three groups, so that the waits for memory overlap: while the records of one group are read, those of the second
        // and the slots of the third are on their way.
        let (store, name): (&Store, _) = (&self.store, &*self.name);
        let mut keys = keys.into_iter().map(|key| {
            let number = name.number().unwrap_or_default();
            Asked { number, hash: store.engine.full_key(number, key.as_ref()).hash, key }
        });
        let mut groups: [Vec<Asked<K>>; 3] = Default::default();
        // Probable file offsets of the records of the first group, and the pin that keeps these segments from being reused.
        let (mut places, mut _held) = ([None; GROUP], store.engine.pin());
        loop {
            let [third, second, first] = &mut groups;
            third.extend(keys.by_ref().take(GROUP));
            if third.is_empty() && second.is_empty() && first.is_empty() {
                return Ok(());
            }
            let pin = store.engine.pin();
            store.engine.prefetch_slots(&pin, third.iter().map(|asked| asked.hash));
            let next = store.engine.locate(&pin, second.iter().map(|asked| asked.hash));
            if store.engine.doubt.get().is_some() {
                // With doubt, each key needs the full look-up.
                places = [None; GROUP];
            }
            let mut ahead = next.into_iter().flatten();
            for (Asked { key, number, hash }, place) in first.drain(..).zip(places) {
                // One per record: the processor can have only a few cache misses in flight.
                ahead.next().into_iter().for_each(|offset| store.engine.log.prefetch(offset));
                check_key(key.as_ref())?;
                // The namespace may have been cleared or dropped since the key was hashed.
                let Some(namespace) = name.number() else {
                    each(key, None);
                    continue;
                };
                let located = place.and_then(|offset| store.engine.log.lookup(offset, namespace, key.as_ref(), store.verifies()));
                if let Some(value) = located {
                    each(key, Some(value));
                    continue;
                }
                let hash = if namespace == number { hash } else { store.engine.full_key(namespace, key.as_ref()).hash };
                let full_key = FullKey { namespace, key: key.as_ref(), hash };
                match store.lookup(&pin, full_key) {
                    Lookup::Mapped(value) => each(key, Some(value)),
                    Lookup::Missing => each(key, None),
                    Lookup::Unclear => {
                        let frame = store.checked_frame(&pin, full_key)?;
                        count_decoded(frame.as_ref(), decoded)?;
                        each(key, frame.as_ref().map(Frame::value));
                    }
                }
            }
            ahead.for_each(|offset| store.engine.log.prefetch(offset));
            groups.rotate_right(1);
            (places, _held) = (next, pin);
        }
    }

    /// Number of records in this namespace. The first call after opening builds the parts of the index that are not built yet.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("a", "1"), ("b", "2"), ("a", "3")])?;
    /// assert_eq!(db.len()?, 2);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn len(&self) -> Result<u64> {
        let store = &self.store;
        store.engine.has_met_all()?;
        let count = || store.seen(self.name.number().map_or(Ok(0), |number| store.engine.count(number)));
        count().or_else(|error| store.read_again(error, &mut || count()))
    }

    /// True when this namespace holds no record.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// assert!(db.is_empty()?);
    /// db.insert("color", "green")?;
    /// assert!(!db.is_empty()?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }
}

/// Takes a decoded value off the bytes that are left for them.
pub(super) fn count_decoded(frame: Option<&Frame<'_>>, left: &mut usize) -> Result<()> {
    if let Some(frame) = frame.filter(|frame| frame.header.is_compressed()) {
        *left = left.checked_sub(frame.value().len()).ok_or(Error::InvalidArgument(TOO_MANY))?;
    }
    Ok(())
}

impl Store {
    /// The record of a key, for as long as the pin lives.
    pub(super) fn frame<'a>(&'a self, pin: &'a Pin<'_>, name: &Name, key: &[u8]) -> Result<Option<Frame<'a>>> {
        check_key(key)?;
        match name.number() {
            Some(number) => self.checked_frame(pin, self.engine.full_key(number, key)),
            None => Ok(None),
        }
    }

    /// [`Self::frame`] for a caller that keeps the pin for as long as the frame: nothing else sees to that.
    fn checked_frame<'a>(&'a self, pin: &Pin<'_>, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        let look = || {
            let found = self.find_checked(pin, key).and_then(|frame| frame.map_or(Ok(None), |frame| self.engine.readable(frame)));
            found.map_err(|error| self.engine.log.or_fenced(error))
        };
        look().or_else(|error| self.read_again(error, &mut || look()))
    }

    /// The record of a key, unless it has expired at a moment that the caller names.
    pub(super) fn frame_by<'a>(&'a self, pin: &'a Pin<'_>, name: &Name, key: &[u8], now: &Now<'_>) -> Result<Option<Frame<'a>>> {
        check_key(key)?;
        let Some(number) = name.number() else { return Ok(None) };
        let look = || {
            let found = self.find_checked(pin, self.engine.full_key(number, key))?;
            let found = found.filter(|frame| !self.engine.has_expired(frame, now));
            found.map(|frame| self.engine.decoded(frame)).transpose()
        };
        let look = || look().map_err(|error| self.engine.log.or_fenced(error));
        look().or_else(|error| self.read_again(error, &mut || look()))
    }

    fn find_checked<'a>(&'a self, pin: &Pin<'_>, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        let Some(frame) = self.engine.find_kept(pin, key)? else {
            return Ok(None);
        };
        if self.verifies() {
            self.engine.log.check(&frame)?;
        }
        Ok(Some(frame))
    }

    fn verifies(&self) -> bool {
        self.engine.log.verify_on_read && !is(Bug::ReadUnchecked)
    }

    /// Fast path of a look-up: no such key, or a value in the map whose checksum is right. Inlined, and returns neither a frame nor a
    /// result with an error, for these are passed through memory: multi-gets were 7 % slower with frames.
    #[inline(always)]
    fn lookup<'a>(&'a self, pin: &Pin<'_>, key: FullKey<'_>) -> Lookup<'a> {
        let Engine { index, log, .. } = &self.engine;
        // Without a map, the full look-up is needed: it uses what the storage remembers of earlier checks.
        if cfg!(not(feature = "std")) || index.is_parked(key.hash) {
            return Lookup::Unclear;
        }
        match index.first_slot(pin, key.hash) {
            None => Lookup::Missing,
            Some(offset) => match log.lookup(offset, key.namespace, key.key, self.verifies()) {
                Some(value) => Lookup::Mapped(value),
                None => Lookup::Unclear,
            },
        }
    }

    fn get(&self, name: &Name, key: &[u8]) -> Result<Option<Vec<u8>>> {
        check_key(key)?;
        let Some(number) = name.number() else { return Ok(None) };
        let pin = self.engine.pin();
        let key = self.engine.full_key(number, key);
        match self.lookup(&pin, key) {
            Lookup::Mapped(value) => Ok(Some(value.to_vec())),
            Lookup::Missing => Ok(None),
            Lookup::Unclear => Ok(self.checked_frame(&pin, key)?.map(|frame| frame.into_value().into_vec())),
        }
    }

    // Inlined, so that the value is not passed through memory: reads of 4 to 32 threads took 3 to 10 % less.
    #[inline]
    fn get_zerocopy(&self, name: &Name, key: &[u8]) -> Result<Option<Value<'_>>> {
        check_key(key)?;
        let Some(number) = name.number() else { return Ok(None) };
        let pin = self.engine.pin();
        let key = self.engine.full_key(number, key);
        match self.lookup(&pin, key) {
            Lookup::Mapped(value) => Ok(Some(Value::new(ValueBytes::Mapped(value), pin))),
            Lookup::Missing => Ok(None),
            Lookup::Unclear => Ok(self.checked_frame(&pin, key)?.map(|frame| Value::new(frame.into_value(), pin))),
        }
    }
}
