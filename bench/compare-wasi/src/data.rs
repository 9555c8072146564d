/// Bytes of a value.
pub(crate) const VALUE_LEN: usize = 150;

/// The key of a number: 24 bytes of text that look random.
pub(crate) fn key(number: u64) -> String {
    format!("{:016x}{:08x}", mixed(number), mixed(!number) >> 32)
}

/// A sequence of numbers below `below` that looks random.
pub(crate) fn shuffled(below: u64, seed: u64) -> impl Iterator<Item = u64> {
    (0..).map(move |step: u64| mixed(seed ^ (step << 20)) % below.max(1))
}

/// The last step of SplitMix64: different numbers for different numbers.
fn mixed(number: u64) -> u64 {
    let word = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
