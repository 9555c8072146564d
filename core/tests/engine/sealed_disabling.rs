//! A sealed store that is made plain while it is open: with every cut in between, beside writers and readers, and while somebody holds what is sealed.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "events"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::{killed, stride};
use crate::sealed_bytes::bytes;
use crate::sealed_changes::{beside_writers, left_at, with_each_sync_failing};
use crate::sealed_enabling::{EXTENT, KEY, Shown, builder, db_len, lived_in, open_plain, open_sealed, shown};
use crate::sealed_left::Secrets;
use pipkin::storage::crash::{CrashImage, CrashStorage};
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::storage::random::Rng;
use pipkin::storage::{CacheOptions, CachedStorage, MemoryStorage, Storage, StorageErrorKind};
use pipkin::{Cipher, Db, Error, verify_storage};

pub(crate) fn make_plain(file: impl Storage + 'static) -> pipkin::Result<Db> {
    builder().encryption_key(KEY).disable_encryption_in(Box::new(file))
}

/// A sealed store of some sessions.
pub(crate) fn sealed(file: &MemoryStorage, sessions: u8) -> Shown {
    lived_in(|| open_sealed(file.clone()).unwrap(), sessions)
}

#[test]
fn behind_a_disabling_no_key_is_needed_and_nothing_sealed_is_left() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305] {
        let file = MemoryStorage::new();
        let open = || builder().cipher(cipher).encryption_key(KEY).open_storage(Box::new(file.clone())).unwrap();
        let now = lived_in(open, 5);
        let mut secrets = Secrets::default();
        secrets.add(&bytes(&file));
        assert!(secrets.len() > 1000 && secrets.found(&bytes(&file)).is_some());
        let db = open();
        let anchor = db.anchor().unwrap();
        let mut calls = 0;
        let report = db
            .disable_encryption_with(|_| {
                calls += 1;
                secrets.add(&bytes(&file));
            })
            .unwrap();
        assert!(report.is_finished && report.records_copied >= now.len() as u64, "{report:?}");
        assert!(calls > 2 && !db.key_rotation_pending() && db.cipher().is_none());
        assert!(matches!(db.key_slots(), Err(Error::NotSealed)));
        assert!(matches!(db.disable_encryption(), Err(Error::NotSealed)));
        assert!(matches!(db.finish_key_rotation(|_| {}), Err(Error::NotSealed)));
        assert_eq!(shown(&db), now);
        assert_eq!(db.events("MARKER log").unwrap().stream("MARKER stream").iter().unwrap().count(), 5);
        secrets.assert_plain(&bytes(&file), "an open store");
        assert!(db.verify().unwrap().is_ok(), "{:?}", db.verify());
        db.insert("MARKER behind", "it").unwrap();
        db.close().unwrap();
        secrets.assert_plain(&bytes(&file), "a closed store");
        let report = verify_storage(&file).unwrap();
        assert!(report.is_ok() && !report.unauthenticated);
        assert!(matches!(open_sealed(file.clone()).map(drop), Err(Error::NotSealed)));
        assert!(matches!(make_plain(file.clone()).map(drop), Err(Error::NotSealed)));
        let db = builder().not_before(anchor).open_storage(Box::new(file.clone())).unwrap();
        assert!(db.verify().unwrap().is_ok() && !db.open_report().key_rotation_pending);
        assert_eq!(db.get("MARKER behind").unwrap().as_deref(), Some(&b"it"[..]));
        assert_eq!(db.events("MARKER log").unwrap().version("MARKER stream").unwrap(), 5);
        db.close().unwrap();
    }
}

/// A key of another kind opens it until then; a store without a record becomes plain, too, and so does one with each of its slots but one taken.
#[test]
fn whoever_opens_the_store_can_make_it_plain() {
    let file = MemoryStorage::new();
    let db = Db::builder().encryption_passphrase("correct horse").open_storage(Box::new(file.clone())).unwrap();
    assert!(db.disable_encryption().unwrap().is_finished);
    db.close().unwrap();
    assert!(open_plain(file).unwrap().is_empty().unwrap());
    let file = MemoryStorage::new();
    let db = open_sealed(file.clone()).unwrap();
    db.insert("color", "green").unwrap();
    let slots: Vec<u8> = (10..17).map(|key| db.add_encryption_key([key; 32]).unwrap()).collect();
    assert!(matches!(db.disable_encryption(), Err(Error::InvalidArgument(what)) if what.contains("remove one")));
    assert!(!db.key_rotation_pending());
    db.remove_key_slot(slots[3]).unwrap();
    assert!(db.disable_encryption().unwrap().is_finished);
    db.close().unwrap();
    assert_eq!(open_plain(file).unwrap().get("color").unwrap().as_deref(), Some(&b"green"[..]));
}

/// How a store opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opened {
    Sealed,
    Begun,
    Plain,
}

/// Opens in the way that fits, shows what it should, is plain to the end then, and holds nothing sealed.
fn goes_on(secrets: &Secrets, file: &MemoryStorage, now: &Shown, is_behind: bool, what: &str) -> Opened {
    let (opened, db) = match open_sealed(file.clone()) {
        Ok(db) => (Opened::Sealed, db),
        Err(Error::DisablingEncryption) => {
            assert!(matches!(open_plain(file.clone()).map(drop), Err(Error::KeyNeeded)), "{what}");
            // A part of the front may be torn.
            let is_worse = verify_storage(file).unwrap().damage.into_iter().find(|damage| damage.offset >= 16_384);
            assert_eq!(is_worse, None, "{what}");
            (Opened::Begun, make_plain(file.clone()).unwrap_or_else(|error| panic!("{what}: {error:?}")))
        }
        Err(Error::NotSealed) => (Opened::Plain, open_plain(file.clone()).unwrap_or_else(|error| panic!("{what}: {error:?}"))),
        Err(error) => panic!("{what}: {error:?}"),
    };
    assert_eq!(&shown(&db), now, "{what}, {opened:?}");
    assert!(db.verify().unwrap().damage.is_empty(), "{what}, {opened:?}: {:?}", db.verify());
    if opened == Opened::Sealed {
        assert!(!is_behind, "{what}: acknowledged, and sealed");
        db.insert("MARKER sealed", what).unwrap();
        db.remove("MARKER sealed").unwrap();
        let report = db.disable_encryption().unwrap_or_else(|error| panic!("{what}: {error:?}"));
        assert!(report.is_finished, "{what}: {report:?}");
        assert_eq!(&shown(&db), now, "{what}");
    }
    assert!(!db.key_rotation_pending(), "{what}, {opened:?}");
    assert_eq!(db.events("MARKER log").unwrap().version("MARKER stream").unwrap(), 3, "{what}");
    secrets.assert_plain(&bytes(file), what);
    db.insert("MARKER behind", what).unwrap();
    db.close().unwrap();
    assert!(verify_storage(file).unwrap().is_ok(), "{what}, {opened:?}");
    secrets.assert_plain(&bytes(file), what);
    let db = open_plain(file.clone()).unwrap();
    assert_eq!(db.get("MARKER behind").unwrap().as_deref(), Some(what.as_bytes()));
    opened
}

#[test]
fn a_disabling_that_is_cut_anywhere_leaves_a_store_that_opens_and_goes_on() {
    let mut rng = Rng::new(1);
    let base = MemoryStorage::new();
    let now = sealed(&base, 3);
    let image = CrashImage::from_bytes(&bytes(&base));
    let mut secrets = Secrets::default();
    secrets.add(&bytes(&base));
    let (mut sealed, mut begun, mut plain, mut again) = (0, 0, 0, 0);
    let stride = stride(13);
    for io in 1.. {
        let file = CrashStorage::from_image(&image);
        let db = open_sealed(file.clone()).unwrap();
        file.stop_at(Some(io));
        let disabled = db.disable_encryption();
        let is_whole = disabled.is_ok_and(|report| report.is_finished) && !file.is_stopped();
        let point = file.freeze();
        killed(db);
        for (which, image) in left_at(&point, &mut rng, 1021, 2).iter().enumerate() {
            let what = format!("cut at {io}, image {which}");
            let opened = goes_on(&secrets, &image.to_memory(), &now, is_whole, &what);
            match opened {
                Opened::Sealed => sealed += 1,
                Opened::Begun => begun += 1,
                Opened::Plain => plain += 1,
            }
            if io % 4 != 0 || which != 1 + 2 * (io as usize / 4 % 2) {
                continue;
            }
            // Going on with it is cut, too; or beginning again, behind what the first attempt has left.
            for io2 in (1 + io % stride as u64..).step_by(stride) {
                let file = CrashStorage::from_image(image);
                file.stop_at(Some(io2));
                let went_on = match opened {
                    Opened::Plain => open_plain(file.clone()).and_then(|db| db.close()),
                    Opened::Sealed | Opened::Begun => make_plain(file.clone()).map(|db| assert!(!db.key_rotation_pending())),
                };
                let is_whole = went_on.is_ok() && !file.is_stopped();
                let point = file.freeze();
                for image in left_at(&point, &mut rng, 2039, 1) {
                    goes_on(
                        &secrets,
                        &image.to_memory(),
                        &now,
                        is_whole || opened == Opened::Plain,
                        &format!("{what}, then at {io2}"),
                    );
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
    assert!(sealed > 10 && begun > 100 && plain > 10 && again > 100, "{sealed}, {begun}, {plain}, {again}");
}

#[test]
fn a_disabling_that_meets_a_failing_sync_loses_nothing() {
    let base = MemoryStorage::new();
    let now = sealed(&base, 3);
    let mut secrets = Secrets::default();
    secrets.add(&bytes(&base));
    with_each_sync_failing(
        &base,
        |file| open_sealed(file).unwrap(),
        |db| db.disable_encryption().is_ok_and(|report| report.is_finished),
        |db| shown(db) == now,
        |file, is_whole, what| _ = goes_on(&secrets, file, &now, is_whole, what),
    );
}

#[test]
fn a_disabling_that_meets_a_failing_write_loses_nothing() {
    let base = MemoryStorage::new();
    let now = sealed(&base, 3);
    let mut secrets = Secrets::default();
    secrets.add(&bytes(&base));
    for nth in 1.. {
        let file = MemoryStorage::from_vec(bytes(&base));
        let failing = FaultStorage::new(file.clone());
        let db = open_sealed(failing.clone()).unwrap();
        failing.arm(Fault::nth(nth, Io::Write, Effect::Error(StorageErrorKind::Other)));
        let is_whole = db.disable_encryption().is_ok_and(|report| report.is_finished);
        assert_eq!(shown(&db), now, "write {nth}");
        killed(db);
        goes_on(&secrets, &file, &now, is_whole, &format!("write {nth} failed"));
        if is_whole {
            assert!(nth > 20, "{nth}");
            break;
        }
    }
}

#[test]
fn writers_readers_and_snapshots_go_on_beside_a_disabling() {
    let file = MemoryStorage::new();
    sealed(&file, 4);
    beside(&open_sealed(file.clone()).unwrap());
    open_plain(file).unwrap();
}

fn beside(db: &Db) {
    let now = beside_writers(db, |db| _ = db.disable_encryption().unwrap());
    assert!(!db.key_rotation_pending() || db.finish_key_rotation(|_| {}).unwrap().is_finished);
    assert!(db.verify().unwrap().is_ok());
    assert_eq!(shown(db), now);
    db.clone().close().unwrap();
}

/// On every kind of storage that comes with the crate.
#[test]
fn cached_native_and_ring_storages_become_plain_beside_writers() {
    let file = MemoryStorage::new();
    sealed(&file, 2);
    beside(&open_sealed(CachedStorage::<_, 0>::new(file.clone(), CacheOptions::default()).unwrap()).unwrap());
    open_plain(file).unwrap();
    #[cfg(feature = "native")]
    for is_ring in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = || builder().path(folder.path().join("app.pipkin"));
        #[cfg(feature = "io-uring")]
        let path = || {
            if is_ring { path().io_uring(pipkin::storage::native::IoUring { auto: false, ..Default::default() }) } else { path() }
        };
        let file = MemoryStorage::new();
        let now = sealed(&file, 2);
        std::fs::write(folder.path().join("app.pipkin"), bytes(&file)).unwrap();
        let db = path().encryption_key(KEY).open().unwrap();
        beside(&db);
        drop(db);
        let db = path().open().unwrap();
        assert!(shown(&db).len() >= now.len(), "{is_ring}");
    }
}

#[test]
fn a_living_snapshot_and_a_consumer_hold_what_is_sealed_until_they_are_gone() {
    let file = MemoryStorage::new();
    sealed(&file, 3);
    let db = open_sealed(file.clone()).unwrap();
    let mut consumer = db.consumer("MARKER consumer").start().unwrap();
    db.insert("MARKER held", vec![1; 900]).unwrap();
    let snapshot = db.snapshot();
    let seen: Shown = snapshot.iter().collect::<pipkin::Result<_>>().unwrap();
    db.insert("MARKER held", vec![2; 900]).unwrap();
    db.flush().unwrap();
    let now = shown(&db);
    let report = db.disable_encryption().unwrap();
    assert!(!report.is_finished && report.segments_left > 0, "{report:?}");
    assert!(db.key_rotation_pending() && db.cipher().is_some());
    assert_eq!(snapshot.iter().collect::<pipkin::Result<Shown>>().unwrap(), seen);
    assert!(db.verify().unwrap().is_ok(), "{:?}", db.verify().unwrap());
    drop(snapshot);
    let report = db.finish_key_rotation(|_| {}).unwrap();
    assert!(!report.is_finished && report.history_bytes > 0, "{report:?}");
    // Nothing else begins meanwhile.
    assert!(matches!(db.enable_encryption(KEY), Err(Error::InvalidArgument(what)) if what.contains("made plain")));
    assert!(matches!(db.rotate_encryption_key([9; 32]), Err(Error::InvalidArgument(_))));
    assert!(!db.disable_encryption().unwrap().is_finished);
    assert_eq!(shown(&db), now);
    let number = db.add_encryption_key([9; 32]).unwrap();
    drop(consumer);
    db.close().unwrap();
    for _ in 0..2 {
        assert!(matches!(open_plain(file.clone()).map(drop), Err(Error::KeyNeeded)));
        assert!(matches!(open_sealed(file.clone()).map(drop), Err(Error::DisablingEncryption)));
        let read_only = builder().encryption_key(KEY).read_only(true).open_storage(Box::new(file.clone()));
        assert!(matches!(read_only.map(drop), Err(Error::DisablingEncryption)));
        let follower = builder().encryption_key(KEY).follow(true).open_storage(Box::new(file.clone()));
        assert!(matches!(follower.map(drop), Err(Error::DisablingEncryption)));
    }
    assert!(verify_storage(&file).unwrap().is_ok(), "{:?}", verify_storage(&file));
    let db = builder().encryption_key([9; 32]).disable_encryption_in(Box::new(file.clone())).unwrap();
    assert!(db.key_rotation_pending() && db.open_report().key_rotation_pending && db.verify().unwrap().is_ok());
    db.remove_key_slot(number).unwrap();
    assert_eq!(shown(&db), now);
    let target = MemoryStorage::new();
    db.backup_to_storage(&target).unwrap();
    assert!(matches!(open_sealed(target.clone()).map(drop), Err(Error::DisablingEncryption)));
    let copy = make_plain(target).unwrap();
    assert_eq!(shown(&copy), now);
    consumer = db.consumer("MARKER consumer").start().unwrap();
    db.insert("MARKER newest", "yes").unwrap();
    db.flush().unwrap();
    let now = shown(&db);
    let mut changes = 0;
    while let Some(commit) = consumer.try_next().unwrap() {
        changes += 1;
        consumer.ack(commit.position()).unwrap();
    }
    assert!(changes >= 2, "{changes}");
    let report = db.finish_key_rotation(|_| {}).unwrap();
    assert!(report.is_finished, "{report:?}");
    Secrets::default().assert_plain(&bytes(&file), "the end");
    assert_eq!(shown(&db), now);
}

/// A rotation, or an enabling, that something holds up has to finish first.
#[test]
fn what_has_begun_before_ends_before() {
    for is_enabling in [false, true] {
        let file = MemoryStorage::new();
        let db = if is_enabling { open_plain(file.clone()).unwrap() } else { open_sealed(file.clone()).unwrap() };
        (0..90_u8).try_for_each(|key| db.insert([key], vec![key; 90])).unwrap();
        let held = db.snapshot();
        (0..60_u8).try_for_each(|key| db.insert([key], vec![key; 80])).unwrap();
        let begun = if is_enabling { db.enable_encryption(KEY) } else { db.rotate_encryption_key(KEY) };
        assert!(!begun.unwrap().is_finished);
        assert!(matches!(db.disable_encryption(), Err(Error::InvalidArgument(_))));
        assert!(db.cipher().is_some() && db.key_rotation_pending());
        drop(held);
        let now = shown(&db);
        assert!(db.disable_encryption().unwrap().is_finished);
        db.close().unwrap();
        assert_eq!(shown(&open_plain(file).unwrap()), now);
    }
}

/// A store that cannot be made plain stays as it is, and says why.
#[test]
fn a_store_that_cannot_be_made_plain_stays_sealed() {
    let file = MemoryStorage::new();
    let now = sealed(&file, 1);
    let plain = Db::open_in_memory().unwrap();
    assert!(matches!(plain.disable_encryption(), Err(Error::NotSealed)));
    assert!(matches!(builder().disable_encryption_in(Box::new(file.clone())).map(drop), Err(Error::KeyNeeded)));
    let sealed = || builder().encryption_key(KEY);
    let read_only = sealed().read_only(true).open_storage(Box::new(file.clone())).unwrap();
    assert!(matches!(read_only.disable_encryption(), Err(Error::ReadOnly)));
    drop(read_only);
    assert!(matches!(sealed().read_only(true).disable_encryption_in(Box::new(file.clone())).map(drop), Err(Error::ReadOnly)));
    let follower = sealed().follow(true).open_storage(Box::new(file.clone())).unwrap();
    assert!(matches!(follower.disable_encryption(), Err(Error::ReadOnly)));
    drop(follower);
    let wrong = builder().encryption_key([1; 32]).disable_encryption_in(Box::new(file.clone()));
    assert!(matches!(wrong.map(drop), Err(Error::WrongKey)));
    assert_eq!(shown(&open_sealed(file).unwrap()), now);
    assert!(make_plain(MemoryStorage::new()).is_err());
}

/// On a medium without room for a copy of everything, the store is made plain later; it loses nothing and goes on.
#[test]
fn a_full_medium_leaves_a_store_that_goes_on() {
    let base = MemoryStorage::new();
    let now = sealed(&base, 4);
    let before = bytes(&base);
    let (mut sealed, mut begun, mut finished) = (0, 0, 0);
    for extents in 0..24_u64 {
        let file = MemoryStorage::from_vec(before.clone());
        let full = FaultStorage::new(file.clone());
        full.set_capacity(Some(before.len() as u64 + extents * EXTENT as u64));
        let Ok(db) = open_sealed(full.clone()) else { continue };
        let what = format!("room for {extents} extents");
        match db.disable_encryption() {
            Ok(report) => finished += u32::from(report.is_finished),
            Err(Error::NoSpace) if db.key_rotation_pending() => begun += 1,
            Err(Error::NoSpace) => sealed += 1,
            Err(error) => panic!("{what}: {error:?}"),
        }
        assert!(db.verify().unwrap().is_ok(), "{what}: {:?}", db.verify());
        assert_eq!(shown(&db), now, "{what}");
        // What has begun is taken up again by another session, on the full medium first.
        let db = if db.key_rotation_pending() {
            killed(db);
            let db = make_plain(full.clone()).unwrap_or_else(|error| panic!("{what}: {error:?}"));
            assert_eq!(shown(&db), now, "{what}");
            db
        } else {
            db
        };
        full.set_capacity(None);
        db.insert("MARKER more", "it").unwrap();
        if db.cipher().is_some() {
            assert!(db.disable_encryption().unwrap().is_finished, "{what}");
        }
        db.close().unwrap();
        Secrets::default().assert_plain(&bytes(&file), &what);
        assert_eq!(open_plain(file).unwrap().len().unwrap() as usize, db_len(&now) + 1, "{what}");
    }
    assert!(begun + finished > 5 && begun + sealed > 0, "{sealed}, {begun}, {finished}");
}

/// There and back, in one session and over several, with rotations in between; what somebody has got from the store before stays readable.
#[test]
fn a_store_is_sealed_and_made_plain_again_and_again() {
    let file = std::sync::Arc::new(MemoryStorage::new());
    let now = lived_in(|| open_plain(file.clone()).unwrap(), 2);
    let mut secrets = Secrets::default();
    for round in 0..3_u8 {
        let db = open_plain(file.clone()).unwrap();
        for step in 0..3_u8 {
            let key = [round * 3 + step + 1; 32];
            let value = db.get("MARKER key \u{1}").unwrap();
            assert!(db.enable_encryption(key).unwrap().is_finished);
            if step == 1 {
                assert!(db.rotate_encryption_key([77; 32]).unwrap().is_finished);
            }
            secrets.add(&bytes(&file));
            db.insert("MARKER step", [step]).unwrap();
            // A walk that has begun in front of it holds what it reads.
            let mut walk = db.iter();
            assert!(walk.next().unwrap().is_ok());
            let report = db.disable_encryption_with(|_| secrets.add(&bytes(&file))).unwrap();
            assert_eq!(walk.by_ref().count() + 1, db.len().unwrap() as usize);
            drop(walk);
            assert!(report.is_finished || db.finish_key_rotation(|_| {}).unwrap().is_finished, "{report:?}");
            assert!(value.is_some());
            secrets.assert_plain(&bytes(&file), &format!("round {round}, step {step}"));
            assert!(db.verify().unwrap().is_ok());
        }
        db.remove("MARKER step").unwrap();
        assert_eq!(shown(&db), now);
        if round % 2 == 0 {
            db.close().unwrap();
        } else {
            db.flush().unwrap();
            killed(db);
        }
    }
}
