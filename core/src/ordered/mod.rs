//! The ordered index: keys in order, each with its record's offset, beside the hash index. Opt-in, because it keeps every key in memory.
//!
//! A map for each namespace. Writers change an entry while they hold the key's shard of the hash index, so per key both change in the
//! order of the log. Readers lock the list of maps until they have found theirs, and hold no lock after that; an offset that they have
//! read stays valid as long as their pin, which they took before.
//!
//! It is kept in the index snapshot as offsets in the order of the keys, in parts. Opening only notes where these are; the keys of a part are
//! read from its records when one of them is first needed. That may fail. Then the index is incomplete until its owner has built it anew.

mod block;
mod choice;
mod key;
mod leaf;
mod map;
mod moves;
mod part;

pub(crate) use block::Change;
pub(crate) use choice::{Choice, order_of, with_order};
pub(crate) use key::{Key, head_of};
pub(crate) use moves::Moves;
pub(crate) use part::{PART_RECORDS, Part, Piece, Source, Stopped};

use crate::error::Result;
use crate::sync::{AtomicBool, Ordering, RwLock};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;
use map::Map;

/// Takes a piece of a namespace, with its separator.
pub(crate) type EachPiece<'a> = dyn FnMut(u32, &[u8], Piece) -> Result<()> + 'a;

/// The ordered index of a store.
#[derive(Default)]
pub(crate) struct Ordered {
    /// The namespaces that are in it.
    pub(crate) choice: Choice,
    /// Maps by namespace number.
    maps: RwLock<BTreeMap<u32, Arc<Map>>>,
    /// There may be parts that nobody has read.
    may_be_unread: AtomicBool,
    /// A change is missing, for the part in which it belongs could not be read.
    is_incomplete: AtomicBool,
}

impl Ordered {
    /// An index of the keys of the namespaces that are chosen, given in any order, each with the offset of its record.
    pub(crate) fn of(mut keys: Vec<(u32, Key, u64)>, choice: Choice) -> Self {
        keys.sort_unstable();
        let of_namespace = keys.chunk_by(|(one, ..), (other, ..)| one == other).filter_map(|keys| {
            let pairs: Vec<(&[u8], u64)> = keys.iter().map(|(_, key, offset)| (key.bytes(), *offset)).collect();
            keys.first().map(|&(namespace, ..)| (namespace, Arc::new(Map::of(&pairs))))
        });
        Self { choice, maps: RwLock::new(of_namespace.collect()), ..Self::default() }
    }

    /// An index of parts of the snapshot, each with its separator: by namespaces, and in order.
    pub(crate) fn of_parts(parts: Vec<(Key, Part)>, choice: Choice) -> Self {
        let ordered = Self { choice, may_be_unread: AtomicBool::new(true), ..Self::default() };
        let of_namespace = parts
            .chunk_by(|(_, one), (_, other)| one.namespace == other.namespace)
            .filter_map(|parts| parts.first().map(|&(_, part)| (part.namespace, Arc::new(Map::of_parts(parts.iter().cloned())))));
        ordered.maps.write().extend(of_namespace);
        ordered
    }

    /// Takes over the maps of another index of the same namespaces, of which nothing is unread.
    pub(crate) fn adopt(&self, other: &Self) {
        *self.maps.write() = core::mem::take(&mut *other.maps.write());
        self.may_be_unread.store(false, Ordering::Release);
        self.is_incomplete.store(false, Ordering::Release);
    }

    /// True when there may be parts that nobody has read.
    pub(crate) fn may_be_unread(&self) -> bool {
        self.may_be_unread.load(Ordering::Acquire)
    }

    /// True when a change is missing: the index must be built anew before it is read.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.is_incomplete.load(Ordering::Acquire)
    }

    /// A part of it cannot be read.
    pub(crate) fn is_missing_something(&self) {
        self.is_incomplete.store(true, Ordering::Release);
    }

    /// Takes note of what a writer could not do: it has written its record, and cannot fail any more.
    fn note<E>(&self, result: Result<(), E>) {
        if result.is_err() {
            self.is_missing_something();
        }
    }

    fn map(&self, namespace: u32) -> Option<Arc<Map>> {
        self.maps.read().get(&namespace).cloned()
    }

    /// Sets the offset of the record of `key`. The caller holds the key's shard.
    pub(crate) fn put(&self, namespace: u32, key: &[u8], offset: u64, source: &dyn Source) {
        let map = self.map(namespace);
        let map = map.unwrap_or_else(|| self.maps.write().entry(namespace).or_insert_with(|| Arc::new(Map::new())).clone());
        self.note(map.put(key, offset, source));
    }

    /// Removes `key`. The caller holds the key's shard.
    pub(crate) fn remove(&self, namespace: u32, key: &[u8], source: &dyn Source) {
        if let Some(map) = self.map(namespace) {
            self.note(map.remove(key, source));
        }
    }

    /// Makes the changes of a commit, in the order of their keys, each key once. The caller holds their shards.
    pub(crate) fn change_many(&self, namespace: u32, changes: &[Change<'_>], source: &dyn Source) {
        let map = self.map(namespace);
        let map = map.unwrap_or_else(|| self.maps.write().entry(namespace).or_insert_with(|| Arc::new(Map::new())).clone());
        self.note(map.change_many(changes, source));
    }

    /// Notes where records are now that were moved, if they are still where they were, and forgets the moves.
    pub(crate) fn make_moves(&self, moves: &mut Moves, source: &dyn Source) {
        moves.take(|namespace, moves| {
            if let Some(map) = self.map(namespace) {
                self.note(map.move_many(moves, source));
            }
        });
    }

    /// Removes the keys that begin with `prefix`. The caller holds all shards.
    pub(crate) fn remove_prefix(&self, namespace: u32, prefix: &[u8], source: &dyn Source) {
        if let Some(map) = self.map(namespace) {
            self.note(map.remove_prefix(prefix, source));
        }
    }

    /// Removes the namespace with all its keys, once nobody can reach its number.
    pub(crate) fn drop_namespace(&self, namespace: u32) {
        self.choice.forget(namespace);
        self.maps.write().remove(&namespace);
    }

    /// True when keys of the namespace are kept, or may be.
    #[cfg(all(test, shuttle))]
    pub(crate) fn knows(&self, namespace: u32) -> bool {
        self.map(namespace).is_some()
    }

    /// Calls `each` with key and offset of the records from `from` on, in key order, until it returns `false`.
    ///
    /// # Errors
    ///
    /// When a part cannot be read: with what is left of the walk.
    #[inline]
    pub(crate) fn walk<F: FnMut(&[u8], u64) -> bool>(
        &self,
        namespace: u32,
        from: Bound<&[u8]>,
        source: &dyn Source,
        each: F,
    ) -> Result<(), Stopped<F>> {
        self.map(namespace).map_or(Ok(()), |map| map.walk(from, source, each))
    }

    /// Calls `each` with key and offset of the records up to `to`, the last key first, until it returns `false`.
    ///
    /// # Errors
    ///
    /// When a part cannot be read: with what is left of the walk.
    #[inline]
    pub(crate) fn walk_back<F: FnMut(&[u8], u64) -> bool>(
        &self,
        namespace: u32,
        to: Bound<&[u8]>,
        source: &dyn Source,
        each: F,
    ) -> Result<(), Stopped<F>> {
        self.map(namespace).map_or(Ok(()), |map| map.walk_back(to, source, each))
    }

    fn all(&self) -> Vec<(u32, Arc<Map>)> {
        self.maps.read().iter().map(|(&number, map)| (number, map.clone())).collect()
    }

    /// Keys in memory: those of unread parts are not.
    pub(crate) fn read_keys(&self) -> u64 {
        self.all().iter().map(|(_, map)| map.read_keys()).sum()
    }

    /// Reads all parts that are unread. If one cannot be read, the index is incomplete.
    pub(crate) fn read_all(&self, source: &dyn Source) {
        if self.may_be_unread() {
            let read = self.all().iter().try_for_each(|(_, map)| map.read_all(source));
            if read.is_ok() {
                self.may_be_unread.store(false, Ordering::Release);
            }
            self.note(read);
        }
    }

    /// Calls `each` with the pieces of each namespace in order, with their separators, while others change the index.
    pub(crate) fn pieces(&self, each: &mut EachPiece<'_>) -> Result<()> {
        self.all().iter().try_for_each(|(number, map)| map.pieces(&mut |from, piece| each(*number, from, piece)))
    }

    /// Names another place for a part that is still unread.
    pub(crate) fn relocate(&self, from: &[u8], part: Part, to: Part) {
        if let Some(map) = self.map(part.namespace) {
            map.relocate(from, part, to);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod figures;
#[cfg(all(test, shuttle))]
mod schedules;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn keys_come_in_order_with_their_newest_offset() {
        let ordered = Ordered::default();
        for (key, offset) in [("b", 1), ("a", 2), ("c", 3), ("b", 4), ("a key longer than what a node holds", 5)] {
            ordered.put(7, key.as_bytes(), offset, &part::NoParts);
        }
        ordered.put(8, b"other", 9, &part::NoParts);
        ordered.remove(7, b"c", &part::NoParts);
        let from = |bound: Bound<&[u8]>| {
            let mut seen = Vec::new();
            let each = |_: &[u8], offset| {
                seen.push(offset);
                true
            };
            ordered.walk(7, bound, &part::NoParts, each).unwrap();
            seen
        };
        assert_eq!(from(Bound::Unbounded), [2, 5, 4]);
        assert_eq!(from(Bound::Excluded(b"a")), [5, 4]);
        assert_eq!(from(Bound::Included(b"b")), [4]);
        ordered.drop_namespace(7);
        assert!(from(Bound::Unbounded).is_empty());
    }

    const PART: Part = Part { namespace: 7, records: 1, offset: 100, salt: 1 };

    /// A part with one key, which can be read or not.
    struct One {
        is_lost: bool,
    }

    impl Source for One {
        fn keys(&self, part: Part) -> Result<Vec<(Key, u64)>> {
            if self.is_lost {
                Err(crate::Error::corrupt(part.offset, "a lost part"))
            } else {
                Ok(alloc::vec![(Key::new(b"key"), 9)])
            }
        }
    }

    fn unread() -> Ordered {
        Ordered::of_parts(alloc::vec![(Key::new(&[]), PART)], Choice::default())
    }

    fn moved(namespace: u32) -> Moves {
        let mut moves = Moves::default();
        moves.push(namespace, b"key", 9, 10);
        moves
    }

    #[test]
    fn a_change_that_needs_a_lost_part_leaves_the_index_incomplete() {
        type Verb = fn(&Ordered, u32, &One);
        let verbs: [Verb; 5] = [
            |ordered, namespace, source| ordered.put(namespace, b"key", 1, source),
            |ordered, namespace, source| ordered.remove(namespace, b"key", source),
            |ordered, namespace, source| ordered.change_many(namespace, &[(b"key", Some(1))], source),
            |ordered, namespace, source| ordered.remove_prefix(namespace, b"k", source),
            |ordered, namespace, source| ordered.make_moves(&mut moved(namespace), source),
        ];
        for verb in verbs {
            for (namespace, is_lost) in [(7, true), (7, false), (8, true)] {
                let ordered = unread();
                verb(&ordered, namespace, &One { is_lost });
                assert_eq!(ordered.is_incomplete(), namespace == 7 && is_lost);
                assert!(ordered.may_be_unread());
            }
        }
    }

    #[test]
    fn an_index_is_read_as_a_whole_or_incomplete_and_another_takes_its_place() {
        let ordered = unread();
        assert!(ordered.may_be_unread() && !ordered.is_incomplete() && ordered.read_keys() == 0);
        ordered.read_all(&One { is_lost: true });
        assert!(ordered.may_be_unread() && ordered.is_incomplete() && ordered.read_keys() == 0);
        let anew =
            Ordered::of(alloc::vec![(7, Key::new(b"b"), 2), (8, Key::new(b"a"), 3), (7, Key::new(b"a"), 1)], Choice::default());
        assert!(!anew.may_be_unread() && anew.read_keys() == 3);
        ordered.adopt(&anew);
        assert!(!ordered.may_be_unread() && !ordered.is_incomplete());
        assert_eq!((ordered.read_keys(), anew.read_keys()), (3, 0));
        let ordered = unread();
        ordered.read_all(&One { is_lost: false });
        assert!(!ordered.may_be_unread() && !ordered.is_incomplete() && ordered.read_keys() == 1);
        ordered.make_moves(&mut moved(7), &part::NoParts);
        let mut offsets = Vec::new();
        let each = &mut |number: u32, from: &[u8], piece| {
            let Piece::Offsets(some) = piece else { unreachable!("everything is read") };
            offsets.push((number, from.to_vec(), some));
            Ok(())
        };
        ordered.pieces(each).unwrap();
        assert_eq!(offsets, [(7, Vec::new(), alloc::vec![10])]);
    }

    #[test]
    fn a_part_that_is_still_where_it_was_gets_another_place() {
        let there = Part { offset: 200, salt: 2, ..PART };
        let place_after = |from: &[u8], old: Part, to: Part| {
            let ordered = unread();
            ordered.relocate(from, old, to);
            let mut place = None;
            let each = &mut |_: u32, _: &[u8], piece| {
                let Piece::Unread(part) = piece else { unreachable!("nothing is read") };
                place = Some(part);
                Ok(())
            };
            ordered.pieces(each).unwrap();
            place.unwrap()
        };
        assert_eq!(place_after(&[], PART, there), there);
        assert_eq!(place_after(&[], Part { offset: 101, ..PART }, there), PART);
        assert_eq!(place_after(b"other", PART, there), PART);
        assert_eq!(place_after(&[], Part { namespace: 8, ..PART }, there), PART);
    }

    #[test]
    fn a_choice_is_taken_over_as_it_is() {
        let yes = with_order(&[], Some(true));
        let (choice, other) = (Choice::default(), Choice::new(false, [(3, &yes[..])].into_iter()));
        assert!(choice.keeps_none() && !choice.keeps(3));
        choice.adopt(&other);
        assert!(choice.keeps(3) && !choice.keeps(4) && !choice.keeps_none());
    }
}
