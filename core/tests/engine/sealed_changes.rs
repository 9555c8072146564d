//! What all changes of the keys of an open store are put through.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "events"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::killed;
use crate::sealed_bytes::bytes;
use crate::sealed_enabling::{MARKER, Shown, shown};
use pipkin::Db;
use pipkin::storage::MemoryStorage;
use pipkin::storage::crash::{CrashImage, CrashPoint, CrashStorage};
use pipkin::storage::random::Rng;
use std::time::Duration;

/// What a cut may have left: what was synced, what was written, the write in flight up to every `step`th byte, and some others.
pub(crate) fn left_at(point: &CrashPoint, rng: &mut Rng, step: usize, trials: usize) -> Vec<CrashImage> {
    let mut images = vec![point.synced_image(), point.latest_image()];
    images.extend((0..=point.in_flight_len()).step_by(step).map(|bytes| point.killed_image(bytes)));
    images.extend((0..trials).map(|_| point.random_image(rng)));
    images
}

/// Lets each sync of a change fail once. The store takes no write then, and `is_as_before` still; what is left in the file goes to `goes_on`, with
/// whether the change had been finished.
pub(crate) fn with_each_sync_failing(
    base: &MemoryStorage,
    open: impl Fn(CrashStorage) -> Db,
    change: impl Fn(&Db) -> bool,
    is_as_before: impl Fn(&Db) -> bool,
    goes_on: impl Fn(&MemoryStorage, bool, &str),
) {
    let image = CrashImage::from_bytes(&bytes(base));
    for nth in 1.. {
        let file = CrashStorage::from_image(&image);
        let db = open(file.clone());
        file.fail_sync(Some(nth));
        let is_whole = change(&db);
        if !is_whole {
            assert!(db.insert("size", "large").is_err(), "sync {nth}");
            assert!(is_as_before(&db), "sync {nth}");
        }
        killed(db);
        let point = file.freeze();
        for image in [point.synced_image(), point.latest_image()] {
            goes_on(&image.to_memory(), is_whole, &format!("sync {nth} failed"));
        }
        if is_whole {
            assert!(nth > 6, "{nth}");
            break;
        }
    }
}

/// Changes the keys of a store beside two writers, transactions, walks and a snapshot. Returns what the store shows then.
pub(crate) fn beside_writers(db: &Db, change: impl Fn(&Db)) -> Shown {
    let before = db.snapshot();
    let seen: Shown = before.iter().collect::<pipkin::Result<_>>().unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u8).map(|writer| scope.spawn(move || write(db, writer))).collect();
        std::thread::sleep(Duration::from_millis(2));
        change(db);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    let again: Shown = before.iter().collect::<pipkin::Result<_>>().unwrap();
    assert!(again == seen, "the snapshot has changed");
    drop(before);
    let now = shown(db);
    assert_eq!(now.keys().filter(|key| key.starts_with(b"MARKER writer")).count(), 40);
    now
}

fn write(db: &Db, writer: u8) {
    for number in 0..400_u32 {
        let key = [b"MARKER writer ".as_slice(), &[writer, (number % 20) as u8]].concat();
        let value = [MARKER, &number.to_le_bytes()].concat();
        db.insert(&key, &value).unwrap();
        assert_eq!(db.get(&key).unwrap(), Some(value.clone()));
        if number % 10 == 0 {
            let mut transaction = db.begin().unwrap();
            transaction.insert(&key, &value).unwrap();
            transaction.commit().unwrap();
            assert!(db.iter().all(|record| record.is_ok()));
        }
    }
}
