//! The browser's cryptographic generator, for the keys of sealed stores: `.cargo/config.toml` tells the crate `getrandom` to ask here.
#![allow(unsafe_code, reason = "the crate getrandom calls this by its name")]

use crate::exports::fill_with_random;

/// `getRandomValues` gives no more at once.
const FILLED_MAX: usize = 65_536;

/// Fills `out` with random bytes.
///
/// # Safety
///
/// `out` is valid for writes of `len` bytes.
// SAFETY: no other function has this name, which the crate reserves for a backend of the program.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __getrandom_v03_custom(out: *mut u8, len: usize) -> Result<(), getrandom::Error> {
    // SAFETY: the caller promises that.
    unsafe { out.write_bytes(0, len) };
    // SAFETY: so it does, and all of the bytes are set by now.
    let out = unsafe { core::slice::from_raw_parts_mut(out, len) };
    out.chunks_mut(FILLED_MAX).try_for_each(|part| fill_with_random(part).map(drop).map_err(|_| getrandom::Error::UNEXPECTED))
}
