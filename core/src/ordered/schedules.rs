//! The map under a scheduler that tries orders of its threads' steps; see `core/tests/schedules.rs`.

use super::map::Map;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

/// Keys so long that a leaf takes two of them.
fn key(first: u8) -> Vec<u8> {
    alloc::vec![first; 2000]
}

fn firsts(map: &Map) -> [Vec<u8>; 2] {
    let (mut rising, mut falling) = (Vec::new(), Vec::new());
    map.walk(Bound::Unbounded, |key, _| {
        rising.extend(key.first());
        true
    });
    map.walk_back(Bound::Unbounded, |key, _| {
        falling.extend(key.first());
        true
    });
    falling.reverse();
    [rising, falling]
}

/// Regression: during a split of a leaf, other threads emptied the new half and removed it, while the old leaf still had the keys. A walk
/// that began after that returned keys that had been removed.
#[test]
fn a_walk_meets_no_key_that_was_removed_before_it_began() {
    let body = || {
        let map = Arc::new(Map::new());
        map.put(&key(b'm'), 1);
        map.put(&key(b'n'), 2);
        let writer = Arc::clone(&map);
        let cutting = shuttle::thread::spawn(move || writer.put(&key(b'a'), 3));
        map.remove(&key(b'm'));
        map.remove(&key(b'n'));
        for seen in firsts(&map) {
            assert!(seen.is_empty() || seen == b"a", "a walk found {seen:?}");
        }
        assert!(cutting.join().is_ok());
        assert_eq!(firsts(&map), [b"a", b"a"]);
    };
    shuttle::check_random(body, 2000);
    shuttle::check_pct(body, 2000, 3);
}
