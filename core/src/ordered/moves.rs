//! What compaction has copied, and the ordered index does not know yet. Moves are gathered and made in the order of their keys: neighbours are met
//! in one walk, where a search for each would take longer than copying the record.
//!
//! Until a move is made the order has the old place. The record stands there, as its segment is given up only afterwards; but the hash index has
//! the new one. Who needs both to agree has the moves made first: a checkpoint, the end of a group of segments, and who deletes a group of keys.
//! The more are made in one walk, the less each costs: of a compaction of half a million records they take a quarter of the time, and would take
//! half of it if they were made for every segment.

use super::block::Move;
use super::key::head_of;
use alloc::vec::Vec;
use core::cmp::Ordering;

/// Moves that are gathered at the most, and bytes of their keys. A compaction that was asked for copies about as many between two syncs.
const MOVES_MAX: usize = 128 * 1024;
const KEYS_MAX: usize = 4 * 1024 * 1024;

/// Moves of the ordered index that are still to be made.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    keys: Vec<u8>,
    moves: Vec<Gathered>,
    ranks: Vec<Rank>,
}

#[derive(Clone, Copy, Debug)]
struct Gathered {
    /// Where its key stands among the keys.
    start: u32,
    end: u32,
    from: u64,
    to: u64,
}

/// Namespace, head of the key and place of a move in one number, which sorts as they do: that takes a third of the instructions of sorting the moves
/// themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank(u128);

impl Rank {
    fn new(namespace: u32, head: u64, place: usize) -> Self {
        Self(u128::from(namespace) << 96 | u128::from(head) << 32 | place as u128)
    }

    const fn namespace(self) -> u32 {
        (self.0 >> 96) as u32
    }

    const fn head(self) -> u64 {
        (self.0 >> 32) as u64
    }

    const fn place(self) -> usize {
        self.0 as u32 as usize
    }

    /// True for two keys of one namespace that begin alike.
    const fn is_like(self, other: Self) -> bool {
        self.0 >> 32 == other.0 >> 32
    }
}

impl Moves {
    /// Gathers a move, which must be made before the space of the old record is used again.
    pub(crate) fn push(&mut self, namespace: u32, key: &[u8], from: u64, to: u64) {
        let start = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        self.ranks.push(Rank::new(namespace, head_of(key), self.moves.len()));
        self.moves.push(Gathered { start, end: self.keys.len() as u32, from, to });
    }

    pub(crate) const fn are_none(&self) -> bool {
        self.moves.is_empty()
    }

    pub(crate) const fn are_many(&self) -> bool {
        self.moves.len() >= MOVES_MAX || self.keys.len() >= KEYS_MAX
    }

    /// Calls `each` with the moves of each namespace, in the order of their keys, and forgets them. Of several with one key, that which was gathered
    /// first comes first.
    pub(super) fn take(&mut self, mut each: impl FnMut(u32, &[Move<'_>])) {
        let Self { keys, moves, mut ranks } = core::mem::take(self);
        let move_of = |rank: Rank| {
            let Gathered { start, end, from, to } = *moves.get(rank.place())?;
            Some(Move { head: rank.head(), key: keys.get(start as usize..end as usize).unwrap_or_default(), from, to })
        };
        let key_of = |rank: Rank| move_of(rank).map(|moved| moved.key);
        ranks.sort_unstable_by(|&one, &other| {
            let by_key = if one.is_like(other) { key_of(one).cmp(&key_of(other)) } else { Ordering::Equal };
            by_key.then(one.cmp(&other))
        });
        for of_namespace in ranks.chunk_by(|one, other| one.namespace() == other.namespace()) {
            let moves: Vec<Move<'_>> = of_namespace.iter().filter_map(|rank| move_of(*rank)).collect();
            if let Some(first) = of_namespace.first() {
                each(first.namespace(), &moves);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key, place before and place now.
    type Taken = (Vec<u8>, u64, u64);

    fn taken(moves: &mut Moves) -> Vec<(u32, Vec<Taken>)> {
        let mut taken = Vec::new();
        moves.take(|namespace, moves| {
            assert!(moves.iter().all(|moved| moved.head == head_of(moved.key)));
            taken.push((namespace, moves.iter().map(|moved| (moved.key.to_vec(), moved.from, moved.to)).collect()));
        });
        taken
    }

    #[test]
    fn moves_come_by_namespace_in_the_order_of_their_keys_and_once() {
        let mut moves = Moves::default();
        assert!(moves.are_none() && taken(&mut moves).is_empty());
        let all: [(u32, &[u8]); 8] = [
            (7, b"b"),
            (7, b"12345678z"),
            (u32::MAX, b""),
            (7, b"12345678a"),
            (0, b"\xff"),
            (7, b"b"),
            (7, b"a"),
            (7, b"12345678"),
        ];
        for ((namespace, key), from) in all.into_iter().zip(100..) {
            moves.push(namespace, key, from, from + 1_000);
        }
        assert!(!moves.are_none() && !moves.are_many());
        let of = |keys: &[(&[u8], u64)]| keys.iter().map(|(key, from)| (key.to_vec(), *from, *from + 1_000)).collect::<Vec<_>>();
        let of_seven = of(&[(b"12345678", 107), (b"12345678a", 103), (b"12345678z", 101), (b"a", 106), (b"b", 100), (b"b", 105)]);
        assert_eq!(taken(&mut moves), [(0, of(&[(b"\xff", 104)])), (7, of_seven), (u32::MAX, of(&[(b"", 102)]))]);
        assert!(moves.are_none() && taken(&mut moves).is_empty());
    }

    #[test]
    fn moves_are_many_by_their_number_or_by_the_bytes_of_their_keys() {
        let mut moves = Moves::default();
        let long = alloc::vec![7; KEYS_MAX - 1];
        moves.push(0, &long, 1, 2);
        assert!(!moves.are_many());
        moves.push(0, b"k", 1, 2);
        assert!(moves.are_many());
        moves.take(|_, _| {});
        (1..MOVES_MAX).for_each(|_| moves.push(0, b"", 1, 2));
        assert!(!moves.are_many());
        moves.push(0, b"", 1, 2);
        assert!(moves.are_many());
    }
}
