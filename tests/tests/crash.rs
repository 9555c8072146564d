//! Random power cuts, kills and bit rot. See `pipkin_tests::suite::crash`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::env_u64;
use pipkin_tests::suite::crash::{Budget, Counts, FLIPS, live, run};
use pipkin_tests::suite::left_space;
use std::sync::atomic::Ordering;

/// Images that the normal run owes.
const IMAGES_LEAST: u64 = 80_000;

#[test]
fn every_random_crash_leaves_a_prefix_and_no_flipped_bit_goes_unseen() {
    let flips = env_u64("PIPKIN_FLIPS", FLIPS);
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("crash", watched(|watch| live(env_u64("PIPKIN_SEED", 0), flips, &Counts::new(0), watch)));
    }
    let images = env_u64("PIPKIN_CRASH_IMAGES", IMAGES_LEAST);
    let counts = Counts::new(images);
    let budget = Budget { images, seed: env_u64("PIPKIN_FIRST_SEED", 1), seconds: f64::INFINITY, flips };
    unwrap("crash", run(&budget, &counts));
    let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    counts.images.finish(format_args!(
        "{} lives, {} cuts in compaction, checkpoint, open and close, {} in recovery, {} flipped bits; {} of {} stores opened whose \
         list of segments was damaged; {} images with records that expire, {} of them under a clock that was set back",
        count(&counts.lives),
        count(&counts.in_compaction),
        count(&counts.in_recovery),
        count(&counts.rotten),
        count(&counts.unlisted),
        count(&counts.lists),
        count(&counts.expiring),
        count(&counts.set_back)
    ));
    let (expiring, set_back) = (count(&counts.expiring), count(&counts.set_back));
    assert!(expiring * 10 >= images && set_back * 500 >= images, "too few records expire: {expiring} and {set_back} of {images}");
    assert!(count(&counts.unlisted) * 2 >= count(&counts.lists), "a damaged list costs nothing where all the rest is whole");
}

#[test]
fn nothing_is_written_into_space_of_an_earlier_session_that_was_not_reserved_again() {
    let only = std::env::var("PIPKIN_LEFT_SEED").is_ok().then(|| env_u64("PIPKIN_LEFT_SEED", 0));
    unwrap("space left by a session", only.map_or_else(|| left_space::run(200, 1), left_space::one));
}
