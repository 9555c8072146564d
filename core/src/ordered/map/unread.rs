//! What a map does with parts of the index snapshot that nobody has read yet, and how it becomes such parts.

use super::{Map, blocks_of, separator};
use crate::error::{Error, Result};
use crate::ordered::Key;
use crate::ordered::leaf::{Content, Leaf, Writer};
use crate::ordered::part::{PART_RECORDS, Part, Piece, Source};
use crate::sync::Ordering;
use alloc::vec::Vec;
use core::ops::Bound;
use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_skiplist::base::Entry;

/// A piece of a map.
struct Found {
    separator: Key,
    piece: Piece,
    /// Where the next one begins; `None` if there is none.
    behind: Option<Bound<Vec<u8>>>,
}

impl Map {
    /// A map of parts of the index snapshot, each with its separator. These rise, and the first one is empty.
    pub(in crate::ordered) fn of_parts(parts: impl Iterator<Item = (Key, Part)>) -> Self {
        Self::of_contents(parts.map(|(from, part)| (from, Content::Unread(part))))
    }

    /// Reads the part that a leaf stands for, unless another thread has done so meanwhile.
    #[cold]
    pub(super) fn read(&self, entry: &Entry<'_, '_, Key, Leaf>, source: &dyn Source, guard: &Guard) -> Result<()> {
        let writer = entry.value().lock();
        match writer.content(guard) {
            Content::Unread(part) => self.unfold(&writer, entry, *part, source, guard),
            Content::Keys(_) => Ok(()),
        }
    }

    /// Puts leaves with blocks in the place of a leaf with a part. A failure changes nothing.
    pub(super) fn unfold(
        &self,
        writer: &Writer<'_>,
        entry: &Entry<'_, '_, Key, Leaf>,
        part: Part,
        source: &dyn Source,
        guard: &Guard,
    ) -> Result<()> {
        let keys = source.keys(part)?;
        let is_below_next = |last: &Key| entry.next().is_none_or(|next| last < next.key());
        let is_right = keys.len() == part.records as usize
            && keys.is_sorted_by(|(one, _), (other, _)| one < other)
            && keys.first().is_some_and(|(first, _)| first >= entry.key())
            && keys.last().is_some_and(|(last, _)| is_below_next(last));
        if !is_right {
            return Err(Error::corrupt(part.offset, "a part of the order in the index snapshot, which names other records"));
        }
        let pairs: Vec<(&[u8], u64)> = keys.iter().map(|(key, offset)| (key.bytes(), *offset)).collect();
        let mut blocks = blocks_of(&pairs).into_iter();
        let Some((_, first)) = blocks.next() else { return Ok(()) };
        self.begun.fetch_add(1, Ordering::Release);
        // The last one first: each leaf has all keys up to the next one when it is found. Who finds this leaf waits for its lock.
        for (from, block) in blocks.rev() {
            self.add(from, Leaf::new(Content::Keys(block)), guard);
            self.step();
        }
        writer.replace(Content::Keys(first), guard);
        self.done.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Reads all parts that are unread.
    pub(in crate::ordered) fn read_all(&self, source: &dyn Source) -> Result<()> {
        let mut from = Some(Key::new(&[]));
        while let Some(key) = from.take() {
            // For each leaf another guard, so that what is replaced can be freed meanwhile.
            let guard = epoch::pin();
            let Some(entry) = self.leaves.lower_bound(Bound::Included(&key), &guard) else { return Ok(()) };
            if let Content::Unread(_) = entry.value().content(&guard) {
                self.read(&entry, source, &guard)?;
            }
            from = entry.next().map(|next| next.key().clone());
        }
        Ok(())
    }

    /// Names another place for a part that is still unread.
    pub(in crate::ordered) fn relocate(&self, from: &[u8], part: Part, to: Part) {
        let guard = &epoch::pin();
        if let Some(entry) = self.leaves.get(&Key::new(from), guard) {
            let writer = entry.value().lock();
            if matches!(writer.content(guard), Content::Unread(old) if *old == part) {
                writer.replace(Content::Unread(to), guard);
            }
        }
    }

    /// Keys in memory: those of unread parts are not.
    pub(in crate::ordered) fn read_keys(&self) -> u64 {
        let guard = epoch::pin();
        let keys = |entry: Entry<'_, '_, Key, Leaf>| match entry.value().content(&guard) {
            Content::Keys(block) => block.len() as u64,
            Content::Unread(_) => 0,
        };
        self.leaves.iter(&guard).map(keys).sum()
    }

    /// Calls `each` with the pieces of the map in order, each with its separator, while others change it: a key that is there throughout is
    /// in one of them, with its offset at that moment.
    pub(in crate::ordered) fn pieces(&self, each: &mut dyn FnMut(&[u8], Piece) -> Result<()>) -> Result<()> {
        let mut rest = Bound::Included(Vec::new());
        let mut is_first = true;
        loop {
            let Some(Found { separator, piece, behind }) = self.piece(&rest) else { return Ok(()) };
            each(if is_first { &[] } else { separator.bytes() }, piece)?;
            match behind {
                Some(behind) => rest = behind,
                None => return Ok(()),
            }
            is_first = false;
        }
    }

    /// The first piece of what is left, its separator, and what is left behind it.
    fn piece(&self, rest: &Bound<Vec<u8>>) -> Option<Found> {
        // For each piece another guard, so that what is replaced can be freed meanwhile.
        let guard = epoch::pin();
        let (Bound::Included(from) | Bound::Excluded(from)) = rest else { return None };
        let mut next = self.leaves.upper_bound(Bound::Included(&Key::new(from)), &guard);
        let mut separator_of_piece = None;
        let (mut offsets, mut last) = (Vec::new(), from.clone());
        while let Some(entry) = next {
            // Locked, so that a part stays unread until its neighbour is known.
            let writer = entry.value().lock();
            match writer.content(&guard) {
                // It has been written before, and the leaf behind it was removed meanwhile.
                Content::Unread(_) if entry.key().bytes() < &from[..] => {}
                Content::Unread(_) if !offsets.is_empty() => break,
                Content::Unread(part) => {
                    let behind = entry.next().map(|next| Bound::Included(next.key().bytes().to_vec()));
                    return Some(Found { separator: entry.key().clone(), piece: Piece::Unread(*part), behind });
                }
                Content::Keys(block) => {
                    let start = match (block.find(from), rest) {
                        (Ok(at), Bound::Excluded(_)) => at + 1,
                        (Ok(at) | Err(at), _) => at,
                    };
                    if start < block.len() {
                        separator_of_piece = separator_of_piece.or_else(|| {
                            let is_behind_key = matches!(rest, Bound::Excluded(_));
                            Some(if is_behind_key { separator(from, block.key(start)) } else { Key::new(from) })
                        });
                        offsets.extend(block.part(start, block.len()).map(|(_, offset)| offset));
                        last = block.key(block.len() - 1).to_vec();
                    }
                }
            }
            if offsets.len() >= PART_RECORDS {
                break;
            }
            next = entry.next();
        }
        separator_of_piece.map(|separator| Found {
            separator,
            piece: Piece::Offsets(offsets),
            behind: Some(Bound::Excluded(last)),
        })
    }
}
