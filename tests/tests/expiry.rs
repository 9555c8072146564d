//! Records that expire: exact in every way of reading, under a clock that goes forward, back and wrong.

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::expiry::{Budget, run, under};

/// Histories of the normal run; the nightly one has 20,000.
const HISTORIES: u64 = 1500;

#[test]
fn every_read_agrees_with_a_model_of_the_same_clock() {
    let histories = env_u64("PIPKIN_EXPIRY_HISTORIES", HISTORIES);
    let quota = Quota::new("expiry", histories);
    let budget = Budget { histories, calls: 120, seed: env_u64("PIPKIN_SEED", 1) };
    unwrap("expiry", run(&budget, &quota));
    quota.finish(format_args!("seeds from {}", budget.seed));
}

#[test]
fn the_tombstone_of_an_expired_record_stays_as_long_as_an_earlier_version_does() {
    unwrap("expiry", under());
}
