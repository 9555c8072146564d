//! The keys of one namespace in order: a lock-free skip list (`crossbeam-skiplist`) of leaves, each a block of adjacent keys.
//!
//! The list has a node for every block instead of one for every key, and a walk reads adjacent keys from one block. Readers take no
//! lock. A writer locks the leaf of its key; it splits a full leaf and removes an empty one.
//!
//! A map that comes from the index snapshot begins with a leaf for each part of it. Whoever first needs a key of such a part, reader or
//! writer, locks its leaf, reads the keys, and puts leaves with blocks in its place. So before a key changes its part has been read, and what
//! an unread part names are the records that count.
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
use super::block::{Block, Change, KEYS_MAX, Move};
use super::leaf::{Content, Leaf, Writer};
use super::part::{Source, Stopped};
use crate::error::{Error, Result};
use crate::sync::{AtomicU64, Mutex, Ordering};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;
use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_skiplist::SkipList;
use crossbeam_skiplist::base::Entry;

mod unread;

/// Share of a block that is used when it is filled at once: leaves room for more keys.
const FILL: (usize, usize) = (3, 4);
/// Bytes of keys that are entered into a block at once, about.
const BYTES_AT_ONCE: usize = 4096;
/// Leaves that moves go through under one guard, and those that they pass over from one move to the next before they search again.
const STRETCH: usize = 256;
const HOPS_MAX: usize = 8;

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

/// Blocks of keys that are given in order, each with its separator, the first of which is empty.
fn blocks_of(keys: &[(&[u8], u64)]) -> Vec<(Key, Block)> {
    let mut blocks = Vec::new();
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
        let from = last.zip(front.first()).map_or_else(|| Key::new(&[]), |(last, (first, _))| separator(last, first));
        blocks.push((from, Block::of(front.iter().copied())));
        last = front.last().map(|(key, _)| *key);
        rest = back;
    }
    blocks
}

impl Map {
    pub(super) fn new() -> Self {
        Self::with(Content::Keys(Block::default()))
    }

    /// A map with one leaf.
    fn with(first: Content) -> Self {
        let leaves = SkipList::new(epoch::default_collector().clone());
        let map = Self { leaves, begun: AtomicU64::new(0), done: AtomicU64::new(0) };
        map.add(Key::new(&[]), Leaf::new(first), &epoch::pin());
        map
    }

    /// A map of keys that are given in order.
    pub(super) fn of(keys: &[(&[u8], u64)]) -> Self {
        Self::of_contents(blocks_of(keys).into_iter().map(|(from, block)| (from, Content::Keys(block))))
    }

    fn of_contents(mut contents: impl Iterator<Item = (Key, Content)>) -> Self {
        let map = Self::with(contents.next().map_or_else(|| Content::Keys(Block::default()), |(_, first)| first));
        let guard = epoch::pin();
        contents.for_each(|(from, content)| map.add(from, Leaf::new(content), &guard));
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

    /// Calls `change` with the leaf in which `key` belongs, locked against other writers, and its block.
    fn change<'g>(
        &'g self,
        key: &[u8],
        source: &dyn Source,
        guard: &'g Guard,
        change: impl FnOnce(&Writer<'_>, &'g Block, &Entry<'g, 'g, Key, Leaf>),
    ) -> Result<()> {
        let key = Key::new(key);
        loop {
            let seen = self.done.load(Ordering::Acquire);
            // The first leaf always exists.
            let Some(entry) = self.leaves.upper_bound(Bound::Included(&key), guard) else { return Ok(()) };
            let writer = entry.value().lock();
            // A leaf is added or removed only while the leaf whose keys it takes or had is locked: none was since the search.
            if self.done.load(Ordering::Acquire) == seen {
                match writer.content(guard) {
                    Content::Keys(block) => {
                        change(&writer, block, &entry);
                        return Ok(());
                    }
                    Content::Unread(part) => self.unfold(&writer, &entry, *part, source, guard)?,
                }
            }
        }
    }

    pub(super) fn put(&self, key: &[u8], offset: u64, source: &dyn Source) -> Result<()> {
        let guard = &epoch::pin();
        self.change(key, source, guard, |writer, block, entry| {
            let at = match block.find(key) {
                Ok(at) => return block.set(at, offset),
                Err(at) => at,
            };
            let grown = block.with(at, key, offset);
            if !grown.is_over() {
                return writer.replace(Content::Keys(grown), guard);
            }
            // With ascending keys, split so that the old block stays full.
            let rises = at + 1 == grown.len() && entry.next().is_none();
            self.split(writer, &grown, if rises { at } else { grown.len() / 2 }, guard);
        })
    }

    /// Puts a block of at least two keys, cut at `at`, into a leaf and a new one behind it.
    fn split(&self, writer: &Writer<'_>, grown: &Block, at: usize, guard: &Guard) {
        let (left, right) = grown.cut(at);
        self.begun.fetch_add(1, Ordering::Release);
        // First add the new leaf: keys that are in both are read there (see `walk`). Its writers wait until the keys are only there: if
        // they emptied it before, it would be removed, and the keys would be read here again.
        let writers = Arc::new(Mutex::new(()));
        let held = writers.lock();
        let from = separator(left.key(left.len() - 1), right.key(0));
        self.add(from, Leaf::locked_by(Content::Keys(right), writers.clone()), guard);
        self.step();
        writer.replace(Content::Keys(left), guard);
        self.done.fetch_add(1, Ordering::Release);
        drop(held);
    }

    /// Makes changes, which come in the order of their keys, each key once: a block at a time, which is copied once for all of them.
    pub(super) fn change_many(&self, changes: &[Change<'_>], source: &dyn Source) -> Result<()> {
        let mut rest = changes;
        while let Some((first, _)) = rest.first() {
            let guard = &epoch::pin();
            let mut done = 0;
            self.change(first, source, guard, |writer, block, entry| {
                let next = entry.next();
                let mut bytes = 0;
                // At most as many as make two blocks of one, so that both have room.
                let belongs = |(key, _): &&Change<'_>| {
                    bytes += key.len();
                    bytes <= BYTES_AT_ONCE && next.as_ref().is_none_or(|next| *key < next.key().bytes())
                };
                // The first one belongs here, however long it is.
                done = rest.iter().take(KEYS_MAX).take_while(belongs).count().max(1);
                let here = rest.get(..done).unwrap_or_default();
                let Some(grown) = block.changed(here) else { return };
                if !grown.is_over() {
                    return self.shorten(writer, entry, grown, guard);
                }
                let rises = next.is_none() && here.last().is_some_and(|(key, _)| *key == grown.key(grown.len() - 1));
                self.split(writer, &grown, if rises { KEYS_MAX.min(grown.len() - 1) } else { grown.len() / 2 }, guard);
            })?;
            if done == 0 {
                return Ok(());
            }
            rest = rest.get(done..).unwrap_or_default();
        }
        Ok(())
    }

    /// Makes moves, which come in the order of their keys, along the list.
    pub(super) fn move_many(&self, moves: &[Move<'_>], source: &dyn Source) -> Result<()> {
        let mut rest = moves;
        while !rest.is_empty() {
            rest = self.move_along(rest, source)?;
        }
        Ok(())
    }

    /// Makes the first of these moves, and more as far as their leaves are near each other, and returns the others.
    fn move_along<'m, 'k>(&self, moves: &'m [Move<'k>], source: &dyn Source) -> Result<&'m [Move<'k>]> {
        let guard = &epoch::pin();
        let mut rest = moves;
        let seen = self.done.load(Ordering::Acquire);
        let first = |moves: &[Move<'_>]| moves.first().map_or_else(|| Key::new(&[]), |moved| Key::new(moved.key));
        // The first leaf always exists.
        let Some(mut entry) = self.leaves.upper_bound(Bound::Included(&first(rest)), guard) else { return Ok(&[]) };
        for _ in 0..STRETCH {
            let next = entry.next();
            if let Some(next) = &next
                && let Content::Keys(block) = next.value().content(guard)
            {
                block.prefetch();
            }
            let writer = entry.value().lock();
            // As in `change`: a leaf that came or went may have had the key, or have it.
            if self.done.load(Ordering::Acquire) != seen {
                return Ok(rest);
            }
            match writer.content(guard) {
                Content::Keys(block) => {
                    let is_here = |moved: &&Move<'_>| next.as_ref().is_none_or(|next| next.key().is_above(moved.head, moved.key));
                    let (here, others) = rest.split_at(rest.iter().take_while(is_here).count());
                    here.iter().for_each(|&moved| block.move_to(moved));
                    rest = others;
                }
                Content::Unread(part) => {
                    self.unfold(&writer, &entry, *part, source, guard)?;
                    return Ok(rest);
                }
            }
            drop(writer);
            let Some(next) = next.filter(|_| !rest.is_empty()) else { return Ok(rest) };
            let Some(near) = near(next, &first(rest)) else { return Ok(rest) };
            entry = near;
        }
        Ok(rest)
    }

    pub(super) fn remove(&self, key: &[u8], source: &dyn Source) -> Result<()> {
        let guard = &epoch::pin();
        self.change(key, source, guard, |writer, block, entry| {
            if let Ok(at) = block.find(key) {
                self.shorten(writer, entry, block.without(at), guard);
            }
        })
    }

    /// Removes every key that begins with `prefix`, a leaf at a time. The caller keeps other writers away.
    pub(super) fn remove_prefix(&self, prefix: &[u8], source: &dyn Source) -> Result<()> {
        let mut next = Some(Key::new(prefix));
        while let Some(from) = next.take() {
            // For each leaf another one, so that the blocks that are no longer used can be freed meanwhile.
            let guard = &epoch::pin();
            self.change(from.bytes(), source, guard, |writer, block, entry| {
                let start = block.find(from.bytes()).unwrap_or_else(|at| at);
                let end = start + block.part(start, block.len()).take_while(|(key, _)| key.starts_with(prefix)).count();
                if end == block.len() {
                    next = entry.next().map(|next| next.key().clone()).filter(|key| key.bytes().starts_with(prefix));
                }
                if start < end {
                    self.shorten(writer, entry, block.without_part(start, end), guard);
                }
            })?;
        }
        Ok(())
    }

    /// Replaces the block of a leaf by another one, which is not over; an empty leaf goes, unless it is the first.
    fn shorten(&self, writer: &Writer<'_>, entry: &Entry<'_, '_, Key, Leaf>, rest: Block, guard: &Guard) {
        let is_over = rest.is_empty() && !entry.key().bytes().is_empty();
        writer.replace(Content::Keys(rest), guard);
        if is_over {
            self.begun.fetch_add(1, Ordering::Release);
            self.step();
            entry.remove();
            self.step();
            self.done.fetch_add(1, Ordering::Release);
        }
    }

    /// Calls `each` with the keys from `from` on, in order, until it returns `false`.
    ///
    /// # Errors
    ///
    /// When a part cannot be read: with what is left of the walk.
    pub(super) fn walk<F: FnMut(&[u8], u64) -> bool>(
        &self,
        from: Bound<&[u8]>,
        source: &dyn Source,
        mut each: F,
    ) -> Result<(), Stopped<F>> {
        let guard = epoch::pin();
        let (Bound::Included(first) | Bound::Excluded(first)) = from else {
            return self.walk(Bound::Included(&[]), source, each);
        };
        let done = self.done.load(Ordering::Acquire);
        let mut from = (first, from == Bound::Excluded(first));
        let mut next = self.leaves.upper_bound(Bound::Included(&Key::new(first)), &guard);
        while let Some(entry) = next {
            let block = match entry.value().content(&guard) {
                Content::Keys(block) => block,
                Content::Unread(_) => match self.read(&entry, source, &guard) {
                    Ok(()) => {
                        next = Some(entry);
                        continue;
                    }
                    Err(error) => {
                        return Err(stopped(if from.1 { Bound::Excluded(from.0) } else { Bound::Included(from.0) }, each, error));
                    }
                },
            };
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
                return Ok(());
            }
            // If the leaf was split since, its neighbour begins with keys that were passed to `each` already.
            if start < end {
                from = (block.key(end - 1), true);
            }
            next = entry.next();
        }
        Ok(())
    }

    /// Calls `each` with the keys up to `to`, the last one first, until it returns `false`.
    ///
    /// # Errors
    ///
    /// When a part cannot be read: with what is left of the walk.
    pub(super) fn walk_back<F: FnMut(&[u8], u64) -> bool>(
        &self,
        to: Bound<&[u8]>,
        source: &dyn Source,
        mut each: F,
    ) -> Result<(), Stopped<F>> {
        let guard = epoch::pin();
        let mut to = to;
        let search = |to: Bound<&[u8]>| match to {
            Bound::Included(last) => self.leaves.upper_bound(Bound::Included(&Key::new(last)), &guard),
            Bound::Excluded(last) => self.leaves.upper_bound(Bound::Excluded(&Key::new(last)), &guard),
            Bound::Unbounded => self.leaves.back(&guard),
        };
        let mut next = search(to);
        while let Some(entry) = next {
            let block = match entry.value().content(&guard) {
                Content::Keys(block) => block,
                Content::Unread(_) => match self.read(&entry, source, &guard) {
                    Ok(()) => {
                        // The last of its keys are in leaves behind it now.
                        next = search(to);
                        continue;
                    }
                    Err(error) => return Err(stopped(to, each, error)),
                },
            };
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
                return Ok(());
            }
            // The previous leaf has only keys below this separator, even if it held others before a split.
            let entry_key = entry.key();
            next = entry.prev();
            to = Bound::Excluded(entry_key.bytes());
        }
        Ok(())
    }
}

/// The leaf of a key, if it is this one or one of the next ones.
fn near<'a, 'g>(from: Entry<'a, 'g, Key, Leaf>, key: &Key) -> Option<Entry<'a, 'g, Key, Leaf>> {
    let mut entry = from;
    for _ in 0..HOPS_MAX {
        match entry.next().filter(|next| next.key() <= key) {
            Some(next) => entry = next,
            None => return Some(entry),
        }
    }
    None
}

#[cold]
fn stopped<F>(rest: Bound<&[u8]>, each: F, error: Error) -> Stopped<F> {
    Stopped { each, rest: rest.map(<[u8]>::to_vec), error }
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
mod tests;
