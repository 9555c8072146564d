//! Backups to a path: what appears there, and what stands beside it meanwhile.
#![cfg(feature = "native")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::common::find;
use pipkin::{Db, Error};
use std::path::Path;
use std::sync::Barrier;

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// All wrote to one file, `PATH.unfinished`, which each unlinked first: one published, by its name, what another had half written, and
/// answered `Ok`.
#[test]
fn of_several_backups_to_one_path_one_wins_and_is_whole() {
    const THREADS: usize = 4;
    const ROUNDS: usize = 60;
    let folder = tempfile::tempdir().unwrap();
    let db = Db::builder().path(folder.path().join("a.pipkin")).segment_size(64 * 1024).open().unwrap();
    for key in 0..300_u32 {
        db.insert(key.to_le_bytes(), vec![key as u8; 1000]).unwrap();
    }
    let target = folder.path().join("copy.pipkin");
    let mut won = 0;
    for round in 0..ROUNDS {
        let start = Barrier::new(THREADS);
        let back_up = || {
            start.wait();
            match db.backup_to(&target) {
                // At once: whoever is told that there is a copy may use it.
                Ok(_) => {
                    let copy = Db::open(&target).unwrap_or_else(|error| panic!("round {round}: {error}"));
                    assert!(copy.verify().unwrap().is_ok(), "round {round}");
                    assert_eq!(copy.len().unwrap(), 300, "round {round}");
                    1
                }
                Err(Error::InvalidArgument(words)) if words.contains("exists already") => 0,
                Err(error) => panic!("round {round}: {error}"),
            }
        };
        let winners: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(back_up)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(winners, 1, "round {round}");
        assert_eq!(names(folder.path()), ["a.pipkin", "copy.pipkin"], "round {round}");
        std::fs::remove_file(&target).unwrap();
        won += winners;
    }
    assert_eq!(won, ROUNDS);
}

/// A file that happened to be called `PATH.unfinished` was deleted.
#[test]
fn no_file_of_the_user_is_touched() {
    let folder = tempfile::tempdir().unwrap();
    let db = Db::open(folder.path().join("a.pipkin")).unwrap();
    db.insert("key", "value").unwrap();
    let target = folder.path().join("copy.pipkin");
    // Whatever number comes next, these are taken.
    let taken = (0..1000).map(|number| format!("copy.pipkin.{}-{number}.part", std::process::id()));
    let taken: Vec<String> = taken.chain(["copy.pipkin.unfinished".into(), "copy.pipkin.part".into()]).collect();
    for name in &taken {
        std::fs::write(folder.path().join(name), "precious").unwrap();
    }
    db.backup_to(&target).unwrap();
    assert_eq!(Db::open(&target).unwrap().get("key").unwrap().as_deref(), Some(&b"value"[..]));
    for name in &taken {
        assert_eq!(std::fs::read(folder.path().join(name)).unwrap(), b"precious", "{name}");
    }
    assert_eq!(names(folder.path()).len(), taken.len() + 2);
}

#[test]
fn a_backup_that_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.pipkin");
    let db = Db::builder().path(&path).mmap(false).open().unwrap();
    db.insert("key", vec![7; 5000]).unwrap();
    // Opening then loads the index, and meets no record.
    db.checkpoint().unwrap();
    db.close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let at = find(&bytes, &[7; 100]);
    *bytes.get_mut(at).unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let db = Db::open(&path).unwrap();
    let failed = db.backup_to(folder.path().join("copy.pipkin"));
    assert!(matches!(failed, Err(Error::Corrupt { .. })), "{failed:?}");
    assert_eq!(names(folder.path()), ["a.pipkin"]);
    let nowhere = db.backup_to(folder.path().join("missing").join("copy.pipkin")).unwrap_err().to_string();
    assert!(nowhere.contains("there is no folder") && nowhere.contains("create it first"), "{nowhere}");
    for nameless in ["", "..", "/"] {
        assert!(matches!(db.backup_to(nameless), Err(Error::InvalidArgument(_))), "{nameless:?}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("nothing", folder.path().join("link")).unwrap();
        let refused = db.backup_to(folder.path().join("link"));
        assert!(matches!(refused, Err(Error::InvalidArgument(words)) if words.contains("exists already")));
        assert_eq!(names(folder.path()), ["a.pipkin", "link"]);
    }
}
