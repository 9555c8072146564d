//! Bytes as what a session does to event streams, and how it ends: the store answers as the model does, in the next session, too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pipkin_tests::fuzz::events_tape;

fuzz_target!(|bytes: &[u8]| {
    events_tape(bytes);
});
