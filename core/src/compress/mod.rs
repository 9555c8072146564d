//! Compressed values: a block of LZ4 each, with a dictionary for all values of a namespace. Pure functions over bytes, and what a store knows of
//! its dictionaries; nothing here does I/O.
//!
//! A value with a dictionary begins with the CRC-32C of the plain value: a wrong dictionary, or a damaged one, is noticed by each value that was
//! made with the right one.
//!
//! What a sealed store keeps is padded, and does not say beside it how long the plain value is: the ratio of the two would tell what is in it.

mod dictionary;
mod lz4;
mod padded;
mod train;

pub(crate) use dictionary::{COPIES, Dictionary, Entry, Known, List, dictionary_key, key_of, key_of_list};
pub(crate) use train::train;

use crate::frame::{Codec, crc32c};
use crate::limits::VALUE_LEN_MAX;
use crate::planted::{Bug, is};
use alloc::vec::Vec;

/// The numbers of the codecs: a block, and one that is padded, with its lengths inside.
const LZ4: u8 = 1;
const PADDED: u8 = 3;
/// Most bytes that one byte of a block stands for.
const EXPANSION_MAX: usize = 255;
/// Bytes of the plain value's checksum, which stands before a block with a dictionary.
const CHECK_LEN: usize = 4;
/// Bytes that a codec adds to a frame at most: a byte of flags, codec, dictionary, plain length.
const FIELDS_LEN: usize = 1 + 1 + 5 + 5;
/// Shortest value that is compressed, in bytes.
pub(crate) const PLAIN_LEN_MIN: usize = 32;
/// Most bytes of a dictionary that is trained.
pub(crate) const DICTIONARY_LEN: usize = 16 * 1024;
/// Longest value that is compressed, in bytes: it and its block are in memory at the same time.
pub(crate) const PLAIN_LEN_MAX: usize = 16 * 1024 * 1024;
/// Capacity in bytes from which on memory is asked for carefully.
const LARGE: usize = 1024 * 1024;

/// What a stored value shows of its lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// Both, that of the plain value and that of its block.
    Shown,
    /// That of the block, rounded up: in a sealed store.
    Padded,
}

/// Why a value cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecoded {
    /// A codec that this build does not know.
    Codec,
    /// It says a length that no block of its length can have.
    Length,
    /// Its block is none, or its dictionary another one.
    Block,
    /// There is no memory for it.
    Memory,
}

/// A value as it is stored.
#[derive(Debug)]
pub(crate) struct Compressed {
    pub(crate) codec: Codec,
    pub(crate) value: Vec<u8>,
}

/// Compresses a value; `None` unless that saves at least an eighth of it.
pub(crate) fn compress(plain: &[u8], dictionary: Option<&Dictionary>, lengths: Lengths) -> Option<Compressed> {
    if !(PLAIN_LEN_MIN..=PLAIN_LEN_MAX).contains(&plain.len()) {
        return None;
    }
    let mut value = Vec::with_capacity(plain.len() + plain.len() / 32 + CHECK_LEN + 16);
    if lengths == Lengths::Padded {
        padded::begin(&mut value, plain.len());
    }
    match dictionary {
        Some(dictionary) => {
            value.extend_from_slice(&crc32c(plain).to_le_bytes());
            lz4::compress(plain, &dictionary.bytes, Some(dictionary.places()), &mut value);
        }
        None => lz4::compress(plain, &[], None, &mut value),
    }
    let (codec, plain_len) = match lengths {
        Lengths::Shown => (LZ4, plain.len() as u32),
        Lengths::Padded => (PADDED, 0),
    };
    if lengths == Lengths::Padded {
        padded::end(&mut value);
    }
    let codec = Codec { codec, dictionary: dictionary.map_or(0, |dictionary| dictionary.number), plain_len };
    (value.len() + FIELDS_LEN <= plain.len() - plain.len() / 8).then_some(Compressed { codec, value })
}

/// True if this build knows the codec.
pub(crate) const fn is_known(codec: Codec) -> bool {
    codec.codec == LZ4 || codec.codec == PADDED
}

/// Length in bytes of the plain value, as a stored one says it.
pub(crate) fn plain_len(codec: Codec, value: &[u8]) -> u64 {
    let said = if codec.codec == PADDED { padded::parts(value).map_or(0, |(len, _)| len) } else { codec.plain_len as usize };
    said as u64
}

/// A padded value as it is where lengths are shown; `None` for another one.
pub(crate) fn without_padding(codec: Codec, value: &[u8]) -> Option<Compressed> {
    if codec.codec != PADDED || codec.plain_len != 0 {
        return None;
    }
    let (len, block) = padded::parts(value)?;
    Some(Compressed { codec: Codec { codec: LZ4, plain_len: u32::try_from(len).ok()?, ..codec }, value: block.to_vec() })
}

/// The plain value of a stored one.
pub(crate) fn decompress(codec: Codec, value: &[u8], dictionary: Option<&Dictionary>) -> Result<Vec<u8>, Undecoded> {
    let (len, value) = match codec.codec {
        LZ4 => (codec.plain_len as usize, value),
        PADDED if codec.plain_len == 0 => padded::parts(value).ok_or(Undecoded::Length)?,
        PADDED => return Err(Undecoded::Length),
        _ => return Err(Undecoded::Codec),
    };
    let (check, block, dictionary) = match dictionary {
        Some(dictionary) => {
            let (check, block) = value.split_first_chunk::<CHECK_LEN>().ok_or(Undecoded::Length)?;
            (Some(u32::from_le_bytes(*check)), block, &*dictionary.bytes)
        }
        None => (None, value, &[][..]),
    };
    if (len > VALUE_LEN_MAX || len > block.len().saturating_mul(EXPANSION_MAX) + dictionary.len())
        && !is(Bug::PlainLengthUnchecked)
    {
        return Err(Undecoded::Length);
    }
    let mut plain = Vec::new();
    if len >= LARGE {
        plain.try_reserve_exact(len).map_err(|_| Undecoded::Memory)?;
    }
    plain.resize(len, 0);
    if !lz4::decompress(block, dictionary, &mut plain) {
        return Err(Undecoded::Block);
    }
    let fits = check.is_none_or(|check| check == crc32c(&plain)) || is(Bug::DictionaryUnchecked);
    if fits { Ok(plain) } else { Err(Undecoded::Block) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn a_value_comes_back_with_its_dictionary_and_with_no_other() {
        let plain = b"{\"kind\":\"a kind of thing\",\"state\":\"as the dictionary has it\",\"number\":12}";
        let [right, wrong] = [plain.to_vec(), plain.iter().map(|byte| byte ^ 1).collect()].map(|bytes| Dictionary::new(3, bytes));
        let Compressed { codec, value } = compress(plain, Some(&right), Lengths::Shown).unwrap();
        assert!(value.len() < 25 && (codec.dictionary, codec.plain_len as usize) == (3, plain.len()));
        assert_eq!(decompress(codec, &value, Some(&right)).unwrap(), plain);
        assert_eq!(decompress(codec, &value, Some(&wrong)), Err(Undecoded::Block));
        assert_eq!(decompress(codec, &value, None), Err(Undecoded::Block));
        assert_eq!(decompress(Codec { codec: 2, ..codec }, &value, Some(&right)), Err(Undecoded::Codec));
        for plain_len in [0, codec.plain_len - 1, codec.plain_len + 1] {
            assert_eq!(decompress(Codec { plain_len, ..codec }, &value, Some(&right)), Err(Undecoded::Block));
        }
    }

    #[test]
    fn a_length_is_refused_before_anything_is_allocated_for_it() {
        let codec = |plain_len| Codec { codec: LZ4, dictionary: 0, plain_len };
        assert_eq!(decompress(codec(1 << 30), &[0x1f, 7, 0, 1], None), Err(Undecoded::Length));
        assert_eq!(decompress(codec(u32::MAX), &alloc::vec![255; 17_000_000], None), Err(Undecoded::Length));
        assert_eq!(decompress(codec(256), &[0], None), Err(Undecoded::Length));
        let dictionary = Dictionary::new(1, alloc::vec![7; 100]);
        let codec = Codec { dictionary: 1, ..codec(100 + 255 + 1) };
        assert_eq!(decompress(codec, &[0, 0, 0, 0, 0], Some(&dictionary)), Err(Undecoded::Length));
        assert_eq!(decompress(codec, &[0, 0, 0], Some(&dictionary)), Err(Undecoded::Length));
    }

    #[test]
    fn the_most_that_a_byte_can_stand_for_is_allowed() {
        let plain = alloc::vec![7; 4 * 1024 * 1024];
        let Compressed { codec, value } = compress(&plain, None, Lengths::Shown).unwrap();
        assert!(plain.len() / value.len() >= 250, "{}", value.len());
        assert_eq!(decompress(codec, &value, None).unwrap(), plain);
    }

    #[test]
    fn what_saves_less_than_an_eighth_stays_plain() {
        let mut state = 9_u64;
        let random: Vec<u8> = (0..1000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        let half = |len: usize| [random.get(..1000 - len).unwrap(), &alloc::vec![0; len]].concat();
        assert!(compress(&random, None, Lengths::Shown).is_none());
        assert!(compress(&half(100), None, Lengths::Shown).is_none() && compress(&half(200), None, Lengths::Shown).is_some());
        assert!(compress(&[0; 31], None, Lengths::Shown).is_none(), "too short");
        let dictionary = Dictionary::new(1, random.clone());
        let compressed = compress(&random, Some(&dictionary), Lengths::Shown).unwrap();
        assert!(compressed.value.len() < 30);
    }

    #[test]
    fn a_padded_value_shows_neither_length() {
        let kind = "a kind of thing that has as much in common with all others as things of one kind have";
        let plain = |state: &str| alloc::format!("{{\"kind\":\"{kind}\",\"state\":\"{state}\",\"number\":12}}").into_bytes();
        let dictionary = Dictionary::new(3, plain("as the dictionary has it"));
        let mut lens = alloc::collections::BTreeSet::new();
        for state in ["as the dictionary has it", "as", "as the dictionary", "elsewhere", "0123456789"] {
            let plain = plain(state);
            let Compressed { codec, value } = compress(&plain, Some(&dictionary), Lengths::Padded).unwrap();
            assert_eq!(
                (codec, plain_len(codec, &value)),
                (Codec { codec: PADDED, dictionary: 3, plain_len: 0 }, plain.len() as u64)
            );
            assert_eq!(decompress(codec, &value, Some(&dictionary)).unwrap(), plain);
            assert_eq!(
                decompress(Codec { plain_len: plain.len() as u32, ..codec }, &value, Some(&dictionary)),
                Err(Undecoded::Length)
            );
            assert_eq!(decompress(Codec { codec: LZ4, ..codec }, &value, Some(&dictionary)), Err(Undecoded::Block));
            lens.insert(value.len());
        }
        assert!(lens.iter().all(|len| [32, 64].contains(len)), "{lens:?}");
        // Where the padding would take what compression saves, the value stays as it is.
        assert!(compress(&[7; 33], None, Lengths::Padded).is_none() && compress(&[7; 64], None, Lengths::Padded).is_some());
    }
}
