//! CRC-32C (Castagnoli), by the CPU's instruction where there is one, and its binding to an offset in a file.

#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod folds;
#[cfg(all(feature = "std", target_arch = "x86_64"))]
mod lanes;

/// The polynomial of Castagnoli, its bits reversed.
#[cfg(any(test, not(feature = "std"), target_arch = "x86_64"))]
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// A checksum that bytes are appended to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checksum(u32);

impl Checksum {
    pub(crate) const fn new() -> Self {
        Self(0)
    }

    /// The checksum of bytes that gave `sum`, to append more.
    pub(super) const fn resume(sum: u32) -> Self {
        Self(sum)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0 = imp::append(self.0, bytes);
    }

    pub(crate) const fn finish(self) -> u32 {
        self.0
    }
}

/// The CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    imp::append(0, bytes)
}

/// The CRC-32C of `front`, eight zeros and `rest`: that of an event, whose number counts as zeros.
pub(super) fn around_zeros(front: &[u8], rest: &[u8]) -> u32 {
    #[cfg(all(feature = "std", target_arch = "x86_64"))]
    if rest.len() < folds::LEAST
        && let Some(sum) = lanes::around_zeros(front, rest)
    {
        return sum;
    }
    imp::append(imp::append(imp::append(0, front), &[0; 8]), rest)
}

/// A mask for checksums at `offset` of a segment with `salt`: the same bytes at another offset, or from
/// an earlier use of the extent, fail the check.
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
    /// From so many bytes on the lanes of the crate `crc32c`, of 8 KiB, are better: processors fetch what comes next in such long stretches. Of 65,536
    /// bytes that are in no cache it takes 5.0 us where `lanes` takes 8.9, and as long as that where they are (`cargo bench -p pipkin-bench --bench checksum`).
    #[cfg(target_arch = "x86_64")]
    const LONG: usize = 16 * 1024;

    #[inline]
    pub(super) fn append(crc: u32, bytes: &[u8]) -> u32 {
        #[cfg(target_arch = "x86_64")]
        if let Some(sum) = super::folds::append(crc, bytes) {
            return sum;
        }
        #[cfg(target_arch = "x86_64")]
        if bytes.len() < LONG
            && let Some(sum) = super::lanes::append(crc, bytes)
        {
            return sum;
        }
        crc32c::crc32c_append(crc, bytes)
    }
}

#[cfg(not(feature = "std"))]
use portable as imp;

/// Without `std`; compiled for every test.
#[cfg(any(test, not(feature = "std")))]
mod portable {
    use super::POLYNOMIAL;
    use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    /// Entry `n` of table `t`: the checksum of the byte `n` followed by `t` zero bytes.
    ///
    /// Computed when first needed: as a constant it would be a tenth of a module that visitors of a page download. Every thread that
    /// computes it writes the same numbers, so it does not matter how many do.
    static TABLES: [[AtomicU32; 256]; 16] = [const { [const { AtomicU32::new(0) }; 256] }; 16];
    static MADE: AtomicBool = AtomicBool::new(false);

    #[cold]
    fn make() {
        let [first, others @ ..] = &TABLES;
        for (number, entry) in (0_u32..).zip(first) {
            let bit = |sum: u32, _| if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            entry.store((0..8).fold(number, bit), Ordering::Relaxed);
        }
        let mut before = first;
        for table in others {
            for (entry, shorter) in table.iter().zip(before) {
                let sum = shorter.load(Ordering::Relaxed);
                entry.store(sum >> 8 ^ look_up(first, sum), Ordering::Relaxed);
            }
            before = table;
        }
        MADE.store(true, Ordering::Release);
    }

    /// The entry for the lowest byte of `word`.
    #[inline(always)]
    fn look_up(table: &[AtomicU32; 256], word: u32) -> u32 {
        // Without a check: every byte has an entry.
        table.get(usize::from(word as u8)).map_or(0, |entry| entry.load(Ordering::Relaxed))
    }

    /// The contribution of a word, by four tables, the last of them for its first byte.
    #[inline(always)]
    fn word([last, third, second, first]: [&[AtomicU32; 256]; 4], word: u32) -> u32 {
        look_up(first, word) ^ look_up(second, word >> 8) ^ look_up(third, word >> 16) ^ look_up(last, word >> 24)
    }

    /// Sixteen bytes at a time, and then four: the contributions of the bytes are independent of each other.
    pub(super) fn append(crc: u32, bytes: &[u8]) -> u32 {
        if !MADE.load(Ordering::Acquire) {
            make();
        }
        let [t0, t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15] = &TABLES;
        let mut sum = !crc;
        let (blocks, rest) = bytes.as_chunks::<16>();
        for block in blocks {
            let block = u128::from_le_bytes(*block);
            sum = word([t12, t13, t14, t15], block as u32 ^ sum)
                ^ word([t8, t9, t10, t11], (block >> 32) as u32)
                ^ word([t4, t5, t6, t7], (block >> 64) as u32)
                ^ word([t0, t1, t2, t3], (block >> 96) as u32);
        }
        let (words, rest) = rest.as_chunks::<4>();
        for bytes in words {
            sum = word([t0, t1, t2, t3], u32::from_le_bytes(*bytes) ^ sum);
        }
        for byte in rest {
            sum = sum >> 8 ^ look_up(t0, sum ^ u32::from(*byte));
        }
        !sum
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
        // Under miri each takes seconds.
        let cuts: &[usize] = if cfg!(miri) { &[500] } else { &[0, 1, 15, 16, 17, 31, 32, 33, 500, 999, 1000] };
        for &cut in cuts {
            let (front, back) = bytes.split_at(cut);
            let mut sum = super::Checksum::new();
            sum.update(front);
            assert_eq!(sum.finish(), slow(front));
            sum.update(back);
            assert_eq!(sum.finish(), slow(&bytes));
            assert_eq!(super::portable::append(super::portable::append(0, front), back), slow(&bytes), "without std");
        }
    }

    #[test]
    fn all_ways_to_the_checksum_agree_at_every_length() {
        let bytes: alloc::vec::Vec<u8> = (0..40_000_u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect();
        let lengths = (0..if cfg!(miri) { 80 } else { 1200 })
            .chain([1279, 1280, 1281, 1535, 1536, 2047, 3071, 3072, 3079, 3080, 6200, 9216, 30_001]);
        for (from, len) in lengths.enumerate().map(|(number, len)| (number % 9, len)) {
            let bytes = bytes.get(from..from + len).unwrap_or_default();
            for sum in [0, 0x89ab_cdef] {
                assert_eq!(super::imp::append(sum, bytes), super::portable::append(sum, bytes), "{len} bytes from {from}");
                // What processors without the instructions take.
                #[cfg(feature = "std")]
                assert_eq!(crc32c::crc32c_append(sum, bytes), super::imp::append(sum, bytes), "{len} bytes from {from}");
            }
            let (front, rest) = bytes.split_at(len.min(from * 7));
            let whole = [front, &[0; 8], rest].concat();
            assert_eq!(super::around_zeros(front, rest), super::portable::append(0, &whole), "{len} bytes from {from}");
        }
    }
}
