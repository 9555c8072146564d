//! The ordered index: keys in order, each with its record's offset, beside the hash index. Opt-in, because it keeps every key in memory.
//!
//! A map for each namespace. Writers change an entry while they hold the key's shard of the hash index, so per key both change in the
//! order of the log. Readers lock the list of maps until they have found theirs, and hold no lock after that; an offset that they have
//! read stays valid as long as their pin, which they took before.

mod block;
mod key;
mod leaf;
mod map;

pub(crate) use key::Key;

use crate::sync::RwLock;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;
use map::Map;

/// The ordered index of a store.
#[derive(Default)]
pub(crate) struct Ordered {
    /// Maps by namespace number.
    maps: RwLock<BTreeMap<u32, Arc<Map>>>,
}

impl Ordered {
    /// An index of keys of all namespaces, given in any order, each with the offset of its record.
    pub(crate) fn of(mut keys: Vec<(u32, Key, u64)>) -> Self {
        keys.sort_unstable();
        let of_namespace = keys.chunk_by(|(one, ..), (other, ..)| one == other).filter_map(|keys| {
            let pairs: Vec<(&[u8], u64)> = keys.iter().map(|(_, key, offset)| (key.bytes(), *offset)).collect();
            keys.first().map(|&(namespace, ..)| (namespace, Arc::new(Map::of(&pairs))))
        });
        Self { maps: RwLock::new(of_namespace.collect()) }
    }

    /// Takes over the maps of another index.
    pub(crate) fn adopt(&self, other: &Self) {
        *self.maps.write() = core::mem::take(&mut *other.maps.write());
    }

    fn map(&self, namespace: u32) -> Option<Arc<Map>> {
        self.maps.read().get(&namespace).cloned()
    }

    /// Sets the offset of the record of `key`. The caller holds the key's shard.
    pub(crate) fn put(&self, namespace: u32, key: &[u8], offset: u64) {
        let map = self.map(namespace);
        map.unwrap_or_else(|| self.maps.write().entry(namespace).or_insert_with(|| Arc::new(Map::new())).clone())
            .put(key, offset);
    }

    /// Removes `key`. The caller holds the key's shard.
    pub(crate) fn remove(&self, namespace: u32, key: &[u8]) {
        if let Some(map) = self.map(namespace) {
            map.remove(key);
        }
    }

    /// Removes the keys that begin with `prefix`. The caller holds all shards.
    pub(crate) fn remove_prefix(&self, namespace: u32, prefix: &[u8]) {
        if let Some(map) = self.map(namespace) {
            map.remove_prefix(prefix);
        }
    }

    /// Removes the namespace with all its keys.
    pub(crate) fn drop_namespace(&self, namespace: u32) {
        self.maps.write().remove(&namespace);
    }

    /// True when keys of the namespace are kept, or may be.
    #[cfg(all(test, shuttle))]
    pub(crate) fn knows(&self, namespace: u32) -> bool {
        self.map(namespace).is_some()
    }

    /// Calls `each` with key and offset of the records from `from` on, in key order, until it returns `false`.
    pub(crate) fn walk(&self, namespace: u32, from: Bound<&[u8]>, each: impl FnMut(&[u8], u64) -> bool) {
        if let Some(map) = self.map(namespace) {
            map.walk(from, each);
        }
    }

    /// Calls `each` with key and offset of the records up to `to`, the last key first, until it returns `false`.
    pub(crate) fn walk_back(&self, namespace: u32, to: Bound<&[u8]>, each: impl FnMut(&[u8], u64) -> bool) {
        if let Some(map) = self.map(namespace) {
            map.walk_back(to, each);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod figures;
#[cfg(all(test, shuttle))]
mod schedules;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_in_order_with_their_newest_offset() {
        let ordered = Ordered::default();
        for (key, offset) in [("b", 1), ("a", 2), ("c", 3), ("b", 4), ("a key longer than what a node holds", 5)] {
            ordered.put(7, key.as_bytes(), offset);
        }
        ordered.put(8, b"other", 9);
        ordered.remove(7, b"c");
        let from = |bound: Bound<&[u8]>| {
            let mut seen = Vec::new();
            ordered.walk(7, bound, |_, offset| {
                seen.push(offset);
                true
            });
            seen
        };
        assert_eq!(from(Bound::Unbounded), [2, 5, 4]);
        assert_eq!(from(Bound::Excluded(b"a")), [5, 4]);
        assert_eq!(from(Bound::Included(b"b")), [4]);
        ordered.drop_namespace(7);
        assert!(from(Bound::Unbounded).is_empty());
    }
}
