//! The newest event of each chain: of a stream, of a type, of a tag. Eight bytes each: a part of the hash of its name, and the event's number.
//! The name is in the event, where it is compared.

use alloc::vec::Vec;
use hashbrown::HashTable;

/// Bits of a number. The others are the upper bits of the hash.
const NUMBER_BITS: u32 = 40;
/// The largest number of an event.
pub(super) const NUMBER_MAX: u64 = (1 << NUMBER_BITS) - 1;

/// Number of tables.
const TABLES: usize = 16;
/// The upper 16 bits of a spread hash from which on a chain is in the next table. The share of each is 2^(1/16) times that of the one before, so
/// they double their size one after the other: at most 16 bytes a chain at any number of them (a test below), where one table takes up to 20.
const BORDERS: [u16; TABLES - 1] =
    [2902, 5932, 9096, 12400, 15850, 19454, 23216, 27146, 31249, 35534, 40009, 44682, 49562, 54658, 59979];

/// The newest events of all chains. The tables are there from the first one on.
#[derive(Debug, Default)]
pub(super) struct Heads(Vec<HashTable<u64>>);

fn table_of(spread: u64) -> usize {
    BORDERS.partition_point(|&border| u64::from(border) <= spread >> 48)
}

const fn entry(hash: u64, number: u64) -> u64 {
    hash >> NUMBER_BITS << NUMBER_BITS | number
}

/// Spreads the bits of the hash that an entry has over all of a hash.
const fn spread(entry: u64) -> u64 {
    (entry >> NUMBER_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Heads {
    /// Numbers of the events that may be the newest of the chain with this hash.
    pub(super) fn of(&self, hash: u64) -> impl Iterator<Item = u64> {
        let wanted = entry(hash, 0);
        let found = self.0.get(table_of(spread(wanted))).into_iter().flat_map(move |table| table.iter_hash(spread(wanted)));
        found.filter(move |&&one| entry(one, 0) == wanted).map(|one| one & NUMBER_MAX)
    }

    /// The event `number` follows `before` in a chain; 0: it is the first one.
    pub(super) fn set(&mut self, hash: u64, before: u64, number: u64) {
        let (old, new) = (entry(hash, before), entry(hash, number));
        let Some(table) = self.table(spread(old)) else { return };
        match table.find_mut(spread(old), |one| before != 0 && *one == old) {
            Some(found) => *found = new,
            None => {
                table.insert_unique(spread(new), new, |one| spread(*one));
            }
        }
    }

    /// The table for a spread hash.
    fn table(&mut self, spread: u64) -> Option<&mut HashTable<u64>> {
        if self.0.is_empty() {
            self.0.resize_with(TABLES, HashTable::new);
        }
        self.0.get_mut(table_of(spread))
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(HashTable::len).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(HashTable::allocation_size).sum()
    }

    /// All entries as numbers, in rising order.
    pub(super) fn entries(&self) -> Vec<u64> {
        let mut entries: Vec<u64> = self.0.iter().flatten().copied().collect();
        entries.sort_unstable();
        entries
    }

    pub(super) fn insert_entry(&mut self, one: u64) {
        if let Some(table) = self.table(spread(one)) {
            table.insert_unique(spread(one), one, |one| spread(*one));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn chains_take_at_most_16_bytes_at_any_number_of_them() {
        let mut heads = Heads::default();
        for chain in 1..=300_000_u64 {
            heads.set(chain.wrapping_mul(0xd6e8_feb8_6659_fd93), 0, chain);
            assert!(chain < 20_000 || heads.bytes() as u64 <= 16 * chain, "{chain}: {}", heads.bytes());
        }
    }

    #[test]
    fn a_chain_has_one_head_and_chains_with_one_hash_have_one_each() {
        let mut heads = Heads::default();
        let hash = |chain: u64| chain.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for round in 0..5 {
            for chain in 1..=10_000 {
                let before = if round == 0 { 0 } else { (round - 1) * 10_000 + chain };
                heads.set(hash(chain), before, round * 10_000 + chain);
            }
        }
        assert_eq!(heads.len(), 10_000);
        for chain in 1..=10_000 {
            assert!(heads.of(hash(chain)).any(|number| number == 40_000 + chain), "{chain}");
        }
        let (one, other) = (0xabcd_ef00_0000_0001, 0xabcd_ef00_0000_0002);
        heads.set(one, 0, NUMBER_MAX - 1);
        heads.set(other, 0, NUMBER_MAX);
        let mut both: Vec<u64> = heads.of(other).collect();
        both.sort_unstable();
        assert_eq!(both, [NUMBER_MAX - 1, NUMBER_MAX]);
        let mut back = Heads::default();
        heads.entries().into_iter().for_each(|one| back.insert_entry(one));
        assert_eq!(back.entries(), heads.entries());
    }
}
