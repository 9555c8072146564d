//! Event streams over crashes, failed calls and damage. See `pipkin_tests::suite::events`.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use pipkin_tests::parallel::{unwrap, watched};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::events::{Budget, gone, one, races, run};

/// Images that the normal run owes.
const IMAGES_LEAST: u64 = 4_000;
/// Images of compactions that drop removed events.
const GONE_LEAST: u64 = 500;
/// Races for one version that the normal run owes.
const RACES_LEAST: u64 = 1_500;

#[test]
fn whatever_happens_to_a_store_its_events_are_those_of_a_prefix_of_the_commits() {
    if std::env::var("PIPKIN_SEED").is_ok() {
        return unwrap("events", watched(|watch| one(env_u64("PIPKIN_SEED", 0), &Quota::new("events", 0), watch)));
    }
    let images = env_u64("PIPKIN_EVENT_IMAGES", IMAGES_LEAST);
    let quota = Quota::new("events", images);
    unwrap("events", run(&Budget { images, crowds: 1 + images / 5000, seed: 1 }, &quota));
    quota.finish("of stores with event streams");
}

#[test]
fn events_that_were_removed_do_not_come_back_wherever_compaction_ends() {
    let quota = Quota::new("events, gone", GONE_LEAST);
    unwrap("events, gone", gone(env_u64("PIPKIN_SEED", 0), &quota));
    quota.finish("of a store whose removed events are dropped");
}

#[test]
fn of_those_that_append_behind_one_version_exactly_one_wins() {
    let count = env_u64("PIPKIN_EVENT_RACES", RACES_LEAST);
    let quota = Quota::new("events, races", count);
    unwrap("events, races", races(count, 1, &quota));
    quota.finish("of four threads each");
}
