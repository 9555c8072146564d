//! Dictionaries, and what the store has of them: those that were read, and which one counts for a namespace.
//!
//! ```text
//! number (4), copy (1: 0 or 1)   a dictionary: xxh3 of its bytes with its number as the seed (8), the bytes
//! 0 (4), copy (1)                the list: xxh3 of what follows (8), number of the change (4), next number (4), entries
//! entry                          number (4; 0: there was nothing to gain), log position at which it was trained (8),
//!                                length of the name (2) and name of the namespace
//! ```

use super::lz4::Places;
use crate::sync::{AtomicBool, Ordering};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use once_cell::race::OnceBox;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Longest dictionary that is read: no match reaches farther.
pub(crate) const DICTIONARY_LEN_MAX: usize = 65_535;
/// The number under which the list stands.
const LIST: u32 = 0;
/// How often each record of the namespace stands in the log.
pub(crate) const COPIES: u8 = 2;

/// Key of a copy of a dictionary.
pub(crate) fn key_of(number: u32, copy: u8) -> [u8; 5] {
    let [a, b, c, d] = number.to_le_bytes();
    [a, b, c, d, copy]
}

/// Key of a copy of the list.
pub(crate) fn key_of_list(copy: u8) -> [u8; 5] {
    key_of(LIST, copy)
}

/// The number of the dictionary of which a key is a copy, 0 for the list.
pub(crate) fn dictionary_key(key: &[u8]) -> Option<u32> {
    let (number, copy) = key.split_first_chunk::<4>()?;
    matches!(copy, [0 | 1]).then_some(u32::from_le_bytes(*number))
}

/// One dictionary.
#[derive(Debug)]
pub(crate) struct Dictionary {
    pub(crate) number: u32,
    pub(crate) bytes: Box<[u8]>,
    /// Where its bytes stand, once somebody compresses with it.
    places: OnceBox<Places>,
    /// It is about to be dropped: nothing may be written with it.
    is_ending: AtomicBool,
}

impl Dictionary {
    pub(crate) fn new(number: u32, bytes: Vec<u8>) -> Self {
        Self { number, bytes: bytes.into(), places: OnceBox::new(), is_ending: AtomicBool::new(false) }
    }

    /// The value of its records.
    pub(crate) fn encode(&self) -> Vec<u8> {
        [&xxh3_64_with_seed(&self.bytes, self.number.into()).to_le_bytes(), &*self.bytes].concat()
    }

    /// Reads it from the value of a record; `None` if that is damaged, or another one's.
    pub(crate) fn decode(number: u32, value: &[u8]) -> Option<Self> {
        let (hash, bytes) = value.split_first_chunk::<8>()?;
        let fits = xxh3_64_with_seed(bytes, number.into()) == u64::from_le_bytes(*hash)
            || crate::planted::is(crate::planted::Bug::DictionaryUnchecked);
        (fits && number != LIST && bytes.len() <= DICTIONARY_LEN_MAX).then(|| Self::new(number, bytes.to_vec()))
    }

    pub(super) fn places(&self) -> &Places {
        self.places.get_or_init(|| Box::new(Places::of(&self.bytes)))
    }

    pub(crate) fn end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }
}

/// Which dictionaries there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct List {
    /// How often it has changed: of two copies, the one with more counts.
    pub(crate) changes: u32,
    /// The number of the next one; never given out again.
    pub(crate) next: u32,
    pub(crate) entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// 0: there was nothing to gain.
    pub(crate) number: u32,
    /// Log position at which it was trained.
    pub(crate) since: u64,
    pub(crate) name: String,
}

impl List {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.changes.to_le_bytes());
        out.extend_from_slice(&self.next.max(1).to_le_bytes());
        for Entry { number, since, name } in &self.entries {
            out.extend_from_slice(&number.to_le_bytes());
            out.extend_from_slice(&since.to_le_bytes());
            out.extend_from_slice(&(name.len() as u16).to_le_bytes());
            out.extend_from_slice(name.as_bytes());
        }
        let hash = out.get(8..).map_or(0, |rest| xxh3_64_with_seed(rest, 0));
        if let Some(place) = out.first_chunk_mut() {
            *place = hash.to_le_bytes();
        }
        out
    }

    /// `None` if the value is damaged.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let (hash, rest) = value.split_first_chunk::<8>()?;
        if xxh3_64_with_seed(rest, 0) != u64::from_le_bytes(*hash) {
            return None;
        }
        let (changes, rest) = rest.split_first_chunk::<4>()?;
        let (next, mut rest) = rest.split_first_chunk::<4>()?;
        let mut entries = Vec::new();
        while !rest.is_empty() {
            let (number, after) = rest.split_first_chunk::<4>()?;
            let (since, after) = after.split_first_chunk::<8>()?;
            let (len, after) = after.split_first_chunk::<2>()?;
            let (name, after) = after.split_at_checked(u16::from_le_bytes(*len).into())?;
            let name = core::str::from_utf8(name).ok()?.into();
            entries.push(Entry { number: u32::from_le_bytes(*number), since: u64::from_le_bytes(*since), name });
            rest = after;
        }
        let next = u32::from_le_bytes(*next);
        let changes = u32::from_le_bytes(*changes);
        entries.iter().all(|entry| entry.number < next).then_some(Self { changes, next, entries })
    }

    /// The entry that counts for a namespace: the newest.
    pub(crate) fn of(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().rev().find(|entry| entry.name == name)
    }
}

/// The dictionaries of a store that have been read. They stay until it is closed, so that readers need no lock.
#[derive(Debug, Default)]
pub(crate) struct Known {
    lists: [Link; 16],
}

type Link = OnceBox<Node>;

#[derive(Debug)]
struct Node {
    dictionary: alloc::sync::Arc<Dictionary>,
    next: Link,
}

impl Known {
    pub(crate) fn get(&self, number: u32) -> Option<&alloc::sync::Arc<Dictionary>> {
        let mut link = self.lists.get(number as usize % self.lists.len())?;
        while let Some(node) = link.get() {
            if node.dictionary.number == number {
                return Some(&node.dictionary);
            }
            link = &node.next;
        }
        None
    }

    /// Adds a dictionary; if there is one of its number already, returns that.
    pub(crate) fn add(&self, dictionary: Dictionary) -> Option<&alloc::sync::Arc<Dictionary>> {
        let number = dictionary.number;
        let mut link = self.lists.get(number as usize % self.lists.len())?;
        let mut node = Box::new(Node { dictionary: alloc::sync::Arc::new(dictionary), next: OnceBox::new() });
        loop {
            match link.set(node) {
                Ok(()) => return self.get(number),
                Err(back) => {
                    node = back;
                    let there = link.get()?;
                    if there.dictionary.number == number {
                        return Some(&there.dictionary);
                    }
                    link = &there.next;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn a_dictionary_under_another_number_or_with_a_flipped_bit_is_none() {
        let dictionary = Dictionary::new(7, b"what values have in common".to_vec());
        let value = dictionary.encode();
        assert_eq!(*Dictionary::decode(7, &value).unwrap().bytes, *dictionary.bytes);
        assert!(Dictionary::decode(8, &value).is_none() && Dictionary::decode(7, value.get(..7).unwrap()).is_none());
        for bit in 0..value.len() * 8 {
            let mut flipped = value.clone();
            *flipped.get_mut(bit / 8).unwrap() ^= 1 << (bit % 8);
            assert!(Dictionary::decode(7, &flipped).is_none(), "{bit}");
        }
        assert!(Dictionary::decode(7, &Dictionary::new(7, alloc::vec![0; 65_536]).encode()).is_none());
        assert!(Dictionary::decode(0, &Dictionary::new(0, alloc::vec![0; 9]).encode()).is_none(), "the list's number");
    }

    #[test]
    fn the_newest_entry_of_a_name_counts() {
        let entry = |number, name: &str| Entry { number, since: 100 + u64::from(number), name: name.into() };
        let list = List { changes: 3, next: 9, entries: [entry(1, ""), entry(0, "b"), entry(5, ""), entry(8, "b")].to_vec() };
        let value = list.encode();
        assert_eq!(List::decode(&value).as_ref(), Some(&list));
        assert_eq!((list.of("").unwrap().number, list.of("b").unwrap().number, list.of("c")), (5, 8, None));
        for len in 0..value.len() {
            assert!(List::decode(value.get(..len).unwrap()).is_none(), "{len}");
        }
        assert!(List::decode(&List { next: 8, ..list }.encode()).is_none(), "a number that has not been given out");
        assert_eq!(
            (
                dictionary_key(&key_of(70_000, 1)),
                dictionary_key(&key_of_list(0)),
                dictionary_key(b"1234"),
                dictionary_key(&[0, 0, 0, 0, 2])
            ),
            (Some(70_000), Some(0), None, None)
        );
    }

    #[test]
    fn known_dictionaries_are_found_by_their_numbers() {
        let known = Known::default();
        for number in 1..200 {
            assert!(known.get(number).is_none());
            known.add(Dictionary::new(number, number.to_le_bytes().to_vec())).unwrap();
        }
        let again = known.add(Dictionary::new(77, b"another".to_vec())).unwrap();
        assert_eq!(*again.bytes, 77_u32.to_le_bytes());
        assert!((1..200).all(|number| known.get(number).is_some_and(|found| *found.bytes == number.to_le_bytes())));
    }
}
