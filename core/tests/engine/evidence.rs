//! What the file proves: that a flush has returned, though nothing follows; and nothing that a later power cut could take back.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{find, killed};
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::fault::FaultStorage;
use pipkin::{Db, Durability, Error, Storage};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

fn opened(storage: impl Storage + 'static) -> pipkin::Result<Db> {
    Db::builder().segment_size(4096).background(false).open_storage(Box::new(storage))
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn insert(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        db.insert(key(number), [number as u8; 100]).unwrap();
    }
}

fn holds(image: &CrashImage, numbers: u32, how: &str) {
    let db = opened(image.fork()).unwrap_or_else(|error| panic!("{how}: {error}"));
    for number in 0..numbers {
        assert_eq!(db.get(key(number)).unwrap().as_deref(), Some(&[number as u8; 100][..]), "{how}: record {number}");
    }
}

/// Linux takes the pages of a failed sync for stored. The store that was opened again, as the error advises, read its tail from the memory of the
/// system, its next flush said `Device`, and a power cut left damage in front of a proven mark, or nothing of what had been acknowledged.
#[test]
fn what_a_failed_sync_has_left_is_written_again_before_a_flush_counts() {
    // Of one segment and of several, written on and not.
    for (before, after) in [(5, 5), (5, 6), (150, 150), (150, 151), (150, 400)] {
        for nth in 1..=3 {
            let disk = CrashStorage::new();
            let db = opened(disk.clone()).unwrap();
            insert(&db, 0..3);
            db.flush().unwrap();
            disk.fail_sync(Some(nth));
            insert(&db, 3..before);
            let failed = db.flush().and_then(|_| db.checkpoint()).and_then(|()| db.flush());
            assert!(failed.is_err(), "sync {nth} after {before}");
            killed(db);
            let how = format!("{before} records, sync {nth} fails, then up to {after}");
            let db = opened(disk.clone()).unwrap();
            insert(&db, before..after);
            assert_eq!(db.flush().unwrap(), Durability::Device);
            let cut = disk.freeze();
            holds(&cut.synced_image(), after, &how);
            holds(&cut.latest_image(), after, &how);
            // And what is proven by then survives one that comes later.
            insert(&db, after..after + 60);
            holds(&disk.freeze().synced_image(), after, &how);
            killed(db);
            let mut rng = pipkin::storage::random::Rng::new(u64::from(before) << 8 | nth);
            for _ in 0..50 {
                holds(&disk.random_image(&mut rng), after, &how);
            }
        }
    }
}

/// Flips a bit of the first record.
fn rotten(image: &CrashImage) -> CrashImage {
    const FIRST: u64 = 16_384 + 704;
    let rotten = image.fork();
    assert!(rotten.flip_bit(FIRST + 20, 3));
    rotten
}

fn is_refused(image: &CrashImage, how: &str) {
    let rotten = rotten(image);
    match opened(rotten.fork()) {
        Err(Error::Corrupt { .. }) => {}
        Ok(db) => panic!("{how}: opens with {} records, {:?}", db.len().unwrap(), db.open_report()),
        Err(error) => panic!("{how}: {error}"),
    }
    assert!(!pipkin::verify_storage(&rotten).unwrap().is_ok(), "{how}: all is well");
}

/// The mark that proves a sync was left to the next append where it had no room in the segment: a process that flushed and was killed lost
/// everything behind a damaged bit, and `verify` said that all was well.
#[test]
fn a_flush_is_proven_though_nothing_follows_and_no_mark_fits() {
    for rest in 0..60 {
        let disk = CrashStorage::new();
        let db = opened(disk.clone()).unwrap();
        db.insert("first", "value").unwrap();
        // A segment has 4096 bytes: 704 of headers, 31 of the trailer, the first record, and the fixed part of the second with a long length.
        let room = 4096 - 704 - 31 - 18 - (4 + 1 + 1 + 2 + 6);
        db.insert("second", vec![7; room - rest]).unwrap();
        db.flush().unwrap();
        let killed_image = disk.freeze().latest_image();
        is_refused(&killed_image, &format!("{rest} bytes left"));
        killed(db);
    }
}

/// Another thread wrote a record while a flush ran: the mark waited for the append behind that, which never came.
#[test]
fn a_flush_is_proven_though_others_wrote_meanwhile() {
    let storage = FaultStorage::new(CrashStorage::new());
    let db = opened(storage.clone()).unwrap();
    insert(&db, 0..5);
    let meanwhile = Mutex::new(Some(db.clone()));
    storage.before_sync(move || {
        // Outside of the lock: the insert may sync.
        let db = meanwhile.lock().unwrap().take();
        db.into_iter().for_each(|db| db.insert("meanwhile", "value").unwrap());
    });
    db.flush().unwrap();
    assert!(db.contains_key("meanwhile").unwrap());
    is_refused(&storage.inner().freeze().latest_image(), "killed");
    killed(db);
}

/// A store was killed, opened again and flushed without a write: nothing in the file said so.
#[test]
fn a_flush_of_what_an_earlier_session_wrote_is_proven() {
    let disk = CrashStorage::new();
    let db = opened(disk.clone()).unwrap();
    insert(&db, 0..20);
    killed(db);
    let db = opened(disk.clone()).unwrap();
    assert_eq!(db.flush().unwrap(), Durability::Device);
    killed(db);
    holds(&disk.freeze().synced_image(), 20, "flushed");
    is_refused(&disk.freeze().synced_image(), "flushed");
}

/// What a kill left of 150 records, with a damaged bit in number 5: the last 144 are stranded.
fn stranded() -> CrashImage {
    let disk = CrashStorage::new();
    let db = opened(disk.clone()).unwrap();
    insert(&db, 0..150);
    killed(db);
    let image = disk.freeze().latest_image();
    image.flip_bit(offset_of(&image, 5), 0);
    image
}

/// Where the key of a record is. Found with its value: a checksum or a salt behind zeros may read like a key alone.
fn offset_of(image: &CrashImage, number: u32) -> u64 {
    find(&image.to_vec(), &[&key(number)[..], &[number as u8; 100]].concat()) as u64
}

/// Salvage offers the 144 stranded records, beside `others` that count.
fn salvages(image: &CrashImage, others: u64) {
    for keep in [false, true] {
        let target = Db::open_in_memory().unwrap();
        let options = pipkin::SalvageOptions::default().stranded(keep);
        let report = pipkin::salvage_with(image, &target, options, &mut |_, _| {}).unwrap();
        let stranded = if keep { 144 } else { 0 };
        assert_eq!((report.stranded, report.damage.len()), (144, 0), "{report:?}");
        assert_eq!(target.len().unwrap(), others + stranded);
        let accounted = report.records + report.replaced + report.removed + report.tombstones + report.names + report.dropped;
        assert_eq!(report.read, accounted + 144 - stranded, "{report:?}");
        if keep {
            assert_eq!(target.get(key(100)).unwrap().unwrap(), [100; 100]);
        }
    }
}

/// Everything that checks behind a damaged bit was dropped without a word: the store opened with the records in front of it, `verify` said that all
/// was well, 26 MB in seven segments were reported as four, and the next writes took their places.
#[test]
fn records_behind_a_damaged_bit_are_said_and_kept_until_they_are_given_up() {
    let image = stranded();
    let first = offset_of(&image, 6) - 7;
    let check = |stranded: (u64, u64, Option<u64>), how: &str| {
        assert_eq!(stranded, (144, 144 * 111, Some(first)), "{how}");
    };
    let verified = |how: &str| {
        let report = pipkin::verify_storage(&image).unwrap();
        assert!(report.is_ok(), "{how}: {:?}", report.damage);
        (report.stranded_records, report.stranded_bytes, report.stranded_at)
    };
    check(verified("before the open"), "before the open");

    let mut put = 1000;
    for round in 0..4 {
        let db = opened(image.clone()).unwrap();
        let report = db.open_report();
        if round == 0 {
            check((report.stranded_records, report.stranded_bytes, report.stranded_at), "the open");
            assert!(report.torn_bytes >= 145 * 111, "{} bytes", report.torn_bytes);
        }
        insert(&db, put..put + 100);
        for number in put..put + 70 {
            db.remove(key(number)).unwrap();
        }
        put += 100;
        db.flush().unwrap();
        match round {
            0 => {}
            _ => drop(db.compact().unwrap()),
        }
        let report = db.verify().unwrap();
        check((report.stranded_records, report.stranded_bytes, report.stranded_at), "verify");
        if round % 2 == 0 {
            killed(db)
        } else {
            db.close().unwrap()
        }
        check(verified("written on"), "written on");
    }
    // They were kept for salvage, which did not find them any more once the store had been written on.
    salvages(&image, 5 + 4 * 30);
    let db = opened(image.clone()).unwrap();
    assert_eq!(db.len().unwrap(), 5 + 4 * 30);
    let before = db.stats().unwrap().segments;
    db.drop_stranded().unwrap();
    assert!(db.stats().unwrap().segments < before);
    db.close().unwrap();
    assert_eq!(verified("given up"), (0, 0, None));
}

/// Writes records, removes every third of them, and flushes now and then.
fn write_and_remove(db: &Db, numbers: std::ops::Range<u32>) {
    for number in numbers {
        db.insert(key(number), [number as u8; 100]).unwrap();
        if number % 3 == 0 {
            assert!(db.remove(key(number)).unwrap());
        }
        if number % 50 == 0 {
            db.flush().unwrap();
        }
    }
}

/// Giving up what is stranded, while others write, read, compact and checkpoint.
#[test]
fn what_is_stranded_is_given_up_beside_everybody_else() {
    for round in 0..6_u32 {
        let image = stranded();
        let db = opened(image.clone()).unwrap();
        insert(&db, 2000..2010);
        db.checkpoint().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (db, done) = (&db, &done);
            let writers = [3000, 6000].map(|from| scope.spawn(move || write_and_remove(db, from..from + 300)));
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    for number in (0..5).chain(2000..2010) {
                        assert_eq!(db.get(key(number)).unwrap().unwrap(), [number as u8; 100]);
                    }
                    assert_eq!(db.get(key(100)).unwrap(), None, "what is stranded does not count");
                }
            });
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    db.compact_step().unwrap();
                    db.checkpoint().unwrap();
                }
            });
            for _ in 0..=round {
                db.drop_stranded().unwrap();
            }
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
        db.drop_stranded().unwrap();
        let right = |db: &Db| {
            assert_eq!(db.len().unwrap(), 5 + 10 + 2 * 200);
            for number in (3000..3300).chain(6000..6300) {
                let expected = (number % 3 != 0).then(|| vec![number as u8; 100]);
                assert_eq!(db.get(key(number)).unwrap(), expected);
            }
            let report = db.verify().unwrap();
            assert!(report.is_ok() && report.stranded_records == 0, "{report:?}");
        };
        right(&db);
        db.close().unwrap();
        right(&opened(image.clone()).unwrap());
    }
}

/// A store without a checkpoint whose first segment had lost both copies of its header was empty and well, and the next put started over: also when
/// something in it had been flushed.
#[test]
fn a_log_whose_beginning_is_lost_is_no_empty_one() {
    for flushed in [false, true] {
        let disk = CrashStorage::new();
        let db = opened(disk.clone()).unwrap();
        insert(&db, 0..100);
        if flushed {
            db.flush().unwrap();
        }
        killed(db);
        let image = disk.freeze().latest_image();
        image.write_at(16_384, &[&[0; 704]]).unwrap();
        let verified = pipkin::verify_storage(&image).unwrap();
        if flushed {
            assert!(matches!(opened(image.fork()), Err(Error::Corrupt { .. })));
            assert!(!verified.is_ok());
            continue;
        }
        // Nothing says that any of it had been safe: what is left is said and kept.
        assert!(verified.stranded_records > 50, "{verified:?}");
        let db = opened(image.clone()).unwrap();
        let report = db.open_report().clone();
        assert_eq!((db.len().unwrap(), report.stranded_records), (0, verified.stranded_records));
        assert!(report.torn_bytes >= report.stranded_bytes && report.stranded_bytes >= 50 * 111);
        insert(&db, 0..100);
        db.close().unwrap();
        assert_eq!(pipkin::verify_storage(&image).unwrap().stranded_records, report.stranded_records);
    }
}
