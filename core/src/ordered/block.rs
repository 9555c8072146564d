//! Adjacent keys in order, each with its record's offset: the content of one leaf of the ordered index. The keys of a block never
//! change, only offsets do, in place; another set of keys is another block.

use super::key::head_of;
use crate::prefetch::{IS_OF_USE, prefetch};
use crate::sync::{AtomicU64, Ordering};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

/// Keys of a block, at most: few enough to be copied for each new key, many enough for the leaves above them to stay in the
/// processor's cache.
pub(super) const KEYS_MAX: usize = 64;
/// Bytes of keys after which a block of two keys counts as full.
const BYTES_MAX: usize = 4096;

/// One key of a block.
#[derive(Debug)]
struct Entry {
    offset: AtomicU64,
    /// Offset of the key in the block's bytes.
    start: u32,
    len: u32,
}

impl Entry {
    /// The same key, after its bytes have moved from offset `before` to offset `after`.
    fn moved(&self, before: usize, after: usize) -> Self {
        let start = self.start - before as u32 + after as u32;
        Self { offset: AtomicU64::new(self.offset.load(Ordering::Relaxed)), start, len: self.len }
    }
}

/// A key, and its offset from now on; `None`: it goes.
pub(crate) type Change<'k> = (&'k [u8], Option<u64>);

/// A record that was moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move<'k> {
    /// The first eight bytes of its key, as [`head_of`] gives them: the key itself is hardly ever looked at.
    pub(super) head: u64,
    pub(super) key: &'k [u8],
    /// Where it was, and where it is now.
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Keys in order with their offsets.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// The first eight bytes of each key as a number: contiguous, since a search compares all of them at once.
    heads: Box<[u64]>,
    entries: Box<[Entry]>,
    keys: Box<[u8]>,
}

impl Block {
    /// A block of keys that come in order.
    pub(super) fn of<'k>(from: impl Iterator<Item = (&'k [u8], u64)>) -> Self {
        let count = from.size_hint().0;
        let (mut heads, mut entries, mut keys) =
            (Vec::with_capacity(count), Vec::with_capacity(count), Vec::with_capacity(count * 24));
        for (key, offset) in from {
            heads.push(head_of(key));
            entries.push(Entry { offset: AtomicU64::new(offset), start: keys.len() as u32, len: key.len() as u32 });
            keys.extend_from_slice(key);
        }
        Self { heads: heads.into(), entries: entries.into(), keys: keys.into() }
    }

    pub(super) const fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// True when `keys` keys of together `bytes` bytes are more than one block should hold.
    pub(super) const fn is_full(keys: usize, bytes: usize) -> bool {
        keys > KEYS_MAX || (keys > 1 && bytes > BYTES_MAX)
    }

    /// True when the block should be cut in two.
    pub(super) const fn is_over(&self) -> bool {
        Self::is_full(self.len(), self.keys.len())
    }

    fn bytes_of(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        self.keys.get(start..start + entry.len as usize).unwrap_or_default()
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        self.entries.get(at).map_or(&[], |entry| self.bytes_of(entry))
    }

    /// The index of `key`, or the index at which it belongs.
    pub(super) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let places = self.alike(head_of(key));
        let below = places.start;
        let alike = self.entries.get(places).unwrap_or_default();
        match alike.binary_search_by(|entry| self.bytes_of(entry).cmp(key)) {
            Ok(at) => Ok(below + at),
            Err(at) => Err(below + at),
        }
    }

    /// The indices of the keys that begin with `head`.
    fn alike(&self, head: u64) -> Range<usize> {
        // Compare all heads rather than a few in sequence (binary search): the waits for memory overlap, and no branch is mispredicted.
        let below = self.heads.iter().filter(|other| **other < head).count();
        let alike = self.heads.get(below..).unwrap_or_default().iter().take_while(|other| **other == head).count();
        below..below + alike
    }

    /// Changes the offset of the key at index `at`.
    pub(super) fn set(&self, at: usize, offset: u64) {
        if let Some(entry) = self.entries.get(at) {
            entry.offset.store(offset, Ordering::Release);
        }
    }

    /// Moves a record, if its key is here and it is still at its old place. No key is compared: at one place there is one record. Who changes an
    /// offset holds the lock of the leaf, so none changes between the two steps, and the waits for the entries of several moves overlap.
    pub(super) fn move_to(&self, Move { head, from, to, .. }: Move<'_>) {
        for entry in self.entries.get(self.alike(head)).unwrap_or_default() {
            // Another offset is that of another key, of a later record, or of a later move.
            if entry.offset.load(Ordering::Relaxed) == from {
                entry.offset.store(to, Ordering::Release);
            }
        }
    }

    /// Prefetches what [`Self::move_to`] reads, for many moves.
    #[inline]
    pub(super) fn prefetch(&self) {
        if IS_OF_USE {
            self.heads.chunks(32).for_each(prefetch);
            self.entries.chunks(16).for_each(prefetch);
        }
    }

    /// The keys `from..to` with their current offsets.
    pub(super) fn part(&self, from: usize, to: usize) -> impl DoubleEndedIterator<Item = (&[u8], u64)> {
        let entries = self.entries.get(from..to).unwrap_or_default();
        entries.iter().map(|entry| (self.bytes_of(entry), entry.offset.load(Ordering::Acquire)))
    }

    /// This block with one more key, at the index `at` where it belongs.
    pub(super) fn with(&self, at: usize, key: &[u8], offset: u64) -> Self {
        let at = at.min(self.len());
        let (front_heads, back_heads) = self.heads.split_at(at);
        let (front, back) = self.entries.split_at(at);
        let start = back.first().map_or(self.keys.len(), |entry| entry.start as usize);
        let (front_keys, back_keys) = self.keys.split_at(start.min(self.keys.len()));
        let mut entries = Vec::with_capacity(self.len() + 1);
        entries.extend(front.iter().map(|entry| entry.moved(0, 0)));
        entries.push(Entry { offset: AtomicU64::new(offset), start: start as u32, len: key.len() as u32 });
        entries.extend(back.iter().map(|entry| entry.moved(0, key.len())));
        Self {
            heads: [front_heads, &[head_of(key)], back_heads].concat().into(),
            entries: entries.into(),
            keys: [front_keys, key, back_keys].concat().into(),
        }
    }

    /// This block with changes, which come in the order of their keys: a key with an offset is there with it, one without is gone. `None` if no key
    /// comes or goes: then their offsets have been changed in place.
    pub(super) fn changed(&self, changes: &[Change<'_>]) -> Option<Self> {
        // Of one key its place is enough.
        if let [(key, offset)] = changes {
            return match (self.find(key), *offset) {
                (Ok(at), Some(offset)) => {
                    self.set(at, offset);
                    None
                }
                (Ok(at), None) => Some(self.without(at)),
                (Err(at), Some(offset)) => Some(self.with(at, key, offset)),
                (Err(_), None) => None,
            };
        }
        let mut merged: Vec<(&[u8], u64)> = Vec::with_capacity(self.len() + changes.len());
        let (mut next, mut is_another) = (0, false);
        for &(key, offset) in changes {
            let found = self.find(key);
            let (Ok(at) | Err(at)) = found;
            merged.extend(self.part(next, at));
            next = at + usize::from(found.is_ok());
            is_another |= found.is_ok() != offset.is_some();
            merged.extend(offset.map(|offset| (key, offset)));
        }
        if is_another {
            merged.extend(self.part(next, self.len()));
            return Some(Self::of(merged.into_iter()));
        }
        for &(key, offset) in changes {
            if let (Ok(at), Some(offset)) = (self.find(key), offset) {
                self.set(at, offset);
            }
        }
        None
    }

    /// This block without the key at `at`.
    pub(super) fn without(&self, at: usize) -> Self {
        let all = self.entries.iter().enumerate().filter(|(place, _)| *place != at);
        Self::of(all.map(|(_, entry)| (self.bytes_of(entry), entry.offset.load(Ordering::Relaxed))))
    }

    /// This block without the keys `from..to`.
    pub(super) fn without_part(&self, from: usize, to: usize) -> Self {
        Self::of(self.part(0, from).chain(self.part(to, self.len())))
    }

    /// The keys before `at`, and the others.
    pub(super) fn cut(&self, at: usize) -> (Self, Self) {
        (Self::of(self.part(0, at)), Self::of(self.part(at, self.len())))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;

    fn keys(block: &Block) -> Vec<(Vec<u8>, u64)> {
        block.part(0, block.len()).map(|(key, offset)| (key.to_vec(), offset)).collect()
    }

    #[test]
    fn a_block_is_full_with_65_keys_or_with_two_of_more_than_4_kib() {
        let full = [(65, 65), (65, 0), (2, 4097), (64, 4097)];
        assert!(full.iter().all(|&(keys, bytes)| Block::is_full(keys, bytes)));
        let rest = [(64, 4096), (2, 4096), (1, 4097), (1, 1 << 20), (0, 0)];
        assert!(rest.iter().all(|&(keys, bytes)| !Block::is_full(keys, bytes)));
    }

    #[test]
    fn a_block_takes_many_changes_at_once() {
        let block = Block::of([(&b"b"[..], 1), (b"d", 2), (b"f", 3)].into_iter());
        let changed = block.changed(&[(b"a", Some(4)), (b"b", Some(5)), (b"c", None), (b"d", None), (b"g", Some(6))]).unwrap();
        let expected = [(&b"a"[..], 4), (b"b", 5), (b"f", 3), (b"g", 6)].map(|(key, offset)| (key.to_vec(), offset));
        assert_eq!(keys(&changed), expected);
        // Only offsets, and keys that are not there: in place.
        assert!(block.changed(&[(b"a", None), (b"d", Some(7)), (b"x", None)]).is_none());
        assert_eq!(keys(&block).iter().map(|(_, offset)| *offset).collect::<Vec<_>>(), [1, 7, 3]);
        assert!(block.changed(&[(b"b", None), (b"d", None), (b"f", None)]).unwrap().is_empty());
        assert_eq!(keys(&Block::default().changed(&[(b"k", Some(8))]).unwrap()), [(b"k".to_vec(), 8)]);
    }

    #[test]
    fn keys_that_begin_alike_are_told_apart() {
        let mut block = Block::default();
        let all: [&[u8]; 8] = [b"", b"\0", b"12345678", b"12345678\0", b"123456789", b"1234567", b"\xff", b"\0\0"];
        for (offset, key) in all.iter().enumerate() {
            let at = block.find(key).unwrap_err();
            block = block.with(at, key, offset as u64);
        }
        let mut sorted: Vec<_> = all.iter().zip(0..).map(|(key, offset)| (key.to_vec(), offset)).collect();
        sorted.sort();
        assert_eq!(keys(&block), sorted);
        for (key, offset) in sorted {
            let at = block.find(&key).unwrap();
            assert_eq!(block.part(at, at + 1).next(), Some((&key[..], offset)));
            assert_eq!(keys(&block.without(at)).len(), all.len() - 1);
            assert_eq!(block.without(at).find(&key), Err(at));
        }
        let (front, back) = block.cut(3);
        assert_eq!([keys(&front), keys(&back)].concat(), keys(&block));
    }
}
