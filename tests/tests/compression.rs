//! Compressed values. See `pipkin_tests::suite::compression`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use pipkin_tests::counting::Counting;
use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::compression::{Budget, bombs, one, run};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Images that the normal run owes.
const IMAGES_LEAST: u64 = 8_000;

#[test]
fn every_crash_leaves_the_plain_values_of_a_prefix() {
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("compression", watched(|watch| one(env_u64("PIPKIN_SEED", 0), &Quota::new("compression", 0), watch)));
    }
    let images = env_u64("PIPKIN_COMPRESSION_IMAGES", IMAGES_LEAST);
    let quota = Quota::new("compression", images);
    unwrap("compression", run(&Budget { images, seed: 1 }, &quota));
    quota.finish("of stores with compressed values");
}

#[test]
fn values_that_lie_about_their_compression_are_errors_of_their_own() {
    unwrap("compression", bombs());
}
