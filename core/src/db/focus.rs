//! A handle to a group, and walks through it. Its verbs on single keys are in `focus_keys`.

use super::group::{DOT, Group, group_prefix};
use super::handle::Namespace;
use crate::error::{Error, Result};
use crate::limits::KEY_LEN_MAX;
use alloc::vec::Vec;
use core::fmt;

/// A handle to a [group](Namespace::group) of records: its verbs are those of a [`Namespace`], and every key is meant without the name of the
/// group and the dot. From [`Db::focus`](Namespace::focus).
///
/// It is cheap to clone, may be used from many threads, and keeps the store open. It reserves nothing: the same records can be read and
/// written through the namespace.
///
/// In a batch or a transaction, [`Focus::key`] makes the whole key:
///
/// ```
/// let db = pipkin::Db::open_in_memory()?;
/// let ada = db.focus("user.7");
/// ada.insert("name", "Ada")?;
/// assert_eq!(db.get("user.7.name")?, Some(b"Ada".to_vec()));
///
/// let prefs = ada.focus("prefs");
/// prefs.insert("color", "green")?; // user.7.prefs.color
/// assert_eq!((prefs.len()?, ada.len()?), (1, 2));
///
/// db.batch().insert(ada.key("name")?, "Ada L.").remove(prefs.key("color")?).commit()?;
/// assert_eq!(ada.len()?, 1);
/// # Ok::<(), pipkin::Error>(())
/// ```
#[derive(Clone)]
pub struct Focus {
    pub(super) records: Namespace,
    /// Name of the group and a dot; empty for the namespace itself.
    pub(super) prefix: Vec<u8>,
}

impl fmt::Debug for Focus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Focus").field("records", &self.records).field("name", &self.name().escape_ascii()).finish()
    }
}

impl Namespace {
    /// A handle to the group `name`, whether it has records or not. `focus("")` is the namespace itself.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let settings = db.namespace("app")?.focus("settings");
    /// settings.insert("theme", "dark")?;
    /// assert_eq!(settings.get("theme")?, Some(b"dark".to_vec()));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn focus(&self, name: impl AsRef<[u8]>) -> Focus {
        Focus { records: self.clone(), prefix: group_prefix(name.as_ref()).unwrap_or_default() }
    }
}

impl Focus {
    /// A handle to a group in this one. An empty name is a name like any other: `focus("a").focus("")` has the keys that begin with `a..`;
    /// only on the namespace itself it changes nothing.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.focus("user").focus("7").insert("name", "Ada")?;
    /// assert!(db.contains_key("user.7.name")?);
    /// assert_eq!(db.focus("user").focus("7").name(), b"user.7");
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn focus(&self, name: impl AsRef<[u8]>) -> Self {
        let name = name.as_ref();
        let dot: &[u8] = if self.prefix.is_empty() && name.is_empty() { &[] } else { &[DOT] };
        Self { records: self.records.clone(), prefix: [&self.prefix, name, dot].concat() }
    }

    /// The name of the group; empty if this is the namespace itself.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// assert_eq!(db.focus("user.7").name(), b"user.7");
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn name(&self) -> &[u8] {
        self.prefix.split_last().map_or(&[], |(_dot, name)| name)
    }

    /// The namespace that the group lies in.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let settings = db.namespace("app")?.focus("settings");
    /// assert_eq!(settings.namespace().name(), "app");
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub const fn namespace(&self) -> &Namespace {
        &self.records
    }

    /// The whole key of `key` in the group, as a [batch](Namespace::batch) or a [transaction](Namespace::transaction) takes it.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// let (ada, bea) = (db.focus("user.7"), db.focus("user.8"));
    /// ada.insert("coins", [3])?;
    /// db.transaction(|tx| {
    ///     let coins = tx.get(ada.key("coins")?)?.unwrap_or_default();
    ///     tx.remove(ada.key("coins")?)?;
    ///     tx.insert(bea.key("coins")?, coins)
    /// })?;
    /// assert_eq!(bea.get("coins")?, Some(vec![3]));
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::GroupKeyTooLong`] when it is longer than [`KEY_LEN_MAX`]; every verb that takes a key answers the same.
    pub fn key(&self, key: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let key = key.as_ref();
        if self.prefix.len().saturating_add(key.len()) <= KEY_LEN_MAX {
            Ok([&self.prefix, key].concat())
        } else if self.prefix.is_empty() {
            Err(Error::KeyTooLong { len: key.len() })
        } else {
            Err(Error::GroupKeyTooLong { group: self.prefix.len(), key: key.len() })
        }
    }

    /// All records of the group; each key without the name of the group and the dot. In order, or not, and as fast as
    /// [`Namespace::group`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("user.7.name", "Ada"), ("user.70.name", "Bea")])?;
    /// let records = db.focus("user.7").iter().collect::<pipkin::Result<Vec<_>>>()?;
    /// assert_eq!(records, [(b"name".to_vec(), b"Ada".to_vec())]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn iter(&self) -> Group<'_> {
        self.records.records_from(self.prefix.clone(), self.prefix.len())
    }

    /// All keys of the group, without the name of the group and the dot; see [`Self::iter`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("user.7.name", "Ada"), ("user.70.name", "Bea")])?;
    /// assert_eq!(db.focus("user.7").keys().collect::<pipkin::Result<Vec<_>>>()?, [b"name"]);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn keys(&self) -> impl Iterator<Item = Result<Vec<u8>>> + '_ {
        self.iter().without_values().map(|record| record.map(|(key, _)| key))
    }

    /// Number of records in the group. They are counted: reads all of them, and without the [ordered index](crate::Builder::ordered) all
    /// records of the namespace.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("user.7.name", "Ada"), ("user.7.mail", "..."), ("user.70.name", "Bea")])?;
    /// assert_eq!(db.focus("user.7").len()?, 2);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn len(&self) -> Result<u64> {
        if self.prefix.is_empty() {
            return self.records.len();
        }
        self.iter().without_values().try_fold(0, |sum, record| record.map(|_| sum + 1))
    }

    /// True when the group has no record; stops at the first one that it finds.
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// assert!(db.focus("user.7").is_empty()?);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.iter().without_values().next().transpose()?.is_none())
    }

    /// Removes every record of the group, as one commit; returns how many there were. See [`Namespace::delete_group`].
    ///
    /// ```
    /// # let db = pipkin::Db::open_in_memory()?;
    /// db.insert_many([("user.7.name", "Ada"), ("user.70.name", "Bea")])?;
    /// assert_eq!(db.focus("user.7").delete_all()?, 1);
    /// assert_eq!(db.len()?, 1);
    /// # Ok::<(), pipkin::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Namespace::delete_group`]; on the namespace itself [`Error::InvalidArgument`]: that is [`Namespace::clear`].
    pub fn delete_all(&self) -> Result<u64> {
        self.records.delete_group(self.name())
    }
}
