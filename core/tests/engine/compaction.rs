//! What a compaction asks of its storage.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests fail by panicking")]

use pipkin::storage::fault::FaultStorage;
use pipkin::storage::{MemoryStorage, Storage, StorageError};
use pipkin::{Db, Durability, Error};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// Nothing that is waited for takes so long, on any machine.
const FOR_EVER: Duration = Duration::from_secs(120);

/// A store most of whose segments are nearly dead, with a thread that may compact them.
fn mostly_dead(rate: Option<u64>) -> Db {
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(true).replay_debt_max(16 * 1024);
    let builder = if let Some(rate) = rate { builder.auto_compact_rate(rate) } else { builder };
    let db = builder.open_storage(Box::new(MemoryStorage::new())).unwrap();
    for round in 0..8_u32 {
        for number in 0..500_u32 {
            // In each round most of what the one before has written dies.
            if round == 0 || number % 8 != round {
                db.insert(number.to_be_bytes(), [round as u8; 100]).unwrap();
            }
        }
    }
    db
}

#[test]
fn compaction_that_nobody_asked_for_frees_what_is_mostly_dead_and_its_rate_holds_it_back() {
    let dead = |db: &Db| db.stats().unwrap().dead_bytes;
    let (free, held) = (mostly_dead(None), mostly_dead(Some(1)));
    let since = Instant::now();
    while dead(&free) * 2 > dead(&held) {
        assert!(since.elapsed() < FOR_EVER, "{} dead bytes, and {} where compaction is held back", dead(&free), dead(&held));
        // What is due is looked at when something is written.
        free.insert("one more", "").unwrap();
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn compaction_that_nobody_asked_for_gives_way_to_whoever_waits() {
    // At a byte a second it would take hours to come to the end of a segment.
    let db = mostly_dead(Some(1));
    let (done, waits) = channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            let verified = db.verify().unwrap().is_ok();
            done.send((verified, db.compact().unwrap())).unwrap();
        });
        let answer = waits.recv_timeout(FOR_EVER);
        if answer.is_err() {
            // The scope would wait for the thread.
            std::process::exit(101);
        }
        let (verified, report) = answer.unwrap();
        assert!(verified && report.segments_retired > 0, "{report:?}");
    });
}

#[test]
fn a_compaction_that_was_asked_for_empties_several_segments_for_each_sync_and_grows_the_file_by_few() {
    let storage = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(4096).entropy([7; 32]).auto_compact_dead_share(1.0);
    let db = builder.open_storage(Box::new(storage.clone())).unwrap();
    let key = |number: u32| number.to_be_bytes();
    for number in 0..4_000_u32 {
        db.insert(key(number), [1; 100]).unwrap();
    }
    for number in (0..4_000_u32).filter(|number| number % 4 != 0) {
        db.remove(key(number)).unwrap();
    }
    db.flush().unwrap();
    let before = (storage.counts().syncs, storage.len().unwrap());
    let report = db.compact().unwrap();
    let syncs = storage.counts().syncs - before.0;
    assert!(report.segments_retired > 80, "{report:?}");
    assert!(syncs * 2 < report.segments_retired, "{syncs} syncs for {report:?}");
    // What older segments said of the removed ones is gone with them.
    assert!(report.records_copied < 2 * 1_000, "{report:?}");
    let after = storage.len().unwrap();
    assert!(after * 2 < before.1, "{after} of {} bytes", before.1);
    assert_eq!(db.iter().filter(|record| record.is_ok()).count(), 1_000);
    assert!(db.verify().unwrap().is_ok());
}

/// Each segment is held against those that wait to be retired with it. Where all was dead, these were all of them: 4000 segments took
/// six seconds, twice as many eight times as long.
#[test]
fn segments_without_anything_to_copy_do_not_wait_for_each_other_without_end() {
    let storage = FaultStorage::new(MemoryStorage::new());
    let db = Db::builder().segment_size(4096).auto_compact_dead_share(2.0).open_storage(Box::new(storage.clone())).unwrap();
    for number in 0..2000_u32 {
        db.insert(number.to_be_bytes(), [1; 3000]).unwrap();
    }
    db.clear().unwrap();
    let before = storage.counts().syncs;
    let report = db.compact().unwrap();
    let syncs = storage.counts().syncs - before;
    assert!(report.segments_retired >= 1500, "{report:?}");
    assert!(syncs >= report.segments_retired / 64, "{syncs} syncs for {report:?}");
    assert!(syncs < report.segments_retired / 8, "{syncs} syncs for {report:?}");
}

/// The option says what happens unasked. Who compacts in steps has asked, and the steps end.
#[test]
fn steps_free_what_compaction_does_whatever_is_compacted_unasked() {
    for (share, segment_size) in [(0.5, 4096), (2.0, 4096), (2.0, 64 * 1024)] {
        let builder = Db::builder().segment_size(segment_size).entropy([7; 32]).auto_compact_dead_share(share);
        let db = builder.open_storage(Box::new(MemoryStorage::new())).unwrap();
        for number in 0..20_000_u32 {
            db.insert(number.to_be_bytes(), [1; 100]).unwrap();
        }
        // A quarter of each segment.
        for number in (0..20_000_u32).step_by(4) {
            db.remove(number.to_be_bytes()).unwrap();
        }
        let dead = db.stats().unwrap().dead_bytes;
        let mut steps = 0;
        while db.compact_step().unwrap().is_some() {
            steps += 1;
            assert!(steps < 5_000, "steps that find work for ever, segments of {segment_size}");
        }
        let left = db.stats().unwrap().dead_bytes;
        assert!(left * 7 < dead, "{left} of {dead} dead bytes left after {steps} steps, segments of {segment_size}");
        assert!(db.verify().unwrap().is_ok());
        assert_eq!(db.len().unwrap(), 15_000);
    }
}

/// With a share of 0 a compaction that nobody had asked for made more that was dead, by its own book-keeping, than it freed: the insert that
/// found it due never returned.
#[test]
fn a_share_of_dead_bytes_at_which_compaction_never_ends_is_refused() {
    let builder = |share: f64| Db::builder().segment_size(64 * 1024).replay_debt_max(4096).auto_compact_dead_share(share);
    for share in [0.0, 0.01, 0.0999, -1.0, f64::NAN, f64::NEG_INFINITY] {
        let refused = builder(share).in_memory();
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{share}");
    }
    for share in [0.1, 0.5, 1.0, 2.0, f64::INFINITY] {
        let db = builder(share).in_memory().unwrap();
        for n in 0..10_000_u32 {
            db.insert((n % 5_000).to_le_bytes(), [7; 100]).unwrap();
        }
        assert_eq!(db.len().unwrap(), 5_000, "{share}");
    }
}

/// Where segments are tiny, the lists that checkpoints leave behind are much of what steps free: `while db.compact_step()?.is_some()` went
/// after them for ever.
#[test]
fn steps_end_whatever_they_leave_dead_themselves() {
    for (records, len, apart) in [(3_000, 40, 3), (12_000, 90, 7), (30_000, 20, 5)] {
        let db = Db::builder()
            .segment_size(4096)
            .entropy([7; 32])
            .auto_compact_dead_share(2.0)
            .replay_debt_max(4096)
            .in_memory()
            .unwrap();
        for number in 0..records {
            db.insert(u32::to_be_bytes(number), vec![1; len]).unwrap();
        }
        for number in (0..records).step_by(apart) {
            db.remove(number.to_be_bytes()).unwrap();
        }
        let most = 4 * db.stats().unwrap().segments;
        let mut steps = 0;
        while db.compact_step().unwrap().is_some() {
            steps += 1;
            assert!(steps < most, "more than {most} steps, {records} records of {len} bytes");
        }
    }
}

/// Records of one length: what was copied and freed can be counted.
#[test]
fn a_compaction_reports_what_it_has_copied_and_freed() {
    const LEN: u64 = 111;
    const TOMBSTONE: u64 = 11;
    let filled = || {
        let builder = Db::builder().segment_size(4096).entropy([7; 32]).background(false).auto_compact_dead_share(1.0);
        let db = builder.open_storage(Box::new(MemoryStorage::new())).unwrap();
        for number in 0..1200_u32 {
            db.insert(number.to_be_bytes(), [1; 100]).unwrap();
        }
        for number in (0..1200_u32).filter(|number| number % 4 != 0) {
            db.remove(number.to_be_bytes()).unwrap();
        }
        db
    };
    let db = filled();
    let report = db.compact().unwrap();
    assert_eq!(report.bytes_copied, report.records_copied * LEN, "{report:?}");
    assert!(report.records_copied >= 300 && report.bytes_freed >= report.segments_retired * 4096, "{report:?}");
    let db = filled();
    // One segment at a time: tombstones in segments that are not the oldest are kept.
    let (mut steps, mut tombstones) = (0, 0);
    while let Some(step) = db.compact_step().unwrap() {
        assert_eq!((step.segments_retired, step.bytes_freed), (1, 4096), "{step:?}");
        let of_tombstones = (step.records_copied * LEN - step.bytes_copied) / (LEN - TOMBSTONE);
        assert_eq!(step.bytes_copied, (step.records_copied - of_tombstones) * LEN + of_tombstones * TOMBSTONE, "{step:?}");
        assert!(step.records_copied == 0 || step.bytes_copied >= TOMBSTONE, "{step:?}");
        steps += 1;
        tombstones += of_tombstones;
    }
    assert!(steps > 20 && tombstones > 0, "{steps} steps, {tombstones} tombstones copied");
}

/// Compaction copies groups of records in one write, and long ones by themselves; natively another thread reads them.
#[test]
fn a_compaction_keeps_every_record_whatever_its_length_and_whoever_reads_and_writes_meanwhile() {
    const RECORDS: u32 = 6_000;
    let folder = tempfile::tempdir().unwrap();
    let value = |number: u32, round: u8| match number % 500 {
        0 => vec![round; 40_000],
        1 => vec![round; 5_000],
        _ => vec![round; number as usize % 300],
    };
    for (background, segment_size) in [(true, 4096), (true, 256 * 1024), (false, 64 * 1024)] {
        let path = folder.path().join(format!("{background}-{segment_size}"));
        let builder = Db::builder().path(&path).segment_size(segment_size).entropy([7; 32]).background(background);
        let db = builder.open().unwrap();
        let other = db.namespace("other").unwrap();
        let mut model = BTreeMap::new();
        for number in 0..RECORDS {
            db.insert(number.to_be_bytes(), value(number, 1)).unwrap();
        }
        for first in (0..RECORDS).step_by(100) {
            // Every third one, as commits of several records.
            let commit: Vec<_> = (first..first + 100).filter(|number| number % 3 == 0).collect();
            other.insert_many(commit.iter().map(|&number| (number.to_be_bytes(), value(number, 2)))).unwrap();
        }
        for number in (0..RECORDS).filter(|number| number % 7 == 0) {
            db.remove(number.to_be_bytes()).unwrap();
        }
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for number in (0..RECORDS).filter(|number| number % 5 == 0) {
                    db.insert(number.to_be_bytes(), value(number, 3)).unwrap();
                }
            });
            let report = db.compact().unwrap();
            assert!(report.records_copied > u64::from(RECORDS) / 2, "{report:?}");
            writer.join().unwrap();
        });
        db.compact().unwrap();
        for number in 0..RECORDS {
            let round = if number % 5 == 0 { 3 } else { 1 };
            if number % 5 == 0 || number % 7 != 0 {
                model.insert(number, value(number, round));
            }
        }
        let is_right = |db: &Db| {
            let other = db.namespace("other").unwrap();
            assert_eq!((db.len().unwrap(), other.len().unwrap()), (model.len() as u64, u64::from(RECORDS / 3)));
            for number in 0..RECORDS {
                assert_eq!(db.get(number.to_be_bytes()).unwrap().as_deref(), model.get(&number).map(Vec::as_slice), "{number}");
                let expected = (number % 3 == 0).then(|| value(number, 2));
                assert_eq!(other.get(number.to_be_bytes()).unwrap().as_deref(), expected.as_deref(), "{number}");
            }
            assert!(db.verify().unwrap().is_ok());
        };
        is_right(&db);
        drop((db, other));
        is_right(&Db::open(&path).unwrap());
    }
}

/// A medium that reads one byte wrong, while `wrong` is its offset, except in the long reads of a walk. It cannot be mapped.
#[derive(Clone)]
struct Fickle {
    bytes: Arc<MemoryStorage>,
    wrong: Arc<AtomicU64>,
}

impl Storage for Fickle {
    fn len(&self) -> Result<u64, StorageError> {
        self.bytes.len()
    }
    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.bytes.set_len(len)
    }
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.bytes.read_at(offset, out)?;
        let len = out.len();
        let wrong = self.wrong.load(Ordering::Relaxed).checked_sub(offset);
        if let Some(byte) = wrong.and_then(|wrong| out.get_mut(wrong as usize)).filter(|_| len < 60_000) {
            *byte ^= 1;
        }
        Ok(())
    }
    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.bytes.write_at(offset, parts)
    }
    fn sync(&self) -> Result<Durability, StorageError> {
        self.bytes.sync()
    }
}

/// Compaction verified a record, read it again, and gave the copy a checksum of what it had read then. A byte that was read wrong the second
/// time became the value, and nothing could tell.
#[test]
fn a_byte_that_is_read_wrong_after_its_record_was_verified_is_noticed_in_the_copy() {
    const RECORDS: u32 = 20_000;
    const WRONG: u32 = 15_000;
    // A long value is copied by itself.
    for (background, len) in [(false, 100), (true, 100), (false, 40_000)] {
        let storage = Fickle { bytes: Arc::new(MemoryStorage::new()), wrong: Arc::new(AtomicU64::new(u64::MAX)) };
        let builder = Db::builder().segment_size(1024 * 1024).entropy([7; 32]).background(background);
        let db = builder.open_storage(Box::new(storage.clone())).unwrap();
        let value = |number: u32| vec![number as u8 ^ 0x5a; if number == WRONG { len } else { 100 }];
        for number in 0..RECORDS {
            db.insert(number.to_be_bytes(), value(number)).unwrap();
        }
        for number in (0..RECORDS).filter(|number| number % 2 == 1) {
            db.insert(number.to_be_bytes(), value(number)).unwrap();
        }
        db.flush().unwrap();
        let bytes = storage.bytes.to_vec();
        let record = [WRONG.to_be_bytes().as_slice(), &value(WRONG)].concat();
        let at = bytes.windows(record.len()).position(|window| window == record).unwrap();
        storage.wrong.store((at + 50) as u64, Ordering::Relaxed);
        let report = db.compact();
        storage.wrong.store(u64::MAX, Ordering::Relaxed);
        // Either the copy fails its check, or nothing is copied and the original stays.
        match (report, db.get(WRONG.to_be_bytes())) {
            (Ok(report), Err(Error::Corrupt { .. })) => assert!(report.records_copied >= u64::from(RECORDS) / 2, "{report:?}"),
            (Err(Error::Corrupt { .. }), Ok(Some(found))) => assert!(found == value(WRONG), "a changed value"),
            (report, found) => panic!("{report:?}, and then {:?}", found.map(|found| found == Some(value(WRONG)))),
        }
        let next = WRONG + 1;
        assert_eq!(db.get(next.to_be_bytes()).unwrap(), Some(value(next)));
    }
}

/// The step of a compaction that moves segments to the front, behind the last word of its progress, may copy most of the store.
#[test]
fn checkpoints_go_on_while_a_compaction_moves_segments_to_the_front() {
    let medium = FaultStorage::new(MemoryStorage::new());
    let builder = Db::builder().segment_size(65536).replay_debt_max(65536).auto_compact_dead_share(2.0);
    let db = builder.open_storage(Box::new(medium.clone())).unwrap();
    db.insert_many((0..6000_u32).map(|number| (number.to_be_bytes(), [1; 1000]))).unwrap();
    db.remove_many((0..6000_u32).step_by(3).map(u32::to_be_bytes)).unwrap();
    db.flush().unwrap();
    let mut before = medium.counts();
    db.compact_with(|_| before = medium.counts()).unwrap();
    let (syncs, written) = (medium.counts().syncs - before.syncs, medium.counts().bytes_written - before.bytes_written);
    // Two for a checkpoint; without those between it is eight.
    assert!(written > 8 * 65536 && syncs >= 2 * written / 65536 - 8, "{syncs} syncs for {written} bytes");
    assert!(db.verify().unwrap().is_ok());
}
