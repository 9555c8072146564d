//! The store through its public face, on real files and in memory.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs, reason = "tests fail by panicking")]

use pipkin::storage::MemoryStorage;
use pipkin::{Db, Error, SegmentUse, SnapshotState};
use std::collections::BTreeMap;

fn small(storage: &MemoryStorage) -> Db {
    Db::builder().segment_size(4096).entropy([7; 32]).open_storage(Box::new(storage.clone())).unwrap()
}

fn contents(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let records: BTreeMap<_, _> = db.iter().collect::<Result<_, _>>().unwrap();
    assert_eq!(records.len() as u64, db.len().unwrap());
    records
}

#[test]
fn what_was_written_is_there_after_closing_and_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let db = Db::open(&path).unwrap();
    assert!(db.open_report().created);
    for i in 0..10_000u32 {
        db.insert(i.to_le_bytes(), [i as u8; 100]).unwrap();
    }
    for i in (0..10_000u32).step_by(3) {
        assert!(db.remove(i.to_le_bytes()).unwrap());
    }
    let before = contents(&db);
    db.close().unwrap();
    let db = Db::open(&path).unwrap();
    assert!(db.open_report().clean);
    assert_eq!(db.open_report().snapshot, SnapshotState::Loaded);
    assert_eq!(contents(&db), before);
    assert_eq!(db.get(1u32.to_le_bytes()).unwrap(), Some(vec![1; 100]));
    assert_eq!(&*db.get_zerocopy(2u32.to_le_bytes()).unwrap().unwrap(), &[2; 100]);
    assert_eq!(db.get(3u32.to_le_bytes()).unwrap(), None);
    assert!(db.verify().unwrap().is_ok());
}

#[test]
fn a_store_that_was_not_closed_comes_back_whole() {
    let storage = MemoryStorage::default();
    let db = small(&storage);
    let users = db.namespace("users").unwrap();
    for i in 0..500u32 {
        db.insert(i.to_le_bytes(), vec![i as u8; 60]).unwrap();
        users.insert(i.to_le_bytes(), b"u").unwrap();
    }
    db.insert_many((0..100u32).map(|i| (i.to_le_bytes(), [9u8; 10]))).unwrap();
    let image = MemoryStorage::from_vec(storage.to_vec());
    let copy = small(&image);
    assert!(!copy.open_report().clean);
    assert_eq!(contents(&copy), contents(&db));
    assert_eq!(copy.namespace("users").unwrap().len().unwrap(), 500);
    assert_eq!(copy.list_namespaces(), ["users"]);
    copy.insert("more", "x").unwrap();
    drop(copy);
    assert_eq!(small(&image).get("more").unwrap().unwrap(), b"x");
}

#[test]
fn compaction_frees_what_is_dead_and_keeps_what_lives() {
    let storage = MemoryStorage::default();
    let db = small(&storage);
    for round in 0..20u32 {
        for i in 0..200u32 {
            db.insert(i.to_le_bytes(), [round as u8; 50]).unwrap();
        }
        db.remove(round.to_le_bytes()).unwrap();
    }
    let before = contents(&db);
    let grown = db.stats().unwrap();
    let report = db.compact().unwrap();
    assert!(report.segments_retired > 10, "{report:?}");
    let shrunk = db.stats().unwrap();
    assert!(shrunk.file_bytes * 3 < grown.file_bytes, "{grown:?} {shrunk:?}");
    assert_eq!(contents(&db), before);
    assert!(db.verify().unwrap().is_ok());
    let image = MemoryStorage::from_vec(storage.to_vec());
    assert_eq!(contents(&small(&image)), before);
    drop(db);
    let db = small(&storage);
    assert!(db.open_report().clean);
    assert_eq!(contents(&db), before);
}

#[test]
fn large_values_and_the_longest_key_work_and_longer_ones_are_refused() {
    let storage = MemoryStorage::default();
    let db = small(&storage);
    let (key, value) = (vec![1; 64 * 1024], vec![2; 300_000]);
    db.insert(&key, &value).unwrap();
    db.insert("", "").unwrap();
    assert!(matches!(db.insert(vec![1; 64 * 1024 + 1], ""), Err(Error::KeyTooLong { .. })));
    assert_eq!(db.get(&key).unwrap().unwrap(), value);
    let db2 = small(&MemoryStorage::from_vec(storage.to_vec()));
    assert_eq!(db2.get(&key).unwrap().unwrap(), value);
    assert_eq!(db2.get("").unwrap().unwrap(), b"");
    db2.compact().unwrap();
    assert_eq!(db2.get(&key).unwrap().unwrap(), value);
}

#[test]
fn namespaces_are_apart_and_clearing_or_dropping_one_leaves_the_others() {
    let storage = MemoryStorage::default();
    let db = small(&storage);
    let (a, b) = (db.namespace("a").unwrap(), db.namespace("b").unwrap());
    for i in 0..50u8 {
        db.insert([i], "default").unwrap();
        a.insert([i], "a").unwrap();
        b.insert([i], "b").unwrap();
    }
    a.clear().unwrap();
    assert_eq!((db.len().unwrap(), a.len().unwrap(), b.len().unwrap()), (50, 0, 50));
    a.insert("again", "a").unwrap();
    assert!(db.drop_namespace("b").unwrap());
    assert!(matches!(b.insert("x", "y"), Err(Error::NamespaceDropped)));
    assert!(!db.drop_namespace("b").unwrap());
    db.clear().unwrap();
    assert_eq!((db.len().unwrap(), a.len().unwrap(), db.list_namespaces()), (0, 1, vec!["a".to_string()]));
    for image in [storage.to_vec(), {
        drop((db, a, b));
        storage.to_vec()
    }] {
        let db = small(&MemoryStorage::from_vec(image));
        assert_eq!(
            (db.len().unwrap(), db.namespace("a").unwrap().len().unwrap(), db.namespace("b").unwrap().len().unwrap()),
            (0, 1, 0)
        );
    }
}

#[test]
fn a_transaction_is_all_or_nothing_and_notices_other_writers() {
    let db = Db::open_in_memory().unwrap();
    let ns = db.namespace("n").unwrap();
    db.insert("a", "1").unwrap();
    let failed: Result<(), Error> = db.transaction(|tx| {
        tx.insert("a", "2")?;
        tx.insert_in(&ns, "b", "3")?;
        assert_eq!(tx.get("a")?.unwrap(), b"2");
        Err(Error::Conflict(pipkin::Conflict::Key))
    });
    assert!(failed.is_err());
    assert_eq!((db.get("a").unwrap().unwrap(), ns.len().unwrap()), (b"1".to_vec(), 0));
    let conflict = db.transaction(|tx| {
        tx.get("a")?;
        db.insert("a", "other")?;
        tx.insert("c", "4")
    });
    assert!(matches!(conflict, Err(Error::Conflict(pipkin::Conflict::Key))));
    assert_eq!(db.get("c").unwrap(), None);
    assert!(db.compare_and_swap("a", Some(b"other"), Some(b"mine")).unwrap());
    assert!(!db.compare_and_swap("a", Some(b"other"), None).unwrap());
    assert!(db.compare_and_swap("new", None, Some(b"x")).unwrap());
    db.update("a", |old| {
        assert_eq!(old, Some(&b"mine"[..]));
        None
    })
    .unwrap();
    assert_eq!(db.get("a").unwrap(), None);
}

#[test]
fn a_batch_is_one_commit_in_which_the_last_write_of_a_key_counts() {
    let storage = MemoryStorage::new();
    let db = small(&storage);
    let log = db.namespace("log").unwrap();
    db.insert_many([("kept", "1"), ("gone", "2"), ("twice", "3")]).unwrap();
    db.batch()
        .insert("twice", "4")
        .remove("gone")
        .remove("never there")
        .insert("twice", "5")
        .insert("new", "6")
        .remove("new")
        .insert_in(&log, "n", "7")
        .remove_in(&log, "gone")
        .commit()
        .unwrap();
    db.batch().commit().unwrap();
    let long = vec![0; pipkin::limits::KEY_LEN_MAX + 1];
    assert!(matches!(db.batch().insert("late", "8").remove(&long).commit(), Err(Error::KeyTooLong { .. })));
    drop((log, db));

    let db = small(&storage);
    let expected: BTreeMap<Vec<u8>, Vec<u8>> = [("kept", "1"), ("twice", "5")].map(|(k, v)| (k.into(), v.into())).into();
    assert_eq!(contents(&db), expected);
    assert_eq!(db.namespace("log").unwrap().get("n").unwrap().as_deref(), Some(&b"7"[..]));
    assert!(db.verify().unwrap().is_ok());
}

#[test]
fn the_map_of_segments_adds_up_to_the_figures_and_to_the_file() {
    let db = small(&MemoryStorage::new());
    assert_eq!(db.segments().unwrap(), []);
    for round in 0..3u8 {
        db.insert_many((0..500u32).map(|i| (i.to_le_bytes(), [round; 100]))).unwrap();
    }
    db.insert("long", vec![1; 3 * db.stats().unwrap().segment_size as usize]).unwrap();
    db.checkpoint().unwrap();
    for compacted in [false, true] {
        if compacted {
            db.compact().unwrap();
        }
        let (segments, stats) = (db.segments().unwrap(), db.stats().unwrap());
        let (mut at, mut total_used, mut total_live, mut logs, mut frees) = (pipkin::limits::DATA_START, 0, 0, 0, 0);
        for segment in &segments {
            let (offset, len) = match *segment {
                SegmentUse::Log { offset, len, used, live } => {
                    assert!(live <= used && used <= len, "{segment:?}");
                    (total_used, total_live, logs) = (total_used + used, total_live + live, logs + 1);
                    (offset, len)
                }
                SegmentUse::Free { offset, len } => {
                    frees += 1;
                    (offset, len)
                }
                SegmentUse::Other { offset, len } => (offset, len),
                _ => unreachable!(),
            };
            assert_eq!(offset, at);
            at += len;
        }
        assert_eq!((logs, frees), (stats.segments, stats.free_segments));
        assert_eq!((total_live, total_used - total_live), (stats.live_bytes, stats.dead_bytes));
        assert!(segments.iter().any(|segment| matches!(segment, SegmentUse::Other { .. })));
    }
}

#[test]
fn a_backup_opens_with_the_same_records() {
    let db = small(&MemoryStorage::default());
    for i in 0..300u32 {
        db.insert(i.to_le_bytes(), vec![1; 40]).unwrap();
    }
    db.checkpoint().unwrap();
    db.insert("late", "r").unwrap();
    let target = MemoryStorage::default();
    db.backup_to_storage(&target).unwrap();
    db.insert("later", "r").unwrap();
    let copy = small(&target);
    assert_eq!(copy.len().unwrap(), 301);
    assert_eq!(copy.get("later").unwrap(), None);
    copy.insert("own", "x").unwrap();
}

#[test]
fn many_threads_write_and_read_beside_checkpoints_and_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::builder().path(folder.path().join("t.pipkin")).segment_size(65_536).replay_debt_max(300_000).open().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let db = db.clone();
            scope.spawn(move || {
                for i in 0..5_000u32 {
                    let key = (thread, i % 500);
                    let key: Vec<u8> = [key.0.to_le_bytes(), key.1.to_le_bytes()].concat();
                    db.insert(&key, i.to_le_bytes()).unwrap();
                    assert_eq!(db.get(&key).unwrap().unwrap(), i.to_le_bytes());
                    if i % 1000 == 0 {
                        db.flush().unwrap();
                    }
                }
            });
        }
        let db = db.clone();
        scope.spawn(move || {
            for _ in 0..10 {
                db.compact().unwrap();
                db.checkpoint().unwrap();
            }
        });
    });
    let before = contents(&db);
    assert_eq!(before.len(), 2000);
    assert!(db.verify().unwrap().is_ok());
    db.close().unwrap();
    assert_eq!(contents(&Db::open(folder.path().join("t.pipkin")).unwrap()), before);
}

#[test]
fn every_flipped_bit_of_a_closed_store_is_reported_and_everything_else_salvaged() {
    let storage = MemoryStorage::default();
    let db = small(&storage);
    for i in 0..60u32 {
        db.insert(i.to_le_bytes(), vec![i as u8; 30]).unwrap();
    }
    db.checkpoint().unwrap();
    db.remove(3u32.to_le_bytes()).unwrap();
    db.insert("k", "v").unwrap();
    let good = contents(&db);
    db.close().unwrap();
    let bytes = storage.to_vec();
    assert!(pipkin::verify_storage(&storage).unwrap().is_ok());
    for bit in (0..bytes.len() * 8).step_by(13) {
        let at = bit / 8;
        if (8192..8192 + 64).contains(&at) {
            continue;
        }
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (bit % 8);
        let bad = MemoryStorage::from_vec(bad);
        let report = pipkin::verify_storage(&bad).unwrap();
        assert!(!report.is_ok(), "flip at {at} unseen");
        if (0..512).contains(&at) || (4096..4608).contains(&at) || at >= 16_384 {
            let target = Db::open_in_memory().unwrap();
            pipkin::salvage(&bad, &target, &mut |_, _| {}).unwrap();
            let got = contents(&target);
            let lost = good.iter().filter(|(key, value)| got.get(*key) != Some(value)).count();
            let extra = got.keys().filter(|key| !good.contains_key(*key)).count();
            assert!(lost <= 1 && extra <= 1, "flip at {at}: {lost} lost, {extra} extra; {report:?}");
        }
    }
}

#[cfg(feature = "testing")]
#[test]
fn flush_policies_sync_when_they_say() {
    use pipkin::FlushPolicy;
    use pipkin::storage::crash::CrashStorage;

    let syncs = |policy| {
        let storage = CrashStorage::new();
        let db = Db::builder().flush_policy(policy).open_storage(Box::new(storage.clone())).unwrap();
        db.insert("first", "1").unwrap();
        db.flush().unwrap();
        let calls = |work: &dyn Fn()| {
            let before = storage.io_count();
            work();
            storage.io_count() - before
        };
        let idle = calls(&|| assert!(db.flush().is_ok()));
        db.insert("second", "2").unwrap();
        let safe = Db::builder()
            .open_storage(Box::new(CrashStorage::from_image(&storage.freeze().synced_image())))
            .unwrap()
            .contains_key("second")
            .unwrap();
        (idle, safe)
    };
    assert_eq!(syncs(FlushPolicy::Group), (0, false));
    assert_eq!(syncs(FlushPolicy::OnEachFlush), (1, false));
    assert_eq!(syncs(FlushPolicy::WriteThrough), (0, true));
}

#[cfg(feature = "ordered")]
#[test]
fn ranges_come_in_order_and_follow_every_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ordered.pipkin");
    let open = |ordered| Db::builder().path(&path).segment_size(4096).ordered(ordered).open().unwrap();
    let db = open(true);
    let users = db.namespace("users").unwrap();
    for i in (0..300_u32).rev() {
        db.insert(i.to_be_bytes(), [7; 50]).unwrap();
        users.insert(format!("user/{i:03}"), i.to_string()).unwrap();
    }
    for i in (0..300_u32).step_by(2) {
        db.remove(i.to_be_bytes()).unwrap();
    }
    db.compact().unwrap();
    let numbers = |db: &Db| -> Vec<u32> {
        let keys = db.range(..).unwrap().map(|record| record.unwrap().0);
        keys.map(|key| u32::from_be_bytes(key.try_into().unwrap())).collect()
    };
    let odd: Vec<u32> = (1..300).step_by(2).collect();
    assert_eq!(numbers(&db), odd);
    let names =
        |range: pipkin::Range<'_>| -> Vec<String> { range.map(|record| String::from_utf8(record.unwrap().1).unwrap()).collect() };
    assert_eq!(names(users.range_prefix("user/01").unwrap()), (10..20).map(|i| i.to_string()).collect::<Vec<_>>());
    assert_eq!(names(users.iter_from("user/298").unwrap()), ["298", "299"]);
    assert_eq!(names(users.iter_after("user/298").unwrap()), ["299"]);
    assert_eq!(names(users.range("user/000"..="user/001").unwrap()), ["0", "1"]);
    users.clear().unwrap();
    assert_eq!(names(users.range_prefix("").unwrap()), Vec::<String>::new());
    drop(users);
    db.close().unwrap();
    assert_eq!(numbers(&open(true)), odd);
    assert!(matches!(open(false).range_prefix("x").err(), Some(Error::NotOrdered)));
}

#[test]
fn a_list_of_segments_that_just_fills_its_extents_opens_again() {
    for records in 115..260_u32 {
        let storage = MemoryStorage::new();
        let db = small(&storage);
        for i in 0..records {
            db.insert(i.to_be_bytes(), [1; 3000]).unwrap();
        }
        db.checkpoint().unwrap();
        db.close().unwrap();
        assert_eq!(small(&storage).len().unwrap(), u64::from(records), "{records} records");
    }
}

#[test]
fn many_removals_are_one_commit_and_leave_nothing_for_keys_that_are_not_there() {
    let db = Db::open_in_memory().unwrap();
    db.insert_many((0..500_u32).map(|number| (number.to_be_bytes(), number.to_be_bytes()))).unwrap();
    let space = db.namespace("space").unwrap();
    space.insert("kept", "").unwrap();
    let before = db.stats().unwrap();
    assert_eq!(db.remove_many((1_000..2_000_u32).map(u32::to_be_bytes)).unwrap(), 0);
    assert_eq!(db.stats().unwrap(), before);
    // Some are there, some are not, some come twice.
    let keys = (400..600_u32).chain(450..460).map(u32::to_be_bytes);
    assert_eq!(db.remove_many(keys).unwrap(), 100);
    assert_eq!(space.remove_many(["kept", "other", "kept"]).unwrap(), 1);
    assert_eq!((db.len().unwrap(), space.len().unwrap()), (400, 0));
    // What a commit removes, puts and removes again stays away; what it puts behind a removal that found nothing is there.
    let number = 7_u32.to_be_bytes();
    db.batch()
        .remove("new")
        .insert("new", "1")
        .remove("none")
        .remove(number)
        .insert(number, "2")
        .remove(number)
        .commit()
        .unwrap();
    assert_eq!((db.get("new").unwrap().as_deref(), db.get(number).unwrap()), (Some(&b"1"[..]), None));
}

/// A transaction found what it had read again by a hash of the value whose seed everybody knows: who put another value of the same hash
/// in between lost it to the transaction, without a conflict.
#[test]
fn a_transaction_notices_a_value_of_the_same_hash() {
    // Two values that XXH3-64 with the seed 0 cannot tell from each other: of 16 bytes, it adds the first half, read backwards, to the
    // second, each XORed with a constant, and their product, which is nothing where one of them is.
    let (first, second) = ([0xb9, 0x39, 0x42, 0xea, 0x7b, 0x73, 0x82, 0x67], [0x3a, 0x52, 0x96, 0x09, 0x3b, 0xbc, 0x56, 0xaf]);
    let xor = |one: [u8; 8], other: [u8; 8]| u64::from_le_bytes(one) ^ u64::from_le_bytes(other);
    let number = 1_000_000_u64;
    let one = [first, xor(second, number.to_le_bytes()).to_le_bytes()].concat();
    let other = [xor(first, number.to_be_bytes()).to_le_bytes(), second].concat();
    assert_ne!(one, other);
    let db = Db::open_in_memory().unwrap();
    db.insert("account", &one).unwrap();
    let mut tx = db.begin().unwrap();
    assert_eq!(tx.get("account").unwrap().as_ref(), Some(&one));
    db.insert("account", &other).unwrap();
    tx.insert("account", "made of the first value").unwrap();
    let lost = tx.commit();
    assert!(matches!(lost, Err(Error::Conflict(pipkin::Conflict::Key))), "{lost:?}");
    assert_eq!(db.get("account").unwrap(), Some(other));
}

/// Compaction gives a record another version: a transaction that nobody else disturbs must not fail for that.
#[test]
fn a_transaction_does_not_conflict_with_a_compaction() {
    let db = Db::builder().segment_size(4096).in_memory().unwrap();
    for round in 0..40_u8 {
        db.insert("other", [round; 1000]).unwrap();
        db.insert(format!("kept {round}"), [round; 100]).unwrap();
    }
    db.transaction(|tx| {
        let before: Vec<_> = (0..40).map(|round| db.get_versioned(format!("kept {round}")).unwrap().unwrap().1).collect();
        for round in 0..40 {
            tx.get(format!("kept {round}"))?;
        }
        assert!(db.compact()?.records_copied > 0);
        assert!((0..40).any(|round| db.get_versioned(format!("kept {round}")).unwrap().unwrap().1 != before[round]));
        tx.insert("written", "by the transaction")
    })
    .unwrap();
    assert!(db.contains_key("written").unwrap());
}

/// A store of one record took 8 MiB while it was open: a program with many small stores could not afford them.
#[test]
fn a_store_of_one_record_is_small_open_or_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.pipkin");
    let len = || std::fs::metadata(&path).unwrap().len();
    let db = Db::open(&path).unwrap();
    db.insert("key", "value").unwrap();
    assert!(len() <= 64 * 1024, "{} bytes, open", len());
    db.flush().unwrap();
    assert!(len() <= 64 * 1024, "{} bytes, flushed", len());
    db.close().unwrap();
    assert!(len() <= 20 * 1024, "{} bytes, closed", len());
}
