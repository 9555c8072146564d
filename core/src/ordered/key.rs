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
