//! Skipping zeros, a chunk at a time: most of what recovery reads after the end of a log was never written.

/// Bytes compared at once.
const CHUNK: usize = 64;

fn is_zero(chunk: &&[u8]) -> bool {
    chunk.iter().fold(0, |all, byte| all | byte) == 0
}

/// Index of the first byte that is not zero.
pub(super) fn first_used(bytes: &[u8]) -> Option<usize> {
    let zeros: usize = bytes.chunks(CHUNK).take_while(is_zero).map(<[u8]>::len).sum();
    Some(zeros + bytes.get(zeros..)?.iter().position(|&byte| byte != 0)?)
}

/// The bytes up to the last one that is not zero.
pub(crate) fn without_last_zeros(bytes: &[u8]) -> &[u8] {
    let zeros: usize = bytes.rchunks(CHUNK).take_while(is_zero).map(<[u8]>::len).sum();
    let rest = bytes.get(..bytes.len() - zeros).unwrap_or_default();
    let len = rest.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    rest.get(..len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::indexing_slicing, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn zeros_are_passed_over_up_to_the_byte_that_is_none() {
        for len in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5] {
            let mut bytes = alloc::vec![0; len];
            assert_eq!((first_used(&bytes), without_last_zeros(&bytes)), (None, &b""[..]));
            for used in 0..len {
                bytes.fill(0);
                bytes[used] = 1;
                assert_eq!((first_used(&bytes), without_last_zeros(&bytes).len()), (Some(used), used + 1), "of {len}");
            }
        }
    }
}
