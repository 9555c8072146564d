//! The ordered index: keys in order, each with its record's offset, beside the hash index. Opt-in, for it keeps every key in memory.
//!
//! A map for each namespace. Writers change an entry while they hold the key's shard of the hash index, so per key both change in the
//! order of the log. Readers hold the list of maps until they have found theirs, and no lock behind that; an offset that they have read
//! stays good for as long as their pin, which they took before.

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
    /// By the numbers of the namespaces.
    maps: RwLock<BTreeMap<u32, Arc<Map>>>,
}

impl Ordered {
    /// From the keys of all namespaces in any order, each with the offset of its record.
    pub(crate) fn of(mut keys: Vec<(u32, Key, u64)>) -> Self {
        keys.sort_unstable();
        let of_namespace = keys.chunk_by(|(one, ..), (other, ..)| one == other).filter_map(|keys| {
            let pairs: Vec<(&[u8], u64)> = keys.iter().map(|(_, key, offset)| (key.bytes(), *offset)).collect();
            keys.first().map(|&(namespace, ..)| (namespace, Arc::new(Map::of(&pairs))))
        });
        Self { maps: RwLock::new(of_namespace.collect()) }
    }

    fn map(&self, namespace: u32) -> Option<Arc<Map>> {
        self.maps.read().get(&namespace).cloned()
    }

    /// The record of `key` stands at `offset` from now on. The caller holds the key's shard.
    pub(crate) fn put(&self, namespace: u32, key: &[u8], offset: u64) {
        let map = self.map(namespace);
        map.unwrap_or_else(|| self.maps.write().entry(namespace).or_insert_with(|| Arc::new(Map::new())).clone())
            .put(key, offset);
    }

    /// `key` has no record any more. The caller holds the key's shard.
    pub(crate) fn remove(&self, namespace: u32, key: &[u8]) {
        if let Some(map) = self.map(namespace) {
            map.remove(key);
        }
    }

    /// The namespace is gone with all its records.
    pub(crate) fn drop_namespace(&self, namespace: u32) {
        self.maps.write().remove(&namespace);
    }

    /// True when keys of the namespace are kept, or may be.
    #[cfg(all(test, shuttle))]
    pub(crate) fn knows(&self, namespace: u32) -> bool {
        self.map(namespace).is_some()
    }

    /// Hands the offsets of the records from `from` on to `each`, in the order of the keys, until it says `false`.
    pub(crate) fn walk(&self, namespace: u32, from: Bound<&[u8]>, each: impl FnMut(&[u8], u64) -> bool) {
        if let Some(map) = self.map(namespace) {
            map.walk(from, each);
        }
    }

    /// Hands the offsets of the records up to `to` on to `each`, the last key first, until it says `false`.
    pub(crate) fn walk_back(&self, namespace: u32, to: Bound<&[u8]>, each: impl FnMut(&[u8], u64) -> bool) {
        if let Some(map) = self.map(namespace) {
            map.walk_back(to, each);
        }
    }
}

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
