//! `get` and the other reads of single keys: find the slot in the index, read the record from the log, check it, return the value.

use super::handle::Namespace;
use super::value::Value;
use crate::clock::Now;
use crate::engine::{Engine, FullKey};
use crate::error::{Error, Result};
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
        let count = || {
            store.counts_are_right()?;
            store.seen(self.name.number().map_or(Ok(0), |number| store.engine.count(number)))
        };
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

    pub(super) fn find_checked<'a>(&'a self, pin: &Pin<'_>, key: FullKey<'_>) -> Result<Option<Frame<'a>>> {
        let Some(frame) = self.engine.find_kept(pin, key)? else {
            return Ok(None);
        };
        if self.verifies() {
            self.engine.log.check(&frame)?;
        }
        Ok(Some(frame))
    }

    pub(super) fn verifies(&self) -> bool {
        self.engine.log.verify_on_read && !is(Bug::ReadUnchecked)
    }

    /// Fast path of a look-up: no such key, or a value in the map whose checksum is right. Inlined, and returns neither a frame nor a
    /// result with an error, for these are passed through memory: multi-gets were 7 % slower with frames.
    #[inline(always)]
    fn lookup<'a>(&'a self, pin: &Pin<'_>, key: FullKey<'_>) -> Lookup<'a> {
        let Engine { index, log, .. } = &self.engine;
        // Without a map, the full look-up is needed: it uses what the storage remembers of earlier checks.
        if cfg!(not(feature = "std")) || index.is_unclear(key.hash) {
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
