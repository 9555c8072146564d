//! Handles: what printing one costs, and how long one holds its file.
#![cfg(feature = "native")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use pipkin::{Db, Error, FlushPolicy};
use std::sync::mpsc;
use std::time::Duration;

/// Printing a handle counted its records, which takes the lock of every shard: in the closure of `update` it waited for ever.
#[test]
fn a_handle_can_be_printed_wherever_it_can_be_reached() {
    let (done, printed) = mpsc::channel();
    // In a thread of its own, so that waiting for ever is a failure.
    std::thread::spawn(move || {
        let db = Db::open_in_memory().unwrap();
        let users = db.namespace("users").unwrap();
        // What a shard without records answers takes no lock.
        db.insert("key", "old").unwrap();
        users.insert("key", "old").unwrap();
        let mut words = Vec::new();
        let mut print = || words.push((format!("{db:?}"), format!("{users:?}")));
        db.update("key", |_| {
            print();
            Some(b"value".to_vec())
        })
        .unwrap();
        users
            .update("key", |_| {
                print();
                None
            })
            .unwrap();
        db.transaction(|tx| {
            tx.insert("other", "value")?;
            print();
            Ok(())
        })
        .unwrap();
        done.send(words).unwrap();
    });
    let words = printed.recv_timeout(Duration::from_secs(60)).unwrap_or_else(|_| panic!("printing a handle waits for ever"));
    assert_eq!(words.len(), 3);
    for (db, users) in words {
        assert_eq!(db, "Db { read_only: false, closed: false, .. }");
        assert_eq!(users, "Namespace { name: \"users\", .. }");
    }
}

/// What the documentation of `close` and the words of the error say.
#[test]
fn a_closed_store_stays_locked_until_its_last_handle_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let db = Db::open(&path).unwrap();
    let users = db.namespace("users").unwrap();
    let copy = db.clone();
    db.close().unwrap();
    assert!(format!("{copy:?}").contains("closed: true"));
    let refused = |path| match Db::open(path).err() {
        Some(error @ Error::Locked { holder: None, .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let words = refused(&path);
    assert!(words.contains("a handle of this one"), "{words}");
    drop(copy);
    refused(&path);
    drop(users);
    Db::open(&path).unwrap();
}

#[test]
fn options_that_make_no_sense_leave_no_file_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.pipkin");
    for builder in [
        Db::builder().segment_size(5000),
        Db::builder().auto_compact_dead_share(f64::NAN),
        Db::builder().auto_compact_dead_share(-0.5),
    ] {
        assert!(matches!(builder.path(&path).open().err(), Some(Error::InvalidArgument(_))));
        assert!(!path.exists());
    }
}

#[test]
fn a_transaction_that_only_reads_needs_no_right_to_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.pipkin");
    let db = Db::open(&path).unwrap();
    db.insert("a", "1").unwrap();
    db.close().unwrap();
    let db = Db::builder().path(&path).read_only(true).flush_policy(FlushPolicy::WriteThrough).open().unwrap();
    assert_eq!(db.transaction(|tx| tx.get("a")).unwrap(), Some(b"1".to_vec()));
}

/// A path beside the name of an application named two places, and the name was passed over without a word.
#[test]
fn a_store_with_two_places_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.pipkin");
    for builder in [Db::builder().app_name("app"), Db::builder().database_name("main"), Db::builder().data_root(folder.path())] {
        let refused = builder.path(&path).open();
        assert!(matches!(&refused, Err(Error::InvalidArgument(words)) if words.contains("one place")), "{refused:?}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}

/// A name of the database alone was no place, though everything else has a default.
#[test]
fn either_name_alone_is_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let builder = || Db::builder().data_root(folder.path());
    for (builder, file) in [
        (builder().app_name("notes"), "notes/data.pipkin"),
        (builder().database_name("main"), "pipkin/main.pipkin"),
        (builder().app_name("notes").database_name("main"), "notes/main.pipkin"),
    ] {
        let db = builder.open().unwrap();
        assert_eq!(db.path(), Some(&*folder.path().join(file)));
        assert!(folder.path().join(file).exists());
    }
    let refused = builder().open();
    assert!(matches!(&refused, Err(Error::InvalidArgument(words)) if words.contains("database_name")), "{refused:?}");
}

/// Whoever may look into the folder could read a new store, and every copy of a private one.
#[cfg(unix)]
#[test]
fn a_new_store_and_a_backup_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("store.pipkin"), folder.path().join("copy.pipkin"));
    let db = Db::open(&path).unwrap();
    db.insert("key", "value").unwrap();
    db.backup_to(&copy).unwrap();
    for path in [path, copy] {
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
}
