//! CRC-32C by two instructions of x86-64: one takes eight bytes each three cycles, and begins another one each cycle. So the bytes are cut into three
//! lanes, whose sums are computed side by side and then put together by a multiplication without carries (V. Gopal et al., "Fast CRC Computation for
//! iSCSI Polynomial Using CRC32 Instruction", Intel, 2011). The lanes are a third of what there is: so records of 100 bytes have three, too.
//!
//! The crate `crc32c` has lanes for 768 bytes and more, and takes bytes one by one up to an aligned address: 11.1 ns for 20 bytes, 20.9 for 170, 77 for
//! 768, 197 for 4096. This takes 5.8, 15.5, 36 and, without `folds`, 158 (`cargo bench -p pipkin-bench --bench checksum`).

use core::arch::x86_64::{
    _mm_clmulepi64_si128, _mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64, _mm_cvtsi64_si128, _mm_cvtsi128_si64,
};

/// Words of eight bytes in the longest lane.
const LANE_MAX: usize = 128;
/// With fewer words than these, putting lanes together takes longer than one lane.
const LANES_FROM: usize = 9;

/// What moves a sum over so many words: powers of x, with the bits reversed. The exponent is 33 less than the bits of these words, which is what
/// the product of two reversed numbers, and the instruction that reduces it, add.
#[expect(clippy::indexing_slicing, reason = "an index that does not fit would fail to compile")]
static SHIFTS: [u32; 2 * LANE_MAX + 1] = {
    let mut shifts = [0; 2 * LANE_MAX + 1];
    let (mut power, mut exponent) = (1 << 31, 0);
    while exponent <= 128 * LANE_MAX - 33 {
        if (exponent + 33) % 64 == 0 {
            shifts[(exponent + 33) / 64] = power;
        }
        power = if power & 1 == 1 { power >> 1 ^ super::POLYNOMIAL } else { power >> 1 };
        exponent += 1;
    }
    shifts
};

/// The checksum of what gave `sum`, followed by `bytes`; `None` where the processor does not have the instructions.
#[inline]
pub(super) fn append(sum: u32, bytes: &[u8]) -> Option<u32> {
    // SAFETY: the processor has both.
    if is_there() { Some(unsafe { append_bytes(sum, bytes) }) } else { None }
}

/// The checksum of `front`, eight zeros and `rest`; `None` as for [`append`].
#[inline]
pub(super) fn around_zeros(front: &[u8], rest: &[u8]) -> Option<u32> {
    // SAFETY: the processor has both.
    if is_there() { Some(unsafe { sum_around_zeros(front, rest) }) } else { None }
}

#[inline]
fn is_there() -> bool {
    is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("pclmulqdq")
}

#[target_feature(enable = "sse4.2,pclmulqdq")]
fn append_bytes(sum: u32, bytes: &[u8]) -> u32 {
    !in_lanes(!sum, bytes)
}

#[target_feature(enable = "sse4.2,pclmulqdq")]
fn sum_around_zeros(front: &[u8], rest: &[u8]) -> u32 {
    let sum = _mm_crc32_u64(u64::from(in_lanes(u32::MAX, front)), 0);
    !in_lanes(sum as u32, rest)
}

#[inline]
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn in_lanes(sum: u32, bytes: &[u8]) -> u32 {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let mut sum = u64::from(sum);
    let (mut words, rest) = bytes.as_chunks::<8>();
    while words.len() >= LANES_FROM {
        let len = (words.len() / 3).min(LANE_MAX);
        let (first, others) = words.split_at(len);
        let (second, others) = others.split_at(len);
        let (third, behind) = others.split_at(len);
        let (mut low, mut mid, mut high, mut last) = (sum, 0, 0, 0);
        for ((first, second), third) in first.iter().zip(second).zip(third) {
            low = _mm_crc32_u64(low, word(first));
            mid = _mm_crc32_u64(mid, word(second));
            // One word behind: the last word of the third lane takes the sums of the others in.
            high = _mm_crc32_u64(high, last);
            last = word(third);
        }
        let shift = |len: usize| SHIFTS.get(len).copied().unwrap_or_default();
        sum = _mm_crc32_u64(high, last ^ moved(low, shift(2 * len)) ^ moved(mid, shift(len)));
        words = behind;
    }
    for bytes in words {
        sum = _mm_crc32_u64(sum, word(bytes));
    }
    let mut sum = sum as u32;
    let (four, rest) = rest.as_chunks::<4>();
    if let [bytes] = four {
        sum = _mm_crc32_u32(sum, u32::from_le_bytes(*bytes));
    }
    let (two, rest) = rest.as_chunks::<2>();
    if let [bytes] = two {
        sum = _mm_crc32_u16(sum, u16::from_le_bytes(*bytes));
    }
    if let [byte] = rest {
        sum = _mm_crc32_u8(sum, *byte);
    }
    sum
}

/// The product without carries: what the instruction reduces to the sum `lane`, moved over as many words as `shift` is for.
#[inline]
#[target_feature(enable = "sse4.2,pclmulqdq")]
fn moved(lane: u64, shift: u32) -> u64 {
    let product = _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(lane as i64), _mm_cvtsi64_si128(i64::from(shift)));
    _mm_cvtsi128_si64(product) as u64
}
