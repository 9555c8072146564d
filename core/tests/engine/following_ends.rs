//! Followers of sessions that end in the middle of a write: what the next session makes of the file.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use pipkin::storage::{Durability, MemoryStorage, Storage, StorageError};
use pipkin::{Builder, Db, Error};
use std::sync::{Arc, Mutex};

/// So many parts of writes before the end of a session its follower is opened.
const BEFORE: usize = 12;

/// A file, and what it was after each part of each write.
#[derive(Clone, Default)]
struct Kept {
    file: MemoryStorage,
    images: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Kept {
    fn keep(&self) {
        self.images.lock().unwrap().push(self.file.to_vec());
    }
}

impl Storage for Kept {
    fn len(&self) -> Result<u64, StorageError> {
        self.file.len()
    }

    fn set_len(&self, len: u64) -> Result<(), StorageError> {
        self.file.set_len(len)?;
        self.keep();
        Ok(())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        self.file.read_at(offset, out)
    }

    fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), StorageError> {
        let bytes = parts.concat();
        let (front, back) = bytes.split_at(bytes.len() / 2);
        self.file.write_at(offset, &[front])?;
        self.keep();
        self.file.write_at(offset + front.len() as u64, &[back])?;
        self.keep();
        Ok(())
    }

    fn sync(&self) -> Result<Durability, StorageError> {
        self.file.sync()
    }
}

fn builder() -> Builder {
    Db::builder().segment_size(64 * 1024).background(false)
}

fn writer(file: &MemoryStorage) -> Db {
    builder().open_storage(Box::new(file.clone())).unwrap()
}

fn follower(file: &MemoryStorage) -> pipkin::Result<Db> {
    builder().follow(true).open_storage(Box::new(file.clone()))
}

fn sorted(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all: Vec<_> =
        db.iter().map(|record| record.map(|(key, value)| (key.to_vec(), value.clone()))).map(Result::unwrap).collect();
    all.sort();
    all
}

fn file_of(image: &[u8]) -> MemoryStorage {
    let file = MemoryStorage::new();
    file.write_at(0, &[image]).unwrap();
    file
}

/// A session ends after each part of each of its writes, under the eyes of a follower. What it had begun is given up, and the segments of the next session
/// lie in parts of that space: what was there is taken out of the index once, before anything new is there.
#[test]
fn wherever_a_session_ends_a_follower_goes_on_with_the_next_one() {
    let kept = Kept::default();
    let db = builder().open_storage(Box::new(kept.clone())).unwrap();
    for round in 0..4_u32 {
        for key in 0..40_u32 {
            db.insert(key.to_be_bytes(), vec![round as u8; 700]).unwrap();
        }
        db.insert("long", vec![round as u8; 100_000]).unwrap();
        if round == 2 {
            db.compact().unwrap();
        }
    }
    std::mem::forget(db);
    let images = kept.images.lock().unwrap();
    let mut followed = 0;
    for (number, image) in images.iter().enumerate() {
        // It was there before, and has read on to where the session ends.
        let file = file_of(images.get(number.saturating_sub(BEFORE)).unwrap());
        let Ok(reader) = follower(&file) else { continue };
        file.write_at(0, &[image]).unwrap();
        reader.refresh().unwrap();
        let before = reader.len().unwrap();
        let db = writer(&file);
        for key in 0..40_u32 {
            db.insert(key.to_be_bytes(), vec![9; 5000]).unwrap();
        }
        reader.refresh().unwrap();
        assert_eq!(sorted(&reader), sorted(&db), "image {number} of {}, with {before} records", images.len());
        assert_eq!(reader.len().unwrap(), db.len().unwrap());
        followed += 1;
    }
    assert!(followed > 200, "{followed} of {}", images.len());
}

/// A power cut takes what was not flushed; the follower has shown it, and the next session goes on in front of it.
#[test]
fn a_log_that_has_lost_what_a_follower_has_shown_is_not_followed_any_more() {
    let file = MemoryStorage::new();
    let db = writer(&file);
    db.insert("flushed", "1").unwrap();
    db.flush().unwrap();
    let durable = file.to_vec();
    db.insert("lost", "2").unwrap();
    let reader = follower(&file).unwrap();
    assert_eq!(reader.get("lost").unwrap().as_deref(), Some(&b"2"[..]));
    let position = reader.position().unwrap();
    std::mem::forget(db);
    file.write_at(0, &[&durable]).unwrap();
    file.set_len(durable.len() as u64).unwrap();
    let db = writer(&file);
    for key in 0..10_u32 {
        db.insert(key.to_be_bytes(), "3").unwrap();
        let answer = reader.refresh();
        assert!(matches!(answer, Err(Error::Diverged)), "{answer:?}");
    }
    assert_eq!(reader.position().unwrap(), position);
    assert_eq!(reader.get("flushed").unwrap().as_deref(), Some(&b"1"[..]));
    let anew = follower(&file).unwrap();
    assert_eq!((anew.len().unwrap(), anew.get("lost").unwrap()), (11, None));
}

/// An earlier copy lies in the place of the file: the segment is the same, and ends in front of what the follower has shown.
#[test]
fn a_file_that_ends_in_front_of_what_a_follower_has_shown_is_not_followed_any_more() {
    let file = MemoryStorage::new();
    Db::builder().open_storage(Box::new(file.clone())).unwrap().insert("a", "1").unwrap();
    let earlier = file.to_vec();
    let db = Db::builder().open_storage(Box::new(file.clone())).unwrap();
    (0..100_u32).for_each(|key| db.insert(key.to_be_bytes(), vec![0; 100]).map(drop).unwrap());
    let reader = follower(&file).unwrap();
    db.close().unwrap();
    file.set_len(0).unwrap();
    file.write_at(0, &[&earlier]).unwrap();
    for _ in 0..3 {
        let answer = reader.refresh();
        assert!(matches!(answer, Err(Error::Diverged)), "{answer:?}");
    }
    assert_eq!(reader.len().unwrap(), 101);
}

/// What it shows ends where the writer has written something else since.
#[test]
fn the_state_of_a_follower_that_is_far_behind_comes_without_a_refresh() {
    let file = MemoryStorage::new();
    let small = || Db::builder().segment_size(4096).background(false).auto_compact_dead_share(2.0);
    let db = small().open_storage(Box::new(file.clone())).unwrap();
    let mut behind = 0;
    for round in 0..30_u32 {
        let reader = small().follow(true).open_storage(Box::new(file.clone())).unwrap();
        let before = reader.snapshot();
        for turn in 0..=round {
            (0..20_u32).for_each(|key| db.insert(key.to_be_bytes(), [turn as u8; 150]).unwrap());
            db.compact().unwrap();
        }
        db.insert("round", round.to_be_bytes()).unwrap();
        db.flush().unwrap();
        behind += u32::from(before.iter().any(|record| matches!(record, Err(Error::SnapshotTooOld))));
        let (state, mut changes) = reader.changes().with_state().unwrap();
        let shown = state.get("round").unwrap().map(|round| u32::from_be_bytes(round.try_into().unwrap()));
        assert_eq!((shown, state.len().unwrap()), (Some(round), 21));
        assert!(changes.try_next().unwrap().is_none());
        db.insert("next", round.to_be_bytes()).unwrap();
        db.flush().unwrap();
        assert_eq!(changes.drain().unwrap().len(), 1, "round {round}");
        db.remove("next").unwrap();
    }
    assert!(behind > 10, "only {behind} times was what is shown gone");
}
