//! A key as the ordered index compares it: by its first eight bytes as a number, and by the rest only where these are equal.

use smallvec::SmallVec;

/// The first eight bytes of a key as a number: where two of them differ, the keys differ the same way.
pub(crate) fn head_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(head) => u64::from_be_bytes(*head),
        None => key.iter().chain([0; 8].iter()).take(8).fold(0, |head, &byte| head << 8 | u64::from(byte)),
    }
}

/// An owned key. The order of the fields gives the order of the keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    head: u64,
    /// Keys of common lengths are stored in their nodes, so that a search needs no further pointer.
    bytes: SmallVec<[u8; 24]>,
}

impl Key {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { head: head_of(bytes), bytes: SmallVec::from_slice(bytes) }
    }

    /// True when this key comes behind the one that begins with `head`.
    pub(super) fn is_above(&self, head: u64, key: &[u8]) -> bool {
        head < self.head || (head == self.head && key < self.bytes())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_key_is_its_first_eight_bytes_and_zeros_behind_a_shorter_one() {
        assert_eq!((head_of(b""), head_of(b"\0"), head_of(&[1, 2])), (0, 0, 0x0102 << 48));
        assert_eq!(head_of(&[1, 2, 3, 4, 5, 6, 7]), 0x0102_0304_0506_0700);
        assert_eq!(head_of(&[1, 2, 3, 4, 5, 6, 7, 8]), 0x0102_0304_0506_0708);
        assert_eq!(head_of(&[1, 2, 3, 4, 5, 6, 7, 8, 9]), 0x0102_0304_0506_0708);
        assert_eq!(head_of(&[0xff; 20]), u64::MAX);
    }

    #[test]
    fn keys_compare_by_their_heads_and_then_by_all_bytes() {
        let sorted: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"12", b"12345678", b"12345678\0", b"123456789", b"2"];
        for (place, one) in sorted.iter().enumerate() {
            for (other_place, other) in sorted.iter().enumerate() {
                let (one, key) = (Key::new(one), Key::new(other));
                assert_eq!(one.cmp(&key), place.cmp(&other_place), "{one:?} {key:?}");
                assert_eq!(one.is_above(head_of(other), other), place > other_place, "{one:?} {key:?}");
            }
        }
        assert_eq!(Key::new(b"123456789").bytes(), b"123456789");
    }
}
