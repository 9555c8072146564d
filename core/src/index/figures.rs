//! The figures in the comments of `table.rs` and `pins.rs`, on Linux:
//!
//! ```sh
//! cargo test --release -p pipkin --lib -- --ignored --nocapture --test-threads=1 figures
//! ```
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

use super::*;
use crate::limits::DATA_START;
use crate::sync::RwLock;
use alloc::vec::Vec;
use core::hint::black_box;
use hashbrown::HashTable;

const KEYS: u64 = 1_000_000;

/// Keys and their hashes, in no order: multiples of a number without a divisor in common with theirs.
fn keys() -> Vec<(u64, KeyHash)> {
    let keys = (0..KEYS).map(|place| place * 387_420_489 % KEYS);
    keys.map(|key| (key, KeyHash::new(1, 0, &key.to_le_bytes()))).collect()
}

/// Nanoseconds that this thread has run on a processor, as Linux counts them.
fn run_ns() -> u64 {
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    figures.split(' ').next().unwrap().parse().unwrap()
}

/// Nanoseconds for each of `calls` calls in one thread, and in each of two at once: the best of five times.
fn time(calls: u64, each: impl Fn() + Sync) -> [f64; 2] {
    let timed = || {
        let begin = run_ns();
        each();
        run_ns() - begin
    };
    let once = |threads: u64| {
        let sum: u64 = std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads).map(|_| scope.spawn(timed)).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        sum as f64 / (calls * threads) as f64
    };
    [1, 2].map(|threads| (0..5).map(|_| once(threads)).fold(f64::INFINITY, f64::min))
}

/// Looks all keys up, and checks the answers.
fn find_all(keys: &[(u64, KeyHash)], find: impl Fn(KeyHash) -> Option<u64>) {
    let others = keys.iter().filter(|(key, hash)| find(*hash) != Some(DATA_START + key)).count();
    // Keys that share shard and tag: the engine compares the keys.
    assert!(others < 2000, "{others} wrong answers");
}

fn filled(keys: &[(u64, KeyHash)]) -> (Index, Pins) {
    let (index, pins) = (Index::default(), Pins::default());
    for &(key, hash) in keys {
        index.lock(hash).insert(&pins, hash, 0, DATA_START + key);
    }
    (index, pins)
}

#[test]
#[ignore = "measures"]
fn figures_of_the_table_beside_hashbrown_under_locks() {
    let keys = keys();
    let (index, pins) = filled(&keys);
    let spread = |tag: u64| tag.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let locked: Vec<RwLock<HashTable<u64>>> = (0..SHARDS).map(|_| RwLock::default()).collect();
    for &(key, hash) in &keys {
        let slot = hash.slot(DATA_START + key).bits();
        let rehash = |slot: &u64| spread(Slot::from_bits(*slot).tag());
        locked[hash.shard()].write().insert_unique(spread(hash.tag()), slot, rehash);
    }
    let ours = time(keys.len() as u64, || find_all(&keys, |hash| index.first_slot(&pins.pin(), hash)));
    let theirs = time(keys.len() as u64, || {
        find_all(&keys, |hash| {
            let table = locked[hash.shard()].read();
            let found = table.find(spread(hash.tag()), |slot| Slot::from_bits(*slot).tag() == hash.tag());
            found.map(|slot| Slot::from_bits(*slot).offset())
        });
    });
    let bytes = |bytes: u64| bytes as f64 / keys.len() as f64;
    let their_bytes = locked.iter().map(|table| table.read().allocation_size() as u64).sum();
    println!("\n{} keys; ns for a look-up in one thread, and in each of two", keys.len());
    println!("index     {ours:6.1?} {:5.1} bytes a key", bytes(index.bytes()));
    println!("hashbrown {theirs:6.1?} {:5.1} bytes a key", bytes(their_bytes));
}

#[cfg(feature = "ordered")]
#[test]
#[ignore = "measures"]
fn figures_of_pins_beside_crossbeam_epoch() {
    const PINS: u64 = 20_000_000;
    let pins = Pins::default();
    let rows = [
        ("pins", time(PINS, || (0..PINS).for_each(|_| drop(black_box(pins.pin()))))),
        ("crossbeam-epoch", time(PINS, || (0..PINS).for_each(|_| drop(black_box(crossbeam_epoch::pin()))))),
    ];
    println!("\nns for each, in one thread, and in each of two");
    rows.iter().for_each(|(what, time)| println!("{what:15} {time:6.1?}"));
}
