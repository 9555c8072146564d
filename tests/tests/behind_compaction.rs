//! Readers of changes in another process. See `pipkin_tests::suite::behind_compaction`.

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::behind_compaction::{self, Told, one, run};
use pipkin_tests::victim;
use std::sync::atomic::Ordering;

/// Stores of the normal run.
const STORES: u64 = 15;

/// Not a test of its own: the process that writes, when the environment says so.
#[test]
fn child() {
    if let Some((folder, seed)) = victim::told() {
        behind_compaction::child(&folder, seed);
    }
}

#[test]
fn a_reader_in_another_process_hears_every_commit_or_is_told_what_is_gone() {
    let told = Told::default();
    if std::env::var("PIPKIN_SEED").is_ok() {
        let quota = Quota::new("behind_compaction", 1);
        return unwrap("behind_compaction", one(env_u64("PIPKIN_SEED", 0), &quota, &told));
    }
    let stores = env_u64("PIPKIN_BEHIND_COMPACTION", STORES);
    let quota = Quota::new("behind_compaction", stores);
    unwrap("behind_compaction", run(stores, &quota, &told));
    let [commits, compacted, in_vain] =
        [&told.commits, &told.compacted, &told.in_vain].map(|count| count.load(Ordering::Relaxed));
    assert!(commits > 100 * stores && compacted > in_vain, "{commits} commits heard, {compacted} times gone, {in_vain} in vain");
    quota.finish(format_args!("{commits} commits heard, {compacted} times told of a gap, {in_vain} times where none was"));
}
