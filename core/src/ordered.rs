//! The ordered index: keys in order, each with its record's offset, beside the hash index. Opt-in, for it keeps every key in memory.
//!
//! A lock-free skip list (`crossbeam-skiplist`) for each namespace. Writers change an entry while they hold the key's shard of the hash
//! index, so per key both change in the order of the log. Readers take no lock; an offset that they have read stays good for as long
//! as their pin, which they took before.

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::frame::NAMESPACE_OF_NAMES;
use crate::index::SHARDS;
use crate::sync::{AtomicU64, Ordering, RwLock};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;
use crossbeam_epoch as epoch;
use crossbeam_skiplist::SkipList;
use smallvec::SmallVec;

/// Keys of common lengths stand in their nodes, where a search meets them without another step.
type Key = SmallVec<[u8; 24]>;
type Map = SkipList<Key, AtomicU64>;

/// The ordered index of a store.
#[derive(Default)]
pub(crate) struct Ordered {
    /// By the numbers of the namespaces.
    maps: RwLock<BTreeMap<u32, Arc<Map>>>,
}

impl Ordered {
    fn map(&self, namespace: u32) -> Option<Arc<Map>> {
        self.maps.read().get(&namespace).cloned()
    }

    fn map_or_create(&self, namespace: u32) -> Arc<Map> {
        self.map(namespace).unwrap_or_else(|| {
            let make = || Arc::new(SkipList::new(epoch::default_collector().clone()));
            self.maps.write().entry(namespace).or_insert_with(make).clone()
        })
    }

    /// The record of `key` stands at `offset` from now on. The caller holds the key's shard.
    pub(crate) fn put(&self, namespace: u32, key: &[u8], offset: u64) {
        let map = self.map_or_create(namespace);
        let guard = epoch::pin();
        match map.get(key, &guard) {
            Some(entry) => entry.value().store(offset, Ordering::Release),
            None => map.insert(Key::from_slice(key), AtomicU64::new(offset), &guard).release(&guard),
        }
    }

    /// `key` has no record any more. The caller holds the key's shard.
    pub(crate) fn remove(&self, namespace: u32, key: &[u8]) {
        if let Some(map) = self.map(namespace) {
            let guard = epoch::pin();
            if let Some(entry) = map.remove(key, &guard) {
                entry.release(&guard);
            }
        }
    }

    /// The namespace is gone with all its records.
    pub(crate) fn drop_namespace(&self, namespace: u32) {
        self.maps.write().remove(&namespace);
    }

    /// Hands the offsets of the records from `from` on to `each`, in the order of the keys, until it says `false`.
    pub(crate) fn walk(&self, namespace: u32, from: Bound<&[u8]>, mut each: impl FnMut(&[u8], u64) -> bool) {
        let Some(map) = self.map(namespace) else { return };
        let guard = epoch::pin();
        let mut next = map.lower_bound(from, &guard);
        while let Some(entry) = next {
            if !each(entry.key(), entry.value().load(Ordering::Acquire)) {
                return;
            }
            next = entry.next();
        }
    }
}

impl Engine {
    /// The ordered index.
    ///
    /// # Errors
    ///
    /// [`Error::NotOrdered`] when the store was opened without.
    pub(crate) fn ordered(&self) -> Result<&Ordered> {
        self.ordered.get().ok_or(Error::NotOrdered)
    }

    /// Fills the ordered index with what the hash index knows. The store is not in use yet.
    pub(crate) fn order(&self) -> Result<()> {
        let mut keys: Vec<(u32, Key, u64)> = Vec::new();
        for shard in 0..SHARDS {
            for slot in self.lock_shard(shard)?.slots() {
                let frame = self.log.frame(slot.offset())?;
                if frame.header.namespace != NAMESPACE_OF_NAMES {
                    keys.push((frame.header.namespace, Key::from_slice(frame.key()), slot.offset()));
                }
            }
        }
        // In order: each key then finds its place where the one before it is.
        keys.sort_unstable();
        let ordered = Ordered::default();
        for (namespace, key, offset) in keys {
            ordered.put(namespace, &key, offset);
        }
        // Opening is the only one to set it, and does so once.
        let _ = self.ordered.set(Box::new(ordered));
        Ok(())
    }
}

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
