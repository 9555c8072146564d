//! Maps and sets whose entries lie in one vector, in key order.
//!
//! The engine's tables by extent and by log position are mostly filled in order and read as a whole. Visitors of a web page download
//! this code: with `BTreeMap` and `BTreeSet` instead of [`Map`] and [`Set`] the page's module grows from 120,281 to 132,397 bytes as
//! compressed by brotli, from 380,945 to 417,699 uncompressed (`npm run build` in `web/npm`).

use crate::few::Few;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hasher};

/// Sorts numbers. Large lists are converted to numbers before they are sorted, since a sort of another type costs some KB of code.
#[cfg(feature = "std")]
#[inline(never)]
pub(crate) fn sort(numbers: &mut [u64]) {
    numbers.sort_unstable();
}

/// Sorts items by a number of each; items with equal numbers are in no particular order.
#[cfg(feature = "std")]
pub(crate) fn sort_by_key<T>(items: &mut [T], key: fn(&T) -> u64) {
    items.sort_by_key(key);
}

/// A binary radix sort: zeros to the front, ones to the back, by the highest bit in which any two differ. With `sort_unstable` instead the
/// page's module is 4,334 bytes larger as compressed by brotli (`npm run build` in `web/npm`).
#[cfg(any(test, not(feature = "std")))]
fn sort_by_bits<T>(items: &mut [T], key: fn(&T) -> u64) {
    let first = items.first().map(key).unwrap_or_default();
    let differing = items.iter().fold(0, |differing, item| differing | (key(item) ^ first));
    let Some(bit) = differing.checked_ilog2() else { return };
    let mut zeros = 0;
    for at in 0..items.len() {
        if items.get(at).is_some_and(|item| key(item) >> bit & 1 == 0) {
            items.swap(zeros, at);
            zeros += 1;
        }
    }
    let (low, high) = items.split_at_mut(zeros);
    sort_by_bits(low, key);
    sort_by_bits(high, key);
}

#[cfg(not(feature = "std"))]
pub(crate) fn sort(numbers: &mut [u64]) {
    sort_by_bits(numbers, |number| *number);
}

#[cfg(not(feature = "std"))]
pub(crate) fn sort_by_key<T>(items: &mut [T], key: fn(&T) -> u64) {
    sort_by_bits(items, key);
}

/// A set of hashes of keys.
pub(crate) type Hashes = hashbrown::HashSet<u64, AreHashes>;

/// A set of hashes of keys. The first `N` of them stand where the set does, and are searched one by one.
#[derive(Debug, Default)]
pub(crate) struct FewHashes<const N: usize> {
    few: Few<u64, N>,
    /// All of them, once there are more than `N`.
    many: Hashes,
}

impl<const N: usize> FewHashes<N> {
    pub(crate) fn insert(&mut self, hash: u64) {
        if cfg!(feature = "std") && self.many.is_empty() {
            if self.few.contains(&hash) {
                return;
            }
            if self.few.len() < N {
                return self.few.push(hash);
            }
            self.many.extend(self.few.drain(..));
        }
        self.many.insert(hash);
    }

    pub(crate) fn contains(&self, hash: u64) -> bool {
        self.few.contains(&hash) || self.many.contains(&hash)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.few.is_empty() && self.many.is_empty()
    }

    /// The memory that they take, in bytes: of a large set a byte for each place beside the hash itself.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.few.len() * size_of::<u64>() + self.many.capacity() * (size_of::<u64>() + 1)
    }
}

/// Hasher for tables whose keys are hashes already: returns them unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AreHashes(u64);

impl Hasher for AreHashes {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl BuildHasher for AreHashes {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

/// Values by key.
#[derive(Clone, Debug)]
pub(crate) struct Map<K, V>(Vec<(K, V)>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Copy + Ord, V> Map<K, V> {
    /// Index of the key, or the index at which it belongs.
    fn place(&self, key: K) -> Result<usize, usize> {
        match self.0.last() {
            Some((last, _)) if *last < key => Err(self.0.len()),
            _ => self.0.binary_search_by_key(&key, |(other, _)| *other),
        }
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.0.get(self.place(key).ok()?).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let place = self.place(key).ok()?;
        self.0.get_mut(place).map(|(_, value)| value)
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.place(key).is_ok()
    }

    /// Replaces the value of a key. A new key moves all larger ones: for many keys in no order use [`Map::collect`].
    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.place(key) {
            Ok(place) => {
                if let Some((_, old)) = self.0.get_mut(place) {
                    *old = value;
                }
            }
            Err(place) => self.0.insert(place, (key, value)),
        }
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        Some(self.0.remove(self.place(key).ok()?).1)
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(K) -> bool) {
        self.0.retain(|(key, _)| keep(*key));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> + Clone {
        self.0.iter().map(|(key, value)| (*key, value))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.0.iter().map(|(_, value)| value)
    }
}

impl<V: Copy> Map<u64, V> {
    /// A map of entries in any order; of several with the same key the last one counts.
    pub(crate) fn collect(entries: impl Iterator<Item = (u64, V)> + Clone) -> Self {
        let Some((_, any)) = entries.clone().next() else { return Self::default() };
        let keys = Set::collect(entries.clone().map(|(key, _)| key));
        let mut map = Self(keys.0.into_iter().map(|key| (key, any)).collect());
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// A set of numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    pub(crate) fn contains(&self, number: u64) -> bool {
        self.0.binary_search(&number).is_ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn last(&self) -> Option<u64> {
        self.0.last().copied()
    }

    /// A set of numbers given in any order.
    pub(crate) fn collect(numbers: impl Iterator<Item = u64>) -> Self {
        let mut numbers: Vec<u64> = numbers.collect();
        sort(&mut numbers);
        numbers.dedup();
        Self(numbers)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};

    /// Below, at and above the number of those that stand in place.
    #[test]
    fn a_set_of_a_few_hashes_is_what_a_b_tree_would_be() {
        let (mut hashes, mut tree) = (FewHashes::<4>::default(), BTreeSet::new());
        for hash in [7, 3, 7, 9, 0, 3, 11, 11, 2, u64::MAX, 7] {
            assert_eq!(hashes.is_empty(), tree.is_empty());
            hashes.insert(hash);
            tree.insert(hash);
            assert!((0..20).chain([u64::MAX]).all(|hash| hashes.contains(hash) == tree.contains(&hash)), "{tree:?}");
            assert!(hashes.memory_bytes() >= 8 * tree.len());
        }
    }

    #[test]
    fn a_map_is_what_a_b_tree_would_be() {
        let mut random = 1_u64;
        let mut number = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % below
        };
        let entries: Vec<(u64, u64)> = (0..500).map(|value| (number(200), value)).collect();
        let mut map = Map::collect(entries.iter().copied());
        let mut tree: BTreeMap<u64, u64> = entries.into_iter().collect();
        for value in 1000..3000 {
            let key = number(300);
            if value % 3 == 0 {
                assert_eq!(map.remove(key), tree.remove(&key));
            } else {
                map.insert(key, value);
                tree.insert(key, value);
            }
            let key = number(300);
            assert_eq!((map.get(key), map.contains(key), map.len()), (tree.get(&key), tree.contains_key(&key), tree.len()));
        }
        assert_eq!(map.get_mut(7).copied(), tree.get(&7).copied());
        map.retain(|key| key % 7 != 0);
        tree.retain(|key, _| key % 7 != 0);
        assert!(map.iter().eq(tree.iter().map(|(key, value)| (*key, value))));
    }

    #[test]
    fn both_sorts_agree() {
        for len in [0, 1, 2, 100, 3000] {
            for mask in [0, 0xff, u64::MAX] {
                let number = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) & mask;
                let mut numbers: Vec<u64> = (0..len).map(number).collect();
                let mut expected = numbers.clone();
                sort_by_bits(&mut numbers, |number| *number);
                expected.sort_unstable();
                assert_eq!(numbers, expected, "{len} numbers of {mask:x}");
            }
        }
    }

    #[test]
    fn a_set_is_in_order_and_holds_each_number_once() {
        let set = Set::collect([5, 3, 9, 3, u64::MAX, 0, 5].into_iter());
        assert!(set.iter().eq([0, 3, 5, 9, u64::MAX]));
        assert_eq!((set.contains(3), set.contains(4), set.last(), set.len()), (true, false, Some(u64::MAX), 5));
        assert!(Set::default().is_empty());
    }
}
