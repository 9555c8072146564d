//! Atomic steps on one key that answer: with the old value, or with whatever the caller's closure makes of it.

use super::handle::Namespace;
use super::write::Change;
use crate::error::Result;
use crate::log::Frame;
use crate::nested::Held;
use crate::store::check_value;
use alloc::vec::Vec;

impl Namespace {
    /// Atomic read-modify-write with an answer: `body` gets the value of the key (`None`: there is none), changes it in place, and what it
    /// returns is returned. If it fails, nothing is written. The same value as before is not written again.
    ///
    /// As for [`Self::update`], `body` must make no call on this store: such calls answer [`Error::Nested`](crate::Error::Nested).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let spend = |purse: &mut Option<Vec<u8>>| {
    ///     let coins = purse.as_deref().map_or(0, |purse| purse[0]);
    ///     let left = coins.checked_sub(1).ok_or("there is nothing left")?;
    ///     *purse = Some(vec![left]);
    ///     Ok::<_, &str>(left)
    /// };
    /// db.insert("purse", [2])?;
    /// assert_eq!(db.modify("purse", spend)?, Ok(1));
    /// assert_eq!(db.modify("purse", spend)?, Ok(0));
    /// assert_eq!(db.modify("purse", spend)?, Err("there is nothing left"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::compare_and_swap`]; the inner result is that of `body`.
    pub fn modify<T, E>(
        &self,
        key: impl AsRef<[u8]>,
        body: impl FnOnce(&mut Option<Vec<u8>>) -> Result<T, E>,
    ) -> Result<Result<T, E>> {
        let (mut body, mut answer) = (Some(body), None);
        self.store.change(self, key.as_ref(), &mut |old| {
            let Some(body) = body.take() else { return Change::None };
            let _inside = self.store.engine.inside(Held::Shard);
            let old = old.map(Frame::value);
            let mut value = old.map(<[u8]>::to_vec);
            let answered = body(&mut value);
            let is_changed = answered.is_ok() && value.as_deref() != old;
            answer = Some(answered);
            if is_changed { Change::To(value) } else { Change::None }
        })?;
        answer.ok_or(crate::error::Error::Bug("a change of a key has not looked at it"))
    }

    /// Removes a key and returns its value; `None` if it had none. Atomic. [`Self::remove`] does not read the value, so it also removes a
    /// damaged record.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert("job", "sweep")?;
    /// assert_eq!(db.take("job")?, Some(b"sweep".to_vec())); // of many threads one gets it
    /// assert_eq!(db.take("job")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::compare_and_swap`].
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut taken = None;
        self.store.change(self, key.as_ref(), &mut |old| {
            taken = old.map(|old| old.value().to_vec());
            Change::To(None)
        })?;
        Ok(taken)
    }

    /// Stores a value and returns the one that it replaces; `None` if there was none. Atomic.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// assert_eq!(db.swap("light", "green")?, None);
    /// assert_eq!(db.swap("light", "red")?, Some(b"green".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::compare_and_swap`].
    pub fn swap(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        check_value(value.as_ref())?;
        let mut old_value = None;
        self.store.change(self, key.as_ref(), &mut |old| {
            old_value = old.map(|old| old.value().to_vec());
            Change::To(Some(value.as_ref().to_vec()))
        })?;
        Ok(old_value)
    }

    /// The value of a key; if it has none, that of `value`, which is stored. Atomic: of several concurrent calls only one runs its closure
    /// and stores, and all return the same value.
    ///
    /// As for [`Self::update`], `value` must make no call on this store: such calls answer [`Error::Nested`](crate::Error::Nested).
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let token = db.get_or_insert_with("token", || "first")?;
    /// let again = db.get_or_insert_with("token", || "second")?;
    /// assert_eq!((token, again), (b"first".to_vec(), b"first".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::compare_and_swap`].
    pub fn get_or_insert_with<V: AsRef<[u8]>>(&self, key: impl AsRef<[u8]>, value: impl FnOnce() -> V) -> Result<Vec<u8>> {
        let key = key.as_ref();
        // Mostly it is there, and then nothing has to be locked.
        if let Some(found) = self.get(key)? {
            return Ok(found);
        }
        let (mut value, mut current) = (Some(value), Vec::new());
        self.store.change(self, key, &mut |old| {
            if let Some(old) = old {
                current = old.value().to_vec();
                return Change::None;
            }
            let Some(value) = value.take() else { return Change::None };
            let _inside = self.store.engine.inside(Held::Shard);
            current = value().as_ref().to_vec();
            Change::To(Some(current.clone()))
        })?;
        Ok(current)
    }
}
