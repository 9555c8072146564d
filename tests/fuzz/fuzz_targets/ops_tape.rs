//! Bytes as a tape of operations, reopens and kills among them: the store answers as the model does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipkin_tests::fuzz::ops_tape;

fuzz_target!(|bytes: &[u8]| {
    ops_tape(bytes);
});
