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

/// Moves that are gathered at the most, and bytes of their keys. A compaction that was asked for copies about as many between two syncs.
const MOVES_MAX: usize = 128 * 1024;
const KEYS_MAX: usize = 4 * 1024 * 1024;

/// Moves of the ordered index that are still to be made.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    keys: Vec<u8>,
    moves: Vec<Gathered>,
}

#[derive(Debug)]
struct Gathered {
    namespace: u32,
    head: u64,
    /// Where its key stands among the keys.
    start: u32,
    end: u32,
    from: u64,
    to: u64,
}

impl Moves {
    /// Gathers a move, which must be made before the space of the old record is used again.
    pub(crate) fn push(&mut self, namespace: u32, key: &[u8], from: u64, to: u64) {
        let start = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        let (head, end) = (head_of(key), self.keys.len() as u32);
        self.moves.push(Gathered { namespace, head, start, end, from, to });
    }

    pub(crate) const fn are_none(&self) -> bool {
        self.moves.is_empty()
    }

    pub(crate) const fn are_many(&self) -> bool {
        self.moves.len() >= MOVES_MAX || self.keys.len() >= KEYS_MAX
    }

    /// Calls `each` with the moves of each namespace, in the order of their keys, and forgets them.
    pub(super) fn take(&mut self, mut each: impl FnMut(u32, &[Move<'_>])) {
        let all = core::mem::take(self);
        let key = |one: &Gathered| all.keys.get(one.start as usize..one.end as usize).unwrap_or_default();
        let move_of = |one: &Gathered| (one.namespace, Move { head: one.head, key: key(one), from: one.from, to: one.to });
        let mut sorted: Vec<(u32, Move<'_>)> = all.moves.iter().map(move_of).collect();
        // A sort that keeps the order of equal ones: of several with one key, that which was gathered first.
        sorted.sort_by(|(one, a), (other, b)| (one, a.head).cmp(&(other, b.head)).then_with(|| a.key.cmp(b.key)));
        for of_namespace in sorted.chunk_by(|(one, _), (other, _)| one == other) {
            let moves: Vec<Move<'_>> = of_namespace.iter().map(|(_, moved)| *moved).collect();
            if let Some((first, _)) = of_namespace.first() {
                each(*first, &moves);
            }
        }
    }
}
