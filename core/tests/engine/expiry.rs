//! Records that expire: exact on every path that reads, and tombstones of what they had replaced on every path that moves them.
#![cfg(all(feature = "ordered", feature = "salvage"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::timed::{MINUTE, START, new, open_with};
use pipkin::storage::MemoryStorage;
use pipkin::testing::TestClock;
use pipkin::{Cursor, Db, Namespace, Ttl};
use std::time::Duration;

/// The keys that every read of a namespace shows, in order; fails if two reads differ.
fn keys_of(space: &Namespace, all: &[&str]) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found: Vec<String> = space.iter().map(|record| text(&record.unwrap().0)).collect();
    found.sort();
    let mut keys: Vec<String> = space.keys().map(|key| text(&key.unwrap())).collect();
    keys.sort();
    assert_eq!(keys, found, "keys");
    let ranged: Vec<String> = space.range(..).unwrap().map(|record| text(&record.unwrap().0)).collect();
    assert_eq!(ranged, found, "range");
    let mut reversed: Vec<String> = space.range_keys(..).unwrap().rev().map(|key| text(&key.unwrap())).collect();
    reversed.reverse();
    assert_eq!(reversed, found, "range_keys");
    let (mut paged, mut cursor) = (Vec::new(), Some(Cursor::default()));
    while let Some(from) = cursor {
        cursor = space
            .page(from, |key, _| {
                paged.push(text(key));
                true
            })
            .unwrap();
    }
    paged.sort();
    assert_eq!(paged, found, "page");
    for (key, value) in all.iter().zip(space.get_many(all).unwrap()) {
        let is_there = found.iter().any(|other| other == key);
        assert_eq!(value.is_some(), is_there, "get_many {key}");
        assert_eq!(space.get(key).unwrap().is_some(), is_there, "get {key}");
        assert_eq!(space.get_zerocopy(key).unwrap().is_some(), is_there, "get_zerocopy {key}");
        assert_eq!(space.get_zerocopy_owned(key).unwrap().is_some(), is_there, "get_zerocopy_owned {key}");
        assert_eq!(space.get_versioned(key).unwrap().is_some(), is_there, "get_versioned {key}");
        assert_eq!(space.contains_key(key).unwrap(), is_there, "contains_key {key}");
        assert_eq!(space.transaction(|tx| tx.contains_key(key)).unwrap(), is_there, "transaction {key}");
        assert_eq!(space.expires_at(key).unwrap().is_none(), !is_there || space.ttl(key).unwrap().is_none(), "ttl {key}");
    }
    assert_eq!(space.len().unwrap(), found.len() as u64, "len");
    assert_eq!(space.is_empty().unwrap(), found.is_empty(), "is_empty");
    found
}

#[test]
fn every_read_is_exact_to_the_millisecond() {
    let (_, clock, db) = new();
    db.insert("stays", "1").unwrap();
    db.insert_with_ttl("after", "2", MINUTE).unwrap();
    db.insert_with_ttl("at", "3", Ttl::At(START + 30_000)).unwrap();
    db.insert_with_ttl("past", "4", Ttl::At(START - 1)).unwrap();
    let all = ["after", "at", "past", "stays"];
    assert_eq!(keys_of(&db, &all), ["after", "at", "stays"]);
    assert_eq!((db.expires_at("after").unwrap(), db.ttl("after").unwrap()), (Some(START + 60_000), Some(MINUTE)));
    clock.set(START + 29_999);
    assert_eq!(keys_of(&db, &all), ["after", "at", "stays"]);
    assert_eq!(db.ttl("at").unwrap(), Some(Duration::from_millis(1)));
    clock.set(START + 30_000);
    assert_eq!(keys_of(&db, &all), ["after", "stays"]);
    assert_eq!(db.stats().unwrap().records, 2);
    clock.set(START + 60_000);
    assert_eq!(keys_of(&db, &all), ["stays"]);
    assert_eq!(db.sweep_expired().unwrap(), 0, "counting has swept");
}

#[test]
fn writes_see_what_has_expired_as_gone() {
    let (_, clock, db) = new();
    for key in ["cas", "version", "update", "swap", "take", "remove", "batch", "many", "modify", "insert"] {
        db.insert_with_ttl(key, "old", MINUTE).unwrap();
    }
    let version = db.get_versioned("version").unwrap().unwrap().1;
    clock.advance(MINUTE);
    assert!(!db.compare_and_swap("cas", Some(b"old"), Some(b"new")).unwrap());
    assert!(db.compare_and_swap("cas", None, Some(b"new")).unwrap());
    assert!(!db.compare_version_and_swap("version", Some(version), Some(b"new")).unwrap());
    db.update("update", |old| {
        assert_eq!(old, None);
        Some(b"new".to_vec())
    })
    .unwrap();
    db.modify("modify", |old| {
        assert_eq!(*old, None);
        Ok::<_, ()>(())
    })
    .unwrap()
    .unwrap();
    assert_eq!(db.swap("swap", "new").unwrap(), None);
    assert_eq!(db.take("take").unwrap(), None);
    assert!(!db.remove("remove").unwrap());
    assert_eq!(db.remove_many(["many", "none"]).unwrap(), 0);
    db.batch().remove("batch").insert("batch", "new").commit().unwrap();
    assert_eq!(db.get_or_insert_with("insert", || "new").unwrap(), b"new");
    assert!(!db.persist("take").unwrap());
    let all = ["cas", "version", "update", "swap", "take", "remove", "batch", "many", "modify", "insert"];
    assert_eq!(keys_of(&db, &all), ["batch", "cas", "insert", "swap", "update"]);
}

#[test]
fn every_way_to_write_sets_the_expiry() {
    let (_, clock, db) = new();
    let short = db.with_ttl(MINUTE);
    short.insert("insert", "1").unwrap();
    short.insert_many([("many", "1"), ("many 2", "1")]).unwrap();
    short.batch().insert("batch", "1").insert_with_ttl("batch never", "1", Ttl::Never).commit().unwrap();
    db.batch().insert("batch 2", "1").insert_with_ttl("batch ttl", "1", MINUTE).commit().unwrap();
    db.batch().insert_in(&short, "batch in", "1").insert_in_with_ttl(&db, "batch in ttl", "1", MINUTE).commit().unwrap();
    assert!(short.compare_and_swap("cas", None, Some(b"1")).unwrap());
    short.update("update", |_| Some(b"1".to_vec())).unwrap();
    short
        .modify("modify", |value| {
            *value = Some(vec![1]);
            Ok::<_, ()>(())
        })
        .unwrap()
        .unwrap();
    short.swap("swap", "1").unwrap();
    short.get_or_insert_with("get or", || "1").unwrap();
    short
        .transaction(|tx| {
            tx.insert("tx", "1")?;
            tx.insert_with_ttl("tx never", "1", Ttl::Never)
        })
        .unwrap();
    db.transaction(|tx| tx.insert_in(&short, "tx in", "1")).unwrap();
    db.transaction(|tx| tx.insert_in_with_ttl(&db, "tx in ttl", "1", MINUTE)).unwrap();
    short.insert_with_position("position", "1").unwrap();
    let never = ["batch 2", "batch never", "tx never"];
    for key in db.keys().map(|key| String::from_utf8(key.unwrap()).unwrap()).collect::<Vec<_>>() {
        let expected = (!never.contains(&key.as_str())).then_some(START + 60_000);
        assert_eq!(db.expires_at(&key).unwrap(), expected, "{key}");
    }
    assert_eq!(db.len().unwrap(), 19);
    assert!(db.persist("swap").unwrap() && !db.persist("swap").unwrap() && !db.persist("none").unwrap());
    db.insert("insert", "2").unwrap();
    clock.advance(MINUTE);
    assert_eq!(db.len().unwrap(), 5);
    assert_eq!(db.get("swap").unwrap(), Some(b"1".to_vec()));
}

#[test]
fn what_lives_longer_than_a_time_can_say_never_expires() {
    let (_, clock, db) = new();
    for (key, ttl) in [("at", Ttl::At(u64::MAX)), ("last", Ttl::At((1 << 48) - 1)), ("after", Duration::MAX.into())] {
        db.insert_with_ttl(key, "1", ttl).unwrap();
        assert_eq!((db.expires_at(key).unwrap(), db.ttl(key).unwrap()), (None, None), "{key}");
    }
    clock.set(u64::MAX);
    assert_eq!((db.len().unwrap(), db.sweep_expired().unwrap()), (3, 0));
}

#[test]
fn defaults_of_store_and_namespace_count_where_a_write_does_not_say() {
    let (storage, clock) = (MemoryStorage::new(), TestClock::new(START));
    let open = |storage: MemoryStorage| {
        let builder = Db::builder().clock(clock.clone()).default_ttl(Duration::from_secs(10));
        let db = builder.open_storage(Box::new(storage)).unwrap();
        let space = db.namespace("sessions").unwrap();
        (db, space)
    };
    let (db, space) = open(storage.clone());
    space.set_default_ttl(Some(MINUTE)).unwrap();
    let (from_log, written) = (MemoryStorage::from_vec(storage.to_vec()), (db.clone(), space));
    db.checkpoint().unwrap();
    let from_snapshot = MemoryStorage::from_vec(storage.to_vec());
    for (reopen, (db, space)) in [(false, written), (true, open(from_log)), (true, open(from_snapshot))] {
        db.insert("store", "1").unwrap();
        space.insert("space", "1").unwrap();
        space.insert_with_ttl("never", "1", Ttl::Never).unwrap();
        space.insert_many([("many", "1")]).unwrap();
        db.batch().insert_in(&space, "batch", "1").commit().unwrap();
        assert_eq!(db.expires_at("store").unwrap(), Some(START + 10_000), "{reopen}");
        for key in ["space", "many", "batch"] {
            assert_eq!(space.expires_at(key).unwrap(), Some(START + 60_000), "{key} {reopen}");
        }
        assert_eq!(space.expires_at("never").unwrap(), None);
        assert_eq!((db.default_ttl(), space.default_ttl()), (Some(Duration::from_secs(10)), Some(MINUTE)));
        space.clear().unwrap();
        assert_eq!(space.default_ttl(), Some(MINUTE), "cleared");
        if reopen {
            space.set_default_ttl(None).unwrap();
            assert_eq!(space.default_ttl(), Some(Duration::from_secs(10)));
        }
    }
}

/// Everything that moves records, in every order, over a key whose first version would come back if the expired second one were only
/// skipped.
#[test]
fn an_expired_record_never_gives_its_place_to_the_version_that_it_had_replaced() {
    let steps = ["expire", "sweep", "compact", "reopen", "kill", "backup", "salvage", "fill"];
    let mut trials = 0;
    for code in 0..steps.len().pow(4) {
        let order: Vec<&str> = (0..4).map(|place| steps[code / steps.len().pow(place) % steps.len()]).collect();
        if !order.contains(&"expire") {
            continue;
        }
        trials += 1;
        let (mut storage, clock, mut db) = new();
        db.insert("filler", [1; 3000]).unwrap();
        db.insert("key", "v1").unwrap();
        db.insert("stays", [7; 2000]).unwrap();
        db.insert("filler", [2; 3000]).unwrap();
        db.insert_with_ttl("key", [8; 1000], MINUTE).unwrap();
        db.insert("filler", [3; 3000]).unwrap();
        let mut is_expired = false;
        for (number, step) in order.iter().enumerate() {
            match *step {
                "expire" => {
                    clock.advance(MINUTE);
                    is_expired = true;
                }
                "sweep" => drop(db.sweep_expired().unwrap()),
                "compact" => {
                    db.checkpoint().unwrap();
                    while db.compact_step().unwrap().is_some() {}
                }
                "fill" => {
                    for round in 0..4 {
                        db.insert("filler", vec![round; 2500]).unwrap();
                    }
                }
                "reopen" => {
                    db.close().unwrap();
                    db = open_with(&storage, &clock);
                }
                "kill" => {
                    db.flush().unwrap();
                    storage = MemoryStorage::from_vec(storage.to_vec());
                    db = open_with(&storage, &clock);
                }
                "backup" => {
                    let copy = MemoryStorage::new();
                    db.backup_to_storage(&copy).unwrap();
                    storage = copy;
                    db = open_with(&storage, &clock);
                }
                _ => {
                    db.flush().unwrap();
                    let copy = MemoryStorage::new();
                    let target = open_with(&copy, &clock);
                    let report = pipkin::salvage(&MemoryStorage::from_vec(storage.to_vec()), &target, &mut |_, _| {}).unwrap();
                    assert_eq!((report.damage.len(), report.revived), (0, 0), "{order:?} {report:?}");
                    storage = copy;
                    db = target;
                }
            }
            let expected = if is_expired { None } else { Some(vec![8; 1000]) };
            assert_eq!(db.get("key").unwrap(), expected, "{order:?} after step {number}");
            assert_eq!(db.len().unwrap(), 2 + u64::from(!is_expired), "{order:?} after step {number}");
            assert_eq!(db.get("stays").unwrap(), Some(vec![7; 2000]), "{order:?} after step {number}");
        }
        let verified = db.verify().unwrap();
        assert!(verified.is_ok(), "{order:?}: {verified:?}");
    }
    assert!(trials > 1500, "{trials}");
}

#[test]
fn nothing_that_had_expired_comes_back_under_a_clock_that_was_set_back() {
    for way in ["close", "kill", "backup", "checkpoint and kill", "salvage"] {
        let (storage, clock, db) = new();
        db.insert_with_ttl("lock", "ada", MINUTE).unwrap();
        db.insert_with_ttl("later", "1", 2 * MINUTE).unwrap();
        clock.advance(MINUTE);
        assert_eq!(db.get("lock").unwrap(), None);
        // This commit relies on it.
        db.insert("taken", "by bob").unwrap();
        let copy = match way {
            "close" => {
                db.close().unwrap();
                storage
            }
            "backup" => {
                let copy = MemoryStorage::new();
                db.backup_to_storage(&copy).unwrap();
                copy
            }
            "checkpoint and kill" => {
                db.checkpoint().unwrap();
                MemoryStorage::from_vec(storage.to_vec())
            }
            "salvage" => {
                let copy = MemoryStorage::new();
                let target = open_with(&copy, &clock);
                pipkin::salvage(&MemoryStorage::from_vec(storage.to_vec()), &target, &mut |_, _| {}).unwrap();
                target.close().unwrap();
                copy
            }
            _ => MemoryStorage::from_vec(storage.to_vec()),
        };
        clock.set(START - 5_000);
        let db = open_with(&copy, &clock);
        assert_eq!(db.get("taken").unwrap(), Some(b"by bob".to_vec()), "{way}");
        assert_eq!(db.get("lock").unwrap(), None, "{way}");
        assert_eq!((db.open_report().clock_behind_ms, db.stats().unwrap().clock_behind_ms), (65_000, 65_000), "{way}");
        assert_eq!(db.ttl("later").unwrap(), Some(MINUTE), "{way}: the time stands still");
        // New records live from that time on.
        db.insert_with_ttl("new", "1", MINUTE).unwrap();
        assert_eq!(db.expires_at("new").unwrap(), Some(START + 120_000), "{way}");
    }
}

#[test]
fn one_wrong_reading_of_the_clock_does_not_end_the_store() {
    let (storage, clock, db) = new();
    db.insert_with_ttl("soon", "1", MINUTE).unwrap();
    db.insert_with_ttl("in a year", "1", Duration::from_secs(365 * 24 * 3600)).unwrap();
    db.insert_with_ttl("in 2090", "1", Ttl::At(3_800_000_000_000)).unwrap();
    clock.set(4_071_000_000_000); // 2099
    assert_eq!(db.get("soon").unwrap(), None);
    db.insert("relies", "on it").unwrap();
    clock.set(START);
    assert!(db.contains_key("in a year").unwrap(), "nobody has acted on that");
    db.insert_with_ttl("new", "1", MINUTE).unwrap();
    assert_eq!(db.expires_at("new").unwrap(), Some(START + 120_000), "a minute after the expiry that was acted on");
    assert!(db.stats().unwrap().clock_jumped_ms > 365 * 24 * 3600 * 1000);
    db.close().unwrap();
    let db = open_with(&storage, &clock);
    assert_eq!(db.open_report().clock_behind_ms, 60_000);
    clock.set(START + 50_000);
    assert_eq!(db.reset_clock().unwrap(), 1, "the record of the first minute");
    assert!(db.contains_key("soon").unwrap());
    assert_eq!(db.stats().unwrap().clock_behind_ms, 0);
    drop(db);
    let db = open_with(&MemoryStorage::from_vec(storage.to_vec()), &clock);
    assert!(db.contains_key("soon").unwrap() && db.open_report().clock_behind_ms == 0);
}

#[test]
fn what_was_swept_does_not_come_back_when_the_clock_is_reset() {
    let (storage, clock, db) = new();
    db.insert("swept", "v1").unwrap();
    db.insert_with_ttl("swept", "v2", MINUTE).unwrap();
    clock.advance(MINUTE);
    assert_eq!(db.sweep_expired().unwrap(), 1);
    clock.set(START);
    assert_eq!(db.reset_clock().unwrap(), 0);
    assert_eq!((db.get("swept").unwrap(), db.len().unwrap()), (None, 0));
    // From the log alone, too.
    let copy = MemoryStorage::new();
    db.backup_to_storage(&copy).unwrap();
    let db = open_with(&copy, &clock);
    assert_eq!((db.get("swept").unwrap(), db.len().unwrap()), (None, 0));
    drop(storage);
}

#[test]
fn an_entry_of_the_calendar_at_an_offset_that_was_used_again_takes_nobody_elses_record() {
    let (_, clock, db) = new();
    for round in 0..200_u64 {
        for key in 0..20_u64 {
            db.insert_with_ttl(key.to_be_bytes(), [1; 100], Duration::from_secs(round + 5)).unwrap();
        }
        for key in 0..20_u64 {
            db.insert(key.to_be_bytes(), [2; 106]).unwrap();
        }
        db.checkpoint().unwrap();
        db.compact().unwrap();
        clock.advance(Duration::from_secs(2));
        assert_eq!(db.len().unwrap(), 20, "round {round}");
    }
}

#[test]
fn a_store_without_records_that_expire_never_asks_for_the_time() {
    struct Broken;
    impl pipkin::Clock for Broken {
        fn now_ms(&self) -> u64 {
            panic!("a store without records that expire asked for the time")
        }
    }
    let db = Db::builder().clock(Broken).ordered(true).in_memory().unwrap();
    db.insert_many([("a", "1"), ("b", "2")]).unwrap();
    db.transaction(|tx| {
        tx.get("a")?;
        tx.insert("c", "3")
    })
    .unwrap();
    assert_eq!((db.snapshot().len().unwrap(), db.len().unwrap(), db.iter().count()), (3, 3, 3));
    assert_eq!((db.expires_at("a").unwrap(), db.ttl("a").unwrap(), db.sweep_expired().unwrap()), (None, None, 0));
    db.remove("a").unwrap();
    db.checkpoint().unwrap();
    db.compact().unwrap();
    assert_eq!(db.stats().unwrap().records, 2);
}

#[test]
fn compaction_frees_the_space_of_what_has_expired() {
    let (_, clock, db) = new();
    db.insert("old", "1").unwrap();
    for number in 0..1000_u32 {
        db.insert_with_ttl(number.to_be_bytes(), [5; 200], MINUTE).unwrap();
    }
    let full = db.stats().unwrap();
    clock.advance(MINUTE);
    let swept = db.stats().unwrap();
    assert!(swept.live_bytes < full.live_bytes / 20 && swept.records == 1 && swept.expiring == 0, "{swept:?}");
    db.checkpoint().unwrap();
    db.compact().unwrap();
    let after = db.stats().unwrap();
    assert!(after.file_bytes < full.file_bytes / 4, "{} of {}", after.file_bytes, full.file_bytes);
}

/// The calendar used to be built from the records: the first count after opening read every one of them.
#[cfg(feature = "native")]
#[test]
fn a_store_that_is_opened_again_knows_which_records_expire_without_reading_them() {
    use pipkin::storage::fault::FaultStorage;
    use pipkin::storage::native::{NativeOptions, NativeStorage};
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.pipkin");
    let clock = TestClock::new(START);
    let open = || {
        let options = NativeOptions { mmap: false, ..NativeOptions::default() };
        let storage = FaultStorage::new(NativeStorage::open(&path, options).unwrap());
        let db = Db::builder().clock(clock.clone()).open_storage(Box::new(storage.clone())).unwrap();
        (storage, db)
    };
    let insert = |db: &Db, from: u32, to: u32, minutes: u32| {
        (from..to).for_each(|key| db.insert_with_ttl(key.to_le_bytes(), [7; 100], MINUTE * minutes).unwrap());
    };
    let (_, db) = open();
    insert(&db, 0, 8_000, 60);
    db.insert("stays", "").unwrap();
    db.checkpoint().unwrap();
    // In changes of the snapshot: some sooner, some later than what they replace, some for the first time, and one never.
    insert(&db, 0, 100, 1);
    insert(&db, 100, 200, 90);
    insert(&db, 8_000, 8_100, 1);
    db.persist(300_u32.to_le_bytes()).unwrap();
    db.checkpoint().unwrap();
    // After the snapshot.
    insert(&db, 8_100, 8_200, 1);
    insert(&db, 200, 300, 1);
    db.close().unwrap();
    let counts = [(0, 8_201), (2, 7_801), (20, 7_801), (61, 102), (91, 2)];
    for (minutes, left) in counts {
        clock.set(START + minutes * 60_000);
        let (storage, db) = open();
        storage.reset_counts();
        assert_eq!(db.len().unwrap(), left, "after {minutes} minutes");
        let reads = storage.counts().reads;
        // Those that have expired are read: the snapshot stays as it was, since nothing is written.
        let due = counts[0].1 - left;
        assert!(reads < 2_000 + due, "{reads} reads after {minutes} minutes");
        assert_eq!(db.iter().count() as u64, left);
        db.sweep_expired().unwrap();
        db.close().unwrap();
    }
}
