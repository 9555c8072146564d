//! Projections of event streams by processes that are killed. See `pipkin_tests::suite::projections`.

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::projections::{self, Budget, Counts, one, run};
use pipkin_tests::victim;

/// Kills that the normal run owes.
const KILLS_LEAST: u64 = 200;

/// Not a test of its own: the child that is killed, when the environment says so.
#[test]
fn child() {
    if let Some((folder, seed)) = victim::told() {
        projections::child(&folder, seed);
    }
}

#[test]
fn every_projection_is_the_fold_of_the_events_up_to_its_cursor() {
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("projections", one(env_u64("PIPKIN_SEED", 0), &Quota::new("projections", 0)));
    }
    let kills = env_u64("PIPKIN_PROJECTION_KILLS", KILLS_LEAST);
    let (quota, counts) = (Quota::new("projections", kills), Counts::default());
    unwrap("projections", run(&Budget { kills, seed: 1 }, &quota, &counts));
    let (events, removed) = (counts.events.into_inner(), counts.removed.into_inner());
    assert!(removed > 0 && removed < events, "{removed} of {events} events were removed");
    quota.finish(format_args!("{events} events appended, {removed} of them removed"));
}
