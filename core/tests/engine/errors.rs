//! What errors say, and what they keep of their causes.
#![cfg(all(feature = "native", feature = "testing"))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::opened;
use pipkin::storage::MemoryStorage;
use pipkin::storage::fault::{Effect, Fault, FaultStorage, Io};
use pipkin::{Db, Error, StorageErrorKind};
#[cfg(unix)]
use std::error::Error as _;

/// Everything that whoever prints an error and its sources prints.
#[cfg(unix)]
fn chain(error: &Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        words = format!("{words}: {source}");
        next = source.source();
    }
    words
}

/// The host's error was kept as words only, no file was named, and a printed chain had the words twice.
#[cfg(unix)] // Windows says of such a path that it is missing.
#[test]
fn an_error_of_the_file_system_names_the_file_and_keeps_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a file").join("a.pipkin");
    std::fs::write(folder.path().join("a file"), "in the way").unwrap();
    let error = Db::open(&path).unwrap_err();
    let Error::Storage(failed) = &error else { panic!("{error:?}") };
    assert_eq!(failed.path(), Some(&*path.display().to_string()));
    let cause = error.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
    assert_eq!(cause.kind(), std::io::ErrorKind::NotADirectory);
    for words in [chain(&error), format!("{error:#}")] {
        assert_eq!(words.matches(&cause.to_string()).count(), 1, "{words}");
        assert_eq!(words.matches(&*path.display().to_string()).count(), 1, "{words}");
    }
}

/// The error named the process, and whoever read it looked for another one.
#[test]
fn a_store_that_is_open_in_this_process_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let _open = Db::open(&path).unwrap();
    let error = Db::open(&path).unwrap_err();
    assert!(matches!(&error, Error::Locked { holder: Some(pid), .. } if *pid == std::process::id()), "{error:?}");
    assert!(error.to_string().contains("which is this one"), "{error}");
}

/// Space that ran out in the middle of a write or a sync closed the store to writes, and the error said that everything acknowledged
/// was safe and that one should try again.
#[test]
fn space_that_runs_out_half_way_is_not_called_safe() {
    for on in [Io::Write, Io::Sync] {
        let storage = FaultStorage::new(MemoryStorage::new());
        let db = opened(storage.clone(), 4096);
        db.insert("first", "value").unwrap();
        db.flush().unwrap();
        storage.arm(Fault::nth(1, on, Effect::Error(StorageErrorKind::NoSpace)));
        let failed = db.insert("second", "value").and_then(|()| db.flush()).unwrap_err();
        assert!(matches!(&failed, Error::Storage(error) if error.kind == StorageErrorKind::NoSpace), "{failed:?}");
        assert!(db.is_poisoned());
        let later = db.insert("third", "value").unwrap_err();
        for error in [&failed, &later] {
            let words = error.to_string();
            assert!(!words.contains("untouched") && !words.contains("try again") && words.contains("open"), "{words}");
            assert!(words.contains("no space left"), "{words}");
        }
    }
    // Where nothing was written, the store goes on.
    let storage = FaultStorage::new(MemoryStorage::new());
    let db = opened(storage.clone(), 4096);
    db.insert("first", "value").unwrap();
    storage.set_capacity(Some(pipkin::Storage::len(&storage).unwrap()));
    let full = (0..100_u8).find_map(|key| db.insert([key], [0; 500]).err()).unwrap();
    assert!(matches!(full, Error::NoSpace), "{full:?}");
    assert!(full.to_string().contains("nothing was written"), "{full}");
    assert!(db.remove("first").unwrap());
}
