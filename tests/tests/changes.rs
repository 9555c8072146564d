//! Readers and consumers of changes on stores that are written, compacted, closed, killed and cut.

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::changes::{Budget, run};

/// Stores of the normal run; the nightly one has 20,000.
const FOLLOWED: u64 = 400;
/// One of so many has many threads.
const CROWDS: u64 = 20;

#[test]
fn every_commit_is_handed_out_once_whole_and_in_order_or_is_said_to_be_gone() {
    let lives = env_u64("PIPKIN_FOLLOWED", FOLLOWED);
    let crowds = lives.div_ceil(CROWDS);
    let quota = Quota::new("changes", lives + crowds);
    let budget = Budget { lives, crowds, seed: env_u64("PIPKIN_SEED", 1) };
    unwrap("changes", run(&budget, &quota));
    quota.finish(format_args!("seeds from {}", budget.seed));
}
