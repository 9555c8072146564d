//! Readers beside a writer, which look at its file after every part of every write.

use pipkin_tests::parallel::{for_each, unwrap};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::following::run_one;

/// Stores of the normal run; the nightly one has 5,000.
const STORES: u64 = 60;
/// Operations on each.
const OPERATIONS: u64 = 150;
/// Looks that a store owes.
const LOOKS_LEAST: u64 = 100;

#[test]
fn every_look_shows_the_state_behind_a_commit_and_never_an_earlier_one() {
    // From a seed on: that one alone, unless a number of stores is named, too.
    let is_one = std::env::var("PIPKIN_SEED").is_ok();
    let first = env_u64("PIPKIN_SEED", 1);
    let stores = env_u64("PIPKIN_STORES_FOLLOWED", if is_one { 1 } else { STORES });
    let quota = Quota::new("following", stores * if is_one { 1 } else { LOOKS_LEAST });
    let outcome = for_each(first..=first + stores - 1, |seed, watch| {
        watch.begin(format!("PIPKIN_SEED={seed}"));
        run_one(seed, OPERATIONS, &quota)
    });
    unwrap("following", outcome);
    quota.finish(format_args!("{stores} stores"));
}
