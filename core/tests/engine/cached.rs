//! A cache keeps the contract of storages whatever it keeps, and hands over what gathers.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use pipkin::storage::conformance::{Options, run_with};
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::storage::{CacheOptions, CachedStorage, MemoryStorage};
use pipkin::{Storage, StorageErrorKind};

/// Fewer checks than this mean that parts of the suite did not run.
const CHECKS_MIN: u32 = 3000;

fn a_cache_conforms<const GATHER: usize>(cache_bytes: usize, read_bytes: usize) {
    let cache = CacheOptions { cache_bytes, read_bytes };
    let mut options = Options::default();
    options.sparse = true;
    let make = || CachedStorage::<_, GATHER>::new(MemoryStorage::new(), cache).unwrap();
    let checks = run_with(options, &mut || Box::new(make())).unwrap();
    assert!(checks >= CHECKS_MIN, "{checks} checks with {cache:?}, gathering {GATHER}");
}

/// So few blocks that they push each other out all the time, one at a time and four, with and without writes that gather.
#[test]
fn a_cache_conforms_whatever_it_keeps() {
    a_cache_conforms::<0>(0, 4096);
    a_cache_conforms::<0>(3 * 4096, 4096);
    a_cache_conforms::<0>(7 * 4096, 16_384);
    a_cache_conforms::<5000>(3 * 4096, 1);
    a_cache_conforms::<65_536>(0, 0);
}

#[test]
fn what_gathers_is_handed_over_in_order_and_a_refusal_is_not_forgotten() {
    let below = MemoryStorage::new();
    let cached = CachedStorage::<_, 100>::new(below.clone(), CacheOptions::default()).unwrap();
    cached.write_at(0, &[b"one", b"two"]).unwrap();
    assert_eq!((below.len().unwrap(), cached.len().unwrap()), (0, 6));
    // Elsewhere: what came first goes first.
    cached.write_at(20, &[b"three"]).unwrap();
    assert_eq!((below.to_vec(), cached.len().unwrap()), (b"onetwo".to_vec(), 25));
    cached.hand_over().unwrap();
    assert_eq!(below.to_vec().get(20..), Some(&b"three"[..]));
    cached.write_at(25, &[&[7; 101]]).unwrap();
    assert_eq!(below.len().unwrap(), 126);

    let faulty = FaultStorage::new(MemoryStorage::new());
    let cached = CachedStorage::<_, 100>::new(faulty.clone(), CacheOptions::default()).unwrap();
    cached.write_at(0, &[b"lost"]).unwrap();
    faulty.arm(Fault::nth(1, Io::Write, Effect::Error(StorageErrorKind::Other)));
    let refused = cached.sync().unwrap_err();
    assert_eq!(cached.write_at(4, &[b"more"]).unwrap_err(), refused);
    assert_eq!(cached.sync().unwrap_err(), refused);
}
