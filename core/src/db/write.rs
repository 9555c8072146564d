//! `insert`, `remove` and the conditional writes of one key: append to the log, then publish in the index, both with the key's shard
//! locked, so that the log and the index see the writes of a key in the same order.

use super::check::Check;
#[cfg(feature = "compress")]
use super::compression::Packed;
use super::handle::Namespace;
use crate::clock::Now;
use crate::engine::FullKey;
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Meta, Until};
use crate::index::ShardGuard;
use crate::log::{Frame, Placed, Purpose};
use crate::names::Name;
use crate::nested::Held;
use crate::planted::{Bug, is};
use crate::store::{Store, check_key, check_value};
use crate::ttl::Ttl;
use alloc::vec::Vec;

/// A key with its shard locked: other writers of it wait.
struct LockedKey<'a, 'k> {
    key: FullKey<'k>,
    shard: ShardGuard<'a>,
}

impl Namespace {
    /// Stores a value, replacing any old one. When this returns, the record survives the end of the process.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("color", "green")?;
    /// db.insert([0, 1, 2], vec![3; 1000])?; // any bytes
    /// db.flush()?; // from here on they survive a power cut, too
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::KeyTooLong`](crate::Error::KeyTooLong), [`Error::ValueTooLong`](crate::Error::ValueTooLong),
    /// [`Error::NoSpace`](crate::Error::NoSpace), [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Poisoned`](crate::Error::Poisoned)
    /// after an earlier failure. After each of these the store is as it was before.
    #[inline]
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.store.insert(self, self.ttl, key.as_ref(), value.as_ref(), &drop)
    }

    /// Removes a key; returns whether it was there. Works on a full disk too: some space is reserved for removals.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("color", "green")?;
    /// assert!(db.remove("color")?);
    /// assert!(!db.remove("color")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.store.remove(&self.name, key.as_ref(), &|placed| placed.is_some())
    }

    /// Writes `new` (`None` removes the key) if the key has the value `expected` (`None`: no value); returns whether it had. Atomic.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// assert!(db.compare_and_swap("light", None, Some(b"green"))?);
    /// assert!(!db.compare_and_swap("light", Some(b"red"), None)?);
    /// assert_eq!(db.get("light")?.as_deref(), Some(&b"green"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::insert`], and [`Error::Corrupt`](crate::Error::Corrupt) when the current record does not match its checksum.
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        self.store.compare_and_swap(self, key.as_ref(), expected, new)
    }

    /// Atomic read-modify-write: replaces the value of a key with the result of `new` (`None` removes the key).
    ///
    /// `new` must make no call on this store, not even one that reads: writes, [`Self::len`], [`Self::iter`],
    /// [`Db::stats`](crate::Db::stats) and others need the lock that this call holds, and answer [`Error::Nested`](crate::Error::Nested)
    /// (without the feature `std` they deadlock). Read what it needs beforehand, or use [`Self::transaction`].
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// for _ in 0..3 {
    ///     db.update("visits", |old| Some(vec![old.map_or(0, |old| old[0]) + 1]))?;
    /// }
    /// assert_eq!(db.get("visits")?, Some(vec![3]));
    /// # Ok(())
    /// # }
    /// ```
    pub fn update(&self, key: impl AsRef<[u8]>, new: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<()> {
        let mut new = Some(new);
        self.store.change(self, key.as_ref(), &mut |old| {
            let _inside = self.store.engine.inside(Held::Shard);
            Change::To(new.take().and_then(|new| new(old.map(Frame::value))))
        })
    }

    /// [`Self::update`] with a closure that may fail: then nothing is written, and its error is returned as the inner result.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let spend = |old: Option<&[u8]>| match old {
    ///     Some(&[coins]) if coins > 0 => Ok(Some(vec![coins - 1])),
    ///     _ => Err("there is nothing left"),
    /// };
    /// db.insert("purse", [1])?;
    /// assert_eq!(db.try_update("purse", spend)?, Ok(()));
    /// assert_eq!(db.try_update("purse", spend)?, Err("there is nothing left"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::insert`].
    pub fn try_update<E>(
        &self,
        key: impl AsRef<[u8]>,
        new: impl FnOnce(Option<&[u8]>) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Result<(), E>> {
        let (mut new, mut refused) = (Some(new), Ok(()));
        self.store.change(self, key.as_ref(), &mut |old| {
            let _inside = self.store.engine.inside(Held::Shard);
            match new.take().map(|new| new(old.map(Frame::value))) {
                Some(Ok(value)) => Change::To(value),
                Some(Err(error)) => {
                    refused = Err(error);
                    Change::None
                }
                None => Change::None,
            }
        })?;
        Ok(refused)
    }

    /// Stores a record with its metadata, as salvage found it.
    #[cfg(feature = "salvage")]
    pub(crate) fn insert_whole(&self, kind: Kind, meta: Meta<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.insert_whole(&self.name, kind, meta, key, value)
    }

    /// Removes a record that salvage has copied, even if it has expired since: its source had removed it before that.
    #[cfg(feature = "salvage")]
    pub(crate) fn remove_whole(&self, key: &[u8]) -> Result<bool> {
        let store = &self.store;
        let removed = store.with_space(|| {
            let mut locked = store.lock_key(&self.name, key)?;
            let old = store.engine.find_locked(&locked.shard, locked.key)?;
            old.map(|old| store.append_tombstone(&mut locked, Some(old))).transpose()
        })?;
        store.after_write()?;
        Ok(removed.is_some())
    }
}

impl Store {
    /// Locks the shard of a key. Repeats if the namespace got another number meanwhile, so that the key is valid under the lock.
    fn lock_key<'k>(&self, name: &Name, key: &'k [u8]) -> Result<LockedKey<'_, 'k>> {
        loop {
            let number = name.number().ok_or_else(|| Error::NamespaceDropped)?;
            let key = self.engine.full_key(number, key);
            let shard = self.engine.lock(key.hash)?;
            // Clearing assigns a new number with all shards locked, so the number cannot change any more.
            if name.number() == Some(number) {
                return Ok(LockedKey { key, shard });
            }
        }
    }

    /// Returns what `answer` makes of the place of the record, while its shard is locked.
    #[inline]
    pub(super) fn insert<T>(
        &self,
        to: &Namespace,
        ttl: Ttl,
        key: &[u8],
        value: &[u8],
        answer: &impl Fn(Placed) -> T,
    ) -> Result<T> {
        // Apart, so that the way of a record that never expires stays short.
        if matches!(ttl, Ttl::Default) && to.name.is_plain() {
            self.insert_for_ever(&to.name, key, value, answer)
        } else {
            self.insert_for(&to.name, ttl, key, value, answer)
        }
    }

    pub(super) fn insert_for_ever<T>(&self, name: &Name, key: &[u8], value: &[u8], answer: &impl Fn(Placed) -> T) -> Result<T> {
        check_key(key)?;
        check_value(value)?;
        let answer = self.with_room(|| self.try_insert(name, key, value, |_| Ok(0), None, answer))?;
        self.after_write()?;
        Ok(answer)
    }

    /// Inserts a record, if `check` finds what a transaction has read unchanged.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] when it has changed; nothing was written.
    pub(super) fn insert_checked<T>(
        &self,
        name: &Name,
        key: &[u8],
        value: &[u8],
        check: &Check<'_>,
        answer: &impl Fn(Placed) -> T,
    ) -> Result<T> {
        let answer = self.with_room(|| {
            check.ahead()?;
            self.try_insert(name, key, value, |_| check.too_early().map(|()| 0), Some(&|| check.finally()), answer)
        })?;
        self.after_write()?;
        Ok(answer)
    }

    #[cold]
    fn insert_for<T>(&self, name: &Name, ttl: Ttl, key: &[u8], value: &[u8], answer: &impl Fn(Placed) -> T) -> Result<T> {
        check_key(key)?;
        check_value(value)?;
        let expiry = |now: &Now<'_>| self.expiry(name, ttl, now);
        #[cfg(feature = "compress")]
        self.know_dictionaries(name);
        #[cfg(feature = "compress")]
        if let Some(packed) = self.pack(name, value) {
            let answer = self.with_room(|| self.try_insert_packed(name, key, (value, &packed), expiry, answer))?;
            self.after_write()?;
            return Ok(answer);
        }
        let answer = self.with_room(|| self.try_insert(name, key, value, expiry, None, answer))?;
        self.after_write()?;
        Ok(answer)
    }

    #[inline]
    fn try_insert<T>(
        &self,
        name: &Name,
        key: &[u8],
        value: &[u8],
        expiry: impl FnOnce(&Now<'_>) -> Result<u64>,
        check: Option<&dyn Fn() -> Result<()>>,
        answer: &impl Fn(Placed) -> T,
    ) -> Result<T> {
        let mut locked = self.lock_key(name, key)?;
        let old = self.engine.find_locked(&locked.shard, locked.key)?;
        let expiry = expiry(&self.engine.moment_of_now())?;
        Ok(answer(self.put(&mut locked, value, expiry, old, check)?))
    }

    #[cfg(feature = "compress")]
    fn try_insert_packed<T>(
        &self,
        name: &Name,
        key: &[u8],
        (value, packed): (&[u8], &Packed),
        expiry: impl FnOnce(&Now<'_>) -> Result<u64>,
        answer: &impl Fn(Placed) -> T,
    ) -> Result<T> {
        let mut locked = self.lock_key(name, key)?;
        let old = self.engine.find_locked(&locked.shard, locked.key)?;
        let expiry = expiry(&self.engine.moment_of_now())?;
        Ok(answer(self.put_packed(&mut locked, (value, packed), expiry, old)?))
    }

    /// Returns what `answer` makes of the place of the tombstone, `None` if the key was not there, while its shard is locked.
    pub(super) fn remove<T>(&self, name: &Name, key: &[u8], answer: &impl Fn(Option<Placed>) -> T) -> Result<T> {
        check_key(key)?;
        self.writable()?;
        self.with_space(|| self.try_remove(name, key, answer))
    }

    fn try_remove<T>(&self, name: &Name, key: &[u8], answer: &impl Fn(Option<Placed>) -> T) -> Result<T> {
        let mut locked = self.lock_key(name, key)?;
        let old = self.engine.find_locked(&locked.shard, locked.key)?;
        if old.is_none() && !self.engine.may_be_there(locked.key.hash) {
            return Ok(answer(None));
        }
        // What has expired is not there, and is a tombstone already.
        if self.is_gone(old, &self.engine.moment_of_now())? {
            return Ok(answer(None));
        }
        let answer = answer(Some(self.append_tombstone(&mut locked, old)?));
        drop(locked);
        self.after_write()?;
        Ok(answer)
    }

    fn compare_and_swap(&self, to: &Namespace, key: &[u8], expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        check_value(new.unwrap_or_default())?;
        let mut swapped = false;
        self.change(to, key, &mut |old| {
            swapped = old.map(Frame::value) == expected;
            if swapped { Change::To(new.map(<[u8]>::to_vec)) } else { Change::None }
        })?;
        Ok(swapped)
    }

    /// Atomic read-modify-write of a key: `decide` sees the current record and returns the change.
    /// What is written lives as long as the handle says.
    pub(super) fn change(&self, to: &Namespace, key: &[u8], decide: &mut dyn FnMut(Option<&Frame<'_>>) -> Change) -> Result<()> {
        self.change_with(&to.name, to.ttl, key, decide)
    }

    pub(super) fn change_with(
        &self,
        name: &Name,
        ttl: Ttl,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&Frame<'_>>) -> Change,
    ) -> Result<()> {
        check_key(key)?;
        self.writable()?;
        // Make space first: `decide` may run only once, and no space can be made with the key's shard locked.
        self.make_space()?;
        self.let_the_first_go();
        #[cfg(feature = "compress")]
        self.know_dictionaries(name);
        match self.change_known(name, ttl, key, decide) {
            // Damage of the index is met by the look-up: nothing has been decided yet.
            Err(error) => self.healed_again(error, &mut || self.change_known(name, ttl, key, decide)),
            Ok(()) => Ok(()),
        }
    }

    fn change_known(
        &self,
        name: &Name,
        ttl: Ttl,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&Frame<'_>>) -> Change,
    ) -> Result<()> {
        while let Some(number) = self.or_what_is_kept(self.change_locked(name, ttl, key, decide))? {
            // The record's dictionary is read without a lock; nothing has been decided yet.
            self.engine.know_dictionary(number)?;
        }
        Ok(())
    }

    /// Returns the number of a dictionary that is needed first: then it has done nothing.
    fn change_locked(
        &self,
        name: &Name,
        ttl: Ttl,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&Frame<'_>>) -> Change,
    ) -> Result<Option<u32>> {
        let mut locked = self.lock_key(name, key)?;
        let mut frame = self.engine.frame_locked(&locked.shard, locked.key)?;
        let now = self.engine.moment_of_now();
        let mut is_current = false;
        if let Some(found) = frame.take() {
            found.check()?;
            is_current = !self.engine.has_expired(&found, &now);
            frame = match if is_current { self.engine.decoded_locked(found)? } else { Ok(found) } {
                Ok(found) => Some(found),
                Err(number) => return Ok(Some(number)),
            };
        }
        let current = frame.as_ref().filter(|_| is_current);
        let old = frame.as_ref().map(|frame| Placed { offset: frame.offset, len: frame.header.frame_len() as u64 });
        match (decide(current), old) {
            (Change::To(Some(value)), old) => {
                check_value(&value)?;
                let expiry = self.expiry(name, ttl, &now)?;
                #[cfg(feature = "compress")]
                match self.pack(name, &value) {
                    Some(packed) => self.put_packed(&mut locked, (&value, &packed), expiry, old)?,
                    None => self.put(&mut locked, &value, expiry, old, None)?,
                };
                #[cfg(not(feature = "compress"))]
                self.put(&mut locked, &value, expiry, old, None)?;
            }
            (Change::To(None), Some(old)) if current.is_some() => drop(self.append_tombstone(&mut locked, Some(old))?),
            (Change::To(None) | Change::None, _) => return Ok(None),
        }
        drop(locked);
        self.after_write().map(|()| None)
    }

    #[inline]
    fn put(
        &self,
        locked: &mut LockedKey<'_, '_>,
        value: &[u8],
        expiry: u64,
        old: Option<Placed>,
        check: Option<&dyn Fn() -> Result<()>>,
    ) -> Result<Placed> {
        let FullKey { namespace, key, .. } = locked.key;
        let until = Until::new(expiry);
        let spec = FrameSpec { kind: Kind::Put, continues: false, meta: until.meta(namespace), key, value };
        self.put_frame(locked, &spec, expiry, old, check)
    }

    #[cfg(feature = "compress")]
    fn put_packed(
        &self,
        locked: &mut LockedKey<'_, '_>,
        (value, packed): (&[u8], &Packed),
        expiry: u64,
        old: Option<Placed>,
    ) -> Result<Placed> {
        let FullKey { namespace, key, .. } = locked.key;
        let (until, mut room) = (Until::new(expiry), None);
        let plain = FrameSpec { kind: Kind::Put, continues: false, meta: until.meta(namespace), key, value };
        let spec = packed.frame(self.engine.lengths(), &plain, &mut room).unwrap_or(plain);
        self.put_frame(locked, &spec, expiry, old, None)
    }

    #[inline]
    fn put_frame(
        &self,
        locked: &mut LockedKey<'_, '_>,
        spec: &FrameSpec<'_>,
        expiry: u64,
        old: Option<Placed>,
        check: Option<&dyn Fn() -> Result<()>>,
    ) -> Result<Placed> {
        locked.shard.will_publish();
        let new = match self.engine.log.append_one_if(check, spec, Purpose::Store) {
            Err(error) if is(Bug::IndexBeforeAppend) => {
                if let Some(old) = old {
                    self.engine.publish_remove(&mut locked.shard, locked.key, Some(old), old);
                }
                return Err(error);
            }
            result => result?,
        };
        self.engine.publish_put(&mut locked.shard, locked.key, old, new);
        if expiry != 0 {
            self.engine.expires(&mut locked.shard, locked.key.hash.slot(new.offset), expiry);
        }
        Ok(new)
    }

    /// Appends a record with its metadata, under the number that `name` has in this store.
    #[cfg(feature = "salvage")]
    fn insert_whole(&self, name: &Name, kind: Kind, meta: Meta<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        self.with_room(|| self.try_insert_whole(name, kind, meta, key, value))?;
        self.after_write()
    }

    #[cfg(feature = "salvage")]
    fn try_insert_whole(&self, name: &Name, kind: Kind, meta: Meta<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        let mut locked = self.lock_key(name, key)?;
        let meta = meta.with_namespace(locked.key.namespace);
        let spec = FrameSpec { kind, continues: false, meta, key, value };
        let log = &self.engine.log;
        if kind.is_carried() {
            #[cfg(feature = "events")]
            let _pin = self.engine.pins.pin();
            #[cfg(feature = "events")]
            let events = self.engine.events()?;
            let placed = log.append_one(&spec, Purpose::Store)?;
            log.segment_stats.change_live(log.geometry.extent_of(placed.offset), placed.len as i64, false);
            let number = crate::frame::event_number(value);
            log.saw_event(number);
            #[cfg(feature = "events")]
            events.enter(log, self.engine.seed, number, placed)?;
            return Ok(());
        }
        let expiry = meta.expiry();
        if expiry.is_some() && !log.clock.in_use() {
            log.begin_expiring()?;
        }
        let old = self.engine.find_locked(&locked.shard, locked.key)?;
        locked.shard.will_publish();
        let new = log.append_one(&spec, Purpose::Store)?;
        self.engine.publish_put(&mut locked.shard, locked.key, old, new);
        if let Some(expiry) = expiry {
            self.engine.expires(&mut locked.shard, locked.key.hash.slot(new.offset), expiry);
        }
        Ok(())
    }

    fn append_tombstone(&self, locked: &mut LockedKey<'_, '_>, old: Option<Placed>) -> Result<Placed> {
        let FullKey { namespace, key, .. } = locked.key;
        let spec = FrameSpec { kind: Kind::Tombstone, continues: false, meta: Meta::plain(namespace), key, value: &[] };
        locked.shard.will_publish();
        let placed = self.engine.log.append_one(&spec, Purpose::MakeSpace)?;
        self.engine.publish_remove(&mut locked.shard, locked.key, old, placed);
        Ok(placed)
    }
}

/// The decision of a conditional write.
pub(super) enum Change {
    None,
    /// The new value; `None` removes the key.
    To(Option<Vec<u8>>),
}
