//! Crashes under several writers. See `pipkin_tests::suite::writers`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::env_u64;
use pipkin_tests::suite::writers::{Budget, Counts, one, run};
use std::sync::atomic::{AtomicU64, Ordering};

/// Images that the normal run owes.
const IMAGES_LEAST: u64 = 1_500;

#[test]
fn what_several_writers_were_told_outlives_every_crash_and_no_commit_is_torn() {
    if std::env::var("PIPKIN_WRITERS_SEED").is_ok() {
        return unwrap("writers", watched(|watch| one(env_u64("PIPKIN_WRITERS_SEED", 0), &Counts::new(0), watch)));
    }
    let images = env_u64("PIPKIN_WRITERS_IMAGES", IMAGES_LEAST);
    let counts = Counts::new(images);
    unwrap("writers", run(&Budget { images, seed: env_u64("PIPKIN_FIRST_SEED", 1) }, &counts));
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    assert!(count(&counts.expired) > 0, "no record expired while an image was looked at");
    counts.images.finish(format_args!(
        "{} stores, {} power cuts, {} commits that were durable by then and found, {} records expired while looked at",
        count(&counts.lives),
        count(&counts.cuts),
        count(&counts.durable),
        count(&counts.expired)
    ));
}
