//! What a rotation of the key waits for: consumers of changes, damaged records, room. And who reads a plain store while it is sealed.
#![cfg(all(feature = "encrypt", feature = "testing", feature = "salvage"))]
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use crate::common::killed;
use crate::sealed_bytes::{bytes, frames, headers};
use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::FaultStorage;
use pipkin::{Db, Error, Storage};
use std::sync::Arc;

const OLD: [u8; 32] = [7; 32];
const NEW: [u8; 32] = [8; 32];
const EXTENT: usize = 4096;

fn open(file: impl Storage + 'static, key: [u8; 32]) -> pipkin::Result<Db> {
    Db::builder().encryption_key(key).segment_size(EXTENT as u32).background(false).open_storage(Box::new(file))
}

/// Each key has the value of the last round.
fn fill(db: &Db, rounds: u8) {
    for round in 0..rounds {
        (0..20_u8).for_each(|key| db.insert([key], vec![round; 200]).unwrap());
    }
    db.flush().unwrap();
}

fn shows(db: &Db, round: u8) {
    for key in 0..20_u8 {
        assert_eq!(db.get([key]).unwrap().as_deref(), Some(&vec![round; 200][..]), "{key}");
    }
}

#[test]
fn a_rotation_waits_for_a_consumer_of_changes_and_finishes_behind_it() {
    let file = MemoryStorage::new();
    let db = open(file.clone(), OLD).unwrap();
    drop(db.consumer("mirror").start().unwrap());
    fill(&db, 4);
    let report = db.rotate_encryption_key(NEW).unwrap();
    assert!(!report.is_finished && report.segments_left > 0 && report.history_bytes > 0, "{report:?}");
    shows(&db, 3);
    assert!(matches!(db.rotate_encryption_key([9; 32]), Err(Error::InvalidArgument(_))));
    fill(&db, 5);
    killed(db);
    // Another session, behind an unclean end: the old segments are read under the old key, to which only the new one leads.
    assert!(matches!(open(file.clone(), OLD).map(drop), Err(Error::WrongKey)));
    let db = open(file.clone(), NEW).unwrap();
    assert!(db.open_report().key_rotation_pending);
    shows(&db, 4);
    assert!(!db.finish_key_rotation(|_| {}).unwrap().is_finished);
    let mut consumer = db.consumer("mirror").start().unwrap();
    let mut heard = Vec::new();
    while let Some(commit) = consumer.try_next().unwrap() {
        heard.push(commit);
    }
    assert_eq!(heard.len(), 9 * 20);
    consumer.ack(heard.last().unwrap().position()).unwrap();
    drop(consumer);
    let report = db.finish_key_rotation(|_| {}).unwrap();
    assert!(report.is_finished, "{report:?}");
    shows(&db, 4);
    db.close().unwrap();
    shows(&open(file, NEW).unwrap(), 4);
}

#[test]
fn a_rotation_leaves_a_segment_with_a_damaged_record_and_loses_nothing_else() {
    let file = MemoryStorage::new();
    let db = open(file.clone(), OLD).unwrap();
    fill(&db, 3);
    db.close().unwrap();
    let whole = bytes(&file);
    let (start, ..) = headers(&whole, EXTENT).into_iter().max().unwrap();
    let (at, len) = frames(&whole, start).1.into_iter().rfind(|(_, len)| *len > 200).unwrap();
    let db = open(file.clone(), OLD).unwrap();
    file.write_at((at + len / 2) as u64, &[&[whole[at + len / 2] ^ 1]]).unwrap();
    let report = db.rotate_encryption_key(NEW).unwrap();
    assert!(!report.is_finished && report.segments_left > 0, "{report:?}");
    let readable = |db: &Db| (0..20_u8).filter(|key| db.get([*key]).is_ok_and(|value| value.is_some())).count();
    assert_eq!(readable(&db), 19);
    db.insert("behind", "it").unwrap();
    db.close().unwrap();
    let db = open(file, NEW).unwrap();
    assert!(db.key_rotation_pending());
    assert_eq!(readable(&db), 19);
    assert_eq!(db.get("behind").unwrap().as_deref(), Some(&b"it"[..]));
}

#[test]
fn a_rotation_on_a_full_medium_is_told_so_and_goes_on_once_there_is_room() {
    for spare in (0..40).map(|spare| spare * 2048) {
        let file = Arc::new(FaultStorage::new(MemoryStorage::new()));
        let db = open(file.clone(), OLD).unwrap();
        fill(&db, 2);
        let len = file.len().unwrap();
        file.set_capacity(Some(len + spare));
        let rotated = db.rotate_encryption_key(NEW);
        assert!(matches!(rotated, Ok(_) | Err(Error::NoSpace)), "{spare}: {rotated:?}");
        shows(&db, 1);
        let begun = db.key_rotation_pending();
        file.set_capacity(None);
        let finished = if begun || rotated.is_ok() { db.finish_key_rotation(|_| {}) } else { db.rotate_encryption_key(NEW) };
        assert!(finished.is_ok_and(|report| report.is_finished), "{spare}");
        shows(&db, 1);
        fill(&db, 3);
        db.close().unwrap();
        shows(&open(file, NEW).unwrap(), 2);
    }
}

#[cfg(all(unix, feature = "native"))]
#[test]
fn who_follows_a_plain_store_while_it_is_sealed_reads_what_was_there_or_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.pipkin");
    let builder = || Db::builder().path(&path).background(false);
    let db = builder().open().unwrap();
    fill(&db, 1);
    db.close().unwrap();
    let follower = builder().follow(true).open().unwrap();
    shows(&follower, 0);
    builder().encryption_key(OLD).enable_encryption().unwrap().close().unwrap();
    for _ in 0..2 {
        for key in 0..20_u8 {
            match follower.get([key]) {
                Ok(value) => assert_eq!(value.as_deref(), Some(&[0; 200][..])),
                // It says that the file was replaced, and to open the store again.
                Err(Error::Corrupt { .. } | Error::Storage(_)) => {}
                Err(error) => panic!("{error:?}"),
            }
        }
        let _ = follower.refresh();
    }
}
