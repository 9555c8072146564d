//! What the fuzz targets do, on random bytes: no fuzzer needed, and proof that the targets get as far as they aim. See
//! `pipkin_tests::fuzz`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests fail by panicking")]

use pipkin_tests::fuzz::{events_tape, frame_decode, mutated_store, open_bytes, ops_tape, sealed_bases, sealed_store};
use pipkin_tests::parallel::{Failure, for_each, guard, unwrap};
use pipkin_tests::quota::{Quota, env_u64};
use pipkin_tests::rng::{Rng, derive, index};
use pipkin_tests::suite::hostile::{bases, mutate};

/// Feeds a target with `inputs` inputs; `least` of them must get as far as it aims.
fn feed(
    target: &'static str,
    inputs: u64,
    least: u64,
    make: impl Fn(&mut Rng) -> Vec<u8> + Sync,
    run: impl Fn(&[u8]) -> bool + Sync,
) {
    let reached = Quota::new(target, least);
    let replay = std::env::var("PIPKIN_SEED").is_ok();
    let first = env_u64("PIPKIN_SEED", 0);
    let seeds = if replay { first..first + 1 } else { 0..inputs };
    let outcome = for_each(seeds, |seed, watch| {
        let label = format!("PIPKIN_SEED={seed}");
        watch.begin(label.clone());
        let bytes = make(&mut derive(seed, 0xf022));
        if guard(|| run(&bytes)).map_err(|what| Failure::new(label, what))? {
            reached.add(1);
        }
        Ok(())
    });
    unwrap(target, outcome);
    if !replay {
        reached.finish(format_args!("of {inputs} inputs"));
    }
}

/// Random bytes, fewer than `most`.
fn noise(most: usize) -> impl Fn(&mut Rng) -> Vec<u8> {
    move |rng| {
        let mut bytes = vec![0; index(rng, most)];
        rng.fill(&mut bytes);
        bytes
    }
}

#[test]
fn bytes_are_an_error_or_a_store() {
    let bases = bases();
    let any = |rng: &mut Rng| bases[index(rng, bases.len())].bytes.as_slice();
    feed("fuzz open_bytes", 4000, 1000, |rng| mutate(any(rng), any(rng), rng), open_bytes);
}

#[test]
fn a_frame_that_decodes_encodes_to_the_same_bytes() {
    feed("fuzz frame_decode", 5_000_000, 5000, noise(200), frame_decode);
}

#[test]
fn a_session_of_any_bytes_leaves_the_event_streams_of_the_model() {
    feed("fuzz events_tape", 600, 300, noise(400), events_tape);
}

#[test]
fn a_tape_of_any_bytes_plays_as_the_model_says() {
    feed("fuzz ops_tape", 1600, 1000, noise(2000), ops_tape);
}

#[test]
fn a_mutated_store_gives_nothing_that_was_never_written() {
    let bases = bases();
    feed("fuzz mutated_store", 8000, 3000, noise(60), |bytes| mutated_store(bytes, &bases));
}

#[test]
fn a_changed_sealed_store_shows_only_what_its_key_has_sealed() {
    let bases = sealed_bases();
    feed("fuzz sealed_store", 3000, 500, noise(60), |bytes| sealed_store(bytes, &bases));
}
