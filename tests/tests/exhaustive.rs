//! Every sequence of at most two of thirteen operations, and every sixteenth one of three, and the same of eight under which a key
//! expires, crashed after every I/O, with every subset of the unsynced sectors lost. See `pipkin_tests::suite::exhaustive`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::env_u64;
use pipkin_tests::suite::exhaustive::{Budget, Counts, SECTORS_MAX, replay, run};
use std::sync::atomic::Ordering;

/// Images that the normal run owes.
const IMAGES_LEAST: u64 = 50_000;

#[test]
fn every_crash_of_every_short_sequence_leaves_a_prefix() {
    // PIPKIN_LONGEST=3 runs all of three, from an empty and from a recovered store too, which takes some twenty times as long.
    let longest = |default| env_u64("PIPKIN_LONGEST", default) as usize;
    let (every, sectors) = if std::env::var_os("PIPKIN_LONGEST").is_some() { (1, SECTORS_MAX) } else { (16, 9) };
    let budget = Budget { longest: longest(3), longest_elsewhere: longest(2), longest_expiring: longest(3), every, sectors };
    if let Ok(seed) = std::env::var("PIPKIN_SEED") {
        return unwrap("exhaustive", replay(&seed, &Counts::new(0)));
    }
    let counts = Counts::new(if budget.longest < 3 { 1 } else { IMAGES_LEAST });
    unwrap("exhaustive", run(&budget, &counts));
    counts.images.finish(format_args!(
        "{} crash points, {} of them with more than {sectors} unsynced sectors",
        counts.points.load(Ordering::Relaxed),
        counts.wide.load(Ordering::Relaxed)
    ));
}
