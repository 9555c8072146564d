//! The map under a scheduler that tries orders of its threads' steps; see `core/tests/schedules.rs`.

use super::map::Map;
use super::part::NoParts;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound;

/// Keys so long that a leaf takes two of them.
fn key(first: u8) -> Vec<u8> {
    alloc::vec![first; 2000]
}

fn put(map: &Map, first: u8, offset: u64) {
    assert!(map.put(&key(first), offset, &NoParts).is_ok());
}

fn firsts(map: &Map) -> [Vec<u8>; 2] {
    let (mut rising, mut falling) = (Vec::new(), Vec::new());
    let push = |firsts: &mut Vec<u8>, key: &[u8]| {
        firsts.extend(key.first());
        true
    };
    assert!(map.walk(Bound::Unbounded, &NoParts, |key, _| push(&mut rising, key)).is_ok());
    assert!(map.walk_back(Bound::Unbounded, &NoParts, |key, _| push(&mut falling, key)).is_ok());
    falling.reverse();
    [rising, falling]
}

/// Regression: during a split of a leaf, other threads emptied the new half and removed it, while the old leaf still had the keys. A walk
/// that began after that returned keys that had been removed.
#[test]
fn a_walk_meets_no_key_that_was_removed_before_it_began() {
    let body = || {
        let map = Arc::new(Map::new());
        put(&map, b'm', 1);
        put(&map, b'n', 2);
        let writer = Arc::clone(&map);
        let cutting = shuttle::thread::spawn(move || put(&writer, b'a', 3));
        assert!(map.remove(&key(b'm'), &NoParts).is_ok());
        assert!(map.remove(&key(b'n'), &NoParts).is_ok());
        for seen in firsts(&map) {
            assert!(seen.is_empty() || seen == b"a", "a walk found {seen:?}");
        }
        assert!(cutting.join().is_ok());
        assert_eq!(firsts(&map), [b"a", b"a"]);
    };
    shuttle::check_random(body, 2000);
    shuttle::check_pct(body, 2000, 3);
}
