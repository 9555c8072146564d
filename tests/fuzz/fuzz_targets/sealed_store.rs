//! Bytes as changes to a sealed store: an error, or what its key has sealed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipkin_tests::fuzz::{SealedBase, sealed_bases, sealed_store};
use std::sync::OnceLock;

static BASES: OnceLock<Vec<SealedBase>> = OnceLock::new();

fuzz_target!(|bytes: &[u8]| {
    sealed_store(bytes, BASES.get_or_init(sealed_bases));
});
