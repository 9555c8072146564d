//! Arbitrary bytes opened as a store: an error or a store that works.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipkin_tests::fuzz::open_bytes;

fuzz_target!(|bytes: &[u8]| {
    open_bytes(bytes);
});
