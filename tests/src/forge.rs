//! Signs damaged structures anew, so that hostile files get past the checksums and into the code behind them. The layout is that
//! of `core/FORMAT.md`; [`agrees`] notices when it has moved on.

use crate::rng::{Choices, choose, index};
use pipkin::limits::DATA_START;
use xxhash_rust::xxh3::xxh3_64;

const SECTOR: usize = 512;
const SLOTS: [usize; 2] = [0, 4096];
/// Bytes of a copy of a segment header, and where the second one begins.
const HEADER_COPY: usize = 192;
const SECOND_COPY: usize = 512;
/// Bytes in front of the first frame of a segment, and at its end.
const HEADER: usize = SECOND_COPY + HEADER_COPY;
const TRAILER: usize = 31;
/// Length and checksum in front of a chunk of a snapshot.
const CHUNK_FRONT: usize = 8;
/// 64-bit words of a superblock that mean something.
const SUPERBLOCK_WORDS: usize = 28;
/// 64-bit words of a segment header.
const HEADER_WORDS: usize = 10;

/// Binds a checksum to a segment and a place.
pub fn bind(salt: u64, offset: u64) -> u32 {
    let mut x = salt ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 33;
    x = x.wrapping_mul(0xff51_afd7_ed55_8ccd);
    x ^= x >> 33;
    x = x.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    (x >> 32) as u32
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}

fn put_word(bytes: &mut [u8], at: usize, value: u64) {
    if let Some(place) = bytes.get_mut(at..at + 8) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

fn sign_superblock(bytes: &mut [u8], slot: usize) {
    if let Some(sector) = bytes.get_mut(slot..slot + SECTOR) {
        let sum = crc32c::crc32c(&sector[..SECTOR - 4]) ^ bind(0, slot as u64);
        sector[SECTOR - 4..].copy_from_slice(&sum.to_le_bytes());
    }
}

fn store_id(bytes: &[u8]) -> [u8; 16] {
    bytes.get(32..48).and_then(|id| id.first_chunk().copied()).unwrap_or_default()
}

/// Offsets of the extents: each is twice as long as the one before, up to the full length.
fn extents(bytes: &[u8]) -> Vec<usize> {
    let sizes = word(bytes, 64);
    let full = (sizes as u32 as usize).clamp(4096, 1 << 28);
    let mut size = ((sizes >> 32) as usize).clamp(4096, full);
    let (mut at, mut all) = (DATA_START as usize, Vec::new());
    while at < bytes.len() {
        all.push(at);
        at += size;
        size = (size * 2).min(full);
    }
    all
}

fn is_snapshot(bytes: &[u8], (header, _): (usize, usize)) -> bool {
    bytes.get(header + 20) == Some(&2)
}

fn sign_header_copy(bytes: &mut [u8], at: usize, id: [u8; 16]) {
    if let Some(copy) = bytes.get_mut(at..at + HEADER_COPY) {
        let sum = crc32c::crc32c(&copy[..HEADER_COPY - 4]) ^ bind(xxh3_64(&id), at as u64);
        copy[HEADER_COPY - 4..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Offsets of the segment headers, and of the ends of their segments.
fn headers(bytes: &[u8]) -> Vec<(usize, usize)> {
    let extents = extents(bytes);
    let has_one = |&(_, &at): &(usize, &usize)| bytes.get(at + 16..at + 20) == Some(b"PSEG");
    let end =
        |index: usize, at: usize| extents.get(index + (word(bytes, at + 24) as u32 as usize)).copied().unwrap_or(bytes.len());
    extents.iter().enumerate().filter(has_one).map(|(index, &at)| (at, end(index, at).max(at))).collect()
}

/// The frames of a segment: offset and length, as far as their headers make sense; the one in the trailer, too.
fn frames(bytes: &[u8], (header, end): (usize, usize)) -> Vec<(usize, usize)> {
    let trailer = end.saturating_sub(TRAILER);
    let mut at = header + HEADER;
    let mut out = Vec::new();
    while let Some(len) = bytes.get(at..trailer).and_then(frame_len).filter(|len| at + len <= trailer) {
        out.push((at, len));
        at += len;
    }
    if trailer > at && bytes.get(trailer..end).and_then(frame_len) == Some(TRAILER) {
        out.push((trailer, TRAILER));
    }
    out
}

/// The length of the frame that `bytes` begin with, as its header says it; `None` where that ends too early.
pub fn frame_len(bytes: &[u8]) -> Option<usize> {
    let head = *bytes.get(4)?;
    let mut at = 5 + usize::from(head & 0x40 != 0);
    let mut number = || -> Option<usize> {
        let mut value = 0_usize;
        for shift in 0..5 {
            let byte = *bytes.get(at)?;
            at += 1;
            value |= usize::from(byte & 0x7f) << (7 * shift);
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    };
    let (key, value) = (number()?, number()?);
    if head & 0x40 != 0 {
        let flags = *bytes.get(5)?;
        if flags & 0x01 != 0 {
            number()?;
        }
        at += fields_len(bytes.get(at..)?, flags)?;
    }
    (head & 0x0f != 0).then_some(at + key + value)
}

/// The length of the optional fields that `bytes` begin with.
fn fields_len(bytes: &[u8], flags: u8) -> Option<usize> {
    let mut at = if flags & 0x02 != 0 { 6 } else { 0 };
    let varint = |at: usize| Some(bytes.get(at..)?.iter().position(|&byte| byte & 0x80 == 0)? + 1);
    if flags & 0x04 != 0 {
        at += 1;
        at += varint(at)?;
        at += varint(at)?;
    }
    if flags & 0x08 != 0 {
        at += varint(at)?;
    }
    if flags & 0x80 != 0 {
        at += 2 + usize::from(*bytes.get(at + 1)?);
    }
    Some(at)
}

/// The chunks of a snapshot's segment: offset and length, that of their own front included.
fn chunks(bytes: &[u8], (header, end): (usize, usize)) -> Vec<(usize, usize)> {
    let mut at = header + HEADER;
    let mut out = Vec::new();
    while let Some(len) = bytes.get(at..at + 4).and_then(|len| len.first_chunk()).map(|len| u32::from_le_bytes(*len) as usize) {
        if len == 0 || at + CHUNK_FRONT + len > end.min(bytes.len()) {
            break;
        }
        out.push((at, CHUNK_FRONT + len));
        at += CHUNK_FRONT + len;
    }
    out
}

fn sign_chunk(bytes: &mut [u8], at: usize, len: usize, salt: u64) {
    if let Some(chunk) = bytes.get_mut(at..at + len) {
        sign_chunk_at(chunk, salt, at as u64);
    }
}

fn sign_frame(bytes: &mut [u8], at: usize, len: usize, salt: u64) {
    if let Some(frame) = bytes.get_mut(at..at + len) {
        sign(frame, salt, at as u64);
    }
}

/// Where in the frame of an event its number stands, which the checksum does not cover.
fn event_number(frame: &[u8]) -> Option<usize> {
    if frame.get(4)? & 0x0f != 7 {
        return None;
    }
    let mut at = 5 + usize::from(frame.get(4)? & 0x40 != 0);
    let mut value_len = 0;
    for _ in 0..2 {
        value_len = 0;
        for shift in 0..5 {
            let byte = *frame.get(at)?;
            at += 1;
            value_len |= usize::from(byte & 0x7f) << (7 * shift);
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    (value_len >= 8).then(|| frame.len().checked_sub(value_len)).flatten()
}

/// Key and value of a record that is as long as `frame`, for [`put_frame`] to take its place: how tests come to frames that the engine does not
/// write.
pub fn placeholder(index: usize, frame: &[u8]) -> (&'static str, Vec<u8>) {
    let mut value = format!("<{index:02}>").into_bytes();
    value.resize(frame.len() - front_of_placeholder(frame), b'.');
    ("~", value)
}

/// Bytes in front of the value. Lengths up to 127 take one byte.
fn front_of_placeholder(frame: &[u8]) -> usize {
    if frame.len() <= 8 + 127 { 8 } else { 9 }
}

/// Puts a frame, whatever its checksum, into the place of placeholder number `index`.
///
/// # Panics
///
/// When the store does not have it.
pub fn put_frame(bytes: &mut [u8], index: usize, frame: &[u8]) {
    let placeholder = format!("<{index:02}>").into_bytes();
    let value = bytes.windows(placeholder.len()).position(|window| window == placeholder).expect("no placeholder of that number");
    let at = value - front_of_placeholder(frame);
    let is_header = |at: &usize| at.is_multiple_of(4096) && bytes[at + 16..at + 20] == *b"PSEG";
    let header = (0..=at).rev().find(is_header).expect("no segment in front of it");
    let salt = word(bytes, header);
    let mut frame = frame.to_vec();
    sign(&mut frame, salt, at as u64);
    bytes[at..at + frame.len()].copy_from_slice(&frame);
}

/// Gives a frame the checksum that fits it at `offset` of a segment with `salt`.
pub fn sign(frame: &mut [u8], salt: u64, offset: u64) {
    let number = event_number(frame).and_then(|at| Some((at, word(frame.get(at..at + 8)?, 0))));
    if let Some((sum, covered)) = frame.split_first_chunk_mut::<4>() {
        let sum_of_all = match number {
            Some((at, number)) => {
                let zeroed = crc32c::crc32c_append(crc32c::crc32c(&covered[..at - 4]), &[0; 8]);
                crc32c::crc32c_append(zeroed, &covered[at + 4..]) ^ bind(number, 1)
            }
            None => crc32c::crc32c(covered),
        };
        *sum = (sum_of_all ^ bind(salt, offset)).to_le_bytes();
    }
}

/// True when signing an undamaged store anew changes none of its bytes, and there was something to sign.
pub fn agrees(store: &[u8]) -> bool {
    let (again, signed) = sign_all(store);
    signed > 10 && again == store
}

/// Signs every superblock, segment header and frame of `store` that can be found, and counts the frames.
pub fn sign_all(store: &[u8]) -> (Vec<u8>, usize) {
    let mut again = store.to_vec();
    let id = store_id(store);
    SLOTS.iter().for_each(|&slot| sign_superblock(&mut again, slot));
    let mut signed = 0;
    for header in headers(store) {
        sign_header_copy(&mut again, header.0, id);
        sign_header_copy(&mut again, header.0 + SECOND_COPY, id);
        let salt = word(store, header.0);
        if is_snapshot(store, header) {
            for (at, len) in chunks(store, header) {
                sign_chunk(&mut again, at, len, salt);
                signed += 1;
            }
        } else {
            for (at, len) in frames(store, header) {
                sign_frame(&mut again, at, len, salt);
                signed += 1;
            }
        }
    }
    (again, signed)
}

/// A number that somebody who means harm would choose.
fn evil(rng: &mut impl Choices, old: u64, len: u64) -> u64 {
    match rng.below(12) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::from(u32::MAX),
        3 => 1 << rng.below(64),
        4 => (1 << rng.below(64)) - 1,
        5 => old ^ 1 << rng.below(64),
        6 => old.wrapping_add(1),
        7 => old.wrapping_sub(1),
        8 => rng.below(len + 1),
        9 => DATA_START + rng.below(len / 4096 + 1) * 4096,
        10 => rng.next_u64(),
        _ => old.wrapping_mul(2),
    }
}

/// Changes a field somewhere and signs what holds it.
pub fn forge(bytes: &mut [u8], rng: &mut impl Choices) {
    let len = bytes.len() as u64;
    let id = store_id(bytes);
    match rng.below(5) {
        0 => {
            let slot = choose(rng, &SLOTS);
            let at = slot + 8 * (1 + index(rng, SUPERBLOCK_WORDS - 1));
            let value = evil(rng, word(bytes, at), len);
            put_word(bytes, at, value);
            sign_superblock(bytes, slot);
        }
        1 => {
            let all = headers(bytes);
            if all.is_empty() {
                return;
            }
            let (header, _) = choose(rng, &all);
            let field = 8 * index(rng, HEADER_WORDS);
            let value = evil(rng, word(bytes, header + field), len);
            for copy in [header, header + SECOND_COPY] {
                put_word(bytes, copy + field, value);
                sign_header_copy(bytes, copy, id);
            }
        }
        2 => forge_chunk(bytes, rng),
        _ => forge_frame(bytes, rng),
    }
}

/// Changes one to three bytes of a chunk of a snapshot, often of the directory, which stands behind the others, and signs it.
fn forge_chunk(bytes: &mut [u8], rng: &mut impl Choices) {
    let snapshots: Vec<_> = headers(bytes).into_iter().filter(|&header| is_snapshot(bytes, header)).collect();
    if snapshots.is_empty() {
        return;
    }
    let header = choose(rng, &snapshots);
    let chunks = chunks(bytes, header);
    let Some(&last) = chunks.last() else { return };
    let (at, len) = if rng.chance(1, 2) { last } else { choose(rng, &chunks) };
    for _ in 0..1 + rng.below(3) {
        let within = CHUNK_FRONT + index(rng, len - CHUNK_FRONT);
        change_byte(bytes, at + within, rng);
    }
    let salt = word(bytes, header.0);
    sign_chunk(bytes, at, len, salt);
}

fn change_byte(bytes: &mut [u8], at: usize, rng: &mut impl Choices) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = match rng.below(4) {
            0 => 0xff,
            1 => 0,
            2 => *byte ^ 1 << rng.below(8),
            _ => rng.below(256) as u8,
        };
    }
}

/// Changes a byte of a frame, most often of its header, and signs the frame; its length may change with it.
fn forge_frame(bytes: &mut [u8], rng: &mut impl Choices) {
    let all = headers(bytes);
    if all.is_empty() {
        return;
    }
    let header = choose(rng, &all);
    let salt = word(bytes, header.0);
    let frames = frames(bytes, header);
    if frames.is_empty() {
        return;
    }
    let (at, len) = choose(rng, &frames);
    let within = if rng.chance(3, 4) { 4 + index(rng, 12.min(len - 4)) } else { 4 + index(rng, len - 4) };
    change_byte(bytes, at + within, rng);
    let len = bytes.get(at..).and_then(frame_len).filter(|len| at + len <= bytes.len()).unwrap_or(len);
    sign_frame(bytes, at, len, salt);
}

/// Gives a chunk of a snapshot at `offset` of the file the length and the checksum that fit it.
pub fn sign_chunk_at(chunk: &mut [u8], salt: u64, offset: u64) {
    if let Some((front, body)) = chunk.split_first_chunk_mut::<CHUNK_FRONT>() {
        let sum = crc32c::crc32c(body) ^ bind(salt, offset);
        *front = (u64::from(sum) << 32 | body.len() as u64).to_le_bytes();
    }
}

/// Puts a word into both superblocks, and signs them.
pub fn sign_front(bytes: &mut [u8], at: usize, value: u64) {
    for slot in SLOTS {
        put_word(bytes, slot + at, value);
        sign_superblock(bytes, slot);
    }
}

/// Makes a store look as if a newer pipkin had written it.
pub fn set_version(bytes: &mut [u8], version: u64) {
    sign_front(bytes, 8, version << 32 | version);
}

/// Chunks of snapshots: where each begins, its length with its front, and where its segment begins.
pub fn snapshot_chunks(bytes: &[u8]) -> Vec<(usize, usize, usize)> {
    let snapshots = headers(bytes).into_iter().filter(|&header| is_snapshot(bytes, header));
    snapshots.flat_map(|header| chunks(bytes, header).into_iter().map(move |(at, len)| (at, len, header.0))).collect()
}

/// Changes one bit of a chunk, and signs it.
pub fn forge_bit(bytes: &mut [u8], (at, len, header): (usize, usize, usize), bit: usize) {
    let within = at + CHUNK_FRONT + bit / 8 % (len - CHUNK_FRONT);
    bytes[within] ^= 1 << (bit % 8);
    let salt = word(bytes, header);
    sign_chunk(bytes, at, len, salt);
}

/// Where the frame stands that holds the newest list of segments.
pub fn list_frame(bytes: &[u8]) -> Option<std::ops::Range<usize>> {
    let at = word(bytes, newest_slot(bytes) + 88) as usize;
    let len = frame_len(bytes.get(at..)?)?;
    (at > 0 && at + len <= bytes.len()).then_some(at..at + len)
}

/// Where the headers of segments of the log stand that are older than the one with the newest list, some of them of lives that are over.
pub fn listed_headers(bytes: &[u8]) -> Vec<usize> {
    let base = word(bytes, newest_slot(bytes) + 72);
    let mut headers = log_headers(bytes);
    headers.retain(|&at| word(bytes, at + 8) < base);
    headers
}

fn newest_slot(bytes: &[u8]) -> usize {
    if word(bytes, 48) >= word(bytes, 4096 + 48) { 0 } else { 4096 }
}

/// Where log segments begin.
pub fn log_headers(bytes: &[u8]) -> Vec<usize> {
    headers(bytes).into_iter().filter(|&header| !is_snapshot(bytes, header)).map(|(at, _)| at).collect()
}

/// Bytes in front of a segment's frames.
pub const HEADER_LEN: usize = HEADER;

/// Both copies of the header at `from`, with some words changed, for a segment at `at`.
pub fn moved_header(bytes: &[u8], from: usize, changes: &[(usize, u64)], at: usize) -> Vec<u8> {
    let mut out = vec![0; at + HEADER];
    for copy in [at, at + SECOND_COPY] {
        out[copy..copy + HEADER_COPY].copy_from_slice(&bytes[from..from + HEADER_COPY]);
        changes.iter().for_each(|&(field, value)| put_word(&mut out, copy + field, value));
        sign_header_copy(&mut out, copy, store_id(bytes));
    }
    out.split_off(at)
}
