//! Keys in order out of the index snapshot. See `pipkin_tests::suite::order`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::order::{Budget, one, run};

/// Images that the normal run owes.
const IMAGES_LEAST: u64 = 1_000;

#[test]
fn ranges_show_what_a_store_has_behind_every_crash() {
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("order", watched(|watch| one(env_u64("PIPKIN_SEED", 0), &Quota::new("order", 0), watch)));
    }
    let images = env_u64("PIPKIN_ORDER_IMAGES", IMAGES_LEAST);
    let quota = Quota::new("order", images);
    unwrap("order", run(&Budget { images, seed: 1 }, &quota));
    quota.finish("of stores with keys in order");
}
