//! Bits of a golden segment flipped, truncations of it opened: at night every one. See `pipkin_tests::suite::codec`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin::limits::DATA_START;
use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::codec::{End, Golden, SEGMENT_LEN, flip_all, replay, truncate_all};

const BITS: u64 = SEGMENT_LEN as u64 * 8;
/// Of so many bits of the golden segment in a row one is flipped: one or two of each byte in the killed store, where recovery and reads both have
/// to cope, and of every two bytes in the closed one, where only reads do. Odd, so that each bit of a byte has its turn.
const STRIDE_KILLED: u64 = 5;
const STRIDE_CLOSED: u64 = 15;
/// Of so many lengths in a row one is tried.
const STRIDE_LENGTHS: u64 = 3;
/// What stands before and behind the segment is sampled: every so many-th bit. Prime, so that no field is always missed.
const STRIDE_OUTSIDE: u64 = 61;

/// Shorter files do not even say that they were more than a store whose creation was cut short, so they are opened as such.
const SUPERBLOCK_BEGUN: u64 = 40;

fn exhaust(end: End) {
    if let Ok(seed) = std::env::var("PIPKIN_SEED") {
        return unwrap("codec", watched(|_| replay(&seed)));
    }
    let golden = Golden::new(end);
    let segment_end = DATA_START + u64::from(SEGMENT_LEN);
    assert!(golden.len() > segment_end, "the golden store is too short");
    let stride = env_u64("PIPKIN_FLIP_STRIDE", if end == End::Closed { STRIDE_CLOSED } else { STRIDE_KILLED });
    let flips = Quota::new("codec, flips in the golden segment", BITS / stride);
    unwrap("codec", flip_all(&golden, DATA_START * 8..segment_end * 8, stride, &flips));
    flips.finish(format_args!("{end:?} store"));
    let outside = Quota::new("codec, flips outside of it", 1000);
    unwrap("codec", flip_all(&golden, 0..DATA_START * 8, STRIDE_OUTSIDE, &outside));
    unwrap("codec", flip_all(&golden, segment_end * 8..golden.len() * 8, STRIDE_OUTSIDE, &outside));
    outside.finish(format_args!("{end:?} store"));
    let stride = env_u64("PIPKIN_FLIP_STRIDE", STRIDE_LENGTHS);
    let truncations = Quota::new("codec, truncations", u64::from(SEGMENT_LEN) / stride);
    unwrap("codec", truncate_all(&golden, DATA_START..segment_end, stride, &truncations));
    unwrap("codec", truncate_all(&golden, SUPERBLOCK_BEGUN..DATA_START, 7, &truncations));
    unwrap("codec", truncate_all(&golden, segment_end..golden.len(), 7, &truncations));
    truncations.finish(format_args!("{end:?} store"));
}

#[test]
fn no_flipped_bit_or_truncation_of_a_closed_store_gives_a_wrong_answer() {
    exhaust(End::Closed);
}

#[test]
fn no_flipped_bit_or_truncation_of_a_killed_store_gives_a_wrong_answer() {
    exhaust(End::Killed);
}
