//! Reads of several keys beside batches, transactions, clears, expiries, compaction and reopening.

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::env_u64;
use pipkin_tests::suite::many::{Budget, Counts, run};

/// Histories of the normal run; the nightly one has 1,000.
const HISTORIES: u64 = 20;
/// Commits of each writer in a session.
const COMMITS: usize = 400;

#[test]
fn every_read_of_several_keys_shows_one_moment() {
    let histories = env_u64("PIPKIN_MANY", HISTORIES);
    let counts = Counts::new(histories * 100, histories);
    let budget = Budget { histories, commits: COMMITS, seed: env_u64("PIPKIN_SEED", 1) };
    unwrap("many", run(&budget, &counts));
    counts.followed.finish("reads of a follower");
    counts.reads.finish(format_args!("{histories} histories, seeds from {}", budget.seed));
}
