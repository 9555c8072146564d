//! All capabilities in one store. See `pipkin_tests::suite::mixed`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::mixed::{Budget, one, run};

/// Images that the normal run owes.
const IMAGES_LEAST: u64 = 1_500;

#[test]
fn capabilities_hold_beside_each_other_behind_every_crash() {
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("mixed", watched(|watch| one(env_u64("PIPKIN_SEED", 0), &Quota::new("mixed", 0), watch)));
    }
    let images = env_u64("PIPKIN_MIXED_IMAGES", IMAGES_LEAST);
    let quota = Quota::new("mixed", images);
    unwrap("mixed", run(&Budget { images, seed: 1 }, &quota));
    quota.finish("of stores with all capabilities at once");
}
