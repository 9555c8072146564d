//! A store in 256 KiB of memory, its file included: written, compacted, closed, opened again and verified. Then one with records that expire,
//! where there is no clock.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString as _};
use core::fmt::Display;
use core::mem::MaybeUninit;
use core::time::Duration;
use cortex_m_rt::entry;
use cortex_m_semihosting::hprintln;
use pipkin::storage::memory::MemoryStorage;
use pipkin::{Db, Error, Storage as _, Ttl};
use pipkin_bare_metal::{HEAP, finish};
use pipkin_tape::expiring::{DEFAULT_MS, SPACE, WITH_EXPIRY, check_expiring};

/// Leaves 56 KiB of the processor's memory to the stack.
const HEAP_BYTES: usize = 200 * 1024;
const SEGMENT_BYTES: u32 = 4096;
const KEYS: u32 = 200;

#[entry]
fn main() -> ! {
    static mut MEMORY: [MaybeUninit<u8>; HEAP_BYTES] = [MaybeUninit::uninit(); HEAP_BYTES];
    // SAFETY: `entry` makes this the only reference to the memory, it runs once, and nothing has been allocated yet.
    unsafe { HEAP.init(MEMORY.as_mut_ptr() as usize, HEAP_BYTES) }
    finish(run().and_then(|()| without_a_clock()))
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

/// What needs the time says so, and nothing of it is written. What had expired when the store was last written is gone; nothing else expires.
fn without_a_clock() -> Result<(), String> {
    let storage = MemoryStorage::from_vec(include_bytes!("../../../golden/expiry/killed.pipkin").to_vec());
    let db = open(&storage)?;
    check_expiring(&db)?;
    let space = said(db.namespace(SPACE))?;
    let (len, minute) = (said(storage.len())?, Duration::from_secs(60));
    let refused = [
        ("insert_with_ttl, After", db.insert_with_ttl("new", "1", minute)),
        ("insert_with_ttl, At", db.insert_with_ttl("new", "1", Ttl::At(WITH_EXPIRY[0].1))),
        ("insert under a default", space.insert("new", "1")),
        ("with_ttl, insert_many", db.with_ttl(minute).insert_many([("new", "1"), ("newer", "2")])),
        ("with_ttl, update", db.with_ttl(minute).update("stays", |_| Some(b"1".to_vec()))),
        ("with_ttl, compare_and_swap", db.with_ttl(minute).compare_and_swap("new", None, Some(b"1")).map(drop)),
        ("batch", db.batch().insert("first", "1").insert_with_ttl("new", "1", minute).commit()),
        ("transaction", db.transaction(|txn| txn.insert_in_with_ttl(&space, "new", "1", minute))),
        ("set_default_ttl", db.set_default_ttl(Some(minute))),
        ("reset_clock", db.reset_clock().map(drop)),
    ];
    for (call, result) in refused {
        if !matches!(result, Err(Error::NoClock)) {
            return Err(format!("{call} without a clock: {result:?}"));
        }
    }
    check_expiring(&db)?;
    if said(storage.len())? != len {
        return Err("what was refused has grown the file".into());
    }
    said(db.insert("new", "lives for ever"))?;
    said(space.insert_with_ttl("new", "lives for ever", Ttl::Never))?;
    let persisted = (said(space.persist(WITH_EXPIRY[0].0))?, said(space.expires_at(WITH_EXPIRY[0].0))?);
    said(space.set_default_ttl(None))?;
    said(space.insert("newer", "lives for ever"))?;
    said(db.compact())?;
    said(db.close())?;
    let db = open(&storage)?;
    let space = said(db.namespace(SPACE))?;
    let found = (persisted, said(space.expires_at("by default"))?.is_some_and(|expiry| expiry > DEFAULT_MS), said(space.len())?);
    if found != ((true, None), true, 7) || said(db.get("new"))?.is_none() || said(db.sweep_expired())? != 0 {
        return Err(format!("a store without a clock has {found:?}"));
    }
    hprintln!("store: no clock, and nothing expires");
    Ok(())
}

fn open(storage: &MemoryStorage) -> Result<Db, String> {
    said(Db::builder().segment_size(SEGMENT_BYTES).open_storage(Box::new(storage.clone())))
}

fn said<T>(result: Result<T, impl Display>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}
