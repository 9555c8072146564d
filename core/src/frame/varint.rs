//! LEB128 for unsigned numbers of 32 bits and of 63, in the shortest form only, so that every number has exactly one encoding.

/// Encoded length of `value` in bytes.
pub(super) const fn len(value: u32) -> usize {
    match value {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        0x20_0000..=0xfff_ffff => 4,
        _ => 5,
    }
}

/// Encodes `value`, passing each byte to `push`.
#[inline]
pub(super) fn encode(value: u32, push: impl FnMut(u8)) {
    encode_u64(u64::from(value), push);
}

/// As [`encode`], for numbers below 2^63.
#[inline]
pub(crate) fn encode_u64(mut value: u64, mut push: impl FnMut(u8)) {
    while value >= 0x80 {
        push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    push(value as u8);
}

/// A number of 32 bits and its encoded length in bytes; `None` where the bytes end or are not the shortest form.
#[inline]
pub(super) fn decode(bytes: &[u8]) -> Option<(u32, usize)> {
    if let [byte @ ..0x80, ..] = bytes {
        return Some((u32::from(*byte), 1));
    }
    let (value, len) = decode_within(bytes, 5)?;
    Some((u32::try_from(value).ok()?, len))
}

/// As [`decode`], for numbers below 2^63.
#[inline]
pub(crate) fn decode_u64(bytes: &[u8]) -> Option<(u64, usize)> {
    if let [byte @ ..0x80, ..] = bytes {
        return Some((u64::from(*byte), 1));
    }
    decode_within(bytes, 9)
}

fn decode_within(bytes: &[u8], len_max: usize) -> Option<(u64, usize)> {
    // Numbers of two and three bytes do without the loop, but not in a module that is downloaded, for its size.
    match *bytes {
        _ if cfg!(target_family = "wasm") => {}
        [low @ 0x80..=0xff, high @ 1..0x80, ..] => return Some((u64::from(low & 0x7f) | u64::from(high) << 7, 2)),
        [low @ 0x80..=0xff, mid @ 0x80..=0xff, high @ 1..0x80, ..] => {
            return Some((u64::from(low & 0x7f) | u64::from(mid & 0x7f) << 7 | u64::from(high) << 14, 3));
        }
        _ => {}
    }
    let mut value = 0;
    for (i, &byte) in bytes.iter().take(len_max).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return (i == 0 || byte != 0).then_some((value, i + 1));
        }
    }
    None
}
