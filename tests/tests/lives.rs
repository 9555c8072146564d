//! Many unclean ends in a row, on full media and others. See `pipkin_tests::suite::lives`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::env_u64;
use pipkin_tests::suite::lives::{Budget, Counts, one, run};
use std::sync::atomic::{AtomicU64, Ordering};

/// Unclean ends that the normal run owes.
const DEATHS_LEAST: u64 = 3_000;

#[test]
fn whatever_number_of_unclean_ends_a_store_has_a_way_out_and_stays_bounded() {
    if std::env::var("PIPKIN_LIFE_SEED").is_ok() {
        return unwrap("lives", watched(|watch| one(env_u64("PIPKIN_LIFE_SEED", 0), &Counts::new(0), watch)));
    }
    let deaths = env_u64("PIPKIN_LIFE_DEATHS", DEATHS_LEAST);
    let counts = Counts::new(deaths);
    unwrap("lives", run(&Budget { deaths, seed: env_u64("PIPKIN_FIRST_SEED", 1) }, &counts));
    let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
    counts.deaths.finish(format_args!(
        "{} stores, {} deaths on full media, {} inside of a call, {} power cuts, {} removals",
        count(&counts.lives),
        count(&counts.full),
        count(&counts.inside),
        count(&counts.cuts),
        count(&counts.removals)
    ));
}
