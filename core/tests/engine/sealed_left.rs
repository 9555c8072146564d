//! What is left in a file of the store that was sealed in it.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "events"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::sealed_bytes::{frames, headers};
use crate::sealed_enabling::EXTENT;
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Where the copies of the page of keys stand.
const PAGES: [usize; 3] = [1024, 5120, 12_288];
/// Bytes that no two places share by chance.
const WINDOW: usize = 12;

/// What a sealed file has that a plain one must not have: ciphertext, tags, what sessions drew, wrapped keys.
#[derive(Default)]
pub(crate) struct Secrets {
    all: HashSet<[u8; WINDOW]>,
    /// Their first bytes.
    fronts: HashSet<[u8; 3], BuildHasherDefault<Fronts>>,
}

/// Mixes three bytes: nearly every place in a file is passed over by them.
#[derive(Default)]
struct Fronts(u64);

impl Hasher for Fronts {
    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.0 = self.0 << 8 | u64::from(byte));
    }
}

impl Secrets {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        for (start, ..) in headers(bytes, EXTENT) {
            self.add_all(&bytes[start + 80..start + 152]);
            for (at, len) in frames(bytes, start).1 {
                let is_control = matches!(bytes[at + 4] & 0x0f, 3..=6 | 8 | 11);
                match bytes[at + 4] & 0x80 {
                    0 => {}
                    _ if is_control => self.add_all(&bytes[at + len - 16..at + len]),
                    _ => self.add_all(&bytes[at + 16.min(len)..at + len]),
                }
            }
        }
        for slot in [0, 4096] {
            self.add_all(&bytes[slot + 480..slot + 496]);
        }
        PAGES.into_iter().for_each(|page| self.add_all(&bytes[page + 24..page + 3068]));
    }

    fn add_all(&mut self, bytes: &[u8]) {
        let windows = bytes.windows(WINDOW).filter(|window| window.iter().collect::<HashSet<_>>().len() > 7);
        for window in windows {
            self.all.insert(window.try_into().unwrap());
            self.fronts.insert(window[..3].try_into().unwrap());
        }
    }

    /// Where one of them stands in the file.
    pub(crate) fn found(&self, bytes: &[u8]) -> Option<usize> {
        let is_one = |window: &[u8]| self.fronts.contains(&window[..3]) && self.all.contains(window);
        bytes.windows(WINDOW).position(is_one)
    }

    /// Fails unless the file is a plain one in each byte.
    pub(crate) fn assert_plain(&self, bytes: &[u8], what: &str) {
        let at = self.found(bytes);
        assert_eq!(at, None, "{what}: something sealed is left");
        for slot in [0, 4096] {
            let word = |at: usize| u64::from_le_bytes(bytes[slot + at..slot + at + 8].try_into().unwrap());
            assert_eq!((word(16), word(192), word(200)), (0, 0, 0), "{what}: the superblock at {slot}");
            assert!(bytes[slot + 224..slot + 508].iter().all(|&byte| byte == 0), "{what}: the tag at {slot}");
        }
        for page in PAGES {
            assert!(bytes[page..page + 3072].iter().all(|&byte| byte == 0), "{what}: the page of keys at {page}");
        }
        for (start, ..) in headers(bytes, EXTENT) {
            assert!(bytes[start + 80..start + 188].iter().all(|&byte| byte == 0), "{what}: the header at {start}");
            let sealed = frames(bytes, start).1.into_iter().find(|&(at, _)| bytes[at + 4] & 0x80 != 0);
            assert_eq!(sealed, None, "{what}: a sealed frame");
        }
    }
}
