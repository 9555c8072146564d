//! Media that fail or are full while records expire or a whole group goes.
#![cfg(all(feature = "ordered", feature = "testing"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::storage::{MemoryStorage, Storage, StorageErrorKind};
use pipkin::testing::TestClock;
use pipkin::{Db, Error};
use std::time::Duration;

const START: u64 = 1_700_000_000_000;
const MINUTE: Duration = Duration::from_secs(60);

type File = FaultStorage<MemoryStorage>;

fn open(file: &File, clock: &TestClock) -> pipkin::Result<Db> {
    let builder = Db::builder().clock(clock.clone()).segment_size(4096).ordered(true).auto_compact_dead_share(2.0);
    builder.open_storage(Box::new(file.clone()))
}

/// Whoever relies on an expiry writes, and one call fails: if the write is there afterwards, the record is gone, whatever the clock says.
#[test]
fn an_expiry_that_a_commit_relied_on_is_past_after_any_failed_call() {
    let effects = [
        Effect::Error(StorageErrorKind::Other),
        Effect::Error(StorageErrorKind::NoSpace),
        Effect::Torn { bytes: 3 },
        Effect::Torn { bytes: 30 },
        Effect::Late,
        Effect::LostSync,
    ];
    let (mut failed, mut relied) = (0, 0);
    for (effect, ending) in effects.into_iter().flat_map(|effect| ["flush", "checkpoint", "close"].map(|ending| (effect, ending)))
    {
        for nth in 1.. {
            let (file, clock) = (File::new(MemoryStorage::new()), TestClock::new(START));
            // Never comes, but makes the file remember what a power cut would take.
            file.arm(Fault::nth(u64::MAX, Io::Sync, Effect::LostSync));
            let db = open(&file, &clock).unwrap();
            db.insert_with_ttl("lock", "ada", MINUTE).unwrap();
            db.flush().unwrap();
            clock.advance(MINUTE);
            file.arm(Fault::nth(nth, Io::Change, effect));
            assert_eq!(db.get("lock").unwrap(), None);
            let taken = db.insert("taken", "by bob");
            let ended = match ending {
                "flush" => db.flush().map(drop),
                "checkpoint" => db.checkpoint(),
                _ => db.close(),
            };
            let has_failed = file.counts().failed > 0;
            file.disarm();
            file.lose_unsynced().unwrap();
            clock.set(START - 5_000);
            let at = format!("{effect:?}, call {nth}, {ending}: {taken:?}, {ended:?}");
            let db = open(&file, &clock).unwrap_or_else(|error| panic!("{at}: {error}"));
            let is_there = db.get("taken").unwrap().is_some();
            assert!(is_there || taken.is_err() || ended.is_err(), "{at}: what was acknowledged is lost");
            assert!(!is_there || db.get("lock").unwrap().is_none(), "{at}: the lock is back beside what relied on its end");
            relied += u32::from(is_there && has_failed);
            if !has_failed {
                break;
            }
            failed += 1;
        }
    }
    assert!(failed >= 30 && relied >= 10, "{failed} failures, {relied} with the write");
}

/// Keys that expire over an earlier version, each of which lies in a segment that stays because of what else is there.
const KEYS: u32 = 6;

fn fill(db: &Db) -> pipkin::Result<()> {
    for key in 0..KEYS {
        db.insert(key.to_be_bytes(), [1; 40])?;
        db.insert([&b"cold"[..], &key.to_be_bytes()].concat(), [0; 3000])?;
    }
    for key in 0..KEYS {
        db.insert_with_ttl(key.to_be_bytes(), [2; 40], MINUTE)?;
        db.insert("filler", [0; 3000])?;
    }
    (0..KEYS).step_by(3).try_for_each(|key| db.insert(key.to_be_bytes(), [3; 40]))?;
    db.flush().map(drop)
}

/// Empties the segments of the expired versions, and those that their tombstones come to.
fn compact(db: &Db) -> pipkin::Result<()> {
    for _ in 0..3 {
        db.insert("filler", [0; 3000])?;
        db.checkpoint()?;
        while db.compact_step()?.is_some() {}
    }
    Ok(())
}

/// What expired is gone, from the index and from the log: a backup has no index.
fn check(db: &Db, clock: &TestClock, at: &str) {
    let copy = File::new(MemoryStorage::new());
    db.backup_to_storage(copy.inner()).unwrap();
    for (db, of) in [(db, "store"), (&open(&copy, clock).unwrap(), "backup")] {
        for key in 0..KEYS {
            let expected = if key % 3 == 0 { Some(vec![3; 40]) } else { None };
            assert_eq!(db.get(key.to_be_bytes()).unwrap(), expected, "{at}: key {key} of the {of}");
        }
        assert_eq!(db.len().unwrap(), u64::from(KEYS + KEYS.div_ceil(3) + 1), "{at}: {of}");
    }
}

/// Compaction takes an expired version for the tombstone of what it had replaced: any of its calls may fail, and the power may go then.
#[test]
fn a_compaction_that_fails_uncovers_no_version_from_before_the_expired_one() {
    let effects = [Effect::Error(StorageErrorKind::NoSpace), Effect::Torn { bytes: 700 }, Effect::Late, Effect::LostSync];
    let (mut failed, mut healed) = (0, 0);
    for (effect, swept) in effects.into_iter().flat_map(|effect| [(effect, true), (effect, false)]) {
        for nth in 1.. {
            let (file, clock) = (File::new(MemoryStorage::new()), TestClock::new(START));
            file.arm(Fault::nth(u64::MAX, Io::Sync, Effect::LostSync));
            let db = open(&file, &clock).unwrap();
            fill(&db).unwrap();
            clock.advance(MINUTE);
            if swept {
                db.sweep_expired().unwrap();
            }
            file.arm(Fault::nth(nth, Io::Change, effect));
            let compacted = compact(&db);
            let has_failed = file.counts().failed > 0;
            file.disarm();
            drop(db);
            file.lose_unsynced().unwrap();
            let at = format!("{effect:?}, call {nth}, swept: {swept}, {compacted:?}");
            let db = open(&file, &clock).unwrap_or_else(|error| panic!("{at}: {error}"));
            check(&db, &clock, &at);
            compact(&db).unwrap();
            check(&db, &clock, &at);
            if !has_failed {
                break;
            }
            (failed, healed) = (failed + 1, healed + u32::from(db.verify().unwrap().is_ok()));
        }
    }
    assert!(failed >= 40 && healed == failed, "{failed} failures, {healed} of them without damage afterwards");
}

/// Either the whole group goes or none of it, and the store goes on.
#[test]
fn a_group_goes_from_a_full_medium_as_a_whole_or_not_at_all() {
    let (mut gone, mut kept) = (0, 0);
    for (records, ordered) in [1, 10, 100, 1000, 5000].into_iter().flat_map(|records| [(records, true), (records, false)]) {
        let file = File::new(MemoryStorage::new());
        let open = || Db::builder().segment_size(4096).ordered(ordered).open_storage(Box::new(file.clone())).unwrap();
        let db = open();
        db.insert_many((0..records).map(|number| (format!("g.{number:05}"), "value"))).unwrap();
        db.insert("other", "stays").unwrap();
        file.set_capacity(Some(file.inner().len().unwrap()));
        let mut filler = 0_u32;
        while db.insert(format!("filler {filler}"), [7; 64]).is_ok() {
            filler += 1;
        }
        let result = db.delete_group("g");
        let left = match result {
            Ok(count) => {
                assert_eq!(count, records);
                gone += 1;
                0
            }
            Err(Error::NoSpace) => {
                kept += 1;
                records
            }
            Err(error) => panic!("{records}: {error}"),
        };
        let check = |db: &Db| {
            let found = db.group("g").unwrap().map(Result::unwrap).count() as u64;
            assert_eq!((found, db.len().unwrap()), (left, left + 1 + u64::from(filler)), "{records} {ordered}");
            assert_eq!(db.get("other").unwrap().unwrap(), b"stays");
        };
        check(&db);
        assert!(!db.is_poisoned(), "{records} {ordered}");
        drop(db);
        let db = open();
        check(&db);
        // With some room, what had failed works.
        file.set_capacity(None);
        assert_eq!(db.delete_group("g").unwrap(), left);
    }
    println!("{gone} gone, {kept} kept");
    assert!(gone > 0 && kept > 0, "{gone} gone, {kept} kept: one of both was not tried");
}
