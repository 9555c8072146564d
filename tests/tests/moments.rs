//! Snapshots of a store that others write to, compact, clear and open again.

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::moments::{Budget, run, siblings};

/// Histories of the normal run; the nightly one has 1,000.
const HISTORIES: u64 = 100;

#[test]
fn every_snapshot_shows_one_state_of_each_writer_for_as_long_as_it_lives() {
    let histories = env_u64("PIPKIN_HISTORIES", HISTORIES);
    let quota = Quota::new("moments", histories);
    let budget = Budget { histories, calls: 150, seed: env_u64("PIPKIN_SEED", 1) };
    unwrap("moments", run(&budget, &quota));
    quota.finish(format_args!("seeds from {}", budget.seed));
}

#[test]
fn no_copy_knows_the_positions_of_another() {
    let first = env_u64("PIPKIN_SEED", 1);
    let quota = Quota::new("positions of copies", 200);
    for seed in first..first + 200 {
        unwrap("positions of copies", siblings(seed));
        quota.add(1);
    }
    quota.finish(format_args!("seeds from {first}"));
}
