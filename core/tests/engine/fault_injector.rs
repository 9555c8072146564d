//! What the fault injector promises to the tests that stand on it.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::{Storage, StorageErrorKind};

fn storage() -> FaultStorage<MemoryStorage> {
    FaultStorage::new(MemoryStorage::new())
}

#[test]
fn the_nth_call_fails_once_or_for_good() {
    for for_good in [false, true] {
        let storage = storage();
        storage.arm(Fault { on: Io::Write, nth: 3, for_good, effect: Effect::Error(StorageErrorKind::PermissionDenied) });
        for call in 1..=5 {
            storage.sync().unwrap();
            let result = storage.write_at(0, &[&[call]]);
            let fails = call == 3 || (for_good && call > 3);
            assert_eq!(result.is_err(), fails, "call {call}");
            if let Err(error) = result {
                assert_eq!(error.kind, StorageErrorKind::PermissionDenied);
            }
        }
        assert_eq!(storage.inner().to_vec(), [if for_good { 2 } else { 5 }]);
        let counts = storage.counts();
        assert_eq!((counts.writes, counts.syncs, counts.failed), (5, 5, if for_good { 3 } else { 1 }));
        storage.disarm();
        storage.write_at(0, &[b"x"]).unwrap();
    }
}

#[test]
fn each_kind_of_call_can_be_chosen() {
    type Call = fn(&dyn Storage) -> bool;
    let calls: [(Io, Call); 6] = [
        (Io::Read, |storage| storage.read_at(0, &mut [0]).is_ok()),
        (Io::Write, |storage| storage.write_at(0, &[b"x"]).is_ok()),
        (Io::Sync, |storage| storage.sync().is_ok()),
        (Io::SetLen, |storage| storage.set_len(9).is_ok()),
        (Io::Reserve, |storage| storage.reserve(0, 9).is_ok()),
        (Io::Discard, |storage| storage.discard(0, 9).is_ok()),
    ];
    for (chosen, _) in calls {
        let storage = storage();
        storage.write_at(0, &[b"x"]).unwrap();
        storage.arm(Fault::from_nth(1, chosen, Effect::Error(StorageErrorKind::Other)));
        for (io, call) in calls {
            assert_eq!(call(&storage), io != chosen, "{chosen:?} {io:?}");
        }
    }
    let storage = storage();
    storage.arm(Fault::from_nth(1, Io::Read | Io::Sync, Effect::Error(StorageErrorKind::Other)));
    assert!(storage.read_at(0, &mut [0]).is_err() && storage.sync().is_err() && storage.set_len(1).is_ok());
}

#[test]
fn a_torn_write_leaves_its_front_and_a_late_one_all_of_it() {
    for bytes in 0..=7 {
        let storage = storage();
        storage.arm(Fault::nth(1, Io::Write, Effect::Torn { bytes }));
        assert!(storage.write_at(1, &[b"pip", b"", b"kin"]).is_err());
        let landed = &b"\0pipkin"[..if bytes == 0 { 0 } else { 1 + bytes.min(6) as usize }];
        assert_eq!(storage.inner().to_vec(), landed);
    }
    let storage = storage();
    storage.arm(Fault::nth(1, Io::Write, Effect::Late));
    assert!(storage.write_at(0, &[b"pipkin"]).is_err());
    assert_eq!(storage.inner().to_vec(), b"pipkin");
}

#[test]
fn a_full_medium_takes_what_fits_and_can_be_enlarged() {
    let storage = storage();
    storage.set_capacity(Some(10));
    storage.write_at(0, &[b"12345678"]).unwrap();
    let error = storage.write_at(6, &[b"ab", b"cdef"]).unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::NoSpace);
    assert_eq!(storage.inner().to_vec(), b"123456abcd");
    assert_eq!(storage.set_len(11).unwrap_err().kind, StorageErrorKind::NoSpace);
    assert_eq!(storage.reserve(4, 7).unwrap_err().kind, StorageErrorKind::NoSpace);
    storage.write_at(0, &[b"x"]).unwrap();
    storage.set_len(5).unwrap();
    storage.set_len(10).unwrap();
    storage.set_capacity(Some(12));
    storage.write_at(10, &[b"!!"]).unwrap();
    storage.set_capacity(None);
    storage.reserve(0, 100).unwrap();
    assert_eq!(storage.len().unwrap(), 100);
}

/// Linux marks pages clean after a failed write-back: the next fsync reports success and the data is gone (the "fsyncgate" of
/// PostgreSQL, 2018).
#[test]
fn a_lost_sync_takes_what_was_written_before_it_and_not_what_is_written_again() {
    let storage = storage();
    storage.arm(Fault::nth(2, Io::Sync, Effect::LostSync));
    storage.write_at(0, &[&[1; 2048]]).unwrap();
    storage.sync().unwrap();
    storage.write_at(0, &[&[2; 1024]]).unwrap();
    storage.write_at(2048, &[&[2; 512]]).unwrap();
    assert!(storage.sync().is_err());
    storage.write_at(600, &[&[3; 10]]).unwrap();
    storage.write_at(1536, &[&[3; 10]]).unwrap();
    let mut seen = [0; 2560];
    storage.read_at(0, &mut seen).unwrap();
    assert_eq!((seen[0], seen[600], seen[2048]), (2, 3, 2), "the cache still shows all of it");
    storage.sync().unwrap();
    storage.write_at(1024, &[&[4; 512]]).unwrap();
    storage.lose_unsynced().unwrap();
    let left = storage.inner().to_vec();
    assert!(left[..512].iter().all(|byte| *byte == 1), "lost by the failed sync");
    assert_eq!((left[599], left[600], left[610]), (2, 3, 2), "written again, so stored with its whole sector");
    assert!(left[1024..1536].iter().all(|byte| *byte == 1), "never synced");
    assert_eq!((left[1535], left[1536], left[1546]), (1, 3, 1));
    assert!(left[2048..].iter().all(|byte| *byte == 0), "behind the synced end");
}
