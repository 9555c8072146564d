//! A plain store that is sealed while it is open: with every cut in between, beside writers and readers, and while somebody holds what is plain.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "events"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{killed, stride};
use crate::sealed_bytes::bytes;
use crate::sealed_changes::{beside_writers, left_at, with_each_sync_failing};
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::fault::FaultStorage;
use pipkin::storage::random::Rng;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::testing::TestClock;
use pipkin::{Builder, Cipher, Db, Error, Expected, NewEvent, verify_storage};
use std::collections::BTreeMap;
use std::time::Duration;

pub(crate) const KEY: [u8; 32] = [8; 32];
pub(crate) const EXTENT: usize = 4096;
/// In every key, value, name, stream, type and payload.
pub(crate) const MARKER: &[u8] = b"MARKER";

pub(crate) type Shown = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn builder() -> Builder {
    Db::builder().segment_size(EXTENT as u32).background(false)
}

pub(crate) fn open_plain(file: impl Storage + 'static) -> pipkin::Result<Db> {
    builder().open_storage(Box::new(file))
}

pub(crate) fn open_sealed(file: impl Storage + 'static) -> pipkin::Result<Db> {
    builder().encryption_key(KEY).open_storage(Box::new(file))
}

pub(crate) fn shown(db: &Db) -> Shown {
    let mut shown: Shown = db.iter().collect::<pipkin::Result<_>>().unwrap();
    for name in db.list_namespaces() {
        let space = db.namespace(name.as_str()).unwrap();
        for record in space.iter() {
            let (key, value) = record.unwrap();
            shown.insert([name.as_bytes(), b"/", &key].concat(), value);
        }
    }
    shown
}

/// A plain store of some sessions, with overwritten and removed records in several segments, in two namespaces, and events.
pub(crate) fn lived(file: &(impl Storage + Clone + 'static), sessions: u8) -> Shown {
    lived_in(|| open_plain(file.clone()).unwrap(), sessions)
}

/// The same in a store that `open` opens.
pub(crate) fn lived_in(open: impl Fn() -> Db, sessions: u8) -> Shown {
    for session in 0..sessions {
        let db = open();
        let space = db.namespace("MARKER namespace").unwrap();
        for step in 0..9_u8 {
            let value = [MARKER, &vec![session * 16 + step; 300 + usize::from(step) * 60]].concat();
            db.insert([b"MARKER key ".as_slice(), &[step % 7]].concat(), &value).unwrap();
            space.insert([b"MARKER in ".as_slice(), &[step % 3]].concat(), &value[..90]).unwrap();
        }
        db.remove([b"MARKER key ".as_slice(), &[3]].concat()).unwrap();
        let log = db.events("MARKER log").unwrap();
        let payload = [MARKER, &[session; 40]].concat();
        log.append("MARKER stream", Expected::Any, [NewEvent::new("MARKER type", payload)]).unwrap();
        drop((log, space));
        if session % 2 == 0 {
            db.close().unwrap();
        } else {
            db.flush().unwrap();
            killed(db);
        }
    }
    let db = open();
    let now = shown(&db);
    assert!(now.len() > 8);
    db.close().unwrap();
    now
}

/// Where the marker stands in the file, with its first byte or without. It is followed by a space or by one byte many times: ciphertext has five bytes by
/// chance once in ten thousand runs.
fn marked(bytes: &[u8]) -> Option<usize> {
    let rest = MARKER.len() - 1;
    let is_one = |window: &[u8]| window.starts_with(&MARKER[1..]) && (window[rest] == b' ' || window[rest] == window[rest + 1]);
    bytes.windows(rest + 2).position(is_one)
}

#[test]
fn behind_an_enabling_the_key_alone_opens_and_nothing_plain_is_left() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let file = MemoryStorage::new();
        let now = lived(&file, 5);
        assert!(marked(&bytes(&file)).is_some());
        let db = builder().cipher(cipher).open_storage(Box::new(file.clone())).unwrap();
        assert!(!db.key_rotation_pending());
        let mut calls = 0;
        let report = db.enable_encryption_with(KEY, |_| calls += 1).unwrap();
        assert!(report.is_finished && report.records_copied >= now.len() as u64, "{report:?}");
        assert!(calls > 2 && !db.key_rotation_pending());
        assert_eq!(db.key_slots().unwrap().len(), 1);
        assert_eq!(shown(&db), now);
        assert_eq!(db.events("MARKER log").unwrap().stream("MARKER stream").iter().unwrap().count(), 5);
        assert_eq!(marked(&bytes(&file)), None, "an open store");
        assert!(db.verify().unwrap().is_ok());
        assert!(matches!(db.enable_encryption(KEY), Err(Error::InvalidArgument(_))));
        db.insert("MARKER behind", "MARKER it").unwrap();
        db.close().unwrap();
        assert_eq!(marked(&bytes(&file)), None, "a closed store");
        assert!(verify_storage(&file).unwrap().is_ok());
        assert!(matches!(open_plain(file.clone()).map(drop), Err(Error::KeyNeeded)));
        let db = open_sealed(file.clone()).unwrap();
        assert!(db.verify().unwrap().is_ok() && !db.open_report().key_rotation_pending);
        assert_eq!(db.get("MARKER behind").unwrap().as_deref(), Some(&b"MARKER it"[..]));
        assert_eq!(db.events("MARKER log").unwrap().version("MARKER stream").unwrap(), 5);
        assert!(db.rotate_encryption_key([9; 32]).unwrap().is_finished);
        db.close().unwrap();
    }
}

/// A passphrase opens it, too; a new store without a record is sealed as well.
#[test]
fn a_passphrase_seals_an_empty_store() {
    let file = MemoryStorage::new();
    let db = open_plain(file.clone()).unwrap();
    assert!(db.enable_encryption_passphrase("correct horse").unwrap().is_finished);
    db.insert("MARKER", "MARKER").unwrap();
    db.close().unwrap();
    assert_eq!(marked(&bytes(&file)), None);
    let db = Db::builder().encryption_passphrase("correct horse").open_storage(Box::new(file)).unwrap();
    assert_eq!(db.len().unwrap(), 1);
}

/// What the records say of themselves stays: expiry, order, groups, versions.
#[cfg(feature = "ordered")]
#[test]
fn expiry_order_and_large_values_stay() {
    let (file, clock) = (MemoryStorage::new(), TestClock::new(1_000_000));
    let ordered = || builder().ordered(true).clock(clock.clone());
    let db = ordered().open_storage(Box::new(file.clone())).unwrap();
    for number in 0..60_u8 {
        db.insert([b"MARKER k".as_slice(), &[number]].concat(), vec![number; 50]).unwrap();
    }
    db.insert("MARKER large", vec![7; 200_000]).unwrap();
    db.insert_with_ttl("MARKER short", "MARKER", Duration::from_secs(60)).unwrap();
    db.checkpoint().unwrap();
    let keys = || db.range(..).unwrap().map(|record| record.unwrap().0.to_vec()).collect::<Vec<_>>();
    let before = keys();
    assert!(db.enable_encryption(KEY).unwrap().is_finished);
    assert_eq!(keys(), before);
    assert_eq!(db.get("MARKER large").unwrap().unwrap(), vec![7; 200_000]);
    clock.advance(Duration::from_secs(61));
    assert_eq!(db.get("MARKER short").unwrap(), None);
    db.close().unwrap();
    assert_eq!(marked(&bytes(&file)), None);
    let db = ordered().encryption_key(KEY).open_storage(Box::new(file)).unwrap();
    assert_eq!(db.range(..).unwrap().count(), 61);
}

/// How a store opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    Plain,
    Begun,
    Sealed,
}

/// Opens with the key or without, shows what it should, is sealed to the end then, and holds nothing plain.
fn goes_on(file: &MemoryStorage, now: &Shown, is_behind: bool, what: &str) -> Opened {
    let plain = match open_plain(file.clone()) {
        Ok(db) => Some(db),
        Err(Error::KeyNeeded) => None,
        Err(error) => panic!("{what}: {error:?}"),
    };
    let sealed = match open_sealed(file.clone()) {
        Ok(db) => Some(db),
        Err(Error::NotSealed) => None,
        Err(error) => panic!("{what}: {error:?}"),
    };
    let (opened, db, report) = match (plain, sealed) {
        (Some(db), None) => {
            assert!(!is_behind, "{what}: acknowledged, and plain");
            assert_eq!(&shown(&db), now, "{what}");
            assert!(db.verify().unwrap().damage.is_empty(), "{what}: {:?}", db.verify());
            db.insert("MARKER plain", what).unwrap();
            db.remove("MARKER plain").unwrap();
            let report = db.enable_encryption(KEY).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            (Opened::Plain, db, report)
        }
        (None, Some(db)) => {
            let is_pending = db.key_rotation_pending();
            assert_eq!(db.open_report().key_rotation_pending, is_pending);
            assert_eq!(&shown(&db), now, "{what}");
            assert!(db.verify().unwrap().damage.is_empty(), "{what}: {:?}", db.verify());
            let report = db.finish_key_rotation(|_| {}).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            (if is_pending { Opened::Begun } else { Opened::Sealed }, db, report)
        }
        (plain, _) => panic!("{what}: plain and sealed, or neither: {}", plain.is_some()),
    };
    assert!(report.is_finished && !db.key_rotation_pending(), "{what}: {report:?}");
    assert_eq!(&shown(&db), now, "{what}");
    assert_eq!(db.events("MARKER log").unwrap().version("MARKER stream").unwrap(), 3, "{what}");
    assert_eq!(marked(&bytes(file)), None, "{what}, {opened:?}");
    db.insert("MARKER behind", what).unwrap();
    db.close().unwrap();
    assert!(verify_storage(file).unwrap().is_ok(), "{what}");
    assert_eq!(marked(&bytes(file)), None, "{what}, {opened:?}, closed");
    let db = open_sealed(file.clone()).unwrap();
    assert_eq!(db.get("MARKER behind").unwrap().as_deref(), Some(what.as_bytes()));
    opened
}

#[test]
fn an_enabling_that_is_cut_anywhere_leaves_a_plain_store_or_one_that_opens_with_the_key() {
    let mut rng = Rng::new(1);
    let base = MemoryStorage::new();
    let now = lived(&base, 3);
    let image = CrashImage::from_bytes(&bytes(&base));
    let (mut plain, mut begun, mut sealed, mut again) = (0, 0, 0, 0);
    let stride = stride(17);
    for io in 1.. {
        let file = CrashStorage::from_image(&image);
        let db = open_plain(file.clone()).unwrap();
        file.stop_at(Some(io));
        let enabled = db.enable_encryption(KEY);
        let is_whole = enabled.is_ok_and(|report| report.is_finished) && !file.is_stopped();
        let point = file.freeze();
        killed(db);
        for (which, image) in left_at(&point, &mut rng, 509, 8).iter().enumerate() {
            let what = format!("cut at {io}, image {which}");
            match goes_on(&image.to_memory(), &now, is_whole, &what) {
                Opened::Plain => plain += 1,
                Opened::Begun => begun += 1,
                Opened::Sealed => sealed += 1,
            }
            if which != 3 && !(which == 1 && io % 4 == 0) {
                continue;
            }
            // Going on with it is cut, too; or beginning again, behind what the first attempt has left.
            for io2 in (1 + io % stride as u64..).step_by(stride) {
                let file = CrashStorage::from_image(image);
                let is_plain = open_plain(file.clone()).is_ok();
                let db = if is_plain { open_plain(file.clone()) } else { open_sealed(file.clone()) };
                let Ok(db) = db else { panic!("{what}: does not open") };
                file.stop_at(Some(file.io_count() + io2));
                let finished = if is_plain { db.enable_encryption(KEY) } else { db.finish_key_rotation(|_| {}) };
                let is_whole = finished.is_ok() && !file.is_stopped();
                let point = file.freeze();
                killed(db);
                for image in left_at(&point, &mut rng, 509, 1) {
                    goes_on(&image.to_memory(), &now, is_whole || !is_plain, &format!("{what}, then at {io2}"));
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
    assert!(plain > 20 && begun > 100 && sealed > 2 && again > 100, "{plain}, {begun}, {sealed}, {again}");
}

#[test]
fn an_enabling_that_meets_a_failing_sync_loses_nothing() {
    let base = MemoryStorage::new();
    let now = lived(&base, 3);
    with_each_sync_failing(
        &base,
        |file| open_plain(file).unwrap(),
        |db| db.enable_encryption(KEY).is_ok_and(|report| report.is_finished),
        |db| shown(db) == now,
        |file, is_whole, what| _ = goes_on(file, &now, is_whole, what),
    );
}

#[test]
fn writers_readers_and_snapshots_go_on_beside_an_enabling() {
    let file = MemoryStorage::new();
    lived(&file, 4);
    let db = open_plain(file.clone()).unwrap();
    let now = beside_writers(&db, |db| _ = db.enable_encryption(KEY).unwrap());
    assert!(db.finish_key_rotation(|_| {}).unwrap().is_finished);
    db.close().unwrap();
    assert_eq!(marked(&bytes(&file)), None);
    assert_eq!(shown(&open_sealed(file).unwrap()), now);
}

#[test]
fn a_living_snapshot_and_a_consumer_hold_what_is_plain_until_they_are_gone() {
    let file = MemoryStorage::new();
    lived(&file, 3);
    let db = open_plain(file.clone()).unwrap();
    let mut consumer = db.consumer("MARKER consumer").start().unwrap();
    db.insert("MARKER held", vec![1; 900]).unwrap();
    let snapshot = db.snapshot();
    let seen: Shown = snapshot.iter().collect::<pipkin::Result<_>>().unwrap();
    db.insert("MARKER held", vec![2; 900]).unwrap();
    db.flush().unwrap();
    let now = shown(&db);
    let report = db.enable_encryption(KEY).unwrap();
    assert!(!report.is_finished && report.segments_left > 0, "{report:?}");
    assert!(db.key_rotation_pending());
    assert_eq!(snapshot.iter().collect::<pipkin::Result<Shown>>().unwrap(), seen);
    assert!(db.verify().unwrap().is_ok(), "{:?}", db.verify().unwrap());
    drop(snapshot);
    let report = db.finish_key_rotation(|_| {}).unwrap();
    assert!(!report.is_finished && report.history_bytes > 0, "{report:?}");
    assert_eq!(shown(&db), now);
    drop(consumer);
    db.close().unwrap();
    // Without its key nobody reads what is still plain as a store; with it, the consumer goes on where it was.
    assert!(matches!(open_plain(file.clone()).map(drop), Err(Error::KeyNeeded)));
    assert!(verify_storage(&file).unwrap().is_ok());
    let db = open_sealed(file.clone()).unwrap();
    assert!(db.open_report().key_rotation_pending && db.verify().unwrap().is_ok());
    assert_eq!(shown(&db), now);
    let target = MemoryStorage::new();
    db.backup_to_storage(&target).unwrap();
    let copy = open_sealed(target).unwrap();
    assert!(copy.key_rotation_pending());
    assert_eq!(shown(&copy), now);
    consumer = db.consumer("MARKER consumer").start().unwrap();
    db.insert("MARKER newest", "yes").unwrap();
    let now = shown(&db);
    let mut changes = 0;
    while let Some(commit) = consumer.try_next().unwrap() {
        changes += 1;
        consumer.ack(commit.position()).unwrap();
    }
    assert!(changes >= 2, "{changes}");
    let report = db.finish_key_rotation(|_| {}).unwrap();
    assert!(report.is_finished, "{report:?}");
    assert_eq!(marked(&bytes(&file)), None);
    assert_eq!(shown(&db), now);
}

/// A store that cannot be sealed stays as it is, and says why.
#[test]
fn a_store_that_cannot_be_sealed_stays_plain() {
    let file = MemoryStorage::new();
    lived(&file, 1);
    let sealed = Db::builder().encryption_key(KEY).in_memory().unwrap();
    assert!(matches!(sealed.enable_encryption(KEY), Err(Error::InvalidArgument(_))));
    let read_only = builder().read_only(true).open_storage(Box::new(file.clone())).unwrap();
    assert!(matches!(read_only.enable_encryption(KEY), Err(Error::ReadOnly)));
    drop(read_only);
    let follower = builder().follow(true).open_storage(Box::new(file.clone())).unwrap();
    assert!(matches!(follower.enable_encryption(KEY), Err(Error::ReadOnly)));
    drop(follower);
    let image = CrashImage::from_bytes(&bytes(&file));
    let db = open_plain(image).unwrap();
    assert!(matches!(db.enable_encryption(KEY), Err(Error::Unsupported { .. })));
    db.insert("MARKER", "MARKER").unwrap();
    db.close().unwrap();
}

/// On a medium without room for a copy of everything, the store stays plain or is sealed later; it loses nothing and goes on.
#[test]
fn a_full_medium_leaves_a_store_that_goes_on() {
    let base = MemoryStorage::new();
    let now = lived(&base, 4);
    let before = bytes(&base);
    let (mut plain, mut begun, mut finished) = (0, 0, 0);
    for extents in 0..24_u64 {
        let file = MemoryStorage::from_vec(before.clone());
        let full = FaultStorage::new(file.clone());
        full.set_capacity(Some(before.len() as u64 + extents * EXTENT as u64));
        let Ok(db) = open_plain(full.clone()) else { continue };
        let what = format!("room for {extents} extents");
        match db.enable_encryption(KEY) {
            Ok(report) => finished += u32::from(report.is_finished),
            Err(Error::NoSpace) if db.key_rotation_pending() => begun += 1,
            Err(Error::NoSpace) => {
                plain += 1;
                assert!(db.verify().unwrap().is_ok(), "{what}");
            }
            Err(error) => panic!("{what}: {error:?}"),
        }
        assert_eq!(shown(&db), now, "{what}");
        full.set_capacity(None);
        db.insert("MARKER more", "MARKER").unwrap();
        let report = if db.key_rotation_pending() { db.finish_key_rotation(|_| {}) } else { db.enable_encryption(KEY) };
        assert!(report.is_ok_and(|report| report.is_finished) || db.cipher().is_some(), "{what}");
        db.close().unwrap();
        assert_eq!(marked(&bytes(&file)), None, "{what}");
        assert_eq!(open_sealed(file).unwrap().len().unwrap() as usize, db_len(&now) + 1, "{what}");
    }
    assert!(plain > 0 && begun + finished > 5, "{plain}, {begun}, {finished}");
}

/// The records of the default namespace.
pub(crate) fn db_len(now: &Shown) -> usize {
    now.keys().filter(|key| !key.starts_with(b"MARKER namespace/")).count()
}

/// The keys of one session are not those of the next one, though both have the same storage.
#[test]
fn a_storage_that_two_sessions_share_hands_no_keys_on() {
    let file = std::sync::Arc::new(MemoryStorage::new());
    let db = open_plain(file.clone()).unwrap();
    db.insert("color", "green").unwrap();
    assert!(db.enable_encryption(KEY).unwrap().is_finished);
    db.close().unwrap();
    assert!(matches!(open_plain(file.clone()).map(drop), Err(Error::KeyNeeded)));
    let db = open_sealed(file.clone()).unwrap();
    assert_eq!(db.get("color").unwrap().as_deref(), Some(&b"green"[..]));
    db.insert("size", "small").unwrap();
    db.close().unwrap();
    assert_eq!(open_sealed(file).unwrap().len().unwrap(), 2);
}

/// The file as a power cut leaves it while two records are written: the first is damaged, here, and the second is stranded.
fn torn(file: &MemoryStorage, db: Db) -> (Vec<u8>, usize) {
    db.insert("first", "begins the session").unwrap();
    let before = bytes(file);
    db.insert("damaged", [1; 100]).unwrap();
    let behind = bytes(file);
    db.insert("MARKER stranded", "a record that the log does not have").unwrap();
    let mut torn = bytes(file);
    killed(db);
    let last = (0..behind.len()).rfind(|&at| before.get(at) != Some(&behind[at])).unwrap();
    torn[last] ^= 1;
    (torn, last)
}

#[test]
fn an_enabling_that_a_crash_has_torn_has_not_finished_while_stranded_records_keep_what_was_plain() {
    let file = MemoryStorage::new();
    lived(&file, 4);
    let db = open_plain(file.clone()).unwrap();
    // A reader of plain segments is in the way of the end.
    db.insert("held", [1; 100]).unwrap();
    let snapshot = db.snapshot();
    db.insert("held", [2; 100]).unwrap();
    db.flush().unwrap();
    assert!(!db.enable_encryption(KEY).unwrap().is_finished);
    let (mut torn, last) = torn(&file, db);
    std::mem::forget(snapshot);
    // What stood in the segment before: a power cut takes sectors, not records.
    let trailer = last / EXTENT * EXTENT + EXTENT - 32;
    let plain = (0..trailer).rfind(|&at| torn[at] != 0).unwrap() + 8;
    assert!(last < plain && plain + MARKER.len() <= trailer);
    torn[plain..plain + MARKER.len()].copy_from_slice(MARKER);
    let file = MemoryStorage::from_vec(torn);

    let db = open_sealed(file.clone()).unwrap();
    assert_eq!((db.open_report().stranded_records, db.key_rotation_pending()), (1, true));
    let report = db.finish_key_rotation(|_| {}).unwrap();
    assert_eq!((report.is_finished, report.segments_left), (false, 1));
    assert!(db.key_rotation_pending());
    db.drop_stranded().unwrap();
    let report = db.finish_key_rotation(|_| {}).unwrap();
    assert_eq!((report.is_finished, report.segments_left), (true, 0));
    assert_eq!(marked(&bytes(&file)), None);
}

#[test]
fn a_plain_store_with_stranded_records_is_not_sealed_until_they_are_given_up() {
    let file = MemoryStorage::new();
    lived(&file, 2);
    let db = open_plain(file.clone()).unwrap();
    let (torn, _) = torn(&file, db);
    let file = MemoryStorage::from_vec(torn);

    let db = open_plain(file.clone()).unwrap();
    assert_eq!(db.open_report().stranded_records, 1, "{:?}", db.open_report());
    assert!(matches!(db.enable_encryption(KEY), Err(Error::InvalidArgument(_))));
    db.drop_stranded().unwrap();
    assert!(db.enable_encryption(KEY).unwrap().is_finished);
    assert_eq!(marked(&bytes(&file)), None);
}
