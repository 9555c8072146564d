//! Stores that keep their index in the file.

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::env_u64;
use pipkin_tests::suite::in_file::{Budget, Counts, one, run};

/// Histories of the normal run; the nightly one has 5,000.
const HISTORIES: u64 = 60;
const STEPS: u64 = 4000;

#[test]
fn an_index_in_the_file_answers_like_one_in_memory_or_with_an_error() {
    if std::env::var_os("PIPKIN_SEED").is_some() {
        return unwrap("index in the file", one(env_u64("PIPKIN_SEED", 1), STEPS, &Counts::new(0)));
    }
    let histories = env_u64("PIPKIN_IN_FILE", HISTORIES);
    let counts = Counts::new(histories);
    unwrap("index in the file", run(&Budget { histories, steps: STEPS, races: histories / 2, seed: 1 }, &counts));
    counts.loaded.finish("openings with a snapshot");
    counts.rotten.finish("reads of rotten bytes that were errors");
    counts.healed.finish("times that rotten parts were built anew");
    counts.full.finish("checkpoints without room for a snapshot");
    counts.reads.finish(format_args!("{histories} histories"));
}
