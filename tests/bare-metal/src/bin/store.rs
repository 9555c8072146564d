//! A store in 256 KiB of memory, its file included: written, compacted, closed, opened again and verified.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt::Display;
use core::mem::MaybeUninit;
use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;
use pipkin::storage::memory::MemoryStorage;
use pipkin::{Db, Storage as _};
use pipkin_bare_metal::{HEAP, finish};

/// Leaves 56 KiB of the processor's memory to the stack.
const HEAP_BYTES: usize = 200 * 1024;
const SEGMENT_BYTES: u32 = 4096;
const KEYS: u32 = 200;

#[entry]
fn main() -> ! {
    static mut MEMORY: [MaybeUninit<u8>; HEAP_BYTES] = [MaybeUninit::uninit(); HEAP_BYTES];
    // SAFETY: `entry` makes this the only reference to the memory, it runs once, and nothing has been allocated yet.
    unsafe { HEAP.init(MEMORY.as_mut_ptr() as usize, HEAP_BYTES) }
    finish(run())
}

fn run() -> Result<(), String> {
    let storage = MemoryStorage::new();
    let db = open(&storage)?;
    for round in 0..10_u32 {
        for key in 0..KEYS {
            said(db.insert(key.to_le_bytes(), (key * round).to_le_bytes()))?;
        }
        said(db.flush())?;
    }
    for key in (0..KEYS).step_by(2) {
        said(db.remove(key.to_le_bytes()))?;
    }
    let report = said(db.compact())?;
    said(db.close())?;
    let db = open(&storage)?;
    for key in 0..KEYS {
        let value = said(db.get(key.to_le_bytes()))?;
        let expected = (key % 2 == 1).then(|| (key * 9).to_le_bytes());
        if value.as_deref() != expected.as_ref().map(|value| value.as_slice()) {
            return Err(format!("key {key} has the value {value:?}"));
        }
    }
    let verified = said(db.verify())?;
    if !verified.is_ok() {
        return Err(format!("{verified:?}"));
    }
    let len = said(storage.len())?;
    hprintln!(
        "store: {} segments compacted, {} records, {} bytes of file, {} of {} bytes of heap in use",
        report.segments_retired,
        said(db.stats())?.records,
        len,
        HEAP.used(),
        HEAP_BYTES
    );
    Ok(())
}

fn open(storage: &MemoryStorage) -> Result<Db, String> {
    said(Db::builder().segment_size(SEGMENT_BYTES).open_storage(Box::new(storage.clone())))
}

fn said<T>(result: Result<T, impl Display>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
