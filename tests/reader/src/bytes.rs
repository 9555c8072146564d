//! Numbers out of bytes, and the sums that hold them.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// What has not been read yet. Every method answers `None` where the bytes end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(pub(crate) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    /// A number of `width` bytes, at most eight, little endian.
    pub(crate) fn number(&mut self, width: usize) -> Option<u64> {
        let bytes = self.take(width)?;
        Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.number(4).map(|number| number as u32)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.number(8)
    }

    /// A varint: a number below 2^32 in its shortest form.
    pub(crate) fn varint(&mut self) -> Option<u32> {
        self.leb128(5).and_then(|number| u32::try_from(number).ok())
    }

    /// A long varint: a number below 2^63 in its shortest form.
    pub(crate) fn long(&mut self) -> Option<u64> {
        self.leb128(9)
    }

    fn leb128(&mut self, len_max: u32) -> Option<u64> {
        let mut number = 0;
        for index in 0..len_max {
            let byte = self.number(1)?;
            number |= (byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                let is_shortest = byte != 0 || index == 0;
                return is_shortest.then_some(number);
            }
        }
        None
    }

    /// A count of things that take at least one byte each.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.long()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    /// The rest, when it is known to be the last thing.
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// `len` bytes at `offset` of a file; `None` when it does not have them.
pub(crate) fn part(file: &[u8], offset: u64, len: usize) -> Option<Bytes<'_>> {
    let start = usize::try_from(offset).ok()?;
    file.get(start..start.checked_add(len)?).map(Bytes)
}

/// Binds a checksum to a place.
pub(crate) const fn bind(a: u64, b: u64) -> u32 {
    let mut x = a ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (x >> 32) as u32
}

/// The CRC-32C of several pieces, one behind the other.
pub(crate) fn crc(pieces: &[&[u8]]) -> u32 {
    pieces.iter().fold(0, |sum, piece| crc32c::crc32c_append(sum, piece))
}

pub(crate) fn xxh3(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The hash of a key in a namespace of a store with this seed: bits 34 to 55 are a slot's tag, bits 56 to 63 its shard.
pub(crate) fn hash_of_key(seed: &[u8; 16], namespace: u32, key: &[u8]) -> u64 {
    let seed = xxh3_64_with_seed(seed, 1);
    xxh3_64_with_seed(key, seed ^ u64::from(namespace).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
    use super::*;

    #[test]
    fn varints_have_one_form_and_an_end() {
        let read = |bytes: &[u8]| Bytes(bytes).varint();
        assert_eq!(read(&[0x7f]), Some(127));
        assert_eq!(read(&[0x80, 0x01]), Some(128));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Some(u32::MAX));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x1f]), None, "2^33 - 1");
        assert_eq!(read(&[0x80, 0x00]), None, "zero in two bytes");
        assert_eq!(read(&[0x80]), None, "cut");
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
        assert_eq!(Bytes(&most).long(), Some(u64::MAX >> 1));
    }

    /// The figures that the specification gives.
    #[test]
    fn hashes_and_binding_are_those_of_the_specification() {
        let seed = b"and seed of hash";
        let text = include_str!("../../../core/FORMAT.md");
        let hash = |namespace| hash_of_key(seed, namespace, b"color");
        let (first, second) = (hash(0), hash(1));
        let said = format!(
            "`bind(0, 4096)` is `{:08x}`; `xxh3` of the 16 bytes of the seed with the seed 1 is `{:016x}`, and the hash of `color` in namespace 0 \
             `{first:016x}`, in namespace 1 `{second:016x}`: tag {} and shard {}, tag {} and shard {}.",
            bind(0, 4096),
            xxh3_64_with_seed(seed, 1),
            first >> 34 & 0x3f_ffff,
            first >> 56,
            second >> 34 & 0x3f_ffff,
            second >> 56
        );
        assert!(text.split_whitespace().collect::<Vec<_>>().join(" ").contains(&said), "{said}");
    }
}
