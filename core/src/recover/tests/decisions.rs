//! The decisions R1 to R17, except those about damaged lists.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests fail by panicking")]

use super::*;
use crate::SnapshotState;
use alloc::vec;

/// A store with `a` = `1` flushed, then `b` = `2`, then a commit of `c` and `d`; not closed.
fn killed() -> Vec<u8> {
    let (db, storage) = open(&[]).unwrap();
    db.insert("a", "1").unwrap();
    db.flush().unwrap();
    db.insert("b", "2").unwrap();
    db.insert_many([("c", "3"), ("d", "4")]).unwrap();
    let bytes = storage.to_vec();
    drop(db);
    bytes
}

fn closed() -> Vec<u8> {
    let (db, storage) = open(&killed()).unwrap();
    db.insert("e", "5").unwrap();
    db.close().unwrap();
    storage.to_vec()
}

#[test]
fn r1_a_creation_that_was_cut_short_is_a_new_store() {
    let (_db, storage) = open(&[]).unwrap();
    let whole = storage.to_vec();
    for len in [0, 3, 100, 511, 512] {
        let mut bytes = vec![0; 16_384];
        bytes[..len].copy_from_slice(&whole[..len]);
        let (db, _) = open(&bytes).unwrap();
        assert_eq!(db.open_report().created, len < 512, "{len} bytes");
        db.insert("k", "v").unwrap();
    }
}

#[test]
fn r2_a_foreign_file_is_refused_and_stays_as_it_is() {
    for bytes in [b"hello".to_vec(), vec![1; 20_000], vec![0; 16_385]] {
        let storage = MemoryStorage::from_vec(bytes.clone());
        let error = Db::builder().open_storage(Box::new(storage.clone())).unwrap_err();
        assert!(matches!(error, Error::NotAStore { .. }), "{error}");
        assert_eq!(storage.to_vec(), bytes);
    }
}

#[test]
fn r3_and_r4_one_superblock_serves_and_none_is_an_error() {
    let mut bytes = closed();
    bytes[40] ^= 1;
    let (db, storage) = open(&bytes).unwrap();
    assert!(db.open_report().damaged_superblock);
    for slot in [0, SECOND_SUPERBLOCK] {
        let mut damaged = closed();
        damaged[slot + 40] ^= 1;
        let (_db, storage) = open(&damaged).unwrap();
        assert!(!open(&storage.to_vec()).unwrap().0.open_report().clean, "what the lost one said is not known");
    }
    assert_eq!(db.len().unwrap(), 5);
    db.insert("f", "6").unwrap();
    db.close().unwrap();
    assert!(!open(&storage.to_vec()).unwrap().0.open_report().damaged_superblock);
    bytes[SECOND_SUPERBLOCK + 40] ^= 1;
    assert_eq!(corrupt_at(&bytes), 0);
}

#[test]
fn r5_a_newer_version_is_refused() {
    let mut bytes = closed();
    change_superblocks(&mut bytes, |superblock| superblock[8] = 2);
    assert!(matches!(open(&bytes), Err(Error::NewerVersion { found: 2, supported: 1 })));
}

#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
#[test]
fn r7_a_damaged_snapshot_costs_nothing() {
    let (db, storage) = open(&killed()).unwrap();
    db.checkpoint().unwrap();
    db.insert("e", "5").unwrap();
    db.close().unwrap();
    let bytes = storage.to_vec();
    assert_eq!(open(&bytes).unwrap().0.open_report().snapshot, SnapshotState::Loaded);
    let snapshot = word(&bytes, SECOND_SUPERBLOCK + 96) as usize;
    // In the directory, and in the part before it.
    for at in [snapshot + 20, snapshot - 4] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 4;
        let (db, _) = open(&damaged).unwrap();
        assert_eq!(db.open_report().snapshot, SnapshotState::Damaged);
        assert_eq!(db.len().unwrap(), 5);
        db.checkpoint().unwrap();
        assert!(db.verify().unwrap().is_ok());
    }
}

/// A dead record had rotted before the checkpoint, in the segment that took appends when the process was killed. The store opened, and
/// every write to it was refused: what an unclean end leaves is written again, and that verified the whole segment.
#[test]
fn damage_in_front_of_the_checkpoint_does_not_refuse_the_first_write_behind_an_unclean_end() {
    let (db, storage) = open(&[]).unwrap();
    db.insert("dead", "1").unwrap();
    db.insert("dead", "2").unwrap();
    db.checkpoint().unwrap();
    db.insert("b", "3").unwrap();
    let mut bytes = storage.to_vec();
    drop(db);
    let at = find(&bytes, b"dead1");
    bytes[at] ^= 1;
    let (db, _) = open(&bytes).unwrap();
    db.insert("c", "4").unwrap();
    db.flush().unwrap();
    assert_eq!(db.len().unwrap(), 3);
}

#[test]
fn r10_a_torn_tail_is_dropped_and_reported() {
    let mut bytes = killed();
    let at = find(&bytes, b"b2");
    bytes[at + 1] ^= 1;
    let (db, storage) = open(&bytes).unwrap();
    assert_eq!(keys(&db), [b"a"]);
    assert!(db.open_report().torn_bytes > 0);
    assert_eq!(db.open_report().torn_at, Some(at as u64 - 7));
    db.insert("new", "x").unwrap();
    drop(db);
    let (db, _) = open(&storage.to_vec()).unwrap();
    assert!(db.open_report().clean);
    assert_eq!(keys(&db), [&b"a"[..], b"new"]);
}

/// Behind a torn tail may be whole commits. A session that writes nothing but closes the store leaves them there, and the next one must not
/// go on in front of them: a record as long as the torn one would have them back.
#[test]
fn what_is_behind_a_torn_tail_does_not_come_back_after_a_close_without_a_write() {
    let mut bytes = killed();
    let at = find(&bytes, b"b2");
    bytes[at + 1] ^= 1;
    let (db, storage) = open(&bytes).unwrap();
    db.close().unwrap();
    let (db, storage) = open(&storage.to_vec()).unwrap();
    assert!(db.open_report().clean);
    db.insert("n", "1").unwrap();
    let written = storage.to_vec();
    assert_eq!(keys(&open(&written).unwrap().0), [b"a", b"n"]);
    assert_eq!(written[at..at + 2], bytes[at..at + 2], "no torn record is written over");
}

#[test]
fn r11_damage_in_front_of_a_sync_mark_is_an_error() {
    let mut bytes = killed();
    bytes[FIRST + 8] ^= 1;
    assert_eq!(corrupt_at(&bytes), FIRST as u64);
}

#[test]
fn r12_a_commit_without_its_end_does_not_count() {
    let mut bytes = killed();
    let at = find(&bytes, b"d4");
    bytes[at] ^= 1;
    assert_eq!(keys(&open(&bytes).unwrap().0), [b"a", b"b"]);
}

#[test]
fn r13_and_r14_a_closed_store_goes_on_where_it_stood_and_a_killed_one_in_a_fresh_segment() {
    let (db, _) = open(&closed()).unwrap();
    assert!(db.open_report().clean);
    let before = db.stats().unwrap().segments;
    db.insert("f", "6").unwrap();
    assert_eq!(db.stats().unwrap().segments, before);
    let (db, _) = open(&killed()).unwrap();
    assert!(!db.open_report().clean);
    let before = db.stats().unwrap().segments;
    db.insert("f", "6").unwrap();
    assert_eq!(db.stats().unwrap().segments, before + 1);
}

#[test]
fn r15_what_a_retired_segment_held_does_not_come_back() {
    let (db, storage) = open(&[]).unwrap();
    for round in 0..30u8 {
        for key in 0..20u8 {
            db.insert([key], [round; 100]).unwrap();
        }
    }
    for key in 0..10u8 {
        db.remove([key]).unwrap();
    }
    db.checkpoint().unwrap();
    while db.compact_step().unwrap().is_some() {}
    assert_eq!(db.len().unwrap(), 10);
    let (copy, _) = open(&storage.to_vec()).unwrap();
    assert_eq!(keys(&copy), (10..20u8).map(|key| vec![key]).collect::<Vec<_>>());
}

#[test]
fn r16_a_closed_store_that_was_cut_is_an_error() {
    let bytes = closed();
    assert!(matches!(open(&bytes[..bytes.len() - 1]), Err(Error::Corrupt { .. })));
    assert!(matches!(open(&bytes[..FIRST]), Err(Error::Corrupt { .. })));
}

#[test]
fn r17_a_header_torn_by_a_crash_serves_and_is_made_whole() {
    let (db, storage) = open(&[]).unwrap();
    db.insert("a", "1").unwrap();
    let mut bytes = storage.to_vec();
    drop(db);
    bytes[FIRST - 64..FIRST].fill(0);
    let (db, storage) = open(&bytes).unwrap();
    assert_eq!(db.get("a").unwrap().unwrap(), b"1");
    assert!(db.verify().unwrap().is_ok());
    db.insert("b", "2").unwrap();
    assert_eq!(storage.to_vec()[FIRST - 128..FIRST], {
        let (whole, other) = open(&[]).unwrap();
        whole.insert("a", "1").unwrap();
        other.to_vec()[FIRST - 128..FIRST].to_vec()
    });
    db.flush().unwrap();
    // It was synced, so no crash can have lost it.
    let mut bytes = storage.to_vec();
    drop(db);
    bytes[FIRST - 64..FIRST].fill(0);
    let (db, _) = open(&bytes).unwrap();
    assert!(!db.verify().unwrap().is_ok());
}

#[test]
fn a_store_cut_in_its_superblocks_is_refused_and_stays_as_it_is() {
    // One superblock is damaged, the other names a checkpoint that the file does not hold any more.
    let (db, storage) = open(&[]).unwrap();
    db.insert("a", "1").unwrap();
    db.checkpoint().unwrap();
    db.close().unwrap();
    let mut bytes = storage.to_vec();
    bytes.truncate(12_000);
    bytes[100] ^= 1;
    let storage = MemoryStorage::from_vec(bytes.clone());
    let refused = Db::builder().entropy([7; 32]).open_storage(Box::new(storage.clone()));
    assert!(matches!(refused, Err(Error::Corrupt { .. })));
    assert_eq!(storage.to_vec(), bytes);
}

/// Both copies of the newest segment's header were damaged, in one block of the medium, and the only mark of a sync is in that segment: the
/// log ended in front of it, and what a flush had acknowledged was gone without a word.
#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
#[test]
fn a_lost_header_behind_a_flush_is_damage_where_the_trailer_before_names_its_segment() {
    let mut seen = 0;
    for (checkpoint, more) in [(false, 0), (true, 0), (false, 40), (true, 40)] {
        let (db, storage) = open(&[]).unwrap();
        for key in 0..20_u8 {
            db.insert([key], [key; 200]).unwrap();
        }
        if checkpoint {
            db.checkpoint().unwrap();
        }
        for key in 20..60_u8 + more {
            db.insert([key], [key; 200]).unwrap();
        }
        db.flush().unwrap();
        let (bytes, count) = (storage.to_vec(), db.len().unwrap());
        drop(db);
        let pair = match crate::log::read_superblocks(&MemoryStorage::from_vec(bytes.clone())) {
            Ok(crate::log::Front::Store(pair)) => pair,
            other => panic!("{other:?}"),
        };
        let geometry = pair.current.geometry();
        let chain = crate::recover::Chain::follow(&MemoryStorage::from_vec(bytes.clone()), &pair).unwrap();
        // Of the last segment, of the one before it, and of both.
        let starts: Vec<usize> = chain.tail.iter().rev().map(|segment| geometry.start(segment.extent) as usize).collect();
        for lost in [&starts[..1], &starts[1..2], &starts[..2]] {
            let mut damaged = bytes.clone();
            lost.iter().for_each(|&start| damaged[start..start + 704].fill(0xee));
            let first = *lost.iter().min().unwrap();
            let Err(error) = open(&damaged) else { panic!("{lost:?} of {starts:?}, checkpoint {checkpoint}: it opens") };
            assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            let file = MemoryStorage::from_vec(damaged.clone());
            let report = crate::verify_storage(&file).unwrap();
            assert!(report.damage.iter().any(|damage| damage.offset.abs_diff(first as u64) <= 704), "{first}: {report:?}");
            // Nothing but the headers is lost.
            let target = Db::open_in_memory().unwrap();
            crate::salvage(&file, &target, &mut |_, _| ()).unwrap();
            assert_eq!(target.len().unwrap(), count, "{lost:?} of {starts:?}, checkpoint {checkpoint}");
            assert_eq!(target.get([20]).unwrap().unwrap(), [20; 200]);
            seen += 1;
        }
        // What no flush has covered is a torn tail, as ever.
        let (db, storage) = open(&bytes).unwrap();
        let flushed = db.len().unwrap();
        db.insert("torn", [1; 3000]).unwrap();
        let mut damaged = storage.to_vec();
        let at = find(&damaged, b"torn");
        let start = geometry.start(geometry.extent_of(at as u64)) as usize;
        damaged[start..start + 704].fill(0xee);
        let (db, _) = open(&damaged).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(db.len().unwrap(), flushed);
        assert!(!db.open_report().clean);
    }
    assert_eq!(seen, 12);
}

/// A store whose first segment a crash has torn opened empty, and nothing said that there had been anything.
#[cfg_attr(miri, ignore = "minutes of checksums, and no code that the others do not go through")]
#[test]
fn what_is_behind_a_torn_first_header_is_reported() {
    let (db, storage) = open(&[]).unwrap();
    db.insert("a", "1").unwrap();
    let mut bytes = storage.to_vec();
    drop(db);
    bytes[16_384..17_088].fill(0);
    let (db, _) = open(&bytes).unwrap();
    let report = db.open_report();
    assert_eq!((db.len().unwrap(), report.torn_at), (0, Some(16_384)));
    assert!(report.torn_bytes > 700, "{report:?}");
}
