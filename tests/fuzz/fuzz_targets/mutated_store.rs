//! Bytes as changes to a healthy store: an error or a store that works and holds nothing that was never written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipkin_tests::fuzz::mutated_store;
use pipkin_tests::suite::hostile::{Base, bases};
use std::sync::OnceLock;

static BASES: OnceLock<Vec<Base>> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    mutated_store(bytes, BASES.get_or_init(bases));
});
