//! What a sealed store keeps of a compressed value: in front of the block the lengths, behind it zeros, so that its length tells little.
//!
//! Rounding up to 32 bytes, and above 1 KiB to the lengths of Padme (Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and
//! Communication with PURBs", 2019), which add at most 12 % and leave O(log log n) bits of the length to be seen.

use alloc::vec::Vec;

/// Bytes in front of the block: length of the plain value (4), length of what stands in front of the zeros (4).
const FRONT_LEN: usize = 8;
/// Fewest bytes of which a stored length is a multiple.
const STEP_MIN: usize = 32;

/// Begins an empty value, whose block is appended next.
pub(super) fn begin(value: &mut Vec<u8>, plain_len: usize) {
    value.extend_from_slice(&(plain_len as u32).to_le_bytes());
    value.extend_from_slice(&[0; FRONT_LEN / 2]);
}

/// Ends it.
pub(super) fn end(value: &mut Vec<u8>) {
    let block_len = (value.len().saturating_sub(FRONT_LEN) as u32).to_le_bytes();
    if let Some(place) = value.get_mut(FRONT_LEN / 2..FRONT_LEN) {
        place.copy_from_slice(&block_len);
    }
    value.resize(rounded(value.len()), 0);
}

/// Length of the plain value, and what is between the lengths and the zeros; `None` unless it all fits.
pub(super) fn parts(value: &[u8]) -> Option<(usize, &[u8])> {
    let (plain_len, rest) = value.split_first_chunk()?;
    let (block_len, rest) = rest.split_first_chunk()?;
    let (block, zeros) = rest.split_at_checked(u32::from_le_bytes(*block_len) as usize)?;
    let fits = rounded(FRONT_LEN + block.len()) == value.len() && zeros.iter().all(|&byte| byte == 0);
    fits.then_some((u32::from_le_bytes(*plain_len) as usize, block))
}

/// The length that a value of `len` bytes is stored with, where the lengths stand in front.
fn rounded(len: usize) -> usize {
    let exponent = len.max(2).ilog2();
    let step = 1_usize << (exponent - exponent.ilog2() - 1);
    len.next_multiple_of(step.max(STEP_MIN))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn rounding_adds_at_most_an_eighth_and_leaves_few_lengths() {
        let all = || (1..100_000).map(rounded);
        assert!((1..100_000).zip(all()).all(|(len, rounded)| rounded >= len && rounded - len <= 31.max(len / 8)));
        assert!(all().is_sorted());
        let mut lens: Vec<usize> = all().collect();
        lens.dedup();
        assert!(lens.len() < 200, "{}", lens.len());
        assert_eq!([1, 32, 33, 1024, 1025, 100_000].map(rounded), [32, 32, 64, 1024, 1088, 100_352]);
    }

    #[test]
    fn what_does_not_fit_is_none() {
        let mut value = Vec::new();
        begin(&mut value, 300);
        value.extend_from_slice(b"block");
        end(&mut value);
        assert_eq!((value.len(), parts(&value)), (32, Some((300, &b"block"[..]))));
        for at in 4..32 {
            let mut changed = value.clone();
            *changed.get_mut(at).unwrap() ^= 0x40;
            let is_block = (8..13).contains(&at);
            assert_eq!(parts(&changed).is_some(), is_block, "{at}");
        }
        for len in 0..value.len() {
            assert!(parts(value.get(..len).unwrap()).is_none(), "{len}");
        }
        assert!(parts(&[&*value, &[0; 32]].concat()).is_none());
    }
}
