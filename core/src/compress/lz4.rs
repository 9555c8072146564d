//! Blocks of LZ4. The encoder looks for matches in a dictionary whose places have been indexed once, which `lz4_flex` would do for every value:
//! with a dictionary of 16 KiB, JSON records of 187 bytes take 1.5 us each instead of 3.5, and come to 0.21 of their length instead of 0.27.
//! Decoding is `lz4_flex`.

use alloc::boxed::Box;
use alloc::vec::Vec;

/// Shortest match.
const MATCH_MIN: usize = 4;
/// A block ends with at least so many literals.
const LITERALS_LAST: usize = 5;
/// No match begins in the last so many bytes.
const MATCH_LAST: usize = 12;
/// Farthest match.
const DISTANCE_MAX: usize = 65_535;
/// Places of a dictionary that are compared for one place of a value.
const DEPTH: usize = 24;
/// Bits of the hashes of places in a dictionary.
const DICTIONARY_BITS: u32 = 13;
/// Misses in a row after which the encoder begins to leave places out.
const PATIENCE: usize = 6;
/// No place.
const NONE: u16 = u16::MAX;

/// Where each four bytes of a dictionary stand.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// The last place of each hash.
    last: Box<[u16]>,
    /// Of each place the one before with the same hash.
    before: Box<[u16]>,
}

impl Places {
    pub(super) fn of(dictionary: &[u8]) -> Self {
        let mut last = alloc::vec![NONE; 1 << DICTIONARY_BITS].into_boxed_slice();
        let mut before = alloc::vec![NONE; dictionary.len()].into_boxed_slice();
        for (at, four) in dictionary.windows(MATCH_MIN).enumerate().take(usize::from(NONE)) {
            if let (Some(last), Some(before)) = (last.get_mut(hash(four, DICTIONARY_BITS)), before.get_mut(at)) {
                *before = core::mem::replace(last, at as u16);
            }
        }
        Self { last, before }
    }
}

fn hash(bytes: &[u8], bits: u32) -> usize {
    let four = bytes.first_chunk().map_or(0, |four| u32::from_le_bytes(*four));
    (four.wrapping_mul(0x9e37_79b1) >> (32 - bits)) as usize
}

/// How many bytes at the fronts are the same.
fn common(one: &[u8], other: &[u8]) -> usize {
    let mut same = 0;
    for (one, other) in one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0) {
        let differs = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differs != 0 {
            return same + differs.trailing_zeros() as usize / 8;
        }
        same += 8;
    }
    let (one, other) = (one.get(same..).unwrap_or_default(), other.get(same..).unwrap_or_default());
    same + one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[derive(Clone, Copy, Default)]
struct Match {
    len: usize,
    distance: usize,
}

struct Encoder<'a> {
    plain: &'a [u8],
    dictionary: &'a [u8],
    places: Option<&'a Places>,
    /// The last place in the value of each hash, plus one.
    own: Vec<u32>,
    bits: u32,
}

impl Encoder<'_> {
    /// The longest match at a place, and notes the place.
    fn find(&mut self, at: usize) -> Match {
        let end = self.plain.len() - LITERALS_LAST;
        let Some(here) = self.plain.get(at..end) else { return Match::default() };
        let mut best = Match::default();
        if let Some(slot) = self.own.get_mut(hash(here, self.bits)) {
            let before = core::mem::replace(slot, at as u32 + 1) as usize;
            let distance = at + 1 - before.min(at + 1);
            if before > 0 && (1..=DISTANCE_MAX).contains(&distance) {
                best = Match { len: common(here, self.plain.get(before - 1..end).unwrap_or_default()), distance };
            }
        }
        let Some(places) = self.places else { return best };
        let mut place = places.last.get(hash(here, DICTIONARY_BITS)).copied().unwrap_or(NONE);
        for _ in 0..DEPTH {
            let distance = self.dictionary.len() + at - usize::from(place).min(self.dictionary.len());
            if place == NONE || distance > DISTANCE_MAX {
                break;
            }
            let len = common(here, self.dictionary.get(usize::from(place)..).unwrap_or_default());
            if len > best.len {
                best = Match { len, distance };
            }
            place = places.before.get(usize::from(place)).copied().unwrap_or(NONE);
        }
        best
    }

    fn encode(&mut self, out: &mut Vec<u8>) {
        let last = self.plain.len().saturating_sub(MATCH_LAST);
        let (mut at, mut from, mut misses) = (0, 0, 0);
        while at < last {
            let mut found = self.find(at);
            if found.len < MATCH_MIN {
                misses += 1;
                at += 1 + (misses >> PATIENCE);
                continue;
            }
            if at + 1 < last {
                let next = self.find(at + 1);
                if next.len > found.len + 1 {
                    at += 1;
                    found = next;
                }
            }
            misses = 0;
            sequence(out, self.plain.get(from..at).unwrap_or_default(), Some(found));
            // Later matches may begin inside this one.
            for inside in (at + 2..(at + found.len).min(last)).take(64) {
                let here = self.plain.get(inside..).unwrap_or_default();
                if let Some(slot) = self.own.get_mut(hash(here, self.bits)) {
                    *slot = inside as u32 + 1;
                }
            }
            at += found.len;
            from = at;
        }
        sequence(out, self.plain.get(from..).unwrap_or_default(), None);
    }
}

fn sequence(out: &mut Vec<u8>, literals: &[u8], found: Option<Match>) {
    let more = found.map_or(0, |found| found.len - MATCH_MIN);
    out.push((literals.len().min(15) << 4 | more.min(15)) as u8);
    length(out, literals.len());
    out.extend_from_slice(literals);
    if let Some(found) = found {
        out.extend_from_slice(&(found.distance as u16).to_le_bytes());
        length(out, more);
    }
}

/// What of a length does not fit into its half of the token.
fn length(out: &mut Vec<u8>, len: usize) {
    let Some(mut rest) = len.checked_sub(15) else { return };
    while rest >= 255 {
        out.push(255);
        rest -= 255;
    }
    out.push(rest as u8);
}

/// Appends `plain` as one block to `out`.
pub(super) fn compress(plain: &[u8], dictionary: &[u8], places: Option<&Places>, out: &mut Vec<u8>) {
    let bits = plain.len().max(64).ilog2().clamp(6, 15);
    let own = alloc::vec![0; 1 << bits];
    if plain.len() <= MATCH_LAST {
        return sequence(out, plain, None);
    }
    Encoder { plain, dictionary, places, own, bits }.encode(out);
}

/// Decodes a block into all of `plain`; false if it has another length, or is none.
pub(super) fn decompress(block: &[u8], dictionary: &[u8], plain: &mut [u8]) -> bool {
    let len = plain.len();
    let decoded = if dictionary.is_empty() {
        lz4_flex::block::decompress_into(block, plain)
    } else {
        lz4_flex::block::decompress_into_with_dict(block, plain, dictionary)
    };
    decoded.is_ok_and(|decoded| decoded == len)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;
    use proptest::prelude::*;

    fn round(plain: &[u8], dictionary: &[u8]) -> usize {
        let places = Places::of(dictionary);
        let mut block = Vec::new();
        compress(plain, dictionary, Some(&places), &mut block);
        let mut back = alloc::vec![0; plain.len()];
        assert!(decompress(&block, dictionary, &mut back), "{} {}", plain.len(), dictionary.len());
        assert_eq!(back, plain);
        let mut longer = alloc::vec![0; plain.len() + 1];
        assert!(!decompress(&block, dictionary, &mut longer));
        block.len()
    }

    #[test]
    fn what_stands_in_the_dictionary_takes_few_bytes() {
        let dictionary = br#"{"feature":"","browser":"firefox","support":{"version_added":"#;
        let plain = br#"{"feature":"css.at-rules","browser":"firefox","support":{"version_added":"12"}}"#;
        assert!(round(plain, dictionary) < 40);
        assert!(round(plain, b"") > 60);
    }

    #[test]
    fn matches_reach_no_farther_than_they_may() {
        // The same bytes again, just within reach and just beyond it.
        let random: Vec<u8> = (0..70_000_u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect();
        for gap in [65_000, 65_400, 65_535, 65_536, 65_600] {
            let mut plain = random.get(..gap).unwrap().to_vec();
            plain.extend_from_slice(random.get(..400).unwrap());
            round(&plain, random.get(..16_384).unwrap());
        }
        for len in [65_535, 65_536] {
            round(&random, random.get(..len).unwrap());
        }
    }

    #[test]
    fn the_last_literals_are_as_many_as_the_format_wants() {
        for len in 0..64 {
            let plain = alloc::vec![7; len];
            let mut block = Vec::new();
            compress(&plain, b"", None, &mut block);
            // One sequence of literals and perhaps a match, then the last literals.
            let literals = usize::from(block.first().unwrap() >> 4);
            assert!(block.len() == len + 1 + usize::from(len >= 15) || literals <= 2, "{len}: {block:?}");
            if block.len() < len {
                let token = block.get(block.len() - LITERALS_LAST - 1).unwrap();
                assert!(token >> 4 >= LITERALS_LAST as u8, "{len}: {block:?}");
            }
            round(&plain, b"");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]
        #[test]
        fn any_value_comes_back(
            pieces in prop::collection::vec((0..40_usize, 1..60_usize, any::<u8>()), 0..200),
            dictionary in prop::collection::vec(0..8_u8, 0..2000),
        ) {
            let mut plain: Vec<u8> = Vec::new();
            for (kind, len, byte) in pieces {
                match kind {
                    0..10 => plain.extend(core::iter::repeat_n(byte, len)),
                    10..20 => plain.extend((0..len).map(|n| (n as u8).wrapping_mul(byte))),
                    20..30 => plain.extend(dictionary.iter().skip(usize::from(byte)).take(len)),
                    _ => plain.extend_from_within(plain.len().saturating_sub(len * 3)..plain.len().saturating_sub(len)),
                }
            }
            round(&plain, &dictionary);
        }

        #[test]
        fn no_block_makes_the_decoder_panic(block in prop::collection::vec(any::<u8>(), 0..200), dictionary in prop::collection::vec(any::<u8>(), 0..50), len in 0..3000_usize) {
            let mut plain = alloc::vec![0; len];
            decompress(&block, &dictionary, &mut plain);
        }
    }
}
