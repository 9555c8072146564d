//! Finds the newest of many writes of a key.
//!
//! A table of its own, since positions are never removed from it: with a `HashTable` of `hashbrown` the module is 653 bytes larger as
//! compressed by brotli, of 120,281 (`npm run build` in `web/npm`).

use alloc::vec;
use alloc::vec::Vec;

use crate::wire::Write;

/// A hash table of positions in a list of writes. The list only grows at its end; `find` adds the new writes to the table.
#[derive(Debug, Default)]
pub(crate) struct Newest {
    /// Positions in the list by hash, with linear probing; at most half of the slots are used.
    places: Vec<u32>,
    /// How many writes of the list have been added to the table.
    seen: usize,
}

const NONE: u32 = u32::MAX;

impl Newest {
    /// The newest write of a key. Every call must pass the same list, or a longer one that begins with it.
    pub(crate) fn find<'w, 'a>(&mut self, writes: &'w [Write<'a>], key: &[u8]) -> Option<&'w Write<'a>> {
        if self.places.len() < 2 * writes.len() {
            self.places = vec![NONE; (4 * writes.len()).next_power_of_two()];
            self.seen = 0;
        }
        for (index, (key, _)) in writes.iter().enumerate().skip(self.seen) {
            if let Some(place) = self.place(writes, key) {
                *place = index as u32;
            }
        }
        self.seen = writes.len();
        let place = *self.place(writes, key)?;
        writes.get(place as usize)
    }

    /// The slot of a key, or the free one where it belongs.
    fn place(&mut self, writes: &[Write<'_>], key: &[u8]) -> Option<&mut u32> {
        let mask = self.places.len().wrapping_sub(1);
        let is_its = |place: u32| writes.get(place as usize).is_none_or(|(other, _)| *other == key);
        let mut at = hash(key) & mask;
        while !is_its(*self.places.get(at)?) {
            at = (at + 1) & mask;
        }
        self.places.get_mut(at)
    }
}

/// FNV-1a (Fowler, Noll, Vo): keys are short, and the table lives for one message.
fn hash(key: &[u8]) -> usize {
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ hash >> 32) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use wasm_bindgen_test::wasm_bindgen_test;

    #[wasm_bindgen_test]
    fn the_newest_write_of_each_key_is_found_while_the_list_grows() {
        let keys: Vec<Vec<u8>> = (0..1000_u32).map(|number| (number * 7919 % 311).to_le_bytes().to_vec()).collect();
        let (mut newest, mut expected) = (Newest::default(), HashMap::new());
        let mut writes: Vec<Write<'_>> = Vec::new();
        assert_eq!(newest.find(&writes, b"key"), None);
        for (index, key) in keys.iter().enumerate() {
            let value = keys.get(index / 2).map(Vec::as_slice);
            writes.push((key, value));
            expected.insert(key.as_slice(), value);
            if index % 3 == 0 {
                let other = (index as u32 / 2).to_le_bytes();
                assert_eq!(newest.find(&writes, &other).map(|(_, value)| *value), expected.get(&other[..]).copied());
            }
        }
    }
}
