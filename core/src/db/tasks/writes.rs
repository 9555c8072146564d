//! Writes of records.

use super::handle::AsyncNamespace;
use crate::db::handle::Namespace;
use crate::db::version::Version;
use crate::error::Result;
use crate::position::Position;
use crate::ttl::Ttl;
use std::time::Duration;

/// Calls `$call` with key and value here, if the write need not wait, otherwise in the lane, with copies of both.
macro_rules! write_key {
    ($self:ident, $ttl:expr, $key:ident, $value:expr, |$namespace:ident, $name:ident, $new:ident| $call:expr) => {{
        let ttl: Ttl = $ttl;
        let (key, value): (&[u8], &[u8]) = ($key.as_ref(), $value.as_ref());
        let written = if $self.writes_at_once(ttl, key, value.len()) {
            $self.here(|$namespace| {
                let ($name, $new) = (key, value);
                $call(ttl)
            })
        } else {
            let (key, value) = (key.to_vec(), value.to_vec());
            let write = move |$namespace: &Namespace| {
                let ($name, $new) = (key.as_slice(), value.as_slice());
                $call(ttl)
            };
            $self.in_lane(write).await
        };
        $self.settled(written).await
    }};
}

impl AsyncNamespace {
    /// [`Namespace::insert`]. When this returns, the record survives the end of the process; with a [durable](Self::durable) handle a power cut.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        write_key!(self, self.namespace.ttl, key, value, |namespace, key, value| |_| namespace.insert(key, value))
    }

    /// [`Namespace::insert_with_ttl`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn insert_with_ttl(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, ttl: impl Into<Ttl>) -> Result<()> {
        write_key!(self, ttl.into(), key, value, |namespace, key, value| |ttl| namespace.insert_with_ttl(key, value, ttl))
    }

    /// [`Namespace::insert_with_position`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn insert_with_position(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Position> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        let written = self.in_lane(move |namespace| namespace.insert_with_position(key, value)).await;
        self.settled(written).await
    }

    /// [`Namespace::remove`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        write_key!(self, Ttl::Default, key, [], |namespace, key, _value| |_| namespace.remove(key))
    }

    /// [`Namespace::remove_with_position`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn remove_with_position(&self, key: impl AsRef<[u8]>) -> Result<Option<Position>> {
        let key = key.as_ref().to_vec();
        let written = self.in_lane(move |namespace| namespace.remove_with_position(key)).await;
        self.settled(written).await
    }

    /// [`Namespace::compare_and_swap`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?.to_async();
    /// # futures_lite::future::block_on(async {
    /// assert!(db.compare_and_swap("light", None, Some(b"green")).await?);
    /// assert!(!db.compare_and_swap("light", Some(b"red"), None).await?);
    /// # Ok::<(), pipkin::Error>(())
    /// # })?;
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        let (expected, new) = (expected.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec));
        let len = new.as_ref().map_or(0, Vec::len);
        self.write_with(key, len, move |namespace, key| namespace.compare_and_swap(key, expected.as_deref(), new.as_deref()))
            .await
    }

    /// [`Namespace::compare_version_and_swap`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn compare_version_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<Version>,
        new: Option<&[u8]>,
    ) -> Result<bool> {
        let new = new.map(<[u8]>::to_vec);
        let len = new.as_ref().map_or(0, Vec::len);
        self.write_with(key, len, move |namespace, key| namespace.compare_version_and_swap(key, expected, new.as_deref())).await
    }

    /// [`Namespace::take`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.write_with(key, 0, |namespace, key| namespace.take(key)).await
    }

    /// [`Namespace::swap`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn swap(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let value = value.as_ref().to_vec();
        self.write_with(key, value.len(), move |namespace, key| namespace.swap(key, value)).await
    }

    /// [`Namespace::merge`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let (key, operand) = (key.as_ref().to_vec(), operand.as_ref().to_vec());
        let written = self.on(&super::pool::LONG, move |namespace| namespace.merge(key, operand)).await;
        self.settled(written).await
    }

    /// [`Namespace::persist`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn persist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref().to_vec();
        let written = self.in_lane(move |namespace| namespace.persist(key)).await;
        self.settled(written).await
    }

    /// [`Namespace::insert_many`]: one commit.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        let copied = |(key, value): (K, V)| (key.as_ref().to_vec(), value.as_ref().to_vec());
        let records: Vec<(Vec<u8>, Vec<u8>)> = records.into_iter().map(copied).collect();
        let written = self.in_lane(move |namespace| namespace.insert_many(records)).await;
        self.settled(written).await
    }

    /// [`Namespace::remove_many`]: one commit.
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn remove_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<usize> {
        let keys: Vec<Vec<u8>> = keys.into_iter().map(|key| key.as_ref().to_vec()).collect();
        let written = self.in_lane(move |namespace| namespace.remove_many(keys)).await;
        self.settled(written).await
    }

    /// [`Namespace::clear`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn clear(&self) -> Result<()> {
        let written = self.in_lane(Namespace::clear).await;
        self.settled(written).await
    }

    /// [`Namespace::delete_group`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn delete_group(&self, name: impl AsRef<[u8]>) -> Result<u64> {
        let name = name.as_ref().to_vec();
        let written = self.on(&super::pool::LONG, move |namespace| namespace.delete_group(name)).await;
        self.settled(written).await
    }

    /// [`Namespace::set_default_ttl`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn set_default_ttl(&self, ttl: Option<Duration>) -> Result<()> {
        let written = self.in_lane(move |namespace| namespace.set_default_ttl(ttl)).await;
        self.settled(written).await
    }

    /// [`Namespace::set_ordered`].
    ///
    /// # Errors
    ///
    /// As there.
    #[cfg(feature = "ordered")]
    pub async fn set_ordered(&self, ordered: Option<bool>) -> Result<()> {
        let written = self.in_lane(move |namespace| namespace.set_ordered(ordered)).await;
        self.settled(written).await
    }

    /// [`Namespace::ordered`].
    #[cfg(feature = "ordered")]
    pub fn ordered(&self) -> Option<bool> {
        self.namespace.ordered()
    }

    /// [`Namespace::is_ordered`].
    #[cfg(feature = "ordered")]
    pub fn is_ordered(&self) -> bool {
        self.namespace.is_ordered()
    }

    async fn write_with<T: Send + 'static>(
        &self,
        key: impl AsRef<[u8]>,
        value_len: usize,
        write: impl FnOnce(&Namespace, &[u8]) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let written = if self.writes_at_once(self.namespace.ttl, key.as_ref(), value_len) {
            self.here(|namespace| write(namespace, key.as_ref()))
        } else {
            let key = key.as_ref().to_vec();
            self.in_lane(move |namespace| write(namespace, &key)).await
        };
        self.settled(written).await
    }

    fn writes_at_once(&self, ttl: Ttl, key: &[u8], value_len: usize) -> bool {
        self.must_stay() || self.namespace.store.writes_at_once(&self.namespace.name, ttl, key, value_len)
    }
}
