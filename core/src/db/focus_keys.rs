//! The verbs of a [`Focus`] on single keys and on lists of them: each is that of the namespace, with the whole key.

use super::focus::Focus;
use super::owned::OwnedValue;
use super::value::Value;
use super::version::Version;
use crate::error::Result;
use crate::ttl::Ttl;
use alloc::vec::Vec;
use core::time::Duration;

impl Focus {
    /// Returns a copy of the value of a key; see [`Namespace::get`](crate::Namespace::get).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let user = db.focus("user.7");
    /// user.insert("name", "Ada")?;
    /// assert_eq!(user.get("name")?, Some(b"Ada".to_vec()));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.records.get(self.key(key)?)
    }

    /// Returns the value of a key, without a copy where the host can map the file; see [`Namespace::get_zerocopy`](crate::Namespace::get_zerocopy).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let user = db.focus("user.7");
    /// user.insert("photo", [7; 100_000])?;
    /// assert_eq!(user.get_zerocopy("photo")?.map(|photo| photo.len()), Some(100_000));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn get_zerocopy(&self, key: impl AsRef<[u8]>) -> Result<Option<Value<'_>>> {
        self.records.get_zerocopy(self.key(key)?)
    }

    /// Like [`Self::get_zerocopy`], but borrows nothing; see [`Namespace::get_zerocopy_owned`](crate::Namespace::get_zerocopy_owned).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let user = db.focus("user.7");
    /// user.insert("name", "Ada")?;
    /// assert_eq!(user.get_zerocopy_owned("name")?.map(|name| name.len()), Some(3));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn get_zerocopy_owned(&self, key: impl AsRef<[u8]>) -> Result<Option<OwnedValue>> {
        self.records.get_zerocopy_owned(self.key(key)?)
    }

    /// The value of a key, and the version of its record; see [`Namespace::get_versioned`](crate::Namespace::get_versioned).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let user = db.focus("user.7");
    /// user.insert("name", "Ada")?;
    /// let (_, version) = user.get_versioned("name")?.unwrap();
    /// assert!(user.compare_version_and_swap("name", Some(version), None)?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn get_versioned(&self, key: impl AsRef<[u8]>) -> Result<Option<(Vec<u8>, Version)>> {
        self.records.get_versioned(self.key(key)?)
    }

    /// The values of many keys, in the order of the keys; see [`Namespace::get_many`](crate::Namespace::get_many).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let user = db.focus("user.7");
    /// user.insert("name", "Ada")?;
    /// assert_eq!(user.get_many(["name", "age"])?, [Some(b"Ada".to_vec()), None]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        self.records.get_many(self.keys_of(keys)?)
    }

    /// True if the key has a value.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let user = db.focus("user.7");
    /// user.insert("name", "Ada")?;
    /// assert!(user.contains_key("name")? && !user.contains_key("age")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.records.contains_key(self.key(key)?)
    }

    /// Stores a value, replacing any old one; see [`Namespace::insert`](crate::Namespace::insert).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.focus("user.7").insert("name", "Ada")?;
    /// assert!(db.contains_key("user.7.name")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.records.insert(self.key(key)?, value)
    }

    /// Stores many records as one commit; see [`Namespace::insert_many`](crate::Namespace::insert_many).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.focus("user.7").insert_many([("name", "Ada"), ("mail", "...")])?;
    /// assert_eq!(db.len()?, 2);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let records = records.into_iter().map(|(key, value)| Ok((self.key(key)?, value))).collect::<Result<Vec<_>>>()?;
        self.records.insert_many(records)
    }

    /// Removes a key; returns whether it was there. See [`Namespace::remove`](crate::Namespace::remove).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let user = db.focus("user.7");
    /// user.insert("name", "Ada")?;
    /// assert!(user.remove("name")? && !user.remove("name")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.records.remove(self.key(key)?)
    }

    /// Removes many keys as one commit; returns how many existed. See [`Namespace::remove_many`](crate::Namespace::remove_many).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let user = db.focus("user.7");
    /// user.insert("name", "Ada")?;
    /// assert_eq!(user.remove_many(["name", "age"])?, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<usize> {
        self.records.remove_many(self.keys_of(keys)?)
    }

    /// Removes a key and returns its value. Atomic; see [`Namespace::take`](crate::Namespace::take).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let jobs = db.focus("jobs");
    /// jobs.insert("1", "sweep")?;
    /// assert_eq!(jobs.take("1")?, Some(b"sweep".to_vec()));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.records.take(self.key(key)?)
    }

    /// Stores a value and returns the one that it replaces. Atomic; see [`Namespace::swap`](crate::Namespace::swap).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let lights = db.focus("lights");
    /// assert_eq!(lights.swap("north", "green")?, None);
    /// assert_eq!(lights.swap("north", "red")?, Some(b"green".to_vec()));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn swap(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.records.swap(self.key(key)?, value)
    }

    /// Writes `new` if the key has the value `expected`; returns whether it had. Atomic; see [`Namespace::compare_and_swap`](crate::Namespace::compare_and_swap).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let lights = db.focus("lights");
    /// assert!(lights.compare_and_swap("north", None, Some(b"green"))?);
    /// assert!(!lights.compare_and_swap("north", Some(b"red"), None)?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        self.records.compare_and_swap(self.key(key)?, expected, new)
    }

    /// Writes `new` if the record has the version `expected`; returns whether it had. Atomic; see
    /// [`Namespace::compare_version_and_swap`](crate::Namespace::compare_version_and_swap).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let lights = db.focus("lights");
    /// assert!(lights.compare_version_and_swap("north", None, Some(b"green"))?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn compare_version_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<Version>, new: Option<&[u8]>) -> Result<bool> {
        self.records.compare_version_and_swap(self.key(key)?, expected, new)
    }

    /// Atomic read-modify-write: replaces the value of a key with the result of `new`, under the rules of [`Namespace::update`](crate::Namespace::update).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let visits = db.focus("visits");
    /// for _ in 0..3 {
    ///     visits.update("home", |old| Some(vec![old.map_or(0, |old| old[0]) + 1]))?;
    /// }
    /// assert_eq!(visits.get("home")?, Some(vec![3]));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn update(&self, key: impl AsRef<[u8]>, new: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<()> {
        self.records.update(self.key(key)?, new)
    }

    /// [`Self::update`] with a closure that may fail; see [`Namespace::try_update`](crate::Namespace::try_update).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let refused = db.focus("purses").try_update("ada", |_| Err("there is nothing left"))?;
    /// assert_eq!(refused, Err("there is nothing left"));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn try_update<E>(
        &self,
        key: impl AsRef<[u8]>,
        new: impl FnOnce(Option<&[u8]>) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Result<(), E>> {
        self.records.try_update(self.key(key)?, new)
    }

    /// Atomic read-modify-write with an answer; see [`Namespace::modify`](crate::Namespace::modify).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let answer = db.focus("purses").modify("ada", |purse| {
    ///     *purse = Some(vec![2]);
    ///     Ok::<_, ()>("filled")
    /// })?;
    /// assert_eq!(answer, Ok("filled"));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn modify<T, E>(
        &self,
        key: impl AsRef<[u8]>,
        body: impl FnOnce(&mut Option<Vec<u8>>) -> Result<T, E>,
    ) -> Result<Result<T, E>> {
        self.records.modify(self.key(key)?, body)
    }

    /// The value of a key; if it has none, that of `value`, which is stored. Atomic; see [`Namespace::get_or_insert_with`](crate::Namespace::get_or_insert_with).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let tokens = db.focus("tokens");
    /// assert_eq!(tokens.get_or_insert_with("ada", || "first")?, b"first");
    /// assert_eq!(tokens.get_or_insert_with("ada", || "second")?, b"first");
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn get_or_insert_with<V: AsRef<[u8]>>(&self, key: impl AsRef<[u8]>, value: impl FnOnce() -> V) -> Result<Vec<u8>> {
        self.records.get_or_insert_with(self.key(key)?, value)
    }

    /// Combines the value of a key with an operand; see [`Namespace::merge`](crate::Namespace::merge).
    ///
    /// ```
    /// let db = pipkin::Db::builder().merge_operator("visits", "add", pipkin::merge::add).in_memory()?;
    /// let pages = db.namespace("visits")?.focus("pages");
    /// pages.merge("/about", 1_u64.to_be_bytes())?;
    /// assert_eq!(pages.merge("/about", 2_u64.to_be_bytes())?, 3_u64.to_be_bytes());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        self.records.merge(self.key(key)?, operand)
    }

    /// Stores a value for this long; see [`Namespace::insert_with_ttl`](crate::Namespace::insert_with_ttl).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let sessions = db.focus("sessions");
    /// sessions.insert_with_ttl("ada", "...", std::time::Duration::from_secs(3600))?;
    /// assert!(sessions.contains_key("ada")?); // for an hour
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn insert_with_ttl(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: impl Into<Ttl>) -> Result<()> {
        self.records.insert_with_ttl(self.key(key)?, value, ttl)
    }

    /// When a record expires, in milliseconds since 1970; see [`Namespace::expires_at`](crate::Namespace::expires_at).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let coupons = db.focus("coupons");
    /// coupons.insert_with_ttl("ten", "-10 %", pipkin::Ttl::At(4_102_444_800_000))?;
    /// assert_eq!(coupons.expires_at("ten")?, Some(4_102_444_800_000));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn expires_at(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        self.records.expires_at(self.key(key)?)
    }

    /// How long a record still lives; see [`Namespace::ttl`](crate::Namespace::ttl).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let sessions = db.focus("sessions");
    /// sessions.insert_with_ttl("ada", "...", std::time::Duration::from_secs(3600))?;
    /// assert!(sessions.ttl("ada")?.is_some());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Duration>> {
        self.records.ttl(self.key(key)?)
    }

    /// Lets a record live for ever that would expire; see [`Namespace::persist`](crate::Namespace::persist).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let drafts = db.focus("drafts");
    /// drafts.insert_with_ttl("one", "text", std::time::Duration::from_secs(60))?;
    /// assert!(drafts.persist("one")? && drafts.expires_at("one")?.is_none());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.records.persist(self.key(key)?)
    }

    /// The whole keys of some keys.
    fn keys_of<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Vec<u8>>> {
        keys.into_iter().map(|key| self.key(key)).collect()
    }
}
