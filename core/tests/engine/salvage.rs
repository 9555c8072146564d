//! What salvage gets out, beyond single damaged records: nothing that was given up, no half commits, and no silence about what is gone.
#![cfg(feature = "salvage")]
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use crate::common::{contents, find, find_last, flipped, opened};
use pipkin::storage::MemoryStorage;
use pipkin::{Db, SalvageOptions, SalvageReport, Storage};
#[cfg(feature = "events")]
use pipkin::{Expected, NewEvent};

const SEGMENT: u32 = 8192;

fn salvaged(source: &dyn Storage) -> (Db, SalvageReport) {
    let target = Db::open_in_memory().unwrap();
    let report = pipkin::salvage(source, &target, &mut |_, _| {}).unwrap();
    (target, report)
}

/// Namespaces that were cleared, dropped and emptied, and compactions that forget the records of their names.
fn with_a_past(storage: &MemoryStorage) -> Db {
    let db = opened(storage.clone(), SEGMENT);
    let cache = db.namespace("cache").unwrap();
    db.namespace("empty").unwrap();
    for round in 0..6_u32 {
        let gone = db.namespace(&format!("gone {round}")).unwrap();
        for i in 0..100_u32 {
            db.insert((i * 7 % 60).to_le_bytes(), [round as u8; 90]).unwrap();
            cache.insert(i.to_le_bytes(), b"a secret of some length").unwrap();
            gone.insert(i.to_le_bytes(), b"dropped").unwrap();
        }
        if round < 5 {
            cache.clear().unwrap();
        }
        db.drop_namespace(&format!("gone {round}")).unwrap();
        if round % 2 == 1 {
            db.compact().unwrap();
        }
    }
    db
}

#[test]
fn what_was_cleared_or_dropped_does_not_come_back() {
    let storage = MemoryStorage::new();
    let db = with_a_past(&storage);
    let right = contents(&db);
    for close in [false, true] {
        if close {
            db.clone().close().unwrap();
        }
        let copy = MemoryStorage::from_vec(storage.to_vec());
        let (target, report) = salvaged(&copy);
        assert_eq!((contents(&target), &report.damage[..]), (right.clone(), &[][..]), "closed: {close}");
    }
}

#[test]
fn a_namespace_keeps_its_name_when_the_record_of_it_is_damaged() {
    let storage = MemoryStorage::new();
    let db = with_a_past(&storage);
    db.checkpoint().unwrap();
    let right = contents(&db);
    db.close().unwrap();
    let bytes = storage.to_vec();
    let mut flipped = 0;
    for at in (16_384..bytes.len() - 5).filter(|at| &bytes[*at..*at + 5] == b"cache") {
        let mut bytes = bytes.clone();
        bytes[at] ^= 4;
        let (target, _) = salvaged(&MemoryStorage::from_vec(bytes));
        assert_eq!(contents(&target), right, "byte {at}");
        flipped += 1;
    }
    assert!(flipped > 1, "the record of the name, and the snapshot");
}

#[test]
fn a_commit_without_an_end_is_left_out_as_opening_leaves_it_out() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    db.insert_many([("alice", "100"), ("bob", "0")]).unwrap();
    db.flush().unwrap();
    let before = contents(&db);
    let start = storage.to_vec();
    db.insert_many([("alice", "0"), ("bob", "100")]).unwrap();
    let whole = storage.to_vec();
    let end = whole.iter().zip(&start).rposition(|(now, then)| now != then).unwrap() + 1;
    assert_eq!(contents(&salvaged(&MemoryStorage::from_vec(whole.clone())).0), contents(&db));
    // As a killed process leaves it: the first record is whole, the second is not.
    for torn in 1..8 {
        let mut bytes = whole.clone();
        bytes[end - torn..end].fill(0);
        let (target, report) = salvaged(&MemoryStorage::from_vec(bytes.clone()));
        assert_eq!((contents(&target), report.damage.len()), (before.clone(), 0), "{torn} bytes");
        assert_eq!(contents(&opened(MemoryStorage::from_vec(bytes), SEGMENT)), before);
    }
}

#[test]
fn a_store_that_was_cut_short_is_never_salvaged_without_a_word() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    for i in 0..500_u32 {
        db.insert(i.to_le_bytes(), [7; 100]).unwrap();
    }
    db.close().unwrap();
    let bytes = storage.to_vec();
    for len in (16_384..bytes.len()).step_by(997) {
        let cut = MemoryStorage::from_vec(bytes[..len].to_vec());
        let (target, report) = salvaged(&cut);
        assert!(
            target.len().unwrap() < 500 && !report.damage.is_empty() || Db::builder().open_storage(Box::new(cut)).is_ok(),
            "cut at {len}"
        );
    }
}

#[test]
fn a_damaged_record_beside_a_dropped_namespace_costs_itself_alone() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let gone = db.namespace("gone").unwrap();
    for i in 0..3000_u32 {
        db.insert(i.to_le_bytes(), format!("value {i:05}")).unwrap();
        gone.insert(i.to_le_bytes(), b"x").unwrap();
    }
    db.checkpoint().unwrap();
    db.drop_namespace("gone").unwrap();
    db.flush().unwrap();
    drop((gone, db));
    let bytes = storage.to_vec();
    let storage = flipped(&bytes, find(&bytes, b"value 00123") + 8);
    let db = opened(storage.clone(), SEGMENT);
    assert_eq!((db.len().unwrap(), db.stats().unwrap().namespaces), (3000, 0));
    let unreadable: Vec<u32> = (0..3000_u32).filter(|i| db.get(i.to_le_bytes()).is_err()).collect();
    assert_eq!(unreadable, [123]);
    db.insert(123_u32.to_le_bytes(), "mended").unwrap();
    db.namespace("another").unwrap().insert("a", "b").unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    assert!(opened(storage.clone(), SEGMENT).get(123_u32.to_le_bytes()).is_ok_and(|value| value.as_deref() == Some(b"mended")));
}

/// A listed segment whose header is an older valid one, as a lost write leaves it: `verify` said that all was well, and `salvage` left the
/// records of the segment without a word.
#[test]
fn a_header_of_an_earlier_life_is_damage_and_costs_no_record() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    let mut earlier: Vec<Vec<u8>> = Vec::new();
    for round in 0..12_u32 {
        for i in 0..200_u32 {
            db.insert((i * (round + 1) % 223).to_le_bytes(), [round as u8; 90]).unwrap();
        }
        db.compact().unwrap();
        earlier.push(storage.to_vec());
    }
    db.insert("behind", "it").unwrap();
    let right = contents(&db);
    db.close().unwrap();
    let bytes = storage.to_vec();
    let mut tried = 0;
    for at in (16_384..bytes.len() - 704).step_by(2048) {
        let is_header = |bytes: &[u8]| bytes.len() > at + 704 && &bytes[at + 16..at + 21] == b"PSEG\x01";
        let Some(old) = earlier.iter().find(|old| is_header(old) && is_header(&bytes) && old[at..at + 8] != bytes[at..at + 8])
        else {
            continue;
        };
        let mut damaged = bytes.clone();
        damaged[at..at + 704].copy_from_slice(&old[at..at + 704]);
        let source = MemoryStorage::from_vec(damaged);
        let (target, report) = salvaged(&source);
        let is_used = !pipkin::verify_storage(&source).unwrap().is_ok();
        assert_eq!(is_used, !report.damage.is_empty(), "at {at}");
        assert_eq!(contents(&target), right, "at {at}");
        tried += u32::from(is_used);
    }
    assert!(tried > 1, "{tried} headers");
}

/// Without its superblocks everything was lost, though every segment header stood.
#[test]
fn segments_are_found_without_superblocks() {
    for (segment_size, records) in [(4096, 3), (8192, 500), (64 * 1024, 3000), (4 << 20, 100), (4 << 20, 9000)] {
        for (compacted, closed) in [(false, false), (false, true), (true, true)] {
            let storage = MemoryStorage::new();
            let builder = Db::builder().segment_size(segment_size).background(false);
            let db = builder.open_storage(Box::new(storage.clone())).unwrap();
            let users = db.namespace("users").unwrap();
            for i in 0..records {
                db.insert(u32::to_le_bytes(i), [i as u8; 90]).unwrap();
                users.insert(u32::to_le_bytes(i / 2), [i as u8; 30]).unwrap();
                if i % 7 == 0 {
                    db.remove(u32::to_le_bytes(i)).unwrap();
                }
            }
            db.insert("large", vec![7; 3 * segment_size as usize]).unwrap();
            if compacted {
                db.compact().unwrap();
            }
            let right = contents(&db);
            if closed {
                db.close().unwrap();
            }
            let mut bytes = storage.to_vec();
            bytes[..16_384].fill(0);
            let source = MemoryStorage::from_vec(bytes);
            let checked = pipkin::verify_storage(&source).unwrap();
            assert!(checked.damage.iter().any(|damage| damage.offset == 0), "{checked:?}");
            let (target, report) = salvaged(&source);
            assert!(contents(&target) == right, "{segment_size} {compacted} {closed} {report:?}");
            assert!(!report.damage.is_empty());
            assert!(Db::builder().open_storage(Box::new(source)).is_err(), "an open guesses nothing");
        }
    }
    let nothing = MemoryStorage::from_vec(vec![0; 40_000]);
    assert!(matches!(pipkin::verify_storage(&nothing), Err(pipkin::Error::NotAStore { .. })));
}

/// Whole records of a commit that was cut off were left out without a word: 33,672 were good, 33,000 were saved.
/// A power cut lost a segment that nothing had synced, with the end of the one before, and left a later one. Opening ends in front of the gap; salvage
/// brought a record from behind it, and said nothing.
#[test]
fn records_behind_a_segment_that_a_power_cut_has_lost_are_stranded() {
    const BLOCK: usize = 4096;
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), BLOCK as u32);
    let value = |number: u32| [&number.to_be_bytes()[..], &[7; 900]].concat();
    db.insert("again", value(0)).unwrap();
    db.flush().unwrap();
    for number in 1..40 {
        db.insert("again", value(number)).unwrap();
    }
    // Behind each record: nothing of the rest of its segment and of the next one.
    let without = |number: u32| {
        let mut bytes = storage.to_vec();
        let from = find(&bytes, &value(number)) + value(number).len();
        let to = bytes.len().min((from / BLOCK + 2) * BLOCK);
        bytes[from..to].fill(0);
        bytes
    };
    let mut stranded = 0;
    for number in 1..40 {
        let bytes = without(number);
        let (target, report) = salvaged(&MemoryStorage::from_vec(bytes.clone()));
        let opened = Db::builder().background(false).open_storage(Box::new(MemoryStorage::from_vec(bytes))).unwrap();
        if report.damage.is_empty() {
            assert_eq!(contents(&target), contents(&opened), "behind record {number}: {report:?}");
        }
        stranded += u64::from(report.stranded > 0 && report.damage.is_empty());
    }
    assert!(stranded >= 20, "{stranded} gaps with records behind them");

    // What was synced is damage if it is gone, and what comes behind it counts.
    db.flush().unwrap();
    let (target, report) = salvaged(&MemoryStorage::from_vec(without(10)));
    assert!(!report.damage.is_empty() && report.stranded == 0, "{report:?}");
    assert_eq!(contents(&target), contents(&db));
}

#[test]
fn whole_records_of_a_cut_commit_are_counted_and_kept_on_demand() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    db.insert("first", "1").unwrap();
    db.flush().unwrap();
    db.insert_many((0..100_u8).map(|i| ([i], [i; 20]))).unwrap();
    let bytes = storage.to_vec();
    let source = flipped(&bytes, find_last(&bytes, &[99; 21]) + 3);
    let (target, report) = salvaged(&source);
    assert_eq!((target.len().unwrap(), report.unfinished), (1, 99));
    accounts(&report, 99);
    let target = Db::open_in_memory().unwrap();
    let options = SalvageOptions::default().unfinished(true);
    let report = pipkin::salvage_with(&source, &target, options, &mut |_, _| {}).unwrap();
    assert_eq!((target.len().unwrap(), report.unfinished), (100, 99));
    accounts(&report, 0);
}

/// Every record that checks is in the report.
fn accounts(report: &SalvageReport, left_out: u64) {
    let SalvageReport { records, replaced, removed, tombstones, carried, names, dropped, .. } = *report;
    assert_eq!(report.read, records + replaced + removed + tombstones + carried + names + dropped + left_out, "{report:?}");
}

/// A record was damaged, or what says that one was removed: its older version came in its place, and nobody said so.
#[test]
fn older_versions_and_removed_records_are_told_and_a_choice() {
    let storage = MemoryStorage::new();
    let db = opened(storage.clone(), SEGMENT);
    for i in 0..300_u32 {
        db.insert(format!("key {i:03}"), format!("old {i:03}")).unwrap();
    }
    db.drop_namespace("nothing").unwrap();
    for i in 0..150_u32 {
        db.insert(format!("key {i:03}"), format!("new {i:03}")).unwrap();
    }
    for i in 140..150_u32 {
        db.remove(format!("key {i:03}")).unwrap();
    }
    db.checkpoint().unwrap();
    db.insert("key 200", "behind the checkpoint").unwrap();
    db.insert("key 201", "behind the checkpoint, too").unwrap();
    let right = contents(&db).remove("").unwrap();
    db.close().unwrap();
    let bytes = storage.to_vec();
    let place = |what: &[u8]| find_last(&bytes, what);
    let damaged = |at: usize| flipped(&bytes, at);
    let salvaged = |source: &MemoryStorage, options: SalvageOptions| {
        let target = Db::open_in_memory().unwrap();
        let report = pipkin::salvage_with(source, &target, options, &mut |_, _| {}).unwrap();
        (contents(&target).remove("").unwrap(), report)
    };
    let default = SalvageOptions::default();
    // A record that counts.
    let source = damaged(place(b"key 050new 050") + 5);
    let (found, report) = salvaged(&source, default);
    let mut expected = right.clone();
    expected.insert(b"key 050".to_vec(), b"old 050".to_vec());
    assert_eq!((found, report.superseded, report.revived, report.unsure), (expected.clone(), 1, 0, 0));
    accounts(&report, 0);
    let (found, report) = salvaged(&source, default.superseded(false));
    expected.remove(&b"key 050"[..]);
    assert_eq!((found, report.superseded), (expected, 1));
    accounts(&report, 1);
    // What says that one was removed.
    let source = damaged(place(b"key 145") + 5);
    let (found, report) = salvaged(&source, default);
    assert_eq!((found, report.superseded, report.revived, report.unsure), (right.clone(), 0, 1, 0));
    accounts(&report, 1);
    let (found, report) = salvaged(&source, default.revived(true));
    let mut expected = right.clone();
    expected.insert(b"key 145".to_vec(), b"new 145".to_vec());
    assert_eq!((found, report.revived), (expected, 1));
    accounts(&report, 0);
    // One that was dead costs nothing.
    let (found, report) = salvaged(&damaged(place(b"key 060old 060") + 5), default);
    assert_eq!((found, report.superseded, report.revived, report.unsure), (right.clone(), 0, 0, 0));
    // Behind the checkpoint nobody knows whose it was.
    let (found, report) = salvaged(&damaged(place(b"key 200behind") + 5), default);
    let mut expected = right.clone();
    expected.insert(b"key 200".to_vec(), b"old 200".to_vec());
    assert_eq!((found, report.unsure), (expected, right.len() as u64 - 1));
    // Without a snapshot neither.
    let directory = u64::from_le_bytes(bytes[4096 + 96..4096 + 104].try_into().unwrap()) as usize;
    let mut without = bytes.clone();
    without[directory + 20] ^= 1;
    without[place(b"key 145") + 5] ^= 1;
    let (found, report) = salvaged(&MemoryStorage::from_vec(without), default);
    assert!(found.contains_key(&b"key 145"[..]) && report.unsure > 200 && report.unsure < right.len() as u64);
}

#[cfg(feature = "events")]
#[test]
fn retirements_behind_a_torn_one_bring_no_removed_event_back() {
    let file = MemoryStorage::new();
    let db = opened(file.clone(), 4096);
    let log = db.events("log").unwrap();
    log.append("s", Expected::Any, (0..3).map(|_| NewEvent::new("T", [7; 300]))).unwrap();
    let fill = || (0..20_u8).for_each(|key| db.insert([key], [key; 500]).unwrap());
    fill();
    log.truncate("s", 3).unwrap();
    (0..3).for_each(|_| fill());
    db.checkpoint().unwrap();
    let before = file.to_vec();
    // The last call comes when segments are retired, and in front of the checkpoint that says so.
    let mut bytes = Vec::new();
    db.compact_with(|_| bytes = file.to_vec()).unwrap();
    let is_new = |at: &usize| before.get(*at) != Some(&bytes[*at]);
    let mut cut = 0;
    for at in (0..bytes.len()).filter(is_new) {
        let mut torn = bytes.clone();
        torn[at] ^= 1;
        let (found, report) = salvaged(&MemoryStorage::from_vec(torn));
        cut += u64::from(!report.damage.is_empty());
        let left: Vec<u64> = found.events("log").unwrap().all().iter().unwrap().map(|event| event.unwrap().number()).collect();
        assert!(left.iter().all(|&number| number == 3), "{left:?}, byte {at} of {}", bytes.len());
    }
    assert!(cut > 20, "{cut}");
}
