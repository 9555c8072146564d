//! The bytes of sealed stores, as somebody without the key can read and change them: with checksums that fit.
#![cfg(all(feature = "encrypt", feature = "testing"))]
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "each set of features uses a part, and a test fails by panicking"
)]

use pipkin::storage::{MemoryStorage, Storage};

/// Where the first segment may begin.
pub(crate) const FIRST: usize = 16_384;
/// Bytes of a segment in front of its first frame.
pub(crate) const HEADER_LEN: usize = 704;

/// The whole file.
pub(crate) fn bytes(file: &MemoryStorage) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

/// Offset, extents and number of each segment header in the file.
pub(crate) fn headers(bytes: &[u8], extent: usize) -> Vec<(usize, u32, u64)> {
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let starts =
        (FIRST..bytes.len().saturating_sub(HEADER_LEN)).step_by(extent).filter(|&at| &bytes[at + 16..at + 20] == b"PSEG");
    starts.map(|at| (at, word(at + 24) as u32, word(at + 72))).collect()
}

/// Checksums of both copies of the segment header at `start`.
pub(crate) fn repair_header(bytes: &mut [u8], start: usize) {
    let store_id: [u8; 16] = bytes[32..48].try_into().unwrap();
    for at in [start, start + 512] {
        let sum = pipkin::crc32c(&bytes[at..at + 188]) ^ bind(xxhash_rust::xxh3::xxh3_64_with_seed(&store_id, 0), at as u64);
        bytes[at + 188..at + 192].copy_from_slice(&sum.to_le_bytes());
    }
}

/// CRC-32C over `bytes`, for the place of `slot`.
pub(crate) fn repair_superblock(bytes: &mut [u8], slot: usize) {
    let sum = pipkin::crc32c(&bytes[slot..slot + 508]) ^ bind(0, slot as u64);
    bytes[slot + 508..slot + 512].copy_from_slice(&sum.to_le_bytes());
}

fn bind(salt: u64, offset: u64) -> u32 {
    let mut x = salt ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (x >> 32) as u32
}

/// Offsets and lengths of the frames of the segment that begins at `start`, and its salt.
pub(crate) fn frames(bytes: &[u8], start: usize) -> (u64, Vec<(usize, usize)>) {
    let salt = u64::from_le_bytes(bytes[start..start + 8].try_into().unwrap());
    let (mut at, mut found) = (start + 704, Vec::new());
    while let Some(len) = frame_len(bytes, at) {
        if bytes[at..at + 4] != sum(bytes, salt, at, len).to_le_bytes() {
            break;
        }
        found.push((at, len));
        at += len;
    }
    (salt, found)
}

/// The length of the frame at `at`.
pub(crate) fn frame_len(bytes: &[u8], at: usize) -> Option<usize> {
    let (_, end) = value(bytes, at)?;
    Some(end - at)
}

/// The number at a place, which moves behind it.
fn number_at(bytes: &[u8], place: &mut usize) -> Option<usize> {
    let (mut value, mut shift) = (0_usize, 0);
    loop {
        let byte = *bytes.get(*place)?;
        *place += 1;
        // What is no frame may say anything.
        value |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte < 0x80 {
            return Some(value);
        }
    }
}

/// Where the value of the frame at `at` begins and ends.
fn value(bytes: &[u8], at: usize) -> Option<(usize, usize)> {
    let mut place = at + 4;
    let head = *bytes.get(place)?;
    let flags = if head & 0x40 == 0 { 0 } else { *bytes.get(place + 1)? };
    place += if head & 0x40 == 0 { 1 } else { 2 };
    let mut number = || number_at(bytes, &mut place);
    let (key, value) = (number()?, number()?);
    if flags & 1 != 0 {
        number()?;
    }
    // An expiry, a codec, an origin.
    let mut fixed = if flags & 2 != 0 { 6 } else { 0 };
    if flags & 4 != 0 {
        place += fixed + 1;
        fixed = 0;
        number_at(bytes, &mut place)?;
        number_at(bytes, &mut place)?;
    }
    place += fixed;
    if flags & 8 != 0 {
        number_at(bytes, &mut place)?;
    }
    let end = place.checked_add(key)?.checked_add(value)?;
    (end <= bytes.len()).then_some((place + key, end))
}

/// The checksum of the frame at `at`. What stands in the place of an event's number is added to it in a way of its own.
fn sum(bytes: &[u8], salt: u64, at: usize, len: usize) -> u32 {
    let sum = bind(salt, at as u64);
    let text = at + 4..at + len;
    match value(bytes, at) {
        Some((value, end)) if bytes[at + 4] & 0x0f == 7 && end >= value + 8 && end <= text.end => {
            let mut text = bytes[text].to_vec();
            let number = &mut text[value - at - 4..][..8];
            let bound = bind(u64::from_le_bytes(number.try_into().unwrap()), 1);
            number.fill(0);
            pipkin::crc32c(&text) ^ sum ^ bound
        }
        _ => pipkin::crc32c(&bytes[text]) ^ sum,
    }
}

/// Gives the frame at `at` a checksum that fits.
pub(crate) fn sum_again(bytes: &mut [u8], salt: u64, at: usize, len: usize) {
    let sum = sum(bytes, salt, at, len);
    bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
}
