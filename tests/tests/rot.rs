//! One damaged byte and then every verb, and files that lie under right checksums. See `pipkin_tests::suite::{verbs, lies, lost_headers}`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin_tests::parallel::unwrap;
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::suite::{lies, lost_headers, verbs};

/// Rotten stores of the normal run.
const STORES: u64 = 1_500;
/// Chunks, headers and values of the normal run that are forged.
const LIES: u64 = 300;

#[test]
fn a_damaged_record_costs_itself_whatever_is_called_then() {
    if std::env::var("PIPKIN_SEED").is_ok() {
        let seed = env_u64("PIPKIN_SEED", 0);
        return unwrap("rot", verbs::run(seed..seed + 1, &verbs::Counts::new(0)));
    }
    let stores = env_u64("PIPKIN_STORES", STORES);
    let counts = verbs::Counts::new(stores);
    unwrap("rot", verbs::run(0..stores, &counts));
    counts.opened.finish(format_args!("of {stores}"));
    counts.verbs.finish("each checked key by key");
    counts.damaged.finish("in the others the damage was dead, or none of a record");
    counts.unsure.finish("no older version came");
}

#[test]
fn verify_is_content_with_nothing_that_gives_wrong_answers() {
    let lies = env_u64("PIPKIN_LIES", LIES);
    let quota = Quota::new("rot, lies", lies);
    unwrap("rot", lies::run(lies, &quota));
    quota.finish("forged chunks, headers of earlier lives, headers inside of values");
}

#[test]
fn a_block_with_the_header_of_a_flushed_segment_is_never_lost_without_a_word() {
    let headers = env_u64("PIPKIN_LOST_HEADERS", 1_000);
    let quota = Quota::new("rot, lost headers", headers);
    unwrap("rot", lost_headers::run(headers / 4, &quota));
    quota.finish("both copies");
}
