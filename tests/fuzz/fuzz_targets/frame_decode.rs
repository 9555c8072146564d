//! Arbitrary bytes as one frame of the log: what decodes encodes to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipkin_tests::fuzz::frame_decode;

fuzz_target!(|bytes: &[u8]| {
    frame_decode(bytes);
});
