//! The dictionaries that count: what the list in the store says, read when it is first needed.

use super::Store;
use crate::compress::{COPIES, Dictionary, List, key_of_list};
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Mutex, RwLock};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What a segment and the rules were when it was looked through.
type Looked = (u64, u32, usize);

/// What is known of the dictionaries of a store.
#[derive(Debug, Default)]
pub(crate) struct Dictionaries {
    listed: RwLock<Option<Arc<Listed>>>,
    /// Log position before which no dictionary is trained: there was too little to train one with.
    pub(crate) next_try: AtomicU64,
    /// By the base of a segment: its end, the list's change and the number of compressed namespaces when it was last looked through, and whether
    /// it was worth compressing.
    pub(crate) looked: Mutex<BTreeMap<u64, (Looked, bool)>>,
    /// The planted bug: dictionaries that count and have not been written.
    pub(crate) late: Mutex<Vec<(u32, Vec<u8>)>>,
}

/// The list, and the dictionaries that count.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub(crate) list: List,
    /// By the name of the namespace.
    current: BTreeMap<String, Arc<Dictionary>>,
    /// The list cannot be read: no dictionary may get a number.
    pub(crate) is_lost: bool,
}

impl Listed {
    /// The dictionary with which values of a namespace are compressed.
    pub(crate) fn of(&self, name: &str) -> Option<&Arc<Dictionary>> {
        self.current.get(name)
    }
}

impl Dictionaries {
    /// True once the list has been read.
    pub(crate) fn are_known(&self) -> bool {
        self.listed.read().is_some()
    }
}

impl Store {
    /// The dictionaries that count. The caller holds no lock, but perhaps that of maintenance.
    ///
    /// # Errors
    ///
    /// Those of the storage. What cannot be read does not count.
    pub(crate) fn listed(&self) -> Result<Arc<Listed>> {
        if let Some(listed) = &*self.dictionaries.listed.read() {
            return Ok(listed.clone());
        }
        let (list, is_lost) = self.read_list()?;
        self.set_listed(list, is_lost)
    }

    /// Makes another list count, which the store has.
    pub(crate) fn set_listed(&self, list: List, is_lost: bool) -> Result<Arc<Listed>> {
        let mut current = BTreeMap::new();
        for entry in &list.entries {
            // One that stands only once does not count before compaction has completed it.
            let found = if self.engine.has_both_copies(entry.number)? { self.engine.dictionary(entry.number) } else { Ok(None) };
            match found {
                Ok(Some(dictionary)) => current.insert(entry.name.clone(), dictionary.clone()),
                // None, or nothing to gain, or damage: then values are compressed without one.
                Ok(None) | Err(Error::Corrupt { .. }) => current.remove(&entry.name),
                Err(error) => return Err(error),
            };
        }
        let listed = Arc::new(Listed { list, current, is_lost });
        *self.dictionaries.listed.write() = Some(listed.clone());
        Ok(listed)
    }

    /// The list as the store has it, and whether it is there and cannot be read.
    fn read_list(&self) -> Result<(List, bool)> {
        let namespace = match self.engine.namespace_of_dictionaries() {
            Ok(Some(namespace)) => namespace,
            Ok(None) => return Ok((List::default(), false)),
            Err(Error::Corrupt { .. }) => return Ok((List::default(), true)),
            Err(error) => return Err(error),
        };
        let (mut newest, mut is_lost): (Option<List>, _) = (None, false);
        for copy in 0..COPIES {
            match self.engine.own_record(self.engine.full_key(namespace, &key_of_list(copy))) {
                Ok(Some((_, value))) => match List::decode(&value) {
                    Some(list) if newest.as_ref().is_none_or(|newest| list.changes > newest.changes) => newest = Some(list),
                    Some(_) => {}
                    None => is_lost = true,
                },
                Ok(None) => {}
                Err(Error::Corrupt { .. }) => is_lost = true,
                Err(error) => return Err(error),
            }
        }
        Ok(newest.map_or((List::default(), is_lost), |list| (list, false)))
    }
}
