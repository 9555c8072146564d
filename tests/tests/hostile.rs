//! Arbitrary bytes and mutated stores as input. See `pipkin_tests::suite::hostile`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin_tests::counting::{Counting, peak};
use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::hostile::run;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Inputs of the normal run.
const INPUTS: u64 = 30_000;
/// How many of them must open: inputs that are all refused at the first look test nothing behind it.
const OPENED_LEAST: u64 = INPUTS / 50;

#[test]
fn a_hostile_file_is_an_error_or_a_working_store() {
    let inputs = env_u64("PIPKIN_INPUTS", INPUTS);
    let quota = Quota::new("hostile", inputs);
    let opened = Quota::new("hostile, opened", OPENED_LEAST * inputs / INPUTS);
    let range = match std::env::var("PIPKIN_SEED") {
        Ok(_) => env_u64("PIPKIN_SEED", 0)..env_u64("PIPKIN_SEED", 0) + 1,
        Err(_) => 0..inputs,
    };
    let replay = range.end - range.start == 1;
    unwrap("hostile", run(range, |work| peak(work).1, &quota, &opened));
    if !replay {
        quota.finish(format_args!("{} opened as stores", opened.count()));
        opened.finish("used, closed and opened again");
    }
}
