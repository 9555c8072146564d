//! The suite of storages. It writes files of megabytes, so its heap is in the 16 MiB beside the processor's own memory.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::string::String;
use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;
use pipkin::storage::conformance;
use pipkin::storage::memory::MemoryStorage;
use pipkin_bare_metal::{HEAP, finish};

/// Where the board has its external memory, and how much of it.
const MEMORY: usize = 0x2100_0000;
const MEMORY_BYTES: usize = 16 * 1024 * 1024;

#[entry]
fn main() -> ! {
    // SAFETY: the board has memory there that neither the linker nor anybody else uses, and nothing has been allocated yet.
    unsafe { HEAP.init(MEMORY, MEMORY_BYTES) }
    finish(run())
}

fn run() -> Result<(), String> {
    let checks = conformance::run(&mut || Box::new(MemoryStorage::new()))?;
    hprintln!("storage: {} checks passed", checks);
    Ok(())
}
