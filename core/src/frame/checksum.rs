//! CRC-32C (Castagnoli), by the CPU's instruction where there is one, and its binding to a place in a file.

/// A checksum in the making.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checksum(u32);

impl Checksum {
    pub(crate) const fn new() -> Self {
        Self(0)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0 = imp::append(self.0, bytes);
    }

    pub(crate) const fn finish(self) -> u32 {
        self.0
    }
}

/// The CRC-32C of `bytes`.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    imp::append(0, bytes)
}

/// A mask for the checksum of whatever stands at `offset` of a segment with `salt`: the same bytes at another place, or from
/// an earlier life of the segment, do not pass.
pub(crate) const fn bind(salt: u64, offset: u64) -> u32 {
    // The finaliser of MurmurHash3 (Austin Appleby, public domain): each input bit reaches each output bit.
    let mut x = salt ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (x >> 32) as u32
}

#[cfg(feature = "std")]
mod imp {
    pub(super) fn append(crc: u32, bytes: &[u8]) -> u32 {
        crc32c::crc32c_append(crc, bytes)
    }
}

#[cfg(not(feature = "std"))]
mod imp {
    use alloc::boxed::Box;
    use crc::{CRC_32_ISCSI, Crc, Table};
    use once_cell::race::OnceBox;

    /// Made when it is first needed: as a constant it would be a tenth of a module that visitors of a page download.
    static CASTAGNOLI: OnceBox<Crc<u32, Table<16>>> = OnceBox::new();

    pub(super) fn append(crc: u32, bytes: &[u8]) -> u32 {
        let castagnoli = CASTAGNOLI.get_or_init(|| Box::new(Crc::<u32, Table<16>>::new(&CRC_32_ISCSI)));
        // The crate wants the register, not the result: undo the final inversion, and the bit order of the polynomial.
        let mut digest = castagnoli.digest_with_initial((crc ^ u32::MAX).reverse_bits());
        digest.update(bytes);
        digest.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::crc32c;

    #[test]
    fn a_checksum_is_the_one_of_the_standard_however_long_its_parts() {
        let bytes: alloc::vec::Vec<u8> = (0..=255).cycle().take(1000).collect();
        let slow = |bytes: &[u8]| {
            !bytes.iter().fold(u32::MAX, |sum, &byte| {
                (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0x82f6_3b78 } else { sum >> 1 })
            })
        };
        // The check value of the catalogue of CRC algorithms.
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        for cut in [0, 1, 15, 16, 17, 31, 32, 33, 500, 999, 1000] {
            let (front, back) = bytes.split_at(cut);
            let mut sum = super::Checksum::new();
            sum.update(front);
            assert_eq!(sum.finish(), slow(front));
            sum.update(back);
            assert_eq!(sum.finish(), slow(&bytes));
        }
    }
}
