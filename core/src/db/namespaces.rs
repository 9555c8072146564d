//! Creating, finding, dropping and clearing namespaces.

use super::handle::{Db, Namespace};
use crate::error::{Error, Result};
use crate::frame::{FrameSpec, Kind, Meta, NAMESPACE_OF_NAMES};
use crate::limits::{EXPIRY_MAX, NAMESPACE_NAME_LEN_MAX, NAMESPACE_NUMBER_MAX};
use crate::log::Purpose;
use crate::names::{DEFAULT, DICTIONARIES, Name, Names, SYSTEM};
use crate::store::Store;
use crate::ttl::{Ttl, default_of, with_default, with_kept_number, without_kept_number};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

fn refuse_system(name: &str) -> Result<()> {
    if name.starts_with(SYSTEM) { Err(Error::SystemNamespace) } else { Ok(()) }
}

impl Db {
    /// Returns the namespace of that name; creates it if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::NamespaceName`] for a name that is empty or too long, [`Error::SystemNamespace`] for one that begins with the byte 0, and those
    /// of a write where the namespace has to be created.
    ///
    /// ```
    /// # fn main() -> pipkin::Result<()> {
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let users = db.namespace("users")?;
    /// users.insert("7", "Ada")?;
    /// assert!(!db.contains_key("7")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn namespace(&self, name: &str) -> Result<Namespace> {
        refuse_system(name)?;
        self.any_namespace(name, &[])
    }

    /// Returns the namespace of that name if it exists: unlike [`Db::namespace`], this creates none.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// assert!(db.find_namespace("users").is_none());
    /// db.namespace("users")?; // creates it
    /// assert!(db.find_namespace("users").is_some());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn find_namespace(&self, name: &str) -> Option<Namespace> {
        refuse_system(name).ok().and_then(|()| self.find_any_namespace(name))
    }

    /// Drops a namespace with all its records, as one commit; returns whether it existed. Handles to it find nothing from then on, and
    /// writes through them answer [`Error::NamespaceDropped`](crate::Error::NamespaceDropped). Takes as long as
    /// [`Db::clear`](crate::Namespace::clear), which depends on the records of other namespaces, too.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let cache = db.namespace("cache")?;
    /// cache.insert("page", "...")?;
    /// assert!(db.drop_namespace("cache")?);
    /// assert!(matches!(cache.insert("page", "..."), Err(pipkin::Error::NamespaceDropped)));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn drop_namespace(&self, name: &str) -> Result<bool> {
        refuse_system(name)?;
        self.store.drop_namespace(name)
    }

    /// The names of all namespaces but the default one, in order. The system namespaces that a host of pipkin keeps are not listed.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.namespace("users")?;
    /// db.namespace("cache")?;
    /// assert_eq!(db.list_namespaces(), ["cache", "users"]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn list_namespaces(&self) -> Vec<String> {
        self.store.names.read().list()
    }

    /// A namespace for a host of pipkin, separate from those of its users; created if there is none. Only this call and
    /// [`Db::find_system_namespace`] return it: it is not listed, all other calls refuse its name, and [`Db::stats`] does not count its
    /// records. Clear it when it is no longer needed.
    ///
    /// # Errors
    ///
    /// [`Error::SystemNamespace`] for the one that pipkin keeps dictionaries in: without them, compressed values could not be read.
    #[doc(hidden)]
    pub fn system_namespace(&self, name: &str) -> Result<Namespace> {
        let name = alloc::format!("{SYSTEM}{name}");
        if name == DICTIONARIES {
            return Err(Error::SystemNamespace);
        }
        self.any_namespace(&name, &[])
    }

    /// Like [`Db::system_namespace`], but creates none.
    #[doc(hidden)]
    pub fn find_system_namespace(&self, name: &str) -> Option<Namespace> {
        let name = alloc::format!("{SYSTEM}{name}");
        if name == DICTIONARIES { None } else { self.find_any_namespace(&name) }
    }

    /// True if the store has compressed values, or is to have some, or had: it was told to compress. A build without the feature `compress` answers
    /// [`Error::Unsupported`](crate::Error::Unsupported) for such a value, and carries it.
    ///
    /// ```
    /// let db = pipkin::Db::open_in_memory()?;
    /// assert!(!db.is_compressed());
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn is_compressed(&self) -> bool {
        self.store.names.read().get(DICTIONARIES).is_some()
    }

    /// The namespace of that name, system namespaces included. If there is none, it is created with these options.
    pub(crate) fn any_namespace(&self, name: &str, options: &[u8]) -> Result<Namespace> {
        Ok(Namespace { name: self.store.make_namespace(name, options)?, store: self.store.clone(), ttl: Ttl::Default })
    }

    /// Finds a namespace, system namespaces included. Never the default one: callers cannot name it.
    fn find_any_namespace(&self, name: &str) -> Option<Namespace> {
        let name = self.store.names.read().get(name).filter(|_| name != DEFAULT)?;
        Some(Namespace { name, store: self.store.clone(), ttl: Ttl::Default })
    }
}

impl Namespace {
    /// Removes all records of this namespace, as one commit of a few bytes.
    ///
    /// The index still has to drop them: in each of its 256 shards that holds a record of the namespace, every record is read, those of
    /// other namespaces too. In a large store that takes as long as reading all of it, even to clear a few hundred records: remove those
    /// with [`Self::remove_many`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let cache = db.namespace("cache")?;
    /// cache.insert("page", "...")?;
    /// cache.clear()?; // the namespace stays
    /// assert!(cache.is_empty()?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::NoSpace`](crate::Error::NoSpace) when there is no room even for those few bytes,
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), [`Error::Closed`](crate::Error::Closed), [`Error::Poisoned`](crate::Error::Poisoned),
    /// [`Error::Corrupt`](crate::Error::Corrupt) when a part of the index cannot be built: nothing was cleared. When the file system fails
    /// after the commit, everything was cleared, though some of it is still in the index.
    pub fn clear(&self) -> Result<()> {
        let (store, name) = (&self.store, &self.name);
        store.writable()?;
        let old = name.number().ok_or(Error::NamespaceDropped)?;
        if store.engine.count(old)? > 0 {
            store.remember_number(old, &name.name)?;
            // Another thread may have dropped it since, and created another of the same name; or cleared it, and that counts for this call, too.
            let settled = |_: &Names| match name.number() {
                Some(number) => Ok((number != old).then(|| name.clone())),
                None => Err(Error::NamespaceDropped),
            };
            store.with_space(|| store.renumber(&name.name, None, &settled))?;
            store.after_write()?;
        }
        Ok(())
    }
}

impl Store {
    /// Returns the namespace of that name; creates it with these options if there is none.
    pub(crate) fn make_namespace(&self, name: &str, options: &[u8]) -> Result<Arc<Name>> {
        if name.is_empty() || name.len() > NAMESPACE_NAME_LEN_MAX {
            return Err(Error::NamespaceName { len: name.len() });
        }
        if let Some(found) = self.names.read().get(name) {
            return Ok(found);
        }
        let made = self.make_namespace_maintaining(name, options)?;
        self.after_write()?;
        Ok(made)
    }

    /// The same for a caller that holds the maintenance lock, which what follows a write would wait for.
    pub(crate) fn make_namespace_maintaining(&self, name: &str, options: &[u8]) -> Result<Arc<Name>> {
        self.writable()?;
        // Two concurrent calls must return the same namespace: a second new number would drop what was written under the first.
        self.renumber(name, Some(options), &|names| Ok(names.get(name)))
    }

    /// Drops a namespace with all its records; returns whether it existed.
    fn drop_namespace(&self, name: &str) -> Result<bool> {
        self.writable()?;
        let known = |names: &Names| if name == DEFAULT { None } else { names.get(name).and_then(|name| name.number()) };
        let (old, end) = loop {
            let Some(expected) = known(&self.names.read()) else { return Ok(false) };
            self.remember_number(expected, name)?;
            let dropped = self.with_space(|| {
                let mut shards = self.engine.lock_all()?;
                let mut names = self.names.write();
                // Another thread may have cleared it meanwhile: then it has another number.
                let Some(old) = known(&names).filter(|&old| old == expected) else { return Ok(None) };
                let end = self.write_name(&mut shards, name, &old.to_le_bytes(), Kind::Tombstone)?;
                names.drop_name(name);
                self.engine.living.write().remove(&old);
                Ok(Some((old, end)))
            })?;
            if let Some(dropped) = dropped {
                break dropped;
            }
        };
        self.purge_number(old, end)?;
        self.after_write()?;
        Ok(true)
    }

    /// Assigns the next number to a name, which drops all records under its old number. One record, so it is atomic under a crash.
    /// `settled` runs with the names locked: if it returns a namespace, that is returned and nothing is written. Without `options` the name
    /// keeps its own.
    fn renumber(
        &self,
        name: &str,
        options: Option<&[u8]>,
        settled: &dyn Fn(&Names) -> Result<Option<Arc<Name>>>,
    ) -> Result<Arc<Name>> {
        let (found, old, end) = {
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
            let options: Vec<u8> = without_kept_number(options.unwrap_or_else(|| names.options(name)));
            let end = self.write_name(&mut shards, name, &[&number.to_le_bytes(), &*options].concat(), Kind::Put)?;
            let mut living = self.engine.living.write();
            old.map(|old| living.remove(&old));
            living.insert(number);
            #[cfg(feature = "ordered")]
            self.engine.choose_order(old, number, &options);
            (names.set(name, number, &options), old, end)
        };
        if let Some(old) = old {
            self.purge_number(old, end)?;
        }
        Ok(found)
    }

    /// Sets how long records of a namespace live if their write does not say, in milliseconds; 0: as long as the store says.
    pub(super) fn set_default_ttl(&self, name: &Name, ms: u64) -> Result<()> {
        self.set_options(name, &|options| {
            if default_of(options) == ms.min(EXPIRY_MAX) { options.to_vec() } else { with_default(options, ms) }
        })
    }

    /// Changes the options of a namespace, which keeps its number.
    pub(super) fn set_options(&self, name: &Name, change: &dyn Fn(&[u8]) -> Vec<u8>) -> Result<()> {
        self.writable()?;
        self.with_room(|| {
            let mut shards = self.engine.lock_all()?;
            let mut names = self.names.write();
            // Another thread may have dropped it since, and created another of the same name.
            let number = name.number().ok_or(Error::NamespaceDropped)?;
            let old = names.options(&name.name);
            let changed = change(old);
            if changed != old {
                let options = with_kept_number(&changed, number);
                self.write_name(&mut shards, &name.name, &[&number.to_le_bytes(), &*options].concat(), Kind::Put)?;
                names.set(&name.name, number, &options);
            }
            Ok(())
        })?;
        self.after_write()
    }

    /// Writes the record of a name; its value begins with the number. A tombstone holds the number, too, because it must never be given out
    /// again. Returns the log position of the record.
    fn write_name(&self, shards: &mut [crate::index::ShardGuard<'_>], name: &str, value: &[u8], kind: Kind) -> Result<u64> {
        let engine = &self.engine;
        let key = name.as_bytes();
        let full_key = engine.full_key(NAMESPACE_OF_NAMES, key);
        let shard = shards.get_mut(full_key.hash.shard()).ok_or(Error::Bug("not all shards are locked"))?;
        let old = engine.find_locked(shard, full_key)?;
        let spec = FrameSpec { kind, continues: false, meta: Meta::plain(NAMESPACE_OF_NAMES), key, value };
        let purpose = if old.is_some() || name == DEFAULT { Purpose::MakeSpace } else { Purpose::Store };
        shard.will_publish();
        let new = engine.log.append_one(&spec, purpose)?;
        match kind {
            Kind::Tombstone => engine.publish_remove(shard, full_key, old, new),
            _ => engine.publish_put(shard, full_key, old, new),
        }
        Ok(engine.log.lsn(new.offset))
    }
}
