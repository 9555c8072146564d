//! Syncs that fail on a page cache, sessions that go on there, power cuts. See `pipkin_tests::suite::cache`.

use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::env_u64;
use pipkin_tests::suite::cache::{Budget, Counts, live, run};
use std::sync::atomic::Ordering;

/// Power cuts that the normal run owes.
const CUTS_LEAST: u64 = 15_000;

#[test]
fn what_was_flushed_survives_failed_syncs_before_it() {
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("page cache", watched(|watch| live(env_u64("PIPKIN_SEED", 0), &Counts::new(0), watch)));
    }
    let cuts = env_u64("PIPKIN_CACHE_CUTS", CUTS_LEAST);
    let counts = Counts::new(cuts);
    unwrap("page cache", run(&Budget { cuts, seed: env_u64("PIPKIN_FIRST_SEED", 1) }, &counts));
    let count = |of: &std::sync::atomic::AtomicU64| of.load(Ordering::Relaxed);
    let (lives, failed, clean) = (count(&counts.lives), count(&counts.failed), count(&counts.clean));
    assert!(clean * 50 >= cuts && failed >= lives, "{failed} failed syncs in {lives} lives, {clean} cuts of pages marked clean");
    counts.cuts.finish(format_args!("{lives} lives, {failed} failed syncs, {clean} cuts while sectors were marked clean"));
}
