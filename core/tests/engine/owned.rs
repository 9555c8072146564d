//! Values that are kept: they stay what they were, hold their own segment and nothing else, and are seen in the figures.
#![cfg(feature = "native")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use pipkin::{Db, OwnedValue};
use std::sync::mpsc;
use std::thread;

const SEGMENT: u32 = 64 * 1024;
const KEYS: u32 = 200;

fn open(path: &std::path::Path) -> Db {
    Db::builder().path(path).segment_size(SEGMENT).background(false).open().unwrap()
}

fn fill(db: &Db, round: u32) {
    for number in 0..KEYS {
        db.insert(number.to_be_bytes(), [round as u8; 1000]).unwrap();
    }
    db.flush().unwrap();
}

/// Whatever is kept stays as it was, through rounds that overwrite and compact everything; without the hold the segment was reused, and the
/// bytes became those of another record.
#[test]
fn a_kept_value_never_changes_and_holds_only_its_own_segment() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("a.pipkin"));
    fill(&db, 1);
    let kept = db.get_zerocopy_owned(7_u32.to_be_bytes()).unwrap().unwrap();
    assert_eq!((db.stats().unwrap().owned_values, db.stats().unwrap().held_bytes), (1, 0));
    let mut file_max = 0;
    for round in 2..40 {
        fill(&db, round);
        db.compact().unwrap();
        assert!(kept == [1; 1000], "round {round}: the value has changed");
        let stats = db.stats().unwrap();
        assert_eq!(stats.owned_values, 1, "round {round}");
        assert!((1..=u64::from(SEGMENT)).contains(&stats.held_bytes), "round {round}: {} bytes wait", stats.held_bytes);
        file_max = file_max.max(stats.file_bytes);
    }
    assert!(file_max < 20 * u64::from(SEGMENT), "the other segments are reused as ever, and the file took {file_max} bytes");
    drop(kept);
    db.compact().unwrap();
    assert_eq!((db.stats().unwrap().owned_values, db.stats().unwrap().held_bytes), (0, 0));
    assert!(db.verify().unwrap().is_ok());
}

/// It goes to another thread, and is dropped there after every other handle: the store closes there.
#[test]
fn a_value_outlives_the_handles_in_another_thread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let db = open(&path);
    fill(&db, 9);
    let (to, from) = mpsc::channel::<OwnedValue>();
    let (closed, is_closed) = mpsc::channel::<()>();
    let reader = thread::spawn(move || {
        let values: Vec<OwnedValue> = from.into_iter().collect();
        is_closed.recv().unwrap();
        assert!(values.iter().all(|value| *value == [9; 1000]));
        values.len()
    });
    for number in 0..KEYS {
        to.send(db.get_zerocopy_owned(number.to_be_bytes()).unwrap().unwrap()).unwrap();
    }
    drop(to);
    drop(db);
    assert!(matches!(Db::open(&path), Err(pipkin::Error::Locked { .. })), "the values keep the store open");
    closed.send(()).unwrap();
    assert_eq!(reader.join().unwrap(), KEYS as usize);
    assert_eq!(open(&path).len().unwrap(), u64::from(KEYS));
}

/// Closing cuts the file behind what counts: never below a value that is kept.
#[test]
fn a_value_survives_the_close_and_the_emptying_of_its_store() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let db = open(&path);
    fill(&db, 5);
    let last = db.get_zerocopy_owned((KEYS - 1).to_be_bytes()).unwrap().unwrap();
    db.clear().unwrap();
    db.compact().unwrap();
    assert!(last == [5; 1000]);
    db.close().unwrap();
    assert!(last == [5; 1000]);
    assert_eq!(last.into_vec(), [5; 1000]);
    let db = open(&path);
    assert!(db.is_empty().unwrap() && db.verify().unwrap().is_ok());
}

#[test]
fn a_value_of_a_store_in_memory_or_of_a_missing_key_holds_nothing() {
    let db = Db::open_in_memory().unwrap();
    db.insert("key", "value").unwrap();
    let value = db.get_zerocopy_owned("key").unwrap().unwrap();
    assert!(db.get_zerocopy_owned("other").unwrap().is_none());
    db.clear().unwrap();
    assert_eq!(db.stats().unwrap().held_bytes, 0);
    assert!(value == "value");
}

/// Many threads take, keep and drop values while others overwrite and compact: no value is ever torn, and in the end nothing is held.
#[test]
fn values_kept_by_many_threads_stay_whole_under_compaction() {
    let folder = tempfile::tempdir().unwrap();
    let db = open(&folder.path().join("a.pipkin"));
    fill(&db, 1);
    let kept = thread::scope(|scope| {
        let readers: Vec<_> = (0..3_u32)
            .map(|reader| {
                let db = &db;
                scope.spawn(move || {
                    let (mut kept, mut seen) = (Vec::new(), 0_u64);
                    for step in 0..3000_u32 {
                        let key = (step.wrapping_mul(reader * 2 + 7) % KEYS).to_be_bytes();
                        let value = db.get_zerocopy_owned(key).unwrap().unwrap();
                        kept.push((*value.first().unwrap(), value));
                        if kept.len() == 50 {
                            assert!(kept.iter().all(|(first, value)| *value == [*first; 1000]));
                            seen += kept.drain(..).count() as u64;
                        }
                    }
                    seen + kept.len() as u64
                })
            })
            .collect();
        for round in 2..30 {
            fill(&db, round);
            db.compact().unwrap();
        }
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>()
    });
    assert_eq!(kept, 9000);
    db.compact().unwrap();
    assert_eq!((db.stats().unwrap().owned_values, db.stats().unwrap().held_bytes), (0, 0));
}
