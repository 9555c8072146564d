//! Keys and passphrases of an open sealed store that are added, removed and replaced, with every cut in between, and with parts of the file set back.
#![cfg(all(feature = "encrypt", feature = "testing"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::killed;
use crate::sealed_bytes::bytes;
use pipkin::storage::crash::{CrashImage, CrashPoint, CrashStorage};
use pipkin::storage::random::Rng;
use pipkin::storage::{MemoryStorage, Storage};
use pipkin::{Db, Error, KeySlotKind, verify_storage};

const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [8; 32];
const PAGES: [usize; 3] = [1024, 5120, 12_288];
const PAGE_LEN: usize = 3072;

fn open(file: impl Storage + 'static, key: [u8; 32]) -> pipkin::Result<Db> {
    Db::builder().encryption_key(key).segment_size(4096).background(false).open_storage(Box::new(file))
}

/// A closed store with a record.
fn store() -> MemoryStorage {
    let file = MemoryStorage::new();
    let db = open(file.clone(), OLD).unwrap();
    db.insert("color", "green").unwrap();
    db.close().unwrap();
    file
}

/// A change and whether each of the keys opens the store before and behind it.
struct Case {
    name: &'static str,
    prepare: fn(&Db) -> pipkin::Result<()>,
    change: fn(&Db) -> pipkin::Result<()>,
    before: [bool; 2],
    behind: [bool; 2],
}

const CASES: [Case; 2] = [
    Case {
        name: "add",
        prepare: |_| Ok(()),
        change: |db| db.add_encryption_key(NEW).map(drop),
        before: [true, false],
        behind: [true, true],
    },
    Case {
        name: "remove",
        prepare: |db| db.add_encryption_key(NEW).map(drop),
        change: |db| db.remove_key_slot(0),
        before: [true, true],
        behind: [false, true],
    },
];

impl Case {
    /// The store opens for the keys of one side of the change; `is_behind` if that is known. True if it is the side behind.
    fn check(&self, file: &MemoryStorage, is_behind: Option<bool>, what: &str) -> bool {
        let what = format!("{}, {what}", self.name);
        let whole = bytes(file);
        let opens = [OLD, NEW].map(|key| {
            let read_only = Db::builder().encryption_key(key).read_only(true).open_storage(Box::new(file.clone()));
            match read_only {
                Ok(db) => {
                    assert_eq!(db.get("color").unwrap().as_deref(), Some(&b"green"[..]), "{what}");
                    true
                }
                Err(Error::WrongKey) => false,
                Err(error) => panic!("{what}: {error:?}"),
            }
        });
        assert_eq!(bytes(file), whole, "{what}: who may not write has written");
        let found = opens == self.behind;
        assert!(found || opens == self.before, "{what}: {opens:?}");
        assert!(is_behind.is_none_or(|is_behind| is_behind == found), "{what}: {opens:?}");
        // The next writer makes the front whole again: then nothing depends on one copy or one superblock.
        let key = if opens[0] { OLD } else { NEW };
        let db = open(file.clone(), key).unwrap();
        db.insert("size", "small").unwrap();
        db.close().unwrap();
        assert!(verify_storage(file).unwrap().is_ok(), "{what}");
        let whole = bytes(file);
        for (at, len) in [(0, 512), (4096, 512)].into_iter().chain(PAGES.map(|at| (at, PAGE_LEN))) {
            let mut damaged = whole.clone();
            damaged[at..at + len].iter_mut().for_each(|byte| *byte ^= 0x55);
            let damaged = MemoryStorage::from_vec(damaged);
            for (key, opens) in [OLD, NEW].into_iter().zip(opens) {
                let opened = open(damaged.clone(), key).map(drop);
                assert_eq!(opened.is_ok(), opens, "{what}, damage at {at}: {opened:?}");
            }
        }
        found
    }
}

fn left_at(point: &CrashPoint, rng: &mut Rng, trials: usize) -> Vec<CrashImage> {
    let mut images = vec![point.synced_image(), point.latest_image()];
    images.extend((0..=point.in_flight_len()).step_by(509).map(|bytes| point.killed_image(bytes)));
    images.extend((0..=point.pending().len()).map(|ops| point.prefix_image(ops)));
    images.extend((0..trials).map(|_| point.random_image(rng)));
    images
}

#[test]
fn a_change_that_is_cut_anywhere_leaves_a_store_that_opens_as_before_or_as_behind() {
    let mut rng = Rng::new(1);
    for case in &CASES {
        let base = store();
        let db = open(base.clone(), OLD).unwrap();
        (case.prepare)(&db).unwrap();
        db.close().unwrap();
        let image = CrashImage::from_bytes(&bytes(&base));
        let (mut before, mut behind) = (0, 0);
        for io in 1.. {
            let file = CrashStorage::from_image(&image);
            let db = open(file.clone(), OLD).unwrap();
            file.stop_at(Some(io));
            let changed = (case.change)(&db);
            let is_whole = changed.is_ok() && !file.is_stopped();
            let point = file.freeze();
            killed(db);
            for (which, image) in left_at(&point, &mut rng, 30).iter().enumerate() {
                let known = is_whole.then_some(true);
                if case.check(&image.to_memory(), known, &format!("cut at {io}, image {which}")) {
                    behind += 1;
                } else {
                    before += 1;
                }
            }
            if is_whole {
                break;
            }
        }
        assert!(before > 20 && behind > 20, "{before}, {behind}");
    }
}

#[test]
fn a_change_that_fails_closes_the_store_to_writes_and_loses_no_record() {
    for case in &CASES {
        for nth in 1..20 {
            let base = store();
            let db = open(base.clone(), OLD).unwrap();
            (case.prepare)(&db).unwrap();
            db.close().unwrap();
            let file = CrashStorage::from_image(&CrashImage::from_bytes(&bytes(&base)));
            let db = open(file.clone(), OLD).unwrap();
            file.fail_sync(Some(nth));
            let changed = (case.change)(&db);
            let failed = changed.is_err();
            if failed {
                assert!(db.insert("size", "large").is_err(), "{}, sync {nth}", case.name);
            }
            killed(db);
            case.check(&file.freeze().synced_image().to_memory(), (!failed).then_some(true), &format!("sync {nth} failed"));
            case.check(
                &file.freeze().latest_image().to_memory(),
                (!failed).then_some(true),
                &format!("sync {nth} failed, all written"),
            );
            if !failed {
                assert!(nth > 3, "{}, {nth}", case.name);
                break;
            }
        }
    }
}

#[test]
fn an_earlier_page_of_keys_opens_nothing_behind_a_change() {
    let file = store();
    let earlier = bytes(&file);
    let db = open(file.clone(), OLD).unwrap();
    db.add_encryption_key(NEW).unwrap();
    db.remove_key_slot(0).unwrap();
    assert_eq!(db.export_key_page().unwrap().len(), PAGE_LEN + 16);
    db.close().unwrap();
    let now = bytes(&file);
    let with = |parts: &[(usize, usize)], key| {
        let mut mixed = now.clone();
        parts.iter().for_each(|&(at, len)| mixed[at..at + len].copy_from_slice(&earlier[at..at + len]));
        open(MemoryStorage::from_vec(mixed), key).map(drop)
    };
    let pages = PAGES.map(|at| (at, PAGE_LEN));
    assert!(matches!(with(&[], OLD), Err(Error::WrongKey)));
    // The old key leads to the data key, and no further.
    assert!(matches!(with(&pages, OLD), Err(Error::Forged { .. })));
    assert!(matches!(with(&pages, NEW), Err(Error::WrongKey)));
    for page in pages {
        with(&[page], NEW).unwrap();
        assert!(matches!(with(&[page], OLD), Err(Error::WrongKey)), "{page:?}");
    }
    // With an earlier superblock in either slot: that one is older, and with both the records do not fit.
    for slot in [0, 4096] {
        let mut parts = pages.to_vec();
        parts.push((slot, 512));
        assert!(matches!(with(&parts, OLD), Err(Error::Forged { .. })), "{slot}");
    }
    // A page that was kept from before is not taken for the one that is lost.
    let mut lost = now.clone();
    PAGES.iter().for_each(|&at| lost[at..at + PAGE_LEN].fill(0));
    let kept = earlier[PAGES[0]..PAGES[0] + PAGE_LEN].to_vec();
    let builder = Db::builder().encryption_key(OLD).key_page(kept);
    assert!(matches!(builder.open_storage(Box::new(MemoryStorage::from_vec(lost.clone()))), Err(Error::Forged { .. })));
    let builder = Db::builder().encryption_key(NEW).key_page("nonsense");
    assert!(matches!(builder.open_storage(Box::new(MemoryStorage::from_vec(lost))), Err(Error::InvalidArgument(_))));
}

#[test]
fn slots_are_counted_and_careless_changes_are_refused() {
    let file = MemoryStorage::new();
    let db = open(file.clone(), OLD).unwrap();
    let refused = |result: pipkin::Result<()>| assert!(matches!(result, Err(Error::InvalidArgument(_))), "{result:?}");
    refused(db.remove_key_slot(0));
    refused(db.add_encryption_key(OLD).map(drop));
    assert!(matches!(db.change_passphrase("none", "other"), Err(Error::WrongKey)));
    assert_eq!(db.add_encryption_passphrase("one").unwrap(), 1);
    db.change_passphrase("one", "two").unwrap();
    refused(db.change_passphrase("two", "two"));
    for number in 2..8 {
        assert_eq!(db.add_encryption_key([number + 50; 32]).unwrap(), number);
        if number == 7 {
            refused(db.add_encryption_key([99; 32]).map(drop));
        }
    }
    refused(db.remove_key_slot(8));
    db.remove_key_slot(3).unwrap();
    refused(db.remove_key_slot(3));
    let numbers = |db: &Db| db.key_slots().unwrap().iter().map(|slot| slot.number).collect::<Vec<_>>();
    assert_eq!(numbers(&db), [0, 1, 2, 4, 5, 6, 7]);
    assert_eq!(db.add_encryption_key([33; 32]).unwrap(), 3);
    db.remove_key_slot(0).unwrap();
    let kinds = db.key_slots().unwrap().into_iter().filter(|slot| slot.kind == KeySlotKind::Passphrase).count();
    assert_eq!(kinds, 1);
    db.close().unwrap();
    for (key, opens) in [(OLD, false), ([53; 32], false), ([33; 32], true), ([56; 32], true)] {
        assert_eq!(open(file.clone(), key).is_ok(), opens, "{key:?}");
    }
    let with = |passphrase: &str| Db::builder().encryption_passphrase(passphrase).open_storage(Box::new(file.clone()));
    assert!(matches!(with("one").map(drop), Err(Error::WrongKey)));
    let db = with("two").unwrap();
    // A copy has the keys of the original as they are now.
    let copy = MemoryStorage::new();
    db.backup_to_storage(&copy).unwrap();
    assert!(open(copy, [33; 32]).is_ok());
    drop(db);
    let read_only = Db::builder().encryption_key([33; 32]).read_only(true).open_storage(Box::new(file)).unwrap();
    assert!(matches!(read_only.add_encryption_key(OLD), Err(Error::ReadOnly)));
    let plain = Db::open_in_memory().unwrap();
    assert!(matches!(plain.key_slots(), Err(Error::NotSealed)));
    assert!(matches!(plain.add_encryption_key(OLD), Err(Error::NotSealed)));
}
