//! Records that expire: how long they live, and when.

use super::handle::{Db, Namespace};
use super::snapshot::SnapshotNamespace;
use super::write::Change;
use crate::error::{Error, Result};
use crate::ttl::{Ttl, millis};
use core::time::Duration;

impl Namespace {
    /// Stores a value for this long. Writing the key again ends that: what counts is the last write.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// use std::time::Duration;
    ///
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_with_ttl("session", "ada", Duration::from_secs(3600))?;
    /// assert!(db.contains_key("session")?); // for an hour
    /// db.insert("session", "ada")?; // for ever
    /// assert_eq!(db.expires_at("session")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::insert`], and [`Error::NoClock`] where the store has no clock.
    pub fn insert_with_ttl(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: impl Into<Ttl>) -> Result<()> {
        self.store.insert(self, ttl.into(), key.as_ref(), value.as_ref(), &drop)
    }

    /// The same namespace, for writes of records that live this long: single ones, many, batches, transactions, compare-and-swap, updates,
    /// merges. Reads are the same.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// use pipkin::Ttl;
    /// use std::time::Duration;
    ///
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let locks = db.namespace("locks")?.with_ttl(Duration::from_secs(30));
    /// assert!(locks.compare_and_swap("printer", None, Some(b"ada"))?); // ada's for half a minute
    /// assert!(!locks.compare_and_swap("printer", None, Some(b"bob"))?);
    /// locks.with_ttl(Ttl::Never).update("visits", |old| Some(vec![old.map_or(0, |old| old[0]) + 1]))?;
    /// assert!(locks.expires_at("printer")?.is_some() && locks.expires_at("visits")?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the handle itself writes as before"]
    pub fn with_ttl(&self, ttl: impl Into<Ttl>) -> Self {
        Self { ttl: ttl.into(), ..self.clone() }
    }

    /// When a record expires, in milliseconds since 1970; `None` if it never does, or if there is none.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_with_ttl("coupon", "-10 %", pipkin::Ttl::At(4_102_444_800_000))?;
    /// assert_eq!(db.expires_at("coupon")?, Some(4_102_444_800_000)); // in 2100
    /// assert_eq!(db.expires_at("none")?, None);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::get`].
    pub fn expires_at(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        let store = &self.store;
        Ok(store.frame(&store.engine.pin(), &self.name, key.as_ref())?.and_then(|frame| frame.expiry()))
    }

    /// How long a record still lives, by the store's clock; `None` if it never expires, or if there is none.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # use std::time::Duration;
    /// db.insert_with_ttl("session", "ada", Duration::from_secs(3600))?;
    /// assert!(db.ttl("session")?.is_some_and(|left| left <= Duration::from_secs(3600)));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::get`].
    pub fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Duration>> {
        let store = &self.store;
        let (pin, now) = (store.engine.pin(), store.engine.moment_of_now());
        let frame = store.frame_by(&pin, &self.name, key.as_ref(), &now)?;
        Ok(frame.and_then(|frame| frame.expiry()).map(|expiry| Duration::from_millis(expiry.saturating_sub(now.get()))))
    }

    /// Lets a record live for ever that would expire; returns whether there was such a one. Atomic.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// # use std::time::Duration;
    /// db.insert_with_ttl("draft", "text", Duration::from_secs(60))?;
    /// assert!(db.persist("draft")?);
    /// assert!(!db.persist("draft")? && db.contains_key("draft")?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::compare_and_swap`].
    pub fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let mut expired = false;
        self.store.change_with(&self.name, Ttl::Never, key.as_ref(), &mut |old| match old {
            Some(old) if old.header.expires() => {
                expired = true;
                Change::To(Some(old.value().to_vec()))
            }
            _ => Change::None,
        })?;
        Ok(expired)
    }

    /// Sets how long records of this namespace live if their write does not say; `None`: as long as the store says. It stands in the file,
    /// and counts for what is written from now on.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// use std::time::Duration;
    ///
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let sessions = db.namespace("sessions")?;
    /// sessions.set_default_ttl(Some(Duration::from_secs(3600)))?;
    /// sessions.insert("7", "ada")?;
    /// assert!(sessions.expires_at("7")?.is_some());
    /// assert_eq!(sessions.default_ttl(), Some(Duration::from_secs(3600)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`Self::insert`], [`Error::NamespaceDropped`], and [`Error::NoClock`] where the store has no clock.
    pub fn set_default_ttl(&self, ttl: Option<Duration>) -> Result<()> {
        if ttl.is_some() && !self.store.engine.log.clock.has_host() {
            return Err(Error::NoClock);
        }
        self.store.set_default_ttl(&self.name, ttl.map_or(0, millis))
    }

    /// How long records live that are written without saying: what [`Self::set_default_ttl`] has set, else what
    /// [`Builder::default_ttl`](crate::Builder::default_ttl) says; `None`: for ever.
    pub fn default_ttl(&self) -> Option<Duration> {
        Some(self.name.default_ttl()).filter(|&ms| ms != 0).map(Duration::from_millis)
    }
}

impl SnapshotNamespace {
    /// When a record expires, in milliseconds since 1970; `None` if it never does, or if there was none. The snapshot shows it all the same
    /// for as long as it lives.
    ///
    /// # Errors
    ///
    /// As for [`Self::get`].
    pub fn expires_at(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        Ok(self.frame(&self.taken.engine().pin(), key.as_ref())?.and_then(|frame| frame.expiry()))
    }
}

impl Db {
    /// Forgets the records that have expired, in memory; returns how many that were. No answer changes: they are gone anyway. Their space is
    /// freed by [compaction](Db::compact), as that of removed ones. It happens by itself in the background, and before anything is counted.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_with_ttl("coupon", "-10 %", pipkin::Ttl::At(1))?; // long ago
    /// assert_eq!(db.sweep_expired()?, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] and errors of the storage, when a part of the index cannot be built.
    pub fn sweep_expired(&self) -> Result<u64> {
        self.store.seen(self.store.engine.sweep())
    }

    /// True if the store has records that expire, or has had some: for a host of pipkin that keeps keys of its own.
    #[doc(hidden)]
    pub fn may_expire(&self) -> bool {
        self.store.engine.log.clock.in_use()
    }

    /// Another store has acted on this expiry, and its records are copied into this one.
    #[cfg(feature = "salvage")]
    pub(crate) fn acted_on(&self, expiry: u64) {
        self.store.engine.log.acted_on(expiry);
    }

    /// Sets the store's time back to the host's clock, after that was wrong; returns how many records live again. What has expired stays so
    /// by default, whatever the clock says: see [`OpenReport::clock_behind_ms`](crate::OpenReport::clock_behind_ms) and
    /// [`Stats::clock_behind_ms`](crate::Stats::clock_behind_ms).
    ///
    /// Records that were [swept](Db::sweep_expired) or compacted meanwhile do not come back. All [snapshots](Db::snapshot) are ended. Reads
    /// the log, and blocks writers.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// if db.stats()?.clock_behind_ms > 60_000 {
    ///     println!("{} records live again", db.reset_clock()?);
    /// }
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoClock`] where the store has no clock, and those of [`Db::checkpoint`]: then the time is as before.
    pub fn reset_clock(&self) -> Result<u64> {
        self.store.seen(self.store.reset_clock())
    }
}
