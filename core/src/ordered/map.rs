//! The keys of one namespace in order: a lock-free skip list (`crossbeam-skiplist`) of leaves, each a block of adjacent keys.
//!
//! The list has a node for every block instead of one for every key, and a walk reads adjacent keys from one block. Readers take no
//! lock. A writer locks the leaf of its key; it splits a full leaf and removes an empty one.
//!
//! With 1,000,000 keys of 16 bytes that are put in no order (`figures.rs` measures them, in processor time):
//!
//! | | put | walk, a key | ten keys from a place | bytes a key |
//! |---|---|---|---|---|
//! | this map | 1314 ns | 11 ns | 1054 ns | 45 |
//! | `crossbeam_skiplist::SkipMap`, a node a key | 1576 ns | 171 ns | 3511 ns | 87 |
//! | `BTreeMap` under an `RwLock` | 666 ns | 22 ns | 1065 ns | 71 |
//!
//! A `BTreeMap` would make every writer wait for all others and for every walk.

use super::Key;
use super::block::Block;
use super::leaf::{Leaf, Writer};
use crate::sync::{AtomicU64, Mutex, Ordering};
use alloc::sync::Arc;
use core::ops::Bound;
use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_skiplist::SkipList;
use crossbeam_skiplist::base::Entry;

/// Share of a block that is used when it is filled at once: leaves room for more keys.
const FILL: (usize, usize) = (3, 4);

pub(super) struct Map {
    /// Leaves by a separator key: at most the first key of the leaf, and above the last key of the previous leaf. The first leaf has the
    /// empty key, and always exists.
    leaves: SkipList<Key, Leaf>,
    /// Counts additions and removals of leaves that have begun.
    begun: AtomicU64,
    /// Counts additions and removals of leaves that are done: a writer that finds it unchanged under the lock of a leaf has the right one.
    done: AtomicU64,
}

/// The shortest key above `left` that is not above `right`.
fn separator(left: &[u8], right: &[u8]) -> Key {
    let same = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    Key::new(right.get(..=same).unwrap_or(right))
}

impl Map {
    pub(super) fn new() -> Self {
        let leaves = SkipList::new(epoch::default_collector().clone());
        let map = Self { leaves, begun: AtomicU64::new(0), done: AtomicU64::new(0) };
        map.add(Key::new(&[]), Leaf::new(Block::default()), &epoch::pin());
        map
    }

    /// A map of keys that are given in order.
    pub(super) fn of(keys: &[(&[u8], u64)]) -> Self {
        let map = Self::new();
        let guard = epoch::pin();
        let mut rest = keys;
        let mut last: Option<&[u8]> = None;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |keys: usize, bytes: usize| !Block::is_full(keys * FILL.1 / FILL.0, bytes * FILL.1 / FILL.0);
            let count = rest.iter().enumerate().take_while(|(at, (key, _))| {
                bytes += key.len();
                fits(at + 1, bytes)
            });
            let (front, back) = rest.split_at(count.count().clamp(1, rest.len()));
            let block = Block::of(front.iter().copied());
            match (last, front.first()) {
                (Some(last), Some((first, _))) => map.add(separator(last, first), Leaf::new(block), &guard),
                _ => map.change(&[], &guard, |writer, _| writer.replace(block, &guard)),
            }
            last = front.last().map(|(key, _)| *key);
            rest = back;
        }
        map
    }

    /// A switch point for the model checker's scheduler, which does not see the steps of the skip list.
    fn step(&self) {
        if cfg!(shuttle) {
            self.begun.load(Ordering::Relaxed);
        }
    }

    fn add(&self, from: Key, leaf: Leaf, guard: &Guard) {
        self.leaves.insert(from, leaf, guard).release(guard);
    }

    /// Calls `change` with the leaf in which `key` belongs, locked against other writers.
    fn change<'g>(&'g self, key: &[u8], guard: &'g Guard, change: impl FnOnce(&Writer<'_>, &Entry<'g, 'g, Key, Leaf>)) {
        let key = Key::new(key);
        loop {
            let seen = self.done.load(Ordering::Acquire);
            // The first leaf always exists.
            let Some(entry) = self.leaves.upper_bound(Bound::Included(&key), guard) else { return };
            let writer = entry.value().lock();
            // A leaf is added or removed only while the leaf whose keys it takes or had is locked: none was since the search.
            if self.done.load(Ordering::Acquire) == seen {
                return change(&writer, &entry);
            }
        }
    }

    pub(super) fn put(&self, key: &[u8], offset: u64) {
        let guard = &epoch::pin();
        self.change(key, guard, |writer, entry| {
            let block = writer.block(guard);
            let at = match block.find(key) {
                Ok(at) => return block.set(at, offset),
                Err(at) => at,
            };
            let grown = block.with(at, key, offset);
            if !grown.is_over() {
                return writer.replace(grown, guard);
            }
            // With ascending keys, split so that the old block stays full.
            let rises = at + 1 == grown.len() && entry.next().is_none();
            let (left, right) = grown.cut(if rises { at } else { grown.len() / 2 });
            self.begun.fetch_add(1, Ordering::Release);
            // First add the new leaf: keys that are in both are read there (see `walk`). Its writers wait until the keys are only there: if
            // they emptied it before, it would be removed, and the keys would be read here again.
            let writers = Arc::new(Mutex::new(()));
            let held = writers.lock();
            let from = separator(left.key(left.len() - 1), right.key(0));
            self.add(from, Leaf::locked_by(right, writers.clone()), guard);
            self.step();
            writer.replace(left, guard);
            self.done.fetch_add(1, Ordering::Release);
            drop(held);
        });
    }

    pub(super) fn remove(&self, key: &[u8]) {
        let guard = &epoch::pin();
        self.change(key, guard, |writer, entry| {
            let block = writer.block(guard);
            if let Ok(at) = block.find(key) {
                self.shorten(writer, entry, block.without(at), guard);
            }
        });
    }

    /// Removes every key that begins with `prefix`, a leaf at a time. The caller keeps other writers away.
    pub(super) fn remove_prefix(&self, prefix: &[u8]) {
        let mut next = Some(Key::new(prefix));
        while let Some(from) = next.take() {
            // For each leaf another one, so that the blocks that are no longer used can be freed meanwhile.
            let guard = &epoch::pin();
            self.change(from.bytes(), guard, |writer, entry| {
                let block = writer.block(guard);
                let start = block.find(from.bytes()).unwrap_or_else(|at| at);
                let end = start + block.part(start, block.len()).take_while(|(key, _)| key.starts_with(prefix)).count();
                if end == block.len() {
                    next = entry.next().map(|next| next.key().clone()).filter(|key| key.bytes().starts_with(prefix));
                }
                if start < end {
                    self.shorten(writer, entry, block.without_part(start, end), guard);
                }
            });
        }
    }

    /// Replaces the block of a leaf by what is left of it; an empty leaf goes, unless it is the first.
    fn shorten(&self, writer: &Writer<'_>, entry: &Entry<'_, '_, Key, Leaf>, rest: Block, guard: &Guard) {
        let is_over = rest.is_empty() && !entry.key().bytes().is_empty();
        writer.replace(rest, guard);
        if is_over {
            self.begun.fetch_add(1, Ordering::Release);
            self.step();
            entry.remove();
            self.step();
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    /// Calls `each` with the keys from `from` on, in order, until it returns `false`.
    pub(super) fn walk(&self, from: Bound<&[u8]>, mut each: impl FnMut(&[u8], u64) -> bool) {
        let guard = epoch::pin();
        let (Bound::Included(first) | Bound::Excluded(first)) = from else {
            return self.walk(Bound::Included(&[]), each);
        };
        let done = self.done.load(Ordering::Acquire);
        let mut from = (first, from == Bound::Excluded(first));
        let mut next = self.leaves.upper_bound(Bound::Included(&Key::new(first)), &guard);
        while let Some(entry) = next {
            let block = entry.value().block(&guard);
            self.step();
            // Read the block first, then its neighbour: during a split, the neighbour has the newest state of the keys after the split, and
            // the block counts only up to there. Most walks meet no split and skip this.
            let neighbour = if self.begun.load(Ordering::Acquire) == done { None } else { entry.next() };
            let end = neighbour.map_or(block.len(), |next| block.find(next.key().bytes()).unwrap_or_else(|at| at));
            let start = match (block.find(from.0), from.1) {
                (Ok(at), true) => at + 1,
                (Ok(at) | Err(at), _) => at,
            };
            if !block.part(start, end).all(|(key, offset)| each(key, offset)) {
                return;
            }
            // If the leaf was split since, its neighbour begins with keys that were passed to `each` already.
            if start < end {
                from = (block.key(end - 1), true);
            }
            next = entry.next();
        }
    }

    /// Calls `each` with the keys up to `to`, the last one first, until it returns `false`.
    pub(super) fn walk_back(&self, to: Bound<&[u8]>, mut each: impl FnMut(&[u8], u64) -> bool) {
        let guard = epoch::pin();
        let mut to = to;
        let mut next = match to {
            Bound::Included(last) => self.leaves.upper_bound(Bound::Included(&Key::new(last)), &guard),
            Bound::Excluded(last) => self.leaves.upper_bound(Bound::Excluded(&Key::new(last)), &guard),
            Bound::Unbounded => self.leaves.back(&guard),
        };
        while let Some(entry) = next {
            let block = entry.value().block(&guard);
            self.step();
            // Read the block first, then its neighbour: if the leaf was split before the block was read, the neighbour has the keys after
            // the split, and is walked first.
            let neighbour = entry.next();
            if neighbour.as_ref().is_some_and(|neighbour| is_in_front(neighbour.key().bytes(), to)) {
                next = neighbour;
                continue;
            }
            let end = match to {
                Bound::Included(last) => block.find(last).map_or_else(|at| at, |at| at + 1),
                Bound::Excluded(last) => block.find(last).unwrap_or_else(|at| at),
                Bound::Unbounded => block.len(),
            };
            if !block.part(0, end).rev().all(|(key, offset)| each(key, offset)) {
                return;
            }
            // The previous leaf has only keys below this separator, even if it held others before a split.
            let entry_key = entry.key();
            next = entry.prev();
            to = Bound::Excluded(entry_key.bytes());
        }
    }
}

/// True when keys from `first` on may be below the bound.
fn is_in_front(first: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Included(last) => first <= last,
        Bound::Excluded(last) => first < last,
        Bound::Unbounded => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    fn listed(map: &Map, from: Bound<&[u8]>) -> Vec<(Vec<u8>, u64)> {
        let mut seen = Vec::new();
        map.walk(from, |key, offset| {
            seen.push((key.to_vec(), offset));
            true
        });
        seen
    }

    fn listed_back(map: &Map, to: Bound<&[u8]>) -> Vec<(Vec<u8>, u64)> {
        let mut seen = Vec::new();
        map.walk_back(to, |key, offset| {
            seen.push((key.to_vec(), offset));
            true
        });
        seen.reverse();
        seen
    }

    /// Keys of many lengths, some of them alike for longer than a head.
    fn key(number: u64) -> Vec<u8> {
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut key: Vec<u8> = hash.to_be_bytes().into_iter().take((hash % 9) as usize).collect();
        key.extend(alloc::format!("shared prefix {number}").bytes().take((hash >> 8) as usize % 40));
        key
    }

    #[test]
    fn a_map_is_what_a_b_tree_is() {
        let map = Map::new();
        let mut model = BTreeMap::new();
        let rounds = if cfg!(miri) { 400 } else { 20_000 };
        for round in 0..rounds {
            let key = key(round * 7919 % 1_000);
            // More and more removals: leaves are split, then become empty and are removed.
            if round * 7 % rounds < round / 2 {
                model.remove(&key);
                map.remove(&key);
            } else {
                model.insert(key.clone(), round);
                map.put(&key, round);
            }
        }
        let all: Vec<_> = model.clone().into_iter().collect();
        assert_eq!(listed(&map, Bound::Unbounded), all);
        assert_eq!(listed_back(&map, Bound::Unbounded), all);
        for number in 0..if cfg!(miri) { 20 } else { 1_000 } {
            let key = key(number);
            for from in [Bound::Included(&key[..]), Bound::Excluded(&key[..])] {
                let expected: Vec<_> =
                    model.range::<[u8], _>((from, Bound::Unbounded)).map(|(key, at)| (key.clone(), *at)).collect();
                assert_eq!(listed(&map, from), expected, "from {from:?}");
                let to = from;
                let expected: Vec<_> =
                    model.range::<[u8], _>((Bound::Unbounded, to)).map(|(key, at)| (key.clone(), *at)).collect();
                assert_eq!(listed_back(&map, to), expected, "to {to:?}");
            }
        }
        let keys: Vec<(&[u8], u64)> = all.iter().map(|(key, offset)| (&key[..], *offset)).collect();
        assert_eq!(listed(&Map::of(&keys), Bound::Unbounded), all);
        for (key, _) in &all {
            map.remove(key);
        }
        assert_eq!((listed(&map, Bound::Unbounded), map.leaves.len()), (Vec::new(), 1));
    }

    #[test]
    fn a_prefix_goes_with_all_its_keys_and_no_others() {
        for prefix in [&b""[..], b"s", b"shared prefix 1", b"\xff", b"shared prefix 999", b"nobody's", b"shared prefix"] {
            let map = Map::new();
            let mut model = BTreeMap::new();
            for number in 0..if cfg!(miri) { 100 } else { 2_000 } {
                for key in [key(number), [&[0xff; 3][..], &number.to_be_bytes()].concat()] {
                    map.put(&key, number);
                    model.insert(key, number);
                }
            }
            map.remove_prefix(prefix);
            model.retain(|key, _| !key.starts_with(prefix));
            let rest: Vec<_> = model.into_iter().collect();
            assert_eq!(listed(&map, Bound::Unbounded), rest, "{prefix:?}");
            assert_eq!(listed_back(&map, Bound::Unbounded), rest, "{prefix:?}");
            assert!(!prefix.is_empty() || map.leaves.len() == 1);
            map.put(b"shared prefix 1 again", 7);
            assert_eq!(listed(&map, Bound::Unbounded).len(), rest.len() + 1);
        }
    }

    #[test]
    fn rising_keys_leave_full_blocks_and_long_keys_few_in_each() {
        let map = Map::new();
        for number in 0..1_000_u64 {
            map.put(&number.to_be_bytes(), number);
        }
        assert_eq!(map.leaves.len(), 1_000_usize.div_ceil(64));
        let long = Map::new();
        for number in 0..20_u64 {
            long.put(&[&number.to_be_bytes()[..], &[7; 3_000]].concat(), number);
        }
        assert_eq!((long.leaves.len(), listed(&long, Bound::Unbounded).len()), (20, 20));
    }

    /// Blocks that are filled at once have room for a third more.
    #[test]
    fn a_map_of_given_keys_has_blocks_of_three_quarters() {
        let leaves = |keys: Vec<Vec<u8>>| {
            let pairs: Vec<(&[u8], u64)> = keys.iter().zip(0..).map(|(key, offset)| (&key[..], offset)).collect();
            let map = Map::of(&pairs);
            assert_eq!(listed(&map, Bound::Unbounded).len(), keys.len());
            map.leaves.len()
        };
        assert_eq!(leaves((0..1_000_u64).map(|number| number.to_be_bytes().to_vec()).collect()), 1_000_usize.div_ceil(48));
        let long = |number: u64| [&number.to_be_bytes()[..], &[7; 1_000]].concat();
        assert_eq!(leaves((0..20).map(long).collect()), 20_usize.div_ceil(3));
        let longest = |number: u64| [&number.to_be_bytes()[..], &[7; 5_000]].concat();
        assert_eq!(leaves((0..20).map(longest).collect()), 20);
    }

    /// Every walk sees keys that exist throughout it exactly once and in order, whatever other threads do to adjacent keys.
    #[test]
    fn walks_miss_nothing_while_leaves_are_cut_and_taken_away() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let map = Map::new();
        let (keys, rounds) = if cfg!(miri) { (300_u64, 2) } else { (3_000, 200) };
        // Only in the first half: the leaves of the second half become empty again and again.
        let stay = || (0..keys / 2).step_by(10);
        for number in stay() {
            map.put(&number.to_be_bytes(), number);
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 1..3 {
                let (map, done) = (&map, &done);
                scope.spawn(move || {
                    for _ in 0..rounds {
                        for number in (writer..keys).step_by(10) {
                            map.put(&number.to_be_bytes(), number);
                        }
                        for number in (writer..keys).step_by(10) {
                            map.remove(&number.to_be_bytes());
                        }
                    }
                    done.store(true, Ordering::Relaxed);
                });
            }
            while !done.load(Ordering::Relaxed) {
                for seen in [listed(&map, Bound::Unbounded), listed_back(&map, Bound::Unbounded)] {
                    assert!(seen.is_sorted_by(|a, b| a.0 < b.0));
                    let stayed: Vec<_> = seen.iter().map(|(_, number)| *number).filter(|number| number % 10 == 0).collect();
                    assert_eq!(stayed, stay().collect::<Vec<_>>());
                }
            }
        });
    }
    /// Each new key is the first of its leaf, and for long the first of all.
    #[test]
    fn keys_that_come_from_the_last_to_the_first_are_all_in_their_places() {
        let (map, rising) = (Map::new(), Map::new());
        let keys: Vec<(Vec<u8>, u64)> = (0..3_000_u64).map(|number| (number.to_be_bytes().to_vec(), number)).collect();
        for (key, offset) in keys.iter().rev() {
            map.put(key, *offset);
        }
        for (key, offset) in &keys {
            rising.put(key, *offset);
        }
        for map in [&map, &rising] {
            assert!(listed(map, Bound::Unbounded) == keys && listed_back(map, Bound::Unbounded) == keys);
        }
        let leaves = |map: &Map| map.leaves.iter(&epoch::pin()).count();
        // Those that rise leave full leaves, the others halves.
        assert!(leaves(&map) < leaves(&rising) * 2 + 2, "{} leaves, {} of rising keys", leaves(&map), leaves(&rising));
    }

    #[test]
    fn a_walk_from_an_end_stops_at_its_first_key() {
        let map = Map::new();
        for number in [3_u8, 5, 7] {
            map.put(&[number], number.into());
        }
        let offsets = |seen: Vec<(Vec<u8>, u64)>| seen.into_iter().map(|(_, offset)| offset).collect::<Vec<_>>();
        for (bound, forward, back) in [
            (Bound::Included(&[5][..]), &[5_u64, 7][..], &[3_u64, 5][..]),
            (Bound::Excluded(&[5]), &[7], &[3]),
            (Bound::Included(&[4]), &[5, 7], &[3]),
            (Bound::Excluded(&[8]), &[], &[3, 5, 7]),
            (Bound::Included(&[2]), &[3, 5, 7], &[]),
        ] {
            assert_eq!((offsets(listed(&map, bound)), offsets(listed_back(&map, bound))), (forward.to_vec(), back.to_vec()));
        }
    }
}
