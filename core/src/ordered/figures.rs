//! The figures in the comment of `map.rs`:
//!
//! ```sh
//! cargo test --release -p pipkin --lib -- --ignored --nocapture --test-threads=1 figures
//! ```
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use super::map::Map;
use super::part::NoParts;
use crate::sync::RwLock;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::ops::Bound;
use crossbeam_skiplist::SkipMap;

const KEYS: u64 = 1_000_000;
const SHORT_RANGES: u64 = 100_000;

fn key(number: u64) -> [u8; 16] {
    let mixed = u128::from(number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    mixed.to_be_bytes()
}

/// Nanoseconds that this thread has run on a processor, as Linux counts them.
fn run_ns() -> u64 {
    let figures = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    figures.split(' ').next().unwrap().parse().unwrap()
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4096
}

/// Fills a map, walks through all of it, and reads ten keys from many places. `walk` calls its last argument with each offset until it
/// returns false.
fn measure<M>(what: &str, map: M, put: impl Fn(&M, &[u8], u64), walk: impl Fn(&M, &[u8], &mut dyn FnMut(u64) -> bool)) -> M {
    let before = resident();
    let begin = run_ns();
    (0..KEYS).for_each(|number| put(&map, &key(number), number));
    let put_ns = (run_ns() - begin) / KEYS;
    let bytes = (resident() - before) as f64 / KEYS as f64;
    let (mut walk_ns, mut short_ns) = (u64::MAX, u64::MAX);
    for _ in 0..5 {
        let begin = run_ns();
        let mut seen = 0;
        walk(&map, &[], &mut |_| {
            seen += 1;
            true
        });
        assert_eq!(seen, KEYS);
        walk_ns = walk_ns.min((run_ns() - begin) / KEYS);
        let begin = run_ns();
        for number in 0..SHORT_RANGES {
            let mut left = 10;
            walk(&map, &key(number * 7919 % KEYS), &mut |_| {
                left -= 1;
                left > 0
            });
        }
        short_ns = short_ns.min((run_ns() - begin) / SHORT_RANGES);
    }
    println!("\n{what:22} put {put_ns} ns, walk {walk_ns} ns a key, ten keys {short_ns} ns, {bytes:.0} bytes a key");
    map
}

#[test]
#[ignore = "measures"]
fn figures_of_the_map_beside_a_skip_list_and_a_b_tree() {
    // All stay until the end, so that none takes memory that another has freed.
    let ours = measure(
        "skip list of blocks",
        Map::new(),
        |map, key, number| map.put(key, number, &NoParts).unwrap(),
        |map, from, each| map.walk(Bound::Included(from), &NoParts, |_, offset| each(offset)).unwrap(),
    );
    let skip_list = measure(
        "crossbeam-skiplist",
        SkipMap::<Box<[u8]>, u64>::new(),
        |map, key, number| drop(map.insert(key.into(), number)),
        |map, from, each| {
            let _ = map.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).all(|entry| each(*entry.value()));
        },
    );
    let tree = measure(
        "BTreeMap under a lock",
        RwLock::<BTreeMap<Box<[u8]>, u64>>::default(),
        |map, key, number| {
            map.write().insert(key.into(), number);
        },
        |map, from, each| {
            let _ = map.read().range::<[u8], _>((Bound::Included(from), Bound::Unbounded)).all(|(_, offset)| each(*offset));
        },
    );
    drop((ours, skip_list, tree));
}
