//! Reads of records.

use super::handle::AsyncNamespace;
use crate::db::owned::OwnedValue;
use crate::db::version::Version;
use crate::error::Result;
use std::time::Duration;

/// Most keys of a call that are read on the task that asks.
const KEYS_AT_ONCE: usize = 128;

/// Calls `$call` with the key here, if its record is at hand, otherwise in a thread, with a copy of it.
macro_rules! read_key {
    ($self:ident, $key:ident, |$namespace:ident, $name:ident| $call:expr) => {{
        let key = $key.as_ref();
        if $self.reads_at_once(key) {
            let ($namespace, $name) = (&$self.namespace, key);
            $call
        } else {
            let key = key.to_vec();
            $self
                .call(move |$namespace| {
                    let $name = key.as_slice();
                    $call
                })
                .await
        }
    }};
}

impl AsyncNamespace {
    /// [`Namespace::get`](crate::Namespace::get).
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?.to_async();
    /// # futures_lite::future::block_on(async {
    /// db.insert("color", "green").await?;
    /// assert_eq!(db.get("color").await?, Some(b"green".to_vec()));
    /// assert_eq!(db.get("taste").await?, None);
    /// # Ok::<(), pipkin::Error>(())
    /// # })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        read_key!(self, key, |namespace, key| namespace.get(key))
    }

    /// [`Namespace::get_zerocopy_owned`](crate::Namespace::get_zerocopy_owned). Reading a long value in place may wait for the medium.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn get_zerocopy_owned(&self, key: impl AsRef<[u8]>) -> Result<Option<OwnedValue>> {
        read_key!(self, key, |namespace, key| namespace.get_zerocopy_owned(key))
    }

    /// [`Namespace::contains_key`](crate::Namespace::contains_key).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        read_key!(self, key, |namespace, key| namespace.contains_key(key))
    }

    /// [`Namespace::get_versioned`](crate::Namespace::get_versioned).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn get_versioned(&self, key: impl AsRef<[u8]>) -> Result<Option<(Vec<u8>, Version)>> {
        read_key!(self, key, |namespace, key| namespace.get_versioned(key))
    }

    /// [`Namespace::expires_at`](crate::Namespace::expires_at).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn expires_at(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        read_key!(self, key, |namespace, key| namespace.expires_at(key))
    }

    /// [`Namespace::ttl`](crate::Namespace::ttl).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn ttl(&self, key: impl AsRef<[u8]>) -> Result<Option<Duration>> {
        read_key!(self, key, |namespace, key| namespace.ttl(key))
    }

    /// [`Namespace::get_many`](crate::Namespace::get_many).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|key| key.as_ref().to_vec()).collect();
        if keys.len() <= KEYS_AT_ONCE && keys.iter().all(|key| self.reads_at_once(key)) {
            return self.namespace.get_many(keys);
        }
        self.call(move |namespace| namespace.get_many(keys)).await
    }

    /// [`Namespace::len`](crate::Namespace::len).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn len(&self) -> Result<u64> {
        self.call(crate::Namespace::len).await
    }

    /// [`Namespace::is_empty`](crate::Namespace::is_empty).
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn is_empty(&self) -> Result<bool> {
        self.call(crate::Namespace::is_empty).await
    }

    /// [`Namespace::default_ttl`](crate::Namespace::default_ttl).
    pub fn default_ttl(&self) -> Option<Duration> {
        self.namespace.default_ttl()
    }

    fn reads_at_once(&self, key: &[u8]) -> bool {
        self.must_stay() || self.namespace.store.reads_at_once(&self.namespace.name, key)
    }
}
