//! A view keeps its content until the call ends; reads return what was written, cached or not.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::block::BLOCK;
use super::blocks::Blocks;
use alloc::vec;
use alloc::vec::Vec;

const LEN: usize = BLOCK * 12;

/// A xorshift generator.
struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// A file, its cached blocks, and the views taken in this call.
struct Cache {
    file: Vec<u8>,
    blocks: Blocks,
    views: Vec<(usize, &'static [u8], Vec<u8>)>,
}

impl Cache {
    /// The tests avoid writes to viewed bytes, as the contract demands.
    fn is_viewed(&self, from: usize, len: usize) -> bool {
        self.views.iter().any(|(at, bytes, _)| from < at + bytes.len() && *at < from + len)
    }

    fn write(&mut self, from: usize, bytes: &[u8]) {
        if !self.is_viewed(from, bytes.len()) {
            self.file[from..from + bytes.len()].copy_from_slice(bytes);
            self.blocks.write(from as u64, bytes);
        }
    }

    fn view(&mut self, from: usize, len: usize) {
        // SAFETY: `end_call` forgets the views first, the table lives as long as they do, and `write` leaves their ranges alone.
        if let Some(bytes) = unsafe { self.blocks.view(from as u64, len) } {
            assert_eq!(bytes, &self.file[from..from + len]);
            self.views.push((from, bytes, bytes.to_vec()));
        }
    }

    fn end_call(&mut self) {
        for (at, bytes, seen) in self.views.drain(..) {
            assert_eq!(bytes, seen, "the view at {at} has changed within its call");
        }
        self.blocks.end_call();
    }
}

#[test]
fn views_stay_as_they_are_until_the_call_ends_whatever_comes_and_goes() {
    let mut rng = Rng(0x9e37_79b9_7f4a_7c15);
    let mut cache = Cache { file: vec![0; LEN], blocks: Blocks::new(BLOCK * 4), views: Vec::new() };
    let (mut viewed, mut read) = (0, 0);
    for round in 0..if cfg!(miri) { 400 } else { 100_000 } {
        let fill = round as u8;
        match rng.below(16) {
            0..4 => {
                let number = rng.below(LEN / BLOCK);
                cache.write(number * BLOCK, &[fill; BLOCK]);
            }
            4..7 => {
                let (from, len) = (rng.below(LEN - 300), 1 + rng.below(300));
                cache.write(from, &vec![fill; len]);
            }
            7..12 => {
                cache.view(rng.below(LEN - 200), 1 + rng.below(200));
                viewed += cache.views.len();
            }
            12 => {
                let from = rng.below(LEN - 5000);
                let mut out = vec![0; rng.below(5000)];
                if cache.blocks.read(from as u64, &mut out) {
                    assert_eq!(out, &cache.file[from..from + out.len()]);
                    read += 1;
                }
            }
            13 => cache.blocks.cut(rng.below(LEN) as u64),
            _ => cache.end_call(),
        }
    }
    cache.end_call();
    assert!(viewed > 0 && read > 0, "{viewed} views, {read} reads");
}

#[test]
fn a_record_counts_as_checked_until_its_block_changes_or_its_segment_begins_anew() {
    let mut blocks = Blocks::new(BLOCK * 2);
    blocks.write(0, &[1; BLOCK]);
    assert!(!blocks.is_checked(8, 5));
    blocks.set_checked(8, 5);
    assert!(blocks.is_checked(8, 5) && !blocks.is_checked(12, 5) && !blocks.is_checked(8, 6));
    blocks.set_checked(12, 6);
    assert!(blocks.is_checked(12, 6) && !blocks.is_checked(8, 5) && !blocks.is_checked(8, 6));
    blocks.write(4000, &[2; 8]);
    assert!(!blocks.is_checked(12, 6));
    blocks.set_checked(12, 6);
    // Another block takes its place in the table; then it is cached again.
    blocks.write(2 * BLOCK as u64, &[3; BLOCK]);
    blocks.write(0, &[1; BLOCK]);
    assert!(!blocks.is_checked(12, 6));
}
