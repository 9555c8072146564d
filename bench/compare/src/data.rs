//! Keys and values, made before any clock runs.
//!
//! The key of record `number` can be computed and, from its first eight bytes, turned back into `number`: that lets the row of limits
//! find a record without any index. To every other engine the keys are 24 random bytes.

use crate::scale::Scale;

/// Bytes of a key.
pub(crate) const KEY_LEN: usize = 24;
/// Bytes of an ordinary value.
pub(crate) const VALUE_LEN: usize = 150;

/// A key.
pub(crate) type Key = [u8; KEY_LEN];
/// A key and a value, as engines take them.
pub(crate) type Pair<'a> = (&'a [u8], &'a [u8]);

/// Records that are loaded have the numbers from 0; those that later phases add, and those that never are, come far behind.
pub(crate) const EXTRA: u64 = 1 << 40;
/// Numbers that no phase ever writes.
pub(crate) const MISSING: u64 = 1 << 41;

/// An ordinary record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) value: [u8; VALUE_LEN],
}

impl Record {
    pub(crate) fn pair(&self) -> Pair<'_> {
        (&self.key, &self.value)
    }
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014); a bijection.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The inverse of [`mix`]: the multipliers are inverses modulo 2^64.
fn unmix(mixed: u64) -> u64 {
    let number = (mixed ^ (mixed >> 31) ^ (mixed >> 62)).wrapping_mul(0x3196_42b2_d24d_8ec3);
    let number = (number ^ (number >> 27) ^ (number >> 54)).wrapping_mul(0x96de_1b17_3f11_9089);
    number ^ (number >> 30) ^ (number >> 60)
}

/// The key of a record.
pub(crate) fn key(number: u64) -> Key {
    let mut key = [0; KEY_LEN];
    let words = [mix(number), mix(number ^ GOLDEN), mix(number.wrapping_mul(GOLDEN) ^ 1)];
    for (to, word) in key.chunks_mut(8).zip(words) {
        to.copy_from_slice(&word.to_be_bytes());
    }
    key
}

/// The number of the record with that key; of any other key some number.
pub(crate) fn number(key: &[u8]) -> u64 {
    key.first_chunk::<8>().map_or(u64::MAX, |word| unmix(u64::from_be_bytes(*word)))
}

/// A stream of random numbers that is the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed.wrapping_add(GOLDEN)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// Between 0 and 1, without 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.iter_mut().zip(self.next().to_le_bytes()).for_each(|(to, from)| *to = from);
        }
    }

    /// Fisher-Yates. The bias of the remainder is far below what a clock could see.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, (self.next() % (end as u64 + 1)) as usize);
        }
    }
}

/// The record of that number.
pub(crate) fn record(number: u64) -> Record {
    let mut value = [0; VALUE_LEN];
    Random::new(number).fill(&mut value);
    Record { key: key(number), value }
}

/// `count` records from number `first` on.
pub(crate) fn records(first: u64, count: usize) -> Vec<Record> {
    (first..).take(count).map(record).collect()
}

/// `count` values of any length.
pub(crate) fn values(count: usize, len: usize) -> Vec<Vec<u8>> {
    let value = |number| {
        let mut value = vec![0; len];
        Random::new(number).fill(&mut value);
        value
    };
    (EXTRA..).take(count).map(value).collect()
}

/// A copy in an order of its own.
pub(crate) fn shuffled<T: Clone>(items: &[T], seed: u64) -> Vec<T> {
    let mut items = items.to_vec();
    Random::new(seed).shuffle(&mut items);
    items
}

/// The keys of some records, in the order in which they were inserted.
pub(crate) fn keys(records: &[Record]) -> Vec<Key> {
    records.iter().map(|record| record.key).collect()
}

/// Touches every byte, so that a value that is only pointed to is really read.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte)).sum()
}

/// What all reads of `records` together must give.
pub(crate) fn total(records: &[Record]) -> u64 {
    records.iter().map(|record| sum(&record.value)).sum()
}

/// What a load consists of.
pub(crate) fn to_load(scale: &Scale) -> Vec<Record> {
    records(0, scale.records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leads_back_to_its_number() {
        for wanted in (0..1000).chain(EXTRA..EXTRA + 1000).chain([MISSING, u64::MAX]) {
            assert_eq!(number(&key(wanted)), wanted);
        }
    }

    #[test]
    fn shuffling_keeps_every_key() {
        let records = records(0, 1000);
        let mut keys = shuffled(&keys(&records), 1);
        assert_ne!(keys, super::keys(&records));
        let mut sorted: Vec<Key> = records.iter().map(|record| record.key).collect();
        keys.sort_unstable();
        sorted.sort_unstable();
        assert_eq!(keys, sorted);
    }
}
