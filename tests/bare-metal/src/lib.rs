//! What the programs of this crate share: a heap, and an end with the exit code that the emulator passes on.

#![no_std]

extern crate alloc;

use alloc::string::String;
use core::panic::PanicInfo;
use cortex_m_semihosting::debug::{self, EXIT_FAILURE, EXIT_SUCCESS};
use cortex_m_semihosting::hprintln;
pub use embedded_alloc::LlffHeap;

#[global_allocator]
/// Empty until the program gives it memory.
pub static HEAP: LlffHeap = LlffHeap::empty();

/// Says what failed, and ends the emulator.
pub fn finish(result: Result<(), String>) -> ! {
    let status = match result {
        Ok(()) => EXIT_SUCCESS,
        Err(what) => {
            hprintln!("failed: {}", what);
            EXIT_FAILURE
        }
    };
    loop {
        debug::exit(status);
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    loop {
        debug::exit(EXIT_FAILURE);
    }
}
