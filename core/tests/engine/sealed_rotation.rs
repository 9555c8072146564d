//! Rotation of the key of a sealed store: with every cut in between, beside writers and readers, and against somebody who has the key from before.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "events"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{killed, stride};
use crate::sealed_bytes::{FIRST, HEADER_LEN, bytes, headers};
use crate::sealed_changes::{left_at, with_each_sync_failing};
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::random::Rng;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Db, Error, Expected, NewEvent, verify_storage};
use std::collections::BTreeMap;

const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [8; 32];
const EXTENT: usize = 4096;

type Shown = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(file: impl Storage + 'static, key: [u8; 32]) -> pipkin::Result<Db> {
    Db::builder().encryption_key(key).segment_size(EXTENT as u32).background(false).open_storage(Box::new(file))
}

fn shown(db: &Db) -> Shown {
    db.iter().collect::<pipkin::Result<_>>().unwrap()
}

/// A store of some sessions, with overwritten and removed records in several segments.
fn lived(file: &(impl Storage + Clone + 'static), key: [u8; 32], sessions: u8) -> Shown {
    let mut now = Shown::new();
    for session in 0..sessions {
        let db = open(file.clone(), key).unwrap();
        for step in 0..9_u8 {
            let (name, value) = (vec![step % 7], vec![session * 16 + step; 300 + usize::from(step) * 60]);
            db.insert(&name, &value).unwrap();
            now.insert(name, value);
        }
        db.remove([3]).unwrap();
        now.remove(&vec![3]);
        let log = db.events("log").unwrap();
        log.append("stream", Expected::Any, [NewEvent::new("T", [session; 40])]).unwrap();
        if session % 2 == 0 {
            drop(log);
            db.close().unwrap();
        } else {
            db.flush().unwrap();
            drop(log);
            killed(db);
        }
    }
    now
}

/// No segment header in the file is under another key than the current one: after a rotation none from before is left.
fn ids(bytes: &[u8]) -> Vec<[u8; 8]> {
    let mut ids: Vec<[u8; 8]> =
        headers(bytes, EXTENT).iter().map(|&(at, ..)| bytes[at + 80..at + 88].try_into().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[test]
fn behind_a_rotation_the_new_key_alone_opens_and_nothing_of_before_is_left() {
    let file = MemoryStorage::new();
    let now = lived(&file, OLD, 5);
    let before = bytes(&file);
    let db = open(file.clone(), OLD).unwrap();
    db.add_encryption_passphrase("another way in").unwrap();
    assert!(!db.key_rotation_pending());
    let report = db.rotate_encryption_key(NEW).unwrap();
    assert!(report.is_finished && report.records_copied >= now.len() as u64, "{report:?}");
    assert!(!db.key_rotation_pending());
    assert_eq!(db.key_slots().unwrap().len(), 1);
    assert_eq!(shown(&db), now);
    assert_eq!(db.events("log").unwrap().stream("stream").iter().unwrap().count(), 5);
    assert!(db.verify().unwrap().is_ok());
    db.insert("behind", "it").unwrap();
    db.close().unwrap();
    let after = bytes(&file);
    assert!(verify_storage(&file).unwrap().is_ok());
    // No piece of an old segment is anywhere, behind the records that count or in free space.
    for piece in before[FIRST..].as_chunks::<32>().0 {
        let is_ciphertext = piece.iter().filter(|&&byte| byte == 0).count() < 4;
        assert!(!is_ciphertext || !after.windows(32).any(|window| window == piece), "a piece of an old segment is left");
    }
    assert_eq!(ids(&after).len(), 1);
    assert_ne!(ids(&after), ids(&before));
    assert!(matches!(open(file.clone(), OLD).map(drop), Err(Error::WrongKey)));
    let with = Db::builder().encryption_passphrase("another way in").open_storage(Box::new(file.clone()));
    assert!(matches!(with.map(drop), Err(Error::WrongKey)));
    let db = open(file, NEW).unwrap();
    assert_eq!(db.get("behind").unwrap().as_deref(), Some(&b"it"[..]));
    assert_eq!(db.events("log").unwrap().version("stream").unwrap(), 5);
}

/// Opens with one of the keys, shows what it should, goes on with the rotation, and is whole then.
fn goes_on(file: &MemoryStorage, now: &Shown, is_behind: bool, what: &str) -> bool {
    let opened = [OLD, NEW].map(|key| match open(file.clone(), key) {
        Ok(db) => Some(db),
        Err(Error::WrongKey) => None,
        Err(error) => panic!("{what}: {error:?}"),
    });
    let (is_new, db) = match opened {
        [Some(db), None] => (false, db),
        [None, Some(db)] => (true, db),
        _ => panic!("{what}: both keys or neither"),
    };
    assert!(is_new || !is_behind, "{what}: acknowledged, and the old key opens");
    assert_eq!(&shown(&db), now, "{what}");
    let was_pending = db.key_rotation_pending();
    assert_eq!(db.open_report().key_rotation_pending, was_pending);
    assert!(is_new || !was_pending, "{what}");
    let report = db.finish_key_rotation(|_| {}).unwrap();
    assert!(report.is_finished && !db.key_rotation_pending(), "{what}: {report:?}");
    assert_eq!(&shown(&db), now, "{what}");
    assert_eq!(db.events("log").unwrap().version("stream").unwrap(), 3, "{what}");
    db.insert("behind", what).unwrap();
    db.close().unwrap();
    assert!(verify_storage(file).unwrap().is_ok(), "{what}");
    assert_eq!(ids(&bytes(file)).len(), 1, "{what}");
    let db = open(file.clone(), if is_new { NEW } else { OLD }).unwrap();
    assert_eq!(db.get("behind").unwrap().as_deref(), Some(what.as_bytes()));
    is_new
}

#[test]
fn a_rotation_that_is_cut_anywhere_opens_with_one_of_the_keys_and_goes_on() {
    let mut rng = Rng::new(1);
    let base = MemoryStorage::new();
    let now = lived(&base, OLD, 3);
    let image = CrashImage::from_bytes(&bytes(&base));
    let (mut old, mut new, mut again) = (0, 0, 0);
    let stride = stride(13);
    for io in 1.. {
        let file = CrashStorage::from_image(&image);
        let db = open(file.clone(), OLD).unwrap();
        file.stop_at(Some(io));
        let rotated = db.rotate_encryption_key(NEW);
        let is_whole = rotated.is_ok_and(|report| report.is_finished) && !file.is_stopped();
        let point = file.freeze();
        killed(db);
        for (which, image) in left_at(&point, &mut rng, 1021, 12).iter().enumerate() {
            let what = format!("cut at {io}, image {which}");
            if !goes_on(&image.to_memory(), &now, is_whole, &what) {
                old += 1;
                continue;
            }
            new += 1;
            if which != 3 {
                continue;
            }
            // Going on with it is cut, too.
            for io2 in (1 + io % stride as u64..).step_by(stride) {
                let file = CrashStorage::from_image(image);
                let Ok(db) = open(file.clone(), NEW) else { panic!("{what}: does not open") };
                file.stop_at(Some(io2));
                let finished = db.finish_key_rotation(|_| {});
                let is_whole = finished.is_ok() && !file.is_stopped();
                let point = file.freeze();
                killed(db);
                for image in left_at(&point, &mut rng, 1021, 2) {
                    goes_on(&image.to_memory(), &now, true, &format!("{what}, then at {io2}"));
                    again += 1;
                }
                if is_whole {
                    break;
                }
            }
        }
        if is_whole {
            break;
        }
    }
    assert!(old > 20 && new > 100 && again > 100, "{old}, {new}, {again}");
}

#[test]
fn a_rotation_that_meets_a_failing_sync_loses_nothing() {
    let base = MemoryStorage::new();
    let now = lived(&base, OLD, 3);
    with_each_sync_failing(
        &base,
        |file| open(file, OLD).unwrap(),
        |db| db.rotate_encryption_key(NEW).is_ok_and(|report| report.is_finished),
        |db| shown(db) == now,
        |file, is_whole, what| _ = goes_on(file, &now, is_whole, what),
    );
}

#[test]
fn writers_readers_and_snapshots_go_on_beside_a_rotation() {
    let file = MemoryStorage::new();
    lived(&file, OLD, 4);
    let db = open(file.clone(), OLD).unwrap();
    let before = db.snapshot();
    let seen: Shown = before.iter().collect::<pipkin::Result<_>>().unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u8)
            .map(|writer| {
                let db = db.clone();
                scope.spawn(move || {
                    for number in 0..300_u32 {
                        let key = [b"writer ".as_slice(), &[writer, (number % 20) as u8]].concat();
                        db.insert(&key, number.to_le_bytes()).unwrap();
                        let value = db.get(&key).unwrap();
                        assert_eq!(value.as_deref(), Some(&number.to_le_bytes()[..]));
                    }
                })
            })
            .collect();
        for key in [NEW, OLD, NEW] {
            while !db.rotate_encryption_key(key).is_ok_and(|report| report.is_finished) {
                db.finish_key_rotation(|_| {}).unwrap();
            }
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    let again: Shown = before.iter().collect::<pipkin::Result<_>>().unwrap();
    assert!(again == seen, "the snapshot has changed");
    drop(before);
    let now = shown(&db);
    assert_eq!(now.keys().filter(|key| key.starts_with(b"writer")).count(), 40);
    assert!(db.finish_key_rotation(|_| {}).unwrap().is_finished);
    db.close().unwrap();
    assert_eq!(ids(&bytes(&file)).len(), 1);
    assert_eq!(shown(&open(file, NEW).unwrap()), now);
}

/// Copies the segments that `thief` has and `file` has not into the places that they have there, under headers and checksums that fit.
#[test]
fn who_has_the_key_of_before_writes_nothing_behind_a_rotation() {
    let file = MemoryStorage::new();
    let mut now = lived(&file, OLD, 3);
    // The thief goes on with a copy, under the old key: segments at the same positions as those of the rotated store.
    let copy = MemoryStorage::from_vec(bytes(&file));
    let mut forks = Vec::new();
    for _ in 0..12 {
        let db = open(copy.clone(), OLD).unwrap();
        db.insert("forged", [9; 900]).unwrap();
        db.flush().unwrap();
        killed(db);
        forks.push(bytes(&copy));
    }
    // A rotation that has begun, and waits: the snapshot of another thread is what it waits for in the middle of its work.
    let crash = CrashStorage::from_image(&CrashImage::from_bytes(&bytes(&file)));
    let mut pending = None;
    for io in 1..400 {
        let file = CrashStorage::from_image(&crash.freeze().latest_image());
        let db = open(file.clone(), OLD).unwrap();
        file.stop_at(Some(io));
        let _ = db.rotate_encryption_key(NEW);
        let image = file.freeze().latest_image();
        killed(db);
        if open(image.to_memory(), NEW).is_ok_and(|db| db.key_rotation_pending() && !db.open_report().clean) {
            pending = Some(image);
            if io > 20 {
                break;
            }
        }
    }
    let pending = bytes(&pending.unwrap().to_memory());
    let db = open(file.clone(), OLD).unwrap();
    assert!(db.rotate_encryption_key(NEW).unwrap().is_finished);
    db.insert("genuine", "yes").unwrap();
    now.insert(b"genuine".to_vec(), b"yes".to_vec());
    db.close().unwrap();
    let finished = bytes(&file);
    let (mut tried, mut refused) = (0, 0);
    for base in [&pending, &finished] {
        for fork in &forks {
            let len = base.len().max(fork.len());
            let (mut base, mut fork) = (base.clone(), fork.clone());
            base.resize(len, 0);
            fork.resize(len, 0);
            for at in (FIRST..len - HEADER_LEN).step_by(EXTENT) {
                if base[at..at + EXTENT.min(len - at)] == fork[at..at + EXTENT.min(len - at)] {
                    continue;
                }
                let mut mixed = base.clone();
                let behind = (at + EXTENT).min(len);
                mixed[at..behind].copy_from_slice(&fork[at..behind]);
                tried += 1;
                match open(MemoryStorage::from_vec(mixed), NEW).and_then(|db| db.iter().collect::<pipkin::Result<Shown>>()) {
                    Ok(found) => assert!(!found.contains_key(&b"forged"[..]), "the segment at {at} of the fork counts"),
                    Err(Error::Forged { .. } | Error::Corrupt { .. } | Error::RolledBack) => refused += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
            // The front of the fork, under the old key, before the rotated log.
            let mut front = base.clone();
            front[..FIRST].copy_from_slice(&fork[..FIRST]);
            let found = open(MemoryStorage::from_vec(front), OLD).map(|db| db.iter().collect::<pipkin::Result<Shown>>());
            assert!(!matches!(&found, Ok(Ok(found)) if found.contains_key(&b"genuine"[..])), "the old key shows what is new");
        }
    }
    assert!(tried > 20 && refused > 0, "{refused} of {tried}");
    assert_eq!(shown(&open(file, NEW).unwrap()), now);
}
