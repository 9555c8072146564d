//! Namespaces: key spaces of their own in one store.

use super::iter::{Iter, Keys};
use super::store::Store;
use super::value::Value;
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Meta, NAMESPACE_OF_NAMES};
use crate::index::SHARDS;
use crate::limits::{NAMESPACE_NAME_LEN_MAX, NAMESPACE_NUMBER_MAX};
use crate::log::Purpose;
use crate::names::{DEFAULT, Name, Names};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

const FOREIGN: &str =
    "this namespace is a handle of another store; get one with `namespace(name)` from the store that this commit is for";

/// A key space of its own: the same keys in two namespaces have nothing to do with each other. Cheap to clone; may be used from
/// many threads.
#[derive(Clone)]
pub struct Namespace {
    pub(super) store: Arc<super::handle::Open>,
    pub(super) name: Arc<Name>,
}

impl core::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        // As for `Db`: nothing that takes a lock.
        f.debug_struct("Namespace").field("name", &self.name()).finish_non_exhaustive()
    }
}

impl Namespace {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name.name
    }

    /// What `store` knows it by. The number of a namespace of another store is the number of something else here.
    pub(super) fn name_in(&self, store: &Store) -> Result<&Arc<Name>> {
        if core::ptr::eq::<Store>(&**self.store, store) { Ok(&self.name) } else { Err(Error::InvalidArgument(FOREIGN)) }
    }

    /// See [`Db::insert`](super::Db::insert).
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.store.insert(&self.name, key.as_ref(), value.as_ref())
    }

    /// Stores a record with all that it carries beside key and value.
    #[cfg(feature = "salvage")]
    pub(crate) fn insert_whole(&self, kind: Kind, meta: Meta<'_>, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.insert_whole(&self.name, kind, meta, key, value)
    }

    /// See [`Db::get`](super::Db::get).
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.store.get(&self.name, key.as_ref())
    }

    /// See [`Db::get_zerocopy`](super::Db::get_zerocopy).
    #[inline]
    pub fn get_zerocopy(&self, key: impl AsRef<[u8]>) -> Result<Option<Value<'_>>> {
        self.store.get_zerocopy(&self.name, key.as_ref())
    }

    /// See [`Db::remove`](super::Db::remove).
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.store.remove(&self.name, key.as_ref())
    }

    /// See [`Db::contains_key`](super::Db::contains_key).
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.store.contains_key(&self.name, key.as_ref())
    }

    /// See [`Db::insert_many`](super::Db::insert_many).
    pub fn insert_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, records: impl IntoIterator<Item = (K, V)>) -> Result<()> {
        self.store.insert_many(&self.name, records)
    }

    /// See [`Db::remove_many`](super::Db::remove_many).
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<usize> {
        self.store.remove_many(&self.name, keys)
    }

    /// See [`Db::get_many`](super::Db::get_many).
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: impl IntoIterator<Item = K>) -> Result<Vec<Option<Vec<u8>>>> {
        self.store.get_many(&self.name, keys)
    }

    /// See [`Db::get_many_with`](super::Db::get_many_with).
    pub fn get_many_with<K: AsRef<[u8]>>(
        &self,
        keys: impl IntoIterator<Item = K>,
        each: impl FnMut(K, Option<&[u8]>),
    ) -> Result<()> {
        self.store.get_many_with(&self.name, keys, each)
    }

    /// See [`Db::compare_and_swap`](super::Db::compare_and_swap).
    pub fn compare_and_swap(&self, key: impl AsRef<[u8]>, expected: Option<&[u8]>, new: Option<&[u8]>) -> Result<bool> {
        self.store.compare_and_swap(&self.name, key.as_ref(), expected, new)
    }

    /// See [`Db::update`](super::Db::update): `new` must make no call on this store, of any namespace.
    pub fn update(&self, key: impl AsRef<[u8]>, new: impl FnOnce(Option<&[u8]>) -> Option<Vec<u8>>) -> Result<()> {
        self.store.update(&self.name, key.as_ref(), new)
    }

    /// See [`Db::clear`](super::Db::clear), also for what it costs.
    pub fn clear(&self) -> Result<()> {
        self.store.clear(&self.name)
    }

    /// Records in this namespace.
    pub fn len(&self) -> Result<u64> {
        self.store.len(&self.name)
    }

    /// True when it holds no record.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// See [`Db::iter`](super::Db::iter).
    pub fn iter(&self) -> Iter<'_> {
        self.store.iter(&self.name)
    }

    /// See [`Db::keys`](super::Db::keys).
    pub fn keys(&self) -> Keys<'_> {
        self.store.keys(&self.name)
    }
}

impl Store {
    /// The namespace of that name, created if need be.
    pub(super) fn namespace(&self, name: &str) -> Result<Arc<Name>> {
        if name.is_empty() || name.len() > NAMESPACE_NAME_LEN_MAX {
            return Err(Error::NamespaceName { len: name.len() });
        }
        if let Some(found) = self.names.read().get(name) {
            return Ok(found);
        }
        self.writable()?;
        // Two who ask at once get the same: the second must not take away what the first has written by then.
        self.renumber(name, &|names| Ok(names.get(name)))
    }

    /// The default one, which is no caller's to name, is not found.
    pub(super) fn find_namespace(&self, name: &str) -> Option<Arc<Name>> {
        self.names.read().get(name).filter(|_| name != DEFAULT)
    }

    /// Drops a namespace with all its records; false when there is none of that name.
    pub(super) fn drop_namespace(&self, name: &str) -> Result<bool> {
        self.writable()?;
        let old = self.with_space(|| {
            let mut shards = self.engine.lock_all()?;
            let mut names = self.names.write();
            let Some(old) = (if name == DEFAULT { None } else { names.get(name).and_then(|name| name.number()) }) else {
                return Ok(None);
            };
            self.write_name(&mut shards, name, &old.to_le_bytes(), Kind::Tombstone)?;
            names.drop_name(name);
            Ok(Some(old))
        })?;
        let Some(old) = old else { return Ok(false) };
        self.bury_number(old)?;
        self.after_write()?;
        Ok(true)
    }

    pub(super) fn list_namespaces(&self) -> Vec<String> {
        self.names.read().list()
    }

    /// Forgets every record of a namespace, by giving its name a new number.
    pub(super) fn clear(&self, name: &Name) -> Result<()> {
        self.writable()?;
        let old = name.number().ok_or(Error::NamespaceDropped)?;
        if self.engine.count(old)? > 0 {
            // Somebody may have dropped it since, and given its name to another.
            let clear = |_: &Names| if name.number().is_some() { Ok(None) } else { Err(Error::NamespaceDropped) };
            self.with_space(|| self.renumber(&name.name, &clear))?;
        }
        Ok(())
    }

    /// Gives a name the next number: as one record, so that a crash finds all of it or nothing. Not if `settled`, asked when nobody else
    /// can change the names, finds that there is no need to: what carries the old number is forgotten.
    fn renumber(&self, name: &str, settled: &dyn Fn(&Names) -> Result<Option<Arc<Name>>>) -> Result<Arc<Name>> {
        let (found, old) = {
            let mut shards = self.engine.lock_all()?;
            let mut names = self.names.write();
            if let Some(found) = settled(&names)? {
                return Ok(found);
            }
            let old = names.get(name).and_then(|name| name.number());
            let number = names.next;
            if number > NAMESPACE_NUMBER_MAX {
                return Err(Error::InvalidArgument(
                    "all numbers of namespaces have been given out; copy the records into a new store",
                ));
            }
            let options: Vec<u8> = names.options(name).into();
            self.write_name(&mut shards, name, &[&number.to_le_bytes(), &*options].concat(), Kind::Put)?;
            (names.set(name, number, &options), old)
        };
        if let Some(old) = old {
            self.bury_number(old)?;
        }
        self.after_write()?;
        Ok(found)
    }

    /// Writes the record of a name, whose value begins with its number. The number stands in the tombstone too: it must never be given
    /// out again.
    fn write_name(&self, shards: &mut [crate::index::ShardGuard<'_>], name: &str, value: &[u8], kind: Kind) -> Result<()> {
        let engine = &self.engine;
        let key = name.as_bytes();
        let full_key = engine.full_key(NAMESPACE_OF_NAMES, key);
        let shard = shards.get_mut(full_key.hash.shard()).ok_or(Error::Bug("not all shards are locked"))?;
        let old = engine.find_locked(shard, full_key)?;
        let spec = FrameSpec { kind, continues: false, meta: Meta::plain(NAMESPACE_OF_NAMES), key, value };
        let purpose = if old.is_some() || name == DEFAULT { Purpose::MakeSpace } else { Purpose::Store };
        let new = engine.log.append_one(&spec, purpose)?;
        match kind {
            Kind::Tombstone => engine.publish_remove(shard, full_key, old, new),
            _ => engine.publish_put(shard, full_key, old, new),
        }
        Ok(())
    }

    /// Takes the records of a dead number out of the index; nobody can reach them any more.
    fn bury_number(&self, number: u32) -> Result<()> {
        let forget_order = || {
            #[cfg(feature = "ordered")]
            if let Some(ordered) = self.engine.ordered.get() {
                ordered.drop_namespace(number);
            }
        };
        forget_order();
        for shard in 0..SHARDS {
            let mut guard = self.engine.lock_shard(shard)?;
            if guard.count(number) > 0 {
                self.engine.bury(shard, &mut guard, &|other| other == number)?;
            }
        }
        // A compaction that copied a record which was not buried yet has put its key there again.
        forget_order();
        Ok(())
    }
}
