//! Deleting groups of records. See `pipkin_tests::suite::groups`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::groups::{Budget, one, run};

/// Images that the normal run owes.
const IMAGES_LEAST: u64 = 8_000;

#[test]
fn a_crash_leaves_a_group_as_it_was_or_nothing_of_it() {
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("groups", watched(|watch| one(env_u64("PIPKIN_SEED", 0), &Quota::new("groups", 0), watch)));
    }
    let images = env_u64("PIPKIN_GROUP_IMAGES", IMAGES_LEAST);
    let quota = Quota::new("groups", images);
    unwrap("groups", run(&Budget { images, seed: 1 }, &quota));
    quota.finish("of stores with deleted groups");
}
